package fake

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/wire"
)

// Program is a command: it returns its exit status, or -1 and the signal that ended it. When ctx ends it has
// been killed: what it writes and returns afterwards goes nowhere.
type Program func(ctx context.Context, io IO) (code int, signal string)

// IO is what a Program works with.
type IO struct {
	Args []string
	Env  map[string]string
	Out  io.Writer
	In   io.Reader         // the terminal's input; always at its end without one
	Size func() (c, r int) // the terminal's
	Tree *Tree             // the workspace
}

// sandbox serves one allocation. It implements wire.Host.
type sandbox struct {
	spec     provider.Spec
	layers   []sallyport.LayerReport
	program  Program
	halfMade bool // under Provider.mu

	ctx    context.Context // ends with the sandbox
	end    context.CancelFunc
	server *wire.Server
	tree   *Tree

	mu      sync.Mutex
	conns   []net.Conn
	gone    bool
	fence   int64
	started bool
	cancel  func(cause string) // ends the command; nil: none runs
	began   time.Time
	exit    *provider.Exit
	ended   chan struct{}
	out     []byte
	dropped int64
	grown   chan struct{}
	in      *io.PipeWriter
	cols    int
	rows    int
	lease   *time.Timer
}

func newSandbox(spec provider.Spec, cfg Config) *sandbox {
	s := &sandbox{spec: spec, program: cfg.Programs[spec.Command.Argv[0]], ended: make(chan struct{}), grown: make(chan struct{}), cols: 80, rows: 24, tree: newTree()}
	for _, l := range cfg.Layers {
		for _, r := range spec.Require {
			l.Required = l.Required || r == l.Layer
		}
		s.layers = append(s.layers, l)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.server = wire.NewServer(s)
	s.lease = time.AfterFunc(spec.LeaseTTL, func() { s.stop("lease") })
	return s
}

// accept serves one connection; false: the sandbox is gone.
func (s *sandbox) accept(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.conns = append(s.conns, c)
	go func() { _ = s.server.Serve(&once{c: c, ctx: s.ctx}) }()
	return true
}

// once is a listener with one connection.
type once struct {
	c   net.Conn
	ctx context.Context
}

func (o *once) Accept() (net.Conn, error) {
	if c := o.c; c != nil {
		o.c = nil
		return c, nil
	}
	<-o.ctx.Done()
	return nil, net.ErrClosed
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "fake", Net: "unix"} }

func (s *sandbox) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *sandbox) vanish() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.lease.Stop()
	s.cut()
	s.stop("stopped")
	s.end()
}

// Admit implements wire.Host.
func (s *sandbox) Admit(a sallyport.AllocationID, secret string, fence int64) error {
	if a != s.spec.Allocation || sallyport.Sum([]byte(secret)) != s.spec.SecretSum {
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeDenied, Message: "not the secret of this allocation"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence {
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeFenced, Message: "a later holder has this sandbox"}
	}
	s.fence = fence
	return nil
}

// Layers implements wire.Host.
func (s *sandbox) Layers() ([]sallyport.LayerReport, error) { return s.layers, nil }

// Start implements wire.Host.
func (s *sandbox) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return nil
	}
	s.started = true
	if s.program == nil {
		s.finish(provider.Exit{Code: -1, Cause: "start", Message: s.spec.Command.Argv[0] + ": no such program"})
		return nil
	}
	s.began = time.Now()
	ctx, kill := context.WithTimeout(s.ctx, s.spec.Limits.Time)
	cause := "runtime"
	s.cancel = func(why string) {
		if s.exit == nil && ctx.Err() == nil {
			cause = why
			kill()
		}
	}
	stdin, in := io.Pipe()
	if s.in = in; !s.spec.Command.Terminal {
		in.Close()
	}
	io := IO{Args: s.spec.Command.Argv, Env: s.spec.Command.Env, Out: output{s}, In: stdin, Tree: s.tree, Size: func() (int, int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cols, s.rows
	}}
	type result struct {
		code   int
		signal string
	}
	done := make(chan result, 1)
	go func() {
		code, signal := s.program(ctx, io)
		done <- result{code, signal}
	}()
	go func() {
		defer kill()
		e := provider.Exit{Started: true, Code: -1, Signal: "SIGKILL"}
		killed := false
		select {
		case r := <-done:
			e.Code, e.Signal, e.Cause = r.code, r.signal, "exit"
			if r.signal != "" {
				e.Code, e.Cause = -1, "signal"
			}
			killed = ctx.Err() != nil
		case <-ctx.Done():
			killed = true
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if killed {
			e.Code, e.Signal, e.Cause = -1, "SIGKILL", cause
			if cause == "runtime" {
				e.Message = "it was running: " + strings.Join(s.spec.Command.Argv, " ")
			}
		}
		stdin.Close()
		e.Seconds = time.Since(s.began).Seconds()
		s.finish(e)
	}()
	return nil
}

// finish is under mu. From here on a Program that goes on is dead to all.
func (s *sandbox) finish(e provider.Exit) {
	if s.exit != nil {
		return
	}
	s.tree.freeze()
	e.By, e.Output, e.Dropped = "keeper", int64(len(s.out)), s.dropped
	s.exit = &e
	close(s.ended)
	s.wake()
}

func (s *sandbox) wake() { close(s.grown); s.grown = make(chan struct{}) }

type output struct{ s *sandbox }

func (o output) Write(p []byte) (int, error) {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit != nil {
		return 0, io.ErrClosedPipe
	}
	n := min(int64(len(p)), s.spec.Limits.Output-int64(len(s.out)))
	s.out = append(s.out, p[:n]...)
	s.dropped += int64(len(p)) - n
	s.wake()
	return len(p), nil
}

// stop ends the command for cause; one that never started, too.
func (s *sandbox) stop(cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.finish(provider.Exit{Code: -1, Cause: cause, Message: "it had not been started"})
		return
	}
	if s.cancel != nil {
		s.cancel(cause)
	}
}

// Output implements wire.Host.
func (s *sandbox) Output(ctx context.Context, offset int64, w io.Writer) (int64, error) {
	if offset < 0 {
		return offset, &sallyport.Error{Op: "output", Code: sallyport.CodeInvalid, Message: "expected an offset of 0 or more"}
	}
	for {
		s.mu.Lock()
		var part []byte
		if offset < int64(len(s.out)) {
			part = bytes.Clone(s.out[offset:])
		}
		ended, grown := s.exit != nil, s.grown
		s.mu.Unlock()
		if len(part) > 0 {
			n, err := w.Write(part)
			offset += int64(n)
			if err != nil {
				return offset, err
			}
			continue
		}
		if ended {
			return offset, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return offset, ctx.Err()
		}
	}
}

func (s *sandbox) terminal() *io.PipeWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.spec.Command.Terminal || s.exit != nil {
		return nil
	}
	return s.in
}

// Input implements wire.Host. The terminal echoes, as a real one does.
func (s *sandbox) Input(p []byte) error {
	in := s.terminal()
	if in == nil {
		return &sallyport.Error{Op: "input", Code: sallyport.CodeUnsupported, Message: "the command has no terminal, or has ended"}
	}
	_, _ = output{s}.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	_, err := in.Write(p)
	return err
}

// Resize implements wire.Host.
func (s *sandbox) Resize(cols, rows int) error {
	if cols < 1 || rows < 1 || cols > 10000 || rows > 10000 {
		return &sallyport.Error{Op: "resize", Code: sallyport.CodeInvalid, Message: "expected 1 to 10000 columns and rows"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cols, s.rows = cols, rows
	return nil
}

// Wait implements wire.Host.
func (s *sandbox) Wait(ctx context.Context) (provider.Exit, error) {
	select {
	case <-s.ended:
		return *s.exit, nil
	case <-ctx.Done():
		return provider.Exit{}, ctx.Err()
	}
}

// Stop implements wire.Host.
func (s *sandbox) Stop(ctx context.Context, why string) error {
	s.stop("stopped")
	_, err := s.Wait(ctx)
	return err
}

// Collect implements wire.Host.
func (s *sandbox) Collect(ctx context.Context, w io.Writer) error {
	if !s.spec.Workspace.Collect {
		return &sallyport.Error{Op: "collect", Code: sallyport.CodeUnsupported, Message: "this sandbox was not made to be collected"}
	}
	if err := s.Stop(ctx, "collect"); err != nil {
		return err
	}
	b, err := s.tree.stream()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// Renew implements wire.Host.
func (s *sandbox) Renew(ttl time.Duration) error {
	if ttl <= 0 || ttl > provider.MaxLease {
		return &sallyport.Error{Op: "renew", Code: sallyport.CodeInvalid, Message: "a lease between 0 and " + provider.MaxLease.String()}
	}
	s.lease.Reset(ttl)
	return nil
}
