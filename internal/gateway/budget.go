package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
)

// Budget decides before a request leaves whether it may, by what it can cost. All methods are safe for concurrent use.
type Budget interface {
	// Meters says that host has an API whose requests may cost something: none of them leaves unread or without Admit.
	Meters(host string) bool
	// Admit is called with the canonical host without its port, the path without its query, and the whole body, which is
	// what will be sent, byte by byte. It may wait until an earlier request's
	// cost is known, and returns once what this one can cost is durable. *Unaffordable is a no for the sandbox; any other
	// error means that it cannot be decided, and nothing is sent either. A nil Charge: the call is free.
	Admit(ctx context.Context, host, method, path string, body []byte) (Charge, error)
}

// Charge hears what came of one admitted request. The calls come in the order below, each of the first two at most once and any of
// the first three not at all; the last one always comes.
type Charge interface {
	Sent() // bytes of the request may have left
	Answer(status int, h http.Header)
	Seen(p []byte) // the answer's next bytes, as they came; p is not kept
	Close()        // no more is sent or seen
}

// Unaffordable is a request that is not sent, with the answer for the sandbox in the API's own error shape.
type Unaffordable struct {
	Reason  string // a code
	Message string
	Status  int
	Body    []byte // JSON
}

func (u *Unaffordable) Error() string { return u.Message }

// free is the Charge of a request that nobody counts.
type free struct{}

func (free) Sent()                   {}
func (free) Answer(int, http.Header) {}
func (free) Seen([]byte)             {}
func (free) Close()                  {}

// metered says that a Budget has a word about x.
func (s *Server) metered(x *exchange) bool {
	return s.budget != nil && (x.model != nil || s.budget.Meters(x.Name.String()))
}

// afford reads the body and asks the Budget. false: the request was answered. The caller closes the charge.
func (s *Server) afford(w http.ResponseWriter, r *http.Request, e *Event, x *exchange) bool {
	if no := s.hold(w, r, x, maxBody); no != nil {
		s.sayNo(w, e, no)
		return false
	}
	charge, err := s.budget.Admit(r.Context(), x.Name.String(), x.Method, x.Path, x.whole)
	var over *Unaffordable
	switch {
	case errors.As(err, &over):
		e.Kind, e.Status, e.Reason, e.Message = Refused, over.Status, over.Reason, over.Message
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		w.Header().Set("X-Should-Retry", "false") // what both APIs' own clients understand: asking again changes nothing
		w.WriteHeader(over.Status)
		_, _ = w.Write(over.Body)
		return false
	case err != nil:
		s.fail(w, e, "spend", "whether the spend limit allows this request cannot be said on the trusted side", err)
		return false
	}
	if x.charge = charge; charge == nil {
		x.charge = free{}
	}
	return true
}

// told is out, with the charge told when it is sent.
func told(out *http.Request, charge Charge) *http.Request {
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { charge.Sent() }}))
}

type seenBody struct {
	io.ReadCloser
	charge Charge
}

func (b *seenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.charge.Seen(p[:n])
	return n, err
}
