package screen

import (
	"errors"
	"io"
)

// stages looks at a stream twice: at the bytes as they are, and then at what is left without control characters
// and terminal sequences, which a person does not see and a terminal breaks long lines with. Either alone would miss
// something: a sequence that was begun just before a secret takes its first character away.
func (r *Redactor) stages(w io.Writer, eager bool, count func(name string)) *stage {
	shown := &stage{r: r, w: w, count: count, quiet: true, eager: eager}
	return &stage{r: r, w: shown, last: shown, count: count, eager: eager}
}

// eagerBytes is how much of a secret's beginning an eager stage lets through.
const eagerBytes = 3

// stage is one look at a stream.
type stage struct {
	r     *Redactor
	w     io.Writer
	last  *stage // closed with this one; nil: none
	count func(name string)
	quiet bool // look at view, not at pending itself
	eager bool

	pending []byte
	seen    sequencer
	view    []byte  // quiet: what a person sees of pending,
	at      []int32 // and where each byte of it stands there
	told    int     // bytes at the start of pending that were let through before their fate was known
	covered int     // bytes at the start of the view that belong to a secret
	by      pattern
	out     []byte
}

// atOnce bounds how many bytes are taken on together, and with them the buffers.
const atOnce = 16 << 10

func (s *stage) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part := p[done:min(done+atOnce, len(p))]
		s.take(part)
		if err := s.drain(false); err != nil {
			return done, err
		}
		done += len(part)
	}
	return len(p), nil
}

func (s *stage) take(p []byte) {
	if s.quiet {
		for i, c := range p {
			if s.seen.state == ground && c >= 0x20 && c != 0x7f || s.seen.shows(c) {
				s.view = append(s.view, c)
				s.at = append(s.at, int32(len(s.pending)+i))
			}
		}
	}
	s.pending = append(s.pending, p...)
}

func (s *stage) Close() error {
	err := s.drain(true)
	if s.last != nil {
		err = errors.Join(err, s.last.Close())
	}
	return err
}

// release lets go, now, what an eager stage would not have held.
func (s *stage) release() error {
	eager := s.eager
	s.eager = true
	err := s.drain(false)
	s.eager = eager
	if s.last != nil && err == nil {
		err = s.last.release()
	}
	return err
}

// drain writes everything of pending whose fate is known. Secrets that overlap become one mark: the rest of
// the second would be a part of it in the clear.
func (s *stage) drain(last bool) error {
	view := s.pending
	if s.quiet {
		view = s.view
	}
	from, i, waits := 0, 0, false
	for i < len(view) {
		if s.covered == 0 {
			i = s.r.skip(view, i)
		}
		p, wait := s.r.match(view[i:])
		if waits = wait && !last; waits {
			break
		}
		if p != nil && len(p.bytes) > s.covered {
			if s.covered == 0 {
				from = s.pass(from, s.place(i), true)
				s.by = *p
			}
			s.count(p.name)
			s.covered = len(p.bytes)
		}
		i++
		if s.covered > 0 {
			from = s.pass(from, s.place(i-1)+1, false)
			if s.covered--; s.covered == 0 {
				s.out = append(s.out, s.by.marker...)
			}
		}
	}
	end := len(s.pending)
	if waits {
		end = s.place(i)
	}
	if s.covered == 0 { // else what a person does not see of a secret goes with it
		from = s.pass(from, end, true)
	}
	s.keep(from, i)
	if s.eager && s.covered == 0 && len(view)-i <= eagerBytes {
		s.out = append(s.out, s.pending[s.told:]...)
		s.told = len(s.pending)
	}
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	return err
}

// place is where in pending the i-th byte of the view stands.
func (s *stage) place(i int) int {
	switch {
	case !s.quiet:
		return i
	case i < len(s.at):
		return int(s.at[i])
	}
	return len(s.pending)
}

// pass is done with the bytes of pending from one place to another, and shows them or drops them.
func (s *stage) pass(from, to int, show bool) int {
	if to <= from {
		return from
	}
	said := max(from, min(to, s.told))
	if show {
		s.out = append(s.out, s.pending[said:to]...)
	}
	return to
}

// keep drops what is done: bytes of pending before from, bytes of the view before i.
func (s *stage) keep(from, i int) {
	s.told = max(0, s.told-from)
	s.pending = append(s.pending[:0], s.pending[from:]...)
	if !s.quiet {
		return
	}
	s.view = append(s.view[:0], s.view[i:]...)
	s.at = append(s.at[:0], s.at[i:]...)
	for k := range s.at {
		s.at[k] -= int32(from)
	}
}

// skip is the next place from i on at which a form can begin: len(b)-1 at most, since one byte tells too little.
func (r *Redactor) skip(b []byte, i int) int {
	for i+1 < len(b) && !r.pairs[int(b[i])<<8|int(b[i+1])] {
		i++
	}
	return i
}

// sequencer tells what of a stream a person sees from control characters and terminal sequences.
type sequencer struct {
	state  scrubState
	length int
}

func (q *sequencer) shows(c byte) bool {
	if q.state == ground {
		if c == 0x1b {
			q.state, q.length = afterEscape, 0
		}
		return c >= 0x20 && c != 0x7f
	}
	q.length++
	switch {
	case c == 0x1b:
		q.state = afterEscape
	case q.state == afterEscape:
		q.state = map[byte]scrubState{'[': inCSI, ']': inString, 'P': inString, 'X': inString, '^': inString, '_': inString}[c]
	case q.state == inCSI && (c >= 0x40 && c <= 0x7e || c < 0x20 || q.length > maxSequence),
		q.state == inString && (c == 0x07 || c == '\n' || q.length > maxString):
		q.state = ground
	}
	return false
}
