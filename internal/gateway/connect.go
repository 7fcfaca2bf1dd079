package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// connect serves CONNECT. Its headers are for a proxy and end here.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, e *Event) {
	if _, ok := boundTo(r); ok || r.ContentLength != 0 {
		s.sayNo(w, e, because(egress.Request{}, ReasonForm, "CONNECT within a connection, or with a body"))
		return
	}
	name, port, err := egress.Target(r.RequestURI)
	if err != nil {
		s.sayNo(w, e, unnamed(r.RequestURI, err))
		return
	}
	way, upstream, err := s.reach(r.Context(), name, port)
	if err != nil {
		s.sayBroken(w, e, err)
		return
	}
	c, err := hijack(w)
	if err == nil {
		_, err = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	}
	if err != nil {
		s.broke(e, err)
		closeAll(c, upstream)
		return
	}
	s.carry(c, upstream, way, e)
}

// hijack takes the connection over, with what the client sent too early.
func hijack(w http.ResponseWriter) (net.Conn, error) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Now().Add(stallTimeout))
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if len(early) == 0 {
		return c, nil
	}
	return &begun{Conn: c, first: append([]byte(nil), early...)}, nil
}

func closeAll(conns ...net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// sayNo answers a proxy request with its refusal, in words: it is read by a person or a model, behind any client.
func (s *Server) sayNo(w http.ResponseWriter, e *Event, no *denial) {
	s.denied(e, no)
	say(w, no.status(), string(no.Reason), no.text())
}

func (s *Server) sayBroken(w http.ResponseWriter, e *Event, err error) {
	var no *denial
	if errors.As(err, &no) {
		s.sayNo(w, e, no)
		return
	}
	s.broke(e, err)
	e.Status = http.StatusBadGateway
	// The detail names addresses of the trusted side's networks: for the operator only.
	say(w, e.Status, e.Reason, "the host is allowed, but could not be reached from the trusted side")
}

// say closes the connection, so that each refusal falls under the accept rate.
func say(w http.ResponseWriter, status int, reason, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Connection", "close")
	h.Set("X-Sallyport-Reason", reason)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "sallyport: "+reason+": "+text+"\n")
}
