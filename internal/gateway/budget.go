package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// Budget decides before a request leaves whether it may, by what it can cost. All methods are safe for concurrent use.
type Budget interface {
	// Meters says that host has an API whose requests may cost something: none of them leaves unread or without Admit.
	Meters(host string) bool
	// Admit is called with the canonical host without its port, the path without its query, and the whole body, which is
	// what will be sent, byte by byte. It may wait until an earlier request's cost is known, and returns once what this
	// one can cost is durable. *Unaffordable is a no for the sandbox; any other error means that it cannot be decided,
	// and nothing is sent either. A nil Charge: the call is free.
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

// maxHeldBodies bounds what the bodies that are read whole hold in memory together. A real agent's are below one MiB.
const maxHeldBodies = 128 << 20

// heldBody is a body in memory, which counts together with all others there.
type heldBody struct {
	b    []byte
	held int64
	all  *atomic.Int64
}

var errNoRoom = errors.New("no room beside the other bodies")

// read appends all of r. errNoRoom: it is too much beside the others; any other error is r's.
func (h *heldBody) read(r io.Reader) error {
	for {
		if len(h.b) == cap(h.b) {
			more := max(32<<10, len(h.b)) // doubled
			h.held += int64(more)
			if h.all.Add(int64(more)) > maxHeldBodies {
				return errNoRoom
			}
			h.b = append(make([]byte, 0, len(h.b)+more), h.b...)
		}
		n, err := r.Read(h.b[len(h.b):cap(h.b)])
		if h.b = h.b[:len(h.b)+n]; err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// release lets others have the room. Repeat: nothing.
func (h *heldBody) release() {
	if h.all != nil {
		h.all.Add(-h.held)
		h.held = 0
	}
}

// free is the Charge of a request that nobody counts.
type free struct{}

func (free) Sent()                   {}
func (free) Answer(int, http.Header) {}
func (free) Seen([]byte)             {}
func (free) Close()                  {}

// admission is one request on its way past the Budget.
type admission struct {
	charge Charge
	whole  heldBody // what is sent, with a Budget
}

// metered says that a Budget has a word about x.
func (s *Server) metered(x *exchange) bool {
	return s.budget != nil && (x.model != nil || s.budget.Meters(x.Name.String()))
}

// afford reads the body and asks the Budget. nil: the request was answered. The caller closes the admission.
func (s *Server) afford(w http.ResponseWriter, r *http.Request, e *Event, x *exchange, body *meteredBody) *admission {
	a := &admission{charge: free{}, whole: heldBody{all: &s.heldBodies}}
	if encoded(r.Header) != "" {
		s.sayNo(w, e, because(x.Request, ReasonRequestEncoding, ""))
		return nil
	}
	if no := a.read(x, body); no != nil {
		a.Close()
		s.sayNo(w, e, no)
		return nil
	}
	charge, err := s.budget.Admit(r.Context(), x.Name.String(), x.Method, x.Path, a.whole.b)
	var over *Unaffordable
	switch {
	case errors.As(err, &over):
		a.Close()
		e.Kind, e.Status, e.Reason, e.Message = Refused, over.Status, over.Reason, over.Message
		s.hurry(w)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		w.Header().Set("X-Should-Retry", "false") // what both APIs' own clients understand: asking again changes nothing
		w.WriteHeader(over.Status)
		_, _ = w.Write(over.Body)
		return nil
	case err != nil:
		a.Close()
		s.fail(w, e, "spend", "whether the spend limit allows this request cannot be said on the trusted side", err)
		return nil
	}
	if charge != nil {
		a.charge = charge
	}
	return a
}

// wholeBody is no *bytes.Reader: net/http must not know how to send it a second time.
type wholeBody struct{ rest []byte }

func (b *wholeBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// read holds the whole body, as long as there is room for it beside the others.
func (a *admission) read(x *exchange, body *meteredBody) *denial {
	switch err := a.whole.read(body); {
	case err == nil:
		return nil
	case errors.Is(err, errNoRoom):
		return because(x.Request, ReasonBodies, "")
	case body.tooLarge():
		return because(x.Request, ReasonBody, "")
	case body.spent.Load():
		return because(x.Request, ReasonUp, "")
	}
	return because(x.Request, ReasonForm, "the request body ended early")
}

// request is out with what was admitted.
func (a *admission) request(out *http.Request) *http.Request {
	out.Body, out.ContentLength = io.NopCloser(&wholeBody{a.whole.b}), int64(len(a.whole.b))
	if len(a.whole.b) == 0 {
		out.Body = http.NoBody
	}
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.charge.Sent() }}))
}

// answered lets the Charge see an answer as it is read.
func (a *admission) answered(res *http.Response) {
	a.charge.Answer(res.StatusCode, res.Header)
	res.Body = &seenBody{res.Body, a.charge}
}

func (a *admission) Close() {
	a.charge.Close()
	a.whole.release()
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
