package wire

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"time"

	"github.com/hashicorp/yamux"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// Client is Mission Control's end of one session. It implements provider.Wire except for the socket that a
// provider hands out its own way (Egress).
type Client struct{ session *yamux.Session }

// Dial says hello over c, which it owns from then on. CodeDenied, CodeFenced: refused; CodeUnavailable: cut.
func Dial(ctx context.Context, c net.Conn, allocation sallyport.AllocationID, auth provider.Auth) (*Client, error) {
	y, err := yamux.Client(c, muxConfig())
	if err != nil {
		c.Close()
		return nil, &sallyport.Error{Op: "connect", Code: sallyport.CodeUnavailable, Err: err}
	}
	w := &Client{session: y}
	if err := w.call(ctx, request{Op: "hello", Version: Version, Allocation: allocation, Secret: auth.Secret, Fence: auth.Fence}, nil); err != nil {
		y.Close()
		return nil, err
	}
	return w, nil
}

// open sends q and returns the stream; ctx's end closes it.
func (w *Client) open(ctx context.Context, q request) (*yamux.Stream, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, w.outcome(ctx, err)
	}
	type opened struct {
		st  *yamux.Stream
		err error
	}
	// The multiplexer waits for the other end without looking at ctx; so it waits on its own.
	done := make(chan opened, 1)
	go func() {
		st, err := w.session.OpenStream()
		if err != nil {
			done <- opened{nil, unexpected(err)}
			return
		}
		if err := writeFrame(st, q); err != nil {
			st.Close()
			done <- opened{nil, sent(err)}
			return
		}
		done <- opened{st, nil}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, nil, w.outcome(ctx, o.err)
		}
		stop := context.AfterFunc(ctx, func() { _ = o.st.SetDeadline(time.Unix(1, 0)); o.st.Close() })
		return o.st, func() { stop(); o.st.Close() }, nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.st != nil {
				o.st.Close()
			}
		}()
		return nil, nil, w.outcome(ctx, ctx.Err())
	}
}

// sent keeps a refusal of our own and takes anything else for a cut.
func sent(err error) error {
	if sallyport.CodeOf(err) == sallyport.CodeExhausted {
		return err
	}
	return unexpected(err)
}

// outcome prefers the caller's own end over what it caused.
func (w *Client) outcome(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return &sallyport.Error{Op: "wire", Code: sallyport.CodeUnknown, Message: "the caller stopped waiting", Err: ctx.Err()}
	}
	return err
}

func (w *Client) call(ctx context.Context, q request, result any) error {
	st, done, err := w.open(ctx, q)
	if err != nil {
		return err
	}
	defer done()
	var a answer
	if err := readFrame(st, &a); err != nil {
		return w.outcome(ctx, err)
	}
	if err := a.err(q.Op); err != nil {
		return w.outcome(ctx, err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return corrupt("a result of another shape: " + err.Error())
	}
	return nil
}

func (w *Client) chunks(ctx context.Context, q request, to io.Writer) (int64, error) {
	st, done, err := w.open(ctx, q)
	if err != nil {
		return 0, err
	}
	defer done()
	var a answer
	if err := readFrame(st, &a); err != nil {
		return 0, w.outcome(ctx, err)
	}
	if err := a.err(q.Op); err != nil {
		return 0, w.outcome(ctx, err)
	}
	n, trailer, err := readChunks(st, to)
	if err != nil {
		return n, w.outcome(ctx, err)
	}
	return n, w.outcome(ctx, trailer.err(q.Op))
}

// Layers implements provider.Wire.
func (w *Client) Layers(ctx context.Context) (l []sallyport.LayerReport, err error) {
	err = w.call(ctx, request{Op: "layers"}, &l)
	return l, err
}

// Start implements provider.Wire.
func (w *Client) Start(ctx context.Context) error { return w.call(ctx, request{Op: "start"}, nil) }

// Output implements provider.Wire. The next offset counts what w took, so a failed copy resumes exactly.
func (w *Client) Output(ctx context.Context, offset int64, to provider.Writer) (int64, error) {
	n, err := w.chunks(ctx, request{Op: "output", Offset: offset}, to)
	return offset + n, err
}

// Input implements provider.Wire.
func (w *Client) Input(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), 32<<10)
		if err := w.call(ctx, request{Op: "input", Data: p[:n]}, nil); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Resize implements provider.Wire.
func (w *Client) Resize(ctx context.Context, cols, rows int) error {
	return w.call(ctx, request{Op: "resize", Cols: cols, Rows: rows}, nil)
}

// Wait implements provider.Wire.
func (w *Client) Wait(ctx context.Context) (e provider.Exit, err error) {
	err = w.call(ctx, request{Op: "wait"}, &e)
	return e, err
}

// Stop implements provider.Wire.
func (w *Client) Stop(ctx context.Context, why string) error {
	return w.call(ctx, request{Op: "stop", Why: why}, nil)
}

// Collect implements provider.Wire.
func (w *Client) Collect(ctx context.Context, to provider.Writer) error {
	_, err := w.chunks(ctx, request{Op: "collect"}, to)
	return err
}

// Renew implements provider.Wire.
func (w *Client) Renew(ctx context.Context, ttl time.Duration) error {
	return w.call(ctx, request{Op: "renew", TTL: int64(ttl)}, nil)
}

// Egress is CodeUnsupported here: a byte stream carries no descriptors.
func (w *Client) Egress(context.Context) ([]*os.File, error) {
	return nil, &sallyport.Error{Op: "egress", Code: sallyport.CodeUnsupported, Message: "this wire hands out no sockets"}
}

// Close ends the session. Repeat: nil.
func (w *Client) Close() error { return w.session.Close() }

// Hello is what a holder shows first, also on a connection that only hands out a descriptor.
type Hello struct {
	Allocation sallyport.AllocationID
	Secret     string
	Fence      int64
}

// WriteHello sends h as one frame.
func WriteHello(c io.Writer, h Hello) error {
	return writeFrame(c, request{Op: "hello", Version: Version, Allocation: h.Allocation, Secret: h.Secret, Fence: h.Fence})
}

// ReadHello reads one frame that must be a hello of this version. CodeInvalid, CodeCorrupt, CodeUnavailable.
func ReadHello(c net.Conn) (Hello, error) {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	defer c.SetReadDeadline(time.Time{})
	var q request
	if err := readFrame(c, &q); err != nil {
		return Hello{}, err
	}
	if q.Op != "hello" || q.Version != Version {
		return Hello{}, &sallyport.Error{Op: "hello", Code: sallyport.CodeInvalid, Message: "expected a hello of version 1 first"}
	}
	return Hello{q.Allocation, q.Secret, q.Fence}, nil
}
