package egress

import "errors"

// ErrMore says that the bytes so far are the beginning of a good message: read more and call again with all of them.
var ErrMore = errors.New("more bytes are needed")

// reader takes fields off the front of hostile bytes. Once a field is not there all later ones are empty and ok stays
// false, so it is asked once, at the end.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// number is a big-endian unsigned number of n bytes, n at most 3.
func (r *reader) number(n int) int {
	v := 0
	for _, c := range r.take(n) {
		v = v<<8 | int(c)
	}
	return v
}

// vector is the bytes after a length of n bytes.
func (r *reader) vector(n int) []byte { return r.take(r.number(n)) }

func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }
