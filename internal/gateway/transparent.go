package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// wantedBy is where the client of c meant to go, if its sandbox led it here.
func wantedBy(c net.Conn) (netip.AddrPort, bool) {
	l, ok := can[interface{ wanted() netip.AddrPort }](c)
	if !ok {
		return netip.AddrPort{}, false
	}
	return l.wanted(), true
}

// redirected serves a connection that was led here, which it owns. Nothing is read before it is decided where it may
// go: in many protocols the server speaks first.
func (s *Server) redirected(c net.Conn, to netip.AddrPort) {
	if !s.crew.enter() {
		reset(c)
		_ = c.Close()
		return
	}
	defer s.crew.leave()
	stop := closeWith(s.live, c)
	defer stop()
	e := Event{Method: "TCP", Target: to.String(), client: c}
	start := time.Now()
	defer func() {
		e.Took = time.Since(start)
		s.meter.record(e)
	}()
	name, known := s.names.of(to.Addr())
	if !known {
		s.turnAway(c, because(egress.Request{Port: to.Port(), Protocol: egress.Usual(to.Port())}, ReasonForgotten, to.Addr().String()), &e)
		return
	}
	e.Target = egress.HostPort(name, to.Port())
	w, upstream, err := s.reach(s.live, name, to.Port())
	switch {
	case err != nil:
		s.unreachable(c, name, to.Port(), err, &e)
	default:
		s.carry(c, upstream, w, &e)
	}
}

// unreachable ends a connection that may not, or cannot, go where it meant to. Plain HTTP is answered by the HTTP
// server, which knows how to say what was asked and why not.
func (s *Server) unreachable(c net.Conn, name egress.Name, port uint16, err error, e *Event) {
	no := new(denial)
	if !errors.As(err, &no) {
		s.broke(e, err)
		reset(c)
		_ = c.Close()
		return
	}
	first := s.overhear(c)
	switch {
	case spokenHTTP(first):
		switch no.Reason {
		case egress.ReasonHost, egress.ReasonPort, egress.ReasonAddress:
			e.Kind, e.Status = Local, http.StatusOK
			s.front.hand(&bound{Conn: &begun{Conn: c, first: first}, name: name, port: port})
			return
		}
	case len(first) > 0 && first[0] == tlsHandshake && no.Protocol != egress.HTTPS && (no.Reason == egress.ReasonHost || no.Reason == egress.ReasonPort):
		no = no.as(egress.HTTPS)
	case len(first) > 0 && first[0] != tlsHandshake && no.Protocol != egress.TCP && (no.Reason == egress.ReasonHost || no.Reason == egress.ReasonPort):
		no = no.as(egress.TCP)
	}
	s.refuseAloud(c, first, no, e)
}

// turnAway is unreachable for what is no host.
func (s *Server) turnAway(c net.Conn, no *denial, e *Event) {
	s.refuseAloud(c, s.overhear(c), no, e)
}

// refuseAloud refuses in the words of whoever spoke first, and closes.
func (s *Server) refuseAloud(c net.Conn, first []byte, no *denial, e *Event) {
	s.denied(e, no)
	s.alert(c, first, no)
}

// sayPlain answers a request of HTTP/1 that nobody else reads, and closes.
func sayPlain(c net.Conn, no *denial) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	body := "sallyport: " + string(no.Reason) + ": " + no.text() + "\n"
	res := &http.Response{StatusCode: no.status(), ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Sallyport-Reason": {string(no.Reason)}},
		Body:   io.NopCloser(strings.NewReader(body))}
	_ = res.Write(c)
	leave(c)
}

// overhearFor is how long a refused client may take until it says what it speaks. One that waits for the server to speak
// first is closed then.
const overhearFor = 2 * time.Second

// overhear reads what comes first, to refuse it in its own words; nothing if nothing comes.
func (s *Server) overhear(c net.Conn) []byte {
	_ = c.SetReadDeadline(time.Now().Add(min(overhearFor, s.proxy.pace.header)))
	b := make([]byte, 4<<10)
	n, _ := c.Read(b)
	_ = c.SetReadDeadline(time.Time{})
	return b[:n]
}

// spokenHTTP says that b begins as a request of HTTP/1 does: a method and a target.
func spokenHTTP(b []byte) bool {
	method, rest, ok := bytes.Cut(b[:min(len(b), 40)], []byte(" "))
	if !ok || len(method) == 0 || len(rest) == 0 || rest[0] != '/' && rest[0] != '*' && rest[0] != 'h' {
		return false
	}
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}

// answerName answers one question of the sandbox. Nothing is asked of anybody for it.
func (s *Server) answerName(question []byte, from netip.AddrPort) ([]byte, error) {
	return egress.Answer(question, func(n egress.Name) bool {
		if s.live.Err() == nil && (s.proxy.Learn || egress.Listed(s.proxy.Rules, n)) {
			return true
		}
		s.nameless(n, from)
		return false
	}, s.names.address)
}

// nameless records that a name was asked for which no rule lists. Which port was meant nobody said: what is proposed is
// the most likely.
func (s *Server) nameless(n egress.Name, from netip.AddrPort) {
	if s.live.Err() != nil || strings.HasSuffix(n.String(), ".arpa") {
		return // a question for the name of an address: nobody is kept from anything
	}
	q := egress.Request{Name: n, Port: 443, Protocol: egress.HTTPS}
	no := decided(q, egress.Reach(s.proxy.Rules, n, 443))
	no.message += " (its address was asked for; for what port is not known)"
	e := Event{Method: "DNS", Target: n.String(), asker: func() string { return s.proxy.Questions.asker(from) }}
	s.denied(&e, no)
	e.Status = 0
	s.meter.record(e)
}

// openNames answers on the socket for names until Close.
func (s *Server) openNames() {
	s.names = newNames(s.proxy.Rules, s.proxy.Generation)
	if q := s.proxy.Questions; q != nil {
		go q.serve(s.answerName)
	}
}

// clientKey finds the connection in a request's context.
type clientKey struct{}

func clientOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(clientKey{}).(net.Conn)
	return c
}

// process is which process inside sent what e is about, as far as the kernel shows it; "" if it does not.
func (e *Event) process() string {
	switch {
	case e.asker != nil:
		return e.asker()
	case e.client != nil:
		return askerOf(e.client)
	}
	return ""
}
