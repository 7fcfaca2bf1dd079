package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/provider"
)

// NewSpec is a fresh, valid Spec that runs the given act on Base at Workspace.Path, with generous limits and a
// lease of a minute, for the provider that came with it.
type NewSpec = func(act ...string) (provider.Spec, provider.Auth)

// Open gives a subtest a provider with a factory of its own on the substrate under test. What it makes ends
// with the test.
type Open = func(t *testing.T) (provider.Provider, NewSpec)

// Run holds what open gives to the contract in internal/provider.
func Run(t *testing.T, open Open) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			p, newSpec := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c.run(&suite{T: t, ctx: ctx, open: open, p: p, newSpec: newSpec})
		})
	}
}

// patience bounds one promise: far above what any takes, so that only a hang meets it.
const patience = 90 * time.Second

// promise is one sentence of the contract.
type promise struct {
	name string
	run  func(*suite)
}

// contract is every promise, in the order of the contract's text.
var contract = concat(describePromises, createPromises, identityPromises, destroyPromises, connectPromises,
	startPromises, outputPromises, endPromises, collectPromises, limitPromises, leasePromises, terminalPromises, egressPromises)

func concat(lists ...[]promise) (all []promise) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

type suite struct {
	*testing.T
	ctx     context.Context
	open    Open
	p       provider.Provider
	newSpec NewSpec
}

// want fails unless err is an Error with code.
func (s *suite) want(err error, code sallyport.Code, doing string) {
	s.Helper()
	var e *sallyport.Error
	switch {
	case err == nil:
		s.Errorf("%s: no error, expected %v", doing, code)
	case !errors.As(err, &e):
		s.Errorf("%s: a bare error %T: %v", doing, err, err)
	case e.Code != code:
		s.Errorf("%s: %v (%v), expected %v", doing, e.Code, err, code)
	}
}

func (s *suite) must(err error, doing string) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v (%v)", doing, err, sallyport.CodeOf(err))
	}
}

// caps are the provider's, asked once for a subtest that needs them.
func (s *suite) caps() provider.Capabilities {
	s.Helper()
	c, err := s.p.Describe(s.ctx)
	s.must(err, "Describe")
	return c
}

func (s *suite) layer(l sallyport.Layer) sallyport.LayerStatus {
	s.Helper()
	for _, r := range s.caps().Layers {
		if r.Layer == l {
			return r.Status
		}
	}
	return sallyport.LayerNotHeld
}

// needs skips the subtest where the substrate says that it does not hold l.
func (s *suite) needs(l sallyport.Layer, enough ...sallyport.LayerStatus) {
	s.Helper()
	got := s.layer(l)
	for _, e := range enough {
		if got == e {
			return
		}
	}
	s.Skipf("missing capability: layer %s is %s here", l, got)
}

// sandbox is one made by the suite.
type sandbox struct {
	s    *suite
	spec provider.Spec
	auth provider.Auth
	id   sallyport.ResourceID
}

func (s *suite) create(act ...string) *sandbox {
	s.Helper()
	spec, auth := s.newSpec(act...)
	return s.createFrom(spec, auth)
}

func (s *suite) createFrom(spec provider.Spec, auth provider.Auth) *sandbox {
	s.Helper()
	id, err := s.p.Create(s.ctx, spec)
	if id != "" {
		s.destroyAtEnd(id)
	}
	s.must(err, "Create")
	return &sandbox{s: s, spec: spec, auth: auth, id: id}
}

// destroyAtEnd also holds every subtest to "Destroy leaves nothing".
func (s *suite) destroyAtEnd(id sallyport.ResourceID) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.destroyed(ctx, id)
	})
}

func (s *suite) destroyed(ctx context.Context, id sallyport.ResourceID) {
	s.Helper()
	if err := s.p.Destroy(ctx, id); err != nil {
		s.Errorf("Destroy: %v", err)
		return
	}
	_, err := s.p.Lookup(ctx, id)
	s.want(err, sallyport.CodeNotFound, "Lookup after Destroy")
	if s.lists(ctx, id) {
		s.Errorf("List shows %s after Destroy", id)
	}
}

func (s *suite) lists(ctx context.Context, id sallyport.ResourceID) bool {
	s.Helper()
	all, err := s.p.List(ctx)
	s.must(err, "List")
	for _, st := range all {
		if st.ID == id {
			return true
		}
	}
	return false
}

func (b *sandbox) connect() provider.Wire {
	b.s.Helper()
	w, err := b.s.p.Connect(b.s.ctx, b.id, b.auth)
	b.s.must(err, "Connect")
	b.s.Cleanup(func() { w.Close() })
	return w
}

// started is a connected wire whose command runs.
func (b *sandbox) started() provider.Wire {
	b.s.Helper()
	w := b.connect()
	b.s.must(w.Start(b.s.ctx), "Start")
	return w
}

// finish runs the act to its end and returns all its output.
func (b *sandbox) finish(w provider.Wire) ([]byte, provider.Exit) {
	b.s.Helper()
	var out bytes.Buffer
	next, err := w.Output(b.s.ctx, 0, &out)
	b.s.must(err, "Output")
	if next != int64(out.Len()) {
		b.s.Errorf("Output says next offset %d after %d bytes", next, out.Len())
	}
	e, err := w.Wait(b.s.ctx)
	b.s.must(err, "Wait")
	if e.Output != next {
		b.s.Errorf("the recorded end counts %d bytes of output, Output gave %d", e.Output, next)
	}
	return out.Bytes(), e
}

func (b *sandbox) run() ([]byte, provider.Exit) {
	b.s.Helper()
	return b.finish(b.started())
}

// untilReady returns when the act has said "ready".
func (b *sandbox) untilReady(w provider.Wire) {
	b.s.Helper()
	b.until(w, "ready")
}

func (b *sandbox) until(w provider.Wire, word string) {
	b.s.Helper()
	ctx, cancel := context.WithCancel(b.s.ctx)
	defer cancel()
	seen := &watcher{word: word, found: cancel}
	_, err := w.Output(ctx, 0, seen)
	if !seen.has() {
		b.s.Fatalf("the command never said %q: %v; it said %q", word, err, seen.buf.String())
	}
}

// watcher calls found when word has come by.
type watcher struct {
	mu    sync.Mutex
	word  string
	buf   bytes.Buffer
	found func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if strings.Contains(w.buf.String(), w.word) {
		w.found()
	}
	return len(p), nil
}

func (w *watcher) has() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.buf.String(), w.word)
}

// Read is a change stream as one line for each record, for comparison.
func Read(stream []byte) ([]string, error) {
	var lines []string
	r := collect.NewReader(bytes.NewReader(stream), collect.DefaultLimits())
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		switch rec.Kind {
		case collect.KindFile:
			body, err := io.ReadAll(r)
			if err != nil {
				return lines, err
			}
			lines = append(lines, fmt.Sprintf("file %s %o %q", rec.Path, rec.Mode, body))
		case collect.KindLink:
			lines = append(lines, fmt.Sprintf("link %s %s", rec.Path, rec.Target))
		case collect.KindDelete:
			lines = append(lines, "delete "+rec.Path)
		case collect.KindMessage:
			lines = append(lines, fmt.Sprintf("message %q", rec.Text))
		case collect.KindLeftOut:
			lines = append(lines, fmt.Sprintf("left out %s %d", rec.Reason, rec.Count))
		}
	}
}

func (b *sandbox) collect(w provider.Wire) ([]byte, []string) {
	b.s.Helper()
	var stream bytes.Buffer
	b.s.must(w.Collect(b.s.ctx, &stream), "Collect")
	lines, err := Read(stream.Bytes())
	b.s.must(err, "read the change stream")
	return stream.Bytes(), lines
}
