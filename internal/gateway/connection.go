package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// way is a connection that was decided on before its first byte.
type way struct {
	name      egress.Name
	port      uint16
	protocol  egress.Protocol  // TCP: passed as it is. HTTPS: a ClientHello for name must come first. HTTP: read
	opened    bool             // HTTPS: TLS ends here and each request is judged; else it passes unread
	quota     *quota           // nil where requests are judged: each has its own rule's
	addresses []netip.AddrPort // judged; nil where requests are judged: resolved when one is forwarded
}

// decide opens a way for what CONNECT or SOCKS asks. The error is a *denial, or what the resolver said.
func (p *proxy) decide(ctx context.Context, name egress.Name, port uint16) (*way, error) {
	w := &way{name: name, port: port}
	if d := egress.Reach(p.Rules, name, port); !d.Allowed {
		if p.Learn && egress.Usual(port) != egress.TCP {
			w.protocol, w.opened = egress.HTTPS, true
			return w, nil
		}
		return nil, decided(egress.Request{Name: name, Port: port, Protocol: egress.Usual(port)}, d)
	}
	if i := p.unread(name, port); i >= 0 {
		return p.pass(ctx, w, i)
	}
	if p.forge(name) && !p.reads(name, port, egress.HTTPS, egress.Git, egress.HTTP) {
		return nil, because(egress.Request{Name: name, Port: port, Protocol: egress.TCP}, ReasonForge, "a tcp rule passes unread")
	}
	w.protocol = egress.HTTP
	if w.opened = p.reads(name, port, egress.HTTPS, egress.Git); w.opened {
		w.protocol = egress.HTTPS
	}
	if w.opened && p.Authority == nil {
		// Check cannot know every host that a Budget meters below a wildcard.
		return nil, because(egress.Request{Name: name, Port: port, Protocol: egress.HTTPS}, ReasonForm, "what is asked there has to be read, and there is no authority to open TLS")
	}
	return w, nil
}

// unread is the first rule under which the bytes pass as they are; -1: none. Where a credential is put in, requests cost
// something or only reading is allowed, everything is read.
func (p *proxy) unread(name egress.Name, port uint16) int {
	if p.forge(name) || len(p.credentials(name, port)) > 0 || p.meters(name) {
		return -1
	}
	return slices.IndexFunc(p.Rules, func(r egress.Rule) bool {
		return egress.Unread(r) && egress.Reach([]egress.Rule{r}, name, port).Allowed
	})
}

func (p *proxy) pass(ctx context.Context, w *way, rule int) (_ *way, err error) {
	w.protocol, w.quota = p.Rules[rule].Protocol, p.quotas[rule]
	// An https connection is no request, and its rule limits none.
	if w.protocol == egress.TCP {
		if why := w.quota.enter(time.Now()); why != "" {
			return nil, because(egress.Request{Name: w.name, Port: w.port, Protocol: egress.TCP}, why, "")
		}
	}
	w.addresses, err = p.addresses(ctx, w.name, w.port, w.protocol)
	return w, err
}

// reads says that some rule allows one of the protocols there.
func (p *proxy) reads(name egress.Name, port uint16, protocols ...egress.Protocol) bool {
	return slices.ContainsFunc(p.Rules, func(r egress.Rule) bool {
		return slices.Contains(protocols, r.Protocol) && egress.Reach([]egress.Rule{r}, name, port).Allowed
	})
}

// reach decides and, where the bytes are not read, dials: the client is told of success only then.
func (s *Server) reach(ctx context.Context, name egress.Name, port uint16) (*way, net.Conn, error) {
	if s.live.Err() != nil {
		return nil, nil, because(egress.Request{Name: name, Port: port, Protocol: egress.Usual(port)}, ReasonEnded, "")
	}
	w, err := s.proxy.decide(ctx, name, port)
	if err != nil || w.protocol != egress.TCP {
		return w, nil, err
	}
	upstream, err := s.proxy.dial(ctx, w.addresses)
	return w, upstream, err
}

// carry is a connection's life after the client was told of success. It owns c and upstream (nil unless TCP).
func (s *Server) carry(c, upstream net.Conn, w *way, e *Event) {
	_ = c.SetDeadline(time.Time{})
	if upstream != nil {
		s.tunnel(c, upstream, w, e)
		return
	}
	stop := closeWith(s.live, c)
	hello, err := s.readHello(c, w)
	_ = c.SetDeadline(time.Time{})
	switch {
	case errors.Is(err, errPlain):
		stop()
		// Each request is judged and counted on its own; this connection was only the way to it.
		e.Kind, e.Status = Local, http.StatusOK
		s.front.hand(&bound{Conn: &begun{Conn: c, first: hello}, name: w.name, port: w.port})
	case err != nil:
		s.broke(e, err)
		s.alert(c, hello, err)
		stop()
	case w.opened:
		s.openTLS(&begun{Conn: c, first: hello}, w, e)
		stop()
	default:
		s.dialTLS(c, hello, w, e)
		stop()
	}
}

// openTLS ends the client's TLS here and hands the connection on to be read.
func (s *Server) openTLS(c net.Conn, w *way, e *Event) {
	config, err := s.proxy.Authority.config(w.name)
	if err != nil {
		s.broke(e, err)
		_ = c.Close()
		return
	}
	opened := tls.Server(&bound{Conn: c, name: w.name, port: w.port, tls: true}, config)
	ctx, cancel := context.WithTimeout(s.live, s.proxy.pace.header)
	defer cancel()
	if err := opened.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		q := egress.Request{Name: w.name, Port: w.port, Protocol: egress.HTTPS}
		s.denied(e, because(q, ReasonHandshake, printable(err.Error(), 200)))
		return
	}
	// Each request is judged and counted on its own; this connection was only the way to it.
	e.Kind, e.Status = Local, http.StatusOK
	s.front.hand(opened)
}

func closeWith(ctx context.Context, c net.Conn) func() bool {
	return context.AfterFunc(ctx, func() { _ = c.Close() })
}

func (s *Server) dialTLS(c net.Conn, hello []byte, w *way, e *Event) {
	upstream, err := s.proxy.dial(s.live, w.addresses)
	if err != nil {
		s.broke(e, err)
		s.alert(c, hello, err)
		return
	}
	s.tunnel(&begun{Conn: c, first: hello}, upstream, w, e)
}

func (s *Server) tunnel(c, upstream net.Conn, w *way, e *Event) {
	t := &tunnel{client: c, upstream: upstream, quota: w.quota, pace: s.proxy.pace}
	e.Kind, e.Status = Forwarded, http.StatusOK
	why := t.run(s.live)
	e.Up, e.Down = t.up.Load(), t.down.Load()
	if why != "" {
		s.denied(e, because(egress.Request{Name: w.name, Port: w.port, Protocol: w.protocol}, why, ""))
		e.Status = 0
	}
}

// errPlain: the first byte is not one of TLS, and a rule allows plain HTTP.
var errPlain = errors.New("plain HTTP")

// readHello reads the ClientHello, or with errPlain whatever came first; the sandbox has one deadline for all of it. The
// bytes are what was read, also beside an error.
func (s *Server) readHello(c net.Conn, w *way) ([]byte, error) {
	_ = c.SetReadDeadline(time.Now().Add(s.proxy.pace.header))
	var hello []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := c.Read(buf)
		hello = append(hello, buf[:n]...)
		if len(hello) > 0 {
			if why := s.judgeHello(hello, w); !errors.Is(why, egress.ErrMore) {
				return hello, why
			}
		}
		if err != nil {
			return hello, err
		}
	}
}

// judgeHello holds a connection's first bytes to the name that was decided on. nil: pass them. egress.ErrMore: read on.
func (s *Server) judgeHello(hello []byte, w *way) error {
	plain := hello[0] != tlsHandshake
	switch {
	case plain && (s.proxy.reads(w.name, w.port, egress.HTTP) || s.proxy.Learn):
		return errPlain
	case !plain && w.protocol != egress.HTTPS:
		return because(egress.Request{Name: w.name, Port: w.port}, egress.ReasonProtocol, "").as(egress.HTTPS)
	}
	q := egress.Request{Name: w.name, Port: w.port, Protocol: egress.HTTPS}
	sni, _, err := egress.ClientHello(hello)
	switch {
	case errors.Is(err, egress.ErrMore):
		return err
	case err != nil:
		return because(q, egress.ReasonMalformedTLS, printable(err.Error(), 200))
	case sni != w.name && !(sni.IsZero() && w.name.IsAddr()):
		return because(q, egress.ReasonNameMismatch, fmt.Sprintf("TLS asks for %q on a connection to %q", sni, w.name))
	}
	return nil
}

const (
	tlsHandshake = 22

	alertAccessDenied     = 49
	alertInternalError    = 80
	alertUnrecognizedName = 112
)

// alert ends c, in a TLS or HTTP client's own words if it is one.
func (s *Server) alert(c net.Conn, hello []byte, err error) {
	if no := new(denial); spokenHTTP(hello) && errors.As(err, &no) {
		sayPlain(c, no)
		return
	}
	if len(hello) == 0 || hello[0] != tlsHandshake {
		leave(c)
		return
	}
	code := byte(alertInternalError)
	if no := new(denial); errors.As(err, &no) {
		code = alertAccessDenied
		if no.Reason == egress.ReasonNameMismatch {
			code = alertUnrecognizedName
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, code})
	leave(c)
}

// broke notes why a connection or request came to nothing.
func (s *Server) broke(e *Event, err error) {
	var no *denial
	if errors.As(err, &no) {
		s.denied(e, no)
		return
	}
	e.Kind, e.Reason, e.Message = Failed, "upstream", printable(err.Error(), 300)
}

// denied notes a refusal in the event and in the record.
func (s *Server) denied(e *Event, no *denial) {
	e.Kind, e.Status, e.Reason, e.Message = Refused, no.status(), string(no.Reason), no.text()
	s.proxy.deny(no, e)
}
