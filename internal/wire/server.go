package wire

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// Host is what serves one Allocation: the keeper of the local provider, the runner elsewhere.
type Host interface {
	// Admit accepts or refuses a holder. CodeDenied: wrong secret; CodeFenced: a lower fence.
	Admit(allocation sallyport.AllocationID, secret string, fence int64) error
	Layers() ([]sallyport.LayerReport, error)
	Start() error
	Output(ctx context.Context, offset int64, w io.Writer) (int64, error)
	Input(p []byte) error
	Resize(cols, rows int) error
	Wait(ctx context.Context) (provider.Exit, error)
	Stop(ctx context.Context, why string) error
	Collect(ctx context.Context, w io.Writer) error
	Renew(ttl time.Duration) error
}

// Server accepts sessions for one Host.
type Server struct {
	host Host

	mu      sync.Mutex
	current *yamux.Session
	fence   int64
}

// NewServer serves host.
func NewServer(host Host) *Server { return &Server{host: host} }

// Serve accepts connections until the listener closes.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go s.session(c)
	}
}

// helloTimeout bounds how long an unauthenticated connection may stay.
const helloTimeout = 10 * time.Second

func (s *Server) session(c net.Conn) {
	y, err := yamux.Server(c, muxConfig())
	if err != nil {
		c.Close()
		return
	}
	defer y.Close()
	guard := time.AfterFunc(helloTimeout, func() { y.Close() })
	first, err := y.AcceptStream()
	if err != nil {
		return
	}
	var hello request
	if readFrame(first, &hello) != nil {
		return
	}
	if err := s.admit(hello, y); err != nil {
		_ = writeFrame(first, failure(err))
		first.Close()
		time.Sleep(50 * time.Millisecond) // let the refusal reach the other end before the session closes
		return
	}
	guard.Stop()
	if writeFrame(first, answer{}) != nil {
		return
	}
	first.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		st, err := y.AcceptStream()
		if err != nil {
			return
		}
		go s.serve(ctx, st)
	}
}

// admit checks the hello and makes y the only session.
func (s *Server) admit(h request, y *yamux.Session) error {
	if h.Op != "hello" || h.Version != Version {
		return &sallyport.Error{Op: "hello", Code: sallyport.CodeInvalid, Message: "expected a hello of version 1 first"}
	}
	if err := s.host.Admit(h.Allocation, h.Secret, h.Fence); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Fence < s.fence {
		return &sallyport.Error{Op: "hello", Code: sallyport.CodeFenced, Message: "a later holder has this sandbox"}
	}
	s.fence = h.Fence
	if s.current != nil {
		go s.current.Close()
	}
	s.current = y
	return nil
}

func (s *Server) serve(ctx context.Context, st *yamux.Stream) {
	defer st.Close()
	var q request
	if readFrame(st, &q) != nil {
		return
	}
	// A caller that goes away ends its request: the stream's read side tells.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(st, 1))
		cancel()
	}()
	switch q.Op {
	case "output":
		s.stream(st, func(w io.Writer) (int64, error) { return s.host.Output(ctx, q.Offset, w) })
	case "collect":
		s.stream(st, func(w io.Writer) (int64, error) { return 0, s.host.Collect(ctx, w) })
	default:
		v, err := s.call(ctx, q)
		if err != nil {
			_ = writeFrame(st, failure(err))
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			return
		}
		_ = writeFrame(st, answer{Result: b})
	}
}

func (s *Server) call(ctx context.Context, q request) (any, error) {
	switch q.Op {
	case "layers":
		return s.host.Layers()
	case "start":
		return nil, s.host.Start()
	case "input":
		return nil, s.host.Input(q.Data)
	case "resize":
		return nil, s.host.Resize(q.Cols, q.Rows)
	case "wait":
		return s.host.Wait(ctx)
	case "stop":
		return nil, s.host.Stop(ctx, q.Why)
	case "renew":
		return nil, s.host.Renew(time.Duration(q.TTL))
	}
	return nil, &sallyport.Error{Op: "wire", Code: sallyport.CodeInvalid, Subject: q.Op, Message: "an operation this end does not know"}
}

func (s *Server) stream(st *yamux.Stream, f func(io.Writer) (int64, error)) {
	if writeFrame(st, answer{}) != nil {
		return
	}
	c := chunkWriter{st}
	next, err := f(c)
	a := answer{Next: next}
	if err != nil {
		a = failure(err)
		a.Next = next
	}
	_ = c.end(a)
}

// muxConfig has no keepalive: the transport is local or has its own, and a suspended machine must not lose
// the session for having slept.
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.LogOutput = io.Discard
	c.StreamCloseTimeout = 10 * time.Second
	return c
}
