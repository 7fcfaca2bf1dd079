package gateway

import (
	"encoding/json"
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
	if no.challenge {
		// git and others send a password only when they are asked for one.
		e.Kind, e.Status = Local, no.status()
		w.Header().Set("WWW-Authenticate", `Basic realm="sallyport"`)
	} else {
		s.denied(e, no)
	}
	s.say(w, e, no.status(), string(no.Reason), no.text())
}

func (s *Server) sayBroken(w http.ResponseWriter, e *Event, err error) {
	var no *denial
	if errors.As(err, &no) {
		s.sayNo(w, e, no)
		return
	}
	// The detail names addresses and certificates of the trusted side: for the operator only.
	s.fail(w, e, "upstream", "the host is allowed, but could not be reached from the trusted side", err)
}

// fail answers what went wrong on the trusted side.
func (s *Server) fail(w http.ResponseWriter, e *Event, reason, message string, err error) {
	e.Kind, e.Status, e.Reason, e.Message = Failed, http.StatusBadGateway, reason, printable(err.Error(), 300)
	s.say(w, e, e.Status, reason, message)
}

// say closes the connection, so that each refusal falls under the accept rate.
func (s *Server) say(w http.ResponseWriter, e *Event, status int, reason, text string) {
	s.hurry(w)
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("X-Sallyport-Reason", reason)
	if e.model {
		answer(w, status, reason, text)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "sallyport: "+reason+": "+text+"\n")
}

// answer writes the error shape that both the Messages and the Responses API use.
func answer(w http.ResponseWriter, status int, reason, text string) {
	kind := "permission_error"
	if status >= 500 {
		kind = "api_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type":  "error",
		"error": map[string]string{"type": kind, "code": reason, "message": "sallyport: " + text},
	})
}
