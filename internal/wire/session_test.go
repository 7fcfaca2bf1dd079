package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

const alloc sallyport.AllocationID = "alc_00000000000000000000000000"

// host is a Host whose answers a test chooses.
type host struct {
	mu     sync.Mutex
	fence  int64
	calls  []string
	output func(ctx context.Context, offset int64, w io.Writer) (int64, error)
	wait   func(ctx context.Context) (provider.Exit, error)
	layers []sallyport.LayerReport
	err    error
}

func (h *host) note(s string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, s)
	return h.err
}

func (h *host) Admit(a sallyport.AllocationID, secret string, fence int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case a != alloc || secret != "secret":
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeDenied, Message: "no"}
	case fence < h.fence:
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeFenced, Message: "no"}
	}
	h.fence = fence
	return nil
}
func (h *host) Layers() ([]sallyport.LayerReport, error) { return h.layers, h.note("layers") }
func (h *host) Start() error                             { return h.note("start") }
func (h *host) Output(ctx context.Context, offset int64, w io.Writer) (int64, error) {
	return h.output(ctx, offset, w)
}
func (h *host) Input(p []byte) error        { return h.note("input " + string(p)) }
func (h *host) Resize(c, r int) error       { return h.note("resize") }
func (h *host) Renew(t time.Duration) error { return h.note("renew " + t.String()) }
func (h *host) Wait(ctx context.Context) (provider.Exit, error) {
	return h.wait(ctx)
}
func (h *host) Stop(_ context.Context, why string) error { return h.note("stop " + why) }
func (h *host) Collect(_ context.Context, w io.Writer) error {
	_, err := w.Write([]byte("bundle"))
	return errors.Join(err, h.note("collect"))
}

// pipeListener hands out one end of pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

// serve starts a server for h and returns a way to reach it.
func serve(t *testing.T, h Host) func() net.Conn {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	go func() { _ = NewServer(h).Serve(l) }()
	t.Cleanup(func() { close(l.done) })
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		t.Cleanup(func() { ours.Close() })
		return ours
	}
}

func dial(t *testing.T, c net.Conn, fence int64) (*Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return Dial(ctx, c, alloc, provider.Auth{Secret: "secret", Fence: fence})
}

func mustDial(t *testing.T, c net.Conn, fence int64) *Client {
	t.Helper()
	w, err := dial(t, c, fence)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestEveryCallReachesTheHost(t *testing.T) {
	h := &host{layers: []sallyport.LayerReport{{Layer: sallyport.LayerDisk, Status: sallyport.LayerHeld}}}
	h.wait = func(context.Context) (provider.Exit, error) { return provider.Exit{Started: true, Code: 3}, nil }
	h.output = func(_ context.Context, offset int64, w io.Writer) (int64, error) {
		n, err := w.Write([]byte("0123456789")[offset:])
		return offset + int64(n), err
	}
	w := mustDial(t, serve(t, h)(), 1)
	ctx := t.Context()
	if ls, err := w.Layers(ctx); err != nil || len(ls) != 1 || ls[0].Layer != sallyport.LayerDisk {
		t.Errorf("%+v %v", ls, err)
	}
	if e, err := w.Wait(ctx); err != nil || e.Code != 3 {
		t.Errorf("%+v %v", e, err)
	}
	var out bytes.Buffer
	if n, err := w.Output(ctx, 4, &out); err != nil || n != 10 || out.String() != "456789" {
		t.Errorf("%d %v %q", n, err, out.String())
	}
	out.Reset()
	for _, err := range []error{w.Start(ctx), w.Input(ctx, []byte("x")), w.Resize(ctx, 1, 2), w.Stop(ctx, "why"), w.Renew(ctx, time.Second), w.Collect(ctx, &out)} {
		if err != nil {
			t.Error(err)
		}
	}
	if got, want := strings.Join(h.calls, ","), "layers,start,input x,resize,stop why,renew 1s,collect"; got != want || out.String() != "bundle" {
		t.Errorf("%s, expected %s; %q", got, want, out.String())
	}
	if _, err := w.Egress(ctx); sallyport.CodeOf(err) != sallyport.CodeUnsupported {
		t.Errorf("Egress: %v", err)
	}
}

// Errors keep their code across the wire, also after some bytes have come.
func TestErrorsKeepTheirCode(t *testing.T) {
	h := &host{}
	w := mustDial(t, serve(t, h)(), 1)
	for code := sallyport.CodeUnknown; code <= sallyport.CodeCorrupt; code++ {
		h.mu.Lock()
		h.err = &sallyport.Error{Op: "x", Code: code, Message: "the reason"}
		h.mu.Unlock()
		if err := w.Start(t.Context()); sallyport.CodeOf(err) != code || !strings.Contains(err.Error(), "the reason") {
			t.Errorf("%v: %v", code, err)
		}
	}
	h.output = func(_ context.Context, offset int64, w io.Writer) (int64, error) {
		_, _ = w.Write([]byte("part"))
		return offset + 4, &sallyport.Error{Code: sallyport.CodeExhausted, Message: "enough"}
	}
	var out bytes.Buffer
	if n, err := w.Output(t.Context(), 10, &out); sallyport.CodeOf(err) != sallyport.CodeExhausted || n != 14 || out.String() != "part" {
		t.Errorf("%d %v %q", n, err, out.String())
	}
	// An answer that would not fit is no answer, and no reason to lose the session.
	h.mu.Lock()
	h.err = &sallyport.Error{Message: strings.Repeat("long", MaxFrame)}
	h.mu.Unlock()
	if err := w.Start(t.Context()); err == nil {
		t.Error("an error without bounds came as success")
	}
	h.mu.Lock()
	h.err = nil
	h.mu.Unlock()
	if err := w.Start(t.Context()); err != nil {
		t.Errorf("the session did not survive: %v", err)
	}
}

func TestFenceRules(t *testing.T) {
	h := &host{wait: func(ctx context.Context) (provider.Exit, error) { <-ctx.Done(); return provider.Exit{}, ctx.Err() }}
	connect := serve(t, h)
	first := mustDial(t, connect(), 5)
	if _, err := dial(t, connect(), 4); sallyport.CodeOf(err) != sallyport.CodeFenced {
		t.Errorf("lower: %v", err)
	}
	if _, err := Dial(t.Context(), connect(), alloc, provider.Auth{Secret: "wrong", Fence: 9}); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("wrong secret: %v", err)
	}
	if err := first.Start(t.Context()); err != nil {
		t.Errorf("a refused hello ended the session: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { _, err := first.Wait(t.Context()); waiting <- err }()
	second := mustDial(t, connect(), 5)
	if err := <-waiting; sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("the first holder's Wait: %v", err)
	}
	mustDial(t, connect(), 6)
	if _, err := second.Wait(t.Context()); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("the second holder's Wait: %v", err)
	}
}

// raw opens a session without a hello.
func raw(t *testing.T, c net.Conn) *yamux.Session {
	t.Helper()
	y, err := yamux.Client(c, muxConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	return y
}

func ask(t *testing.T, y *yamux.Session, bytes []byte) (answer, error) {
	t.Helper()
	st, err := y.OpenStream()
	if err != nil {
		return answer{}, err
	}
	_ = st.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := st.Write(bytes); err != nil {
		return answer{}, err
	}
	_ = st.Close()
	var a answer
	err = readFrame(st, &a)
	return a, err
}

func TestNothingWithoutHello(t *testing.T) {
	for name, b := range map[string][]byte{
		"another operation": frame(`{"op":"start"}`),
		"no version":        frame(`{"op":"hello","allocation":"` + string(alloc) + `","secret":"secret","fence":1}`),
		"another version":   frame(`{"op":"hello","version":2,"allocation":"` + string(alloc) + `","secret":"secret","fence":1}`),
		"unknown field":     frame(`{"op":"hello","version":1,"allocation":"` + string(alloc) + `","secret":"secret","fence":1,"x":1}`),
		"oversized":         binary.BigEndian.AppendUint32(nil, MaxFrame+1),
		"nothing":           {},
	} {
		h := &host{}
		y := raw(t, serve(t, h)())
		if a, err := ask(t, y, b); err == nil && a.Code == "" {
			t.Errorf("%s: admitted", name)
		}
		// Whatever was said, nothing else is served.
		if a, err := ask(t, y, frame(`{"op":"start"}`)); err == nil && a.Code == "" {
			t.Errorf("%s: served", name)
		}
		if len(h.calls) > 0 {
			t.Errorf("%s: the host was asked for %v", name, h.calls)
		}
	}
}

func TestBadRequestsHarmNobody(t *testing.T) {
	h := &host{}
	w := mustDial(t, serve(t, h)(), 1)
	for name, b := range map[string][]byte{
		"unknown operation": frame(`{"op":"format"}`), "hello again": frame(`{"op":"hello","version":1}`), "no operation": frame(`{}`),
		"unknown field": frame(`{"op":"start","x":1}`), "trailing": frame(`{"op":"start"} 1`), "oversized": {0xff, 0xff, 0xff, 0xff}, "empty": {0, 0, 0, 0}, "cut": {0, 0, 1},
	} {
		if a, err := ask(t, w.session, b); err == nil && a.Code == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if len(h.calls) > 0 {
		t.Errorf("the host was asked for %v", h.calls)
	}
	if a, err := ask(t, w.session, frame(`{"op":"format"}`)); err != nil || a.Code != sallyport.CodeInvalid.String() {
		t.Errorf("unknown operation: %+v %v", a, err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Errorf("the session did not survive: %v", err)
	}
}

// A caller that stops waiting ends its request on the other end too.
func TestCancelReachesTheHost(t *testing.T) {
	gone := make(chan struct{}, 2)
	h := &host{}
	h.wait = func(ctx context.Context) (provider.Exit, error) {
		<-ctx.Done()
		gone <- struct{}{}
		return provider.Exit{}, ctx.Err()
	}
	h.output = func(ctx context.Context, offset int64, w io.Writer) (int64, error) {
		_, _ = w.Write([]byte("some"))
		<-ctx.Done()
		gone <- struct{}{}
		return offset, ctx.Err()
	}
	w := mustDial(t, serve(t, h)(), 1)
	for name, call := range map[string]func(context.Context) error{
		"Wait": func(ctx context.Context) error { _, err := w.Wait(ctx); return err },
		"Output": func(ctx context.Context) error {
			var out bytes.Buffer
			n, err := w.Output(ctx, 0, &out)
			if n != 4 || out.String() != "some" {
				t.Errorf("Output: %d, %q", n, out.String())
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := call(ctx); sallyport.CodeOf(err) != sallyport.CodeUnknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the host still works on it", name)
		}
	}
	if err := w.Start(t.Context()); err != nil {
		t.Errorf("the session did not survive: %v", err)
	}
}

// The other end may be stopped or hostile: it cannot hold a caller beyond its context.
func TestASilentEndHoldsNobody(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close() // nobody reads it
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := Dial(ctx, ours, alloc, provider.Auth{Secret: "secret"})
	if sallyport.CodeOf(err) != sallyport.CodeUnknown || err == nil || time.Since(began) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// What a hostile server sends is refused as what it is.
func TestClientRefusesHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		reply []byte
		code  sallyport.Code
	}{
		"oversized":      {[]byte{0x7f, 0xff, 0xff, 0xff}, sallyport.CodeCorrupt},
		"unknown field":  {frame(`{"result":{},"x":1}`), sallyport.CodeCorrupt},
		"another shape":  {frame(`{"result":[1,2]}`), sallyport.CodeCorrupt},
		"cut":            {frame(`{"result":{}}`)[:6], sallyport.CodeUnavailable},
		"unknown code":   {frame(`{"code":"no-such-code"}`), sallyport.CodeUnknown},
		"no result":      {frame(`{}`), sallyport.CodeCorrupt},
		"deep nesting":   {frame(`{"result":` + strings.Repeat("[", 100_000) + `}`), sallyport.CodeCorrupt},
		"only a closing": {nil, sallyport.CodeUnavailable},
	} {
		ours, theirs := net.Pipe()
		go func() {
			y, err := yamux.Server(theirs, muxConfig())
			if err != nil {
				return
			}
			for first := true; ; first = false {
				st, err := y.AcceptStream()
				if err != nil {
					return
				}
				var q request
				_ = readFrame(st, &q)
				if first {
					_ = writeFrame(st, answer{})
				} else {
					_, _ = st.Write(c.reply)
				}
				st.Close()
			}
		}()
		w := mustDial(t, ours, 1)
		_, err := w.Wait(t.Context())
		if err == nil || sallyport.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%v), expected %v", name, err, sallyport.CodeOf(err), c.code)
		}
		w.Close()
	}
}

func TestHelloFrames(t *testing.T) {
	want := Hello{Allocation: alloc, Secret: "secret", Fence: 4}
	ours, theirs := net.Pipe()
	go func() { _ = WriteHello(ours, want) }()
	if got, err := ReadHello(theirs); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	for name, b := range map[string][]byte{"another operation": frame(`{"op":"start","version":1}`), "another version": frame(`{"op":"hello","version":9}`)} {
		go func() { _, _ = ours.Write(b) }()
		if _, err := ReadHello(theirs); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
