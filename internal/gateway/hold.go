package gateway

import (
	"io"
	"net/http"
	"slices"
)

// maxHeldBodies bounds what the bodies that are read before they leave hold in memory together. A real agent's are below
// one MiB.
const maxHeldBodies = 128 << 20

// hold reads a body whole, once, since something in it decides. What was read leaves byte by byte. It is bounded by
// limit and by what the others hold; release frees it.
func (s *Server) hold(w http.ResponseWriter, r *http.Request, x *exchange, limit int64) *denial {
	if x.read {
		return nil
	}
	x.read = true
	body := &countedBody{r: r.Body, rc: http.NewResponseController(w), max: limit}
	for {
		if len(x.whole) == cap(x.whole) {
			more := max(32<<10, len(x.whole)) // doubled
			x.held += int64(more)
			if s.heldBodies.Add(int64(more)) > maxHeldBodies {
				return because(x.Request, ReasonBodies, "")
			}
			x.whole = slices.Grow(x.whole, more)
		}
		n, err := body.Read(x.whole[len(x.whole):cap(x.whole)])
		x.whole = x.whole[:len(x.whole)+n]
		switch {
		case err == io.EOF:
			return nil
		case body.tooLarge():
			return because(x.Request, ReasonBody, "")
		case err != nil:
			return because(x.Request, ReasonForm, "the request body ended early")
		}
	}
}

func (s *Server) release(x *exchange) {
	s.heldBodies.Add(-x.held)
	x.held, x.whole = 0, nil
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

func (b *wholeBody) Close() error { return nil }
