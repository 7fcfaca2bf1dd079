package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// front tells SOCKS from HTTP by the first byte of each connection, so that both live on the one listener that a
// sandbox has. It is the http.Server's listener; it also takes back connections that turn out to speak HTTP after
// CONNECT or SOCKS.
type front struct {
	net.Listener
	live     context.Context // its end cuts the connections that are being sorted
	patience time.Duration
	socks    func(net.Conn) // owns the connection
	// redirected owns a connection whose client meant to go elsewhere, and was led here.
	redirected func(net.Conn, netip.AddrPort)
	http       chan net.Conn
	ended      chan struct{}
	err        error // set before ended is closed
}

func newFront(live context.Context, ln net.Listener, patience time.Duration, socks func(net.Conn)) *front {
	return &front{Listener: ln, live: live, patience: patience, socks: socks, http: make(chan net.Conn), ended: make(chan struct{})}
}

func (f *front) run() {
	defer close(f.ended)
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			f.err = err
			return
		}
		go f.sort(c)
	}
}

// sort must not hold up the next connection: this one may say nothing.
func (f *front) sort(c net.Conn) {
	if to, ok := wantedBy(c); ok {
		f.redirected(c, to)
		return
	}
	stop := closeWith(f.live, c)
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(f.patience))
	if _, err := c.Read(first); err != nil {
		stop()
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	c = &begun{Conn: c, first: first}
	stop()
	if first[0] == 5 {
		f.socks(c)
		return
	}
	f.hand(c)
}

// hand gives c to the http.Server.
func (f *front) hand(c net.Conn) {
	select {
	case f.http <- c:
	case <-f.ended:
		_ = c.Close()
	}
}

func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.http:
		return c, nil
	case <-f.ended:
		return nil, f.err
	}
}

// begun is a connection whose first bytes were read already.
type begun struct {
	net.Conn
	first []byte
}

func (c *begun) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *begun) inner() net.Conn { return c.Conn }

// bound is a connection on which only one host can be asked for.
type bound struct {
	net.Conn
	name egress.Name
	port uint16
	tls  bool // what is read came out of TLS
}

// protocol is what requests on it are.
func (c *bound) protocol() egress.Protocol {
	if c.tls {
		return egress.HTTPS
	}
	return egress.HTTP
}

func (c *bound) inner() net.Conn { return c.Conn }

// can finds what lies below our wrappers and has the method that T asks for.
func can[T any](c any) (T, bool) {
	for {
		if t, ok := c.(T); ok {
			return t, true
		}
		switch w := c.(type) {
		case interface{ inner() net.Conn }:
			c = w.inner()
		case *tls.Conn:
			c = w.NetConn()
		default:
			var none T
			return none, false
		}
	}
}
