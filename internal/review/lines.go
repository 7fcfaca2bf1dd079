package review

import (
	"bytes"
	"strings"
)

// Line is one line of a patch.
type Line struct {
	Kind  string // "file", "meta", "hunk", "add", "del"; "" for context
	Parts []Part
	Cut   int // bytes at its end that are not shown
}

// Text is the whole line.
func (l Line) Text() string {
	var b strings.Builder
	for _, p := range l.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// splitter hands on a stream line by line, and a line longer than max in pieces.
type splitter struct {
	max  int
	take func(piece []byte, first, last bool)

	held   []byte
	within bool // the line's first piece is out
}

func (s *splitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			s.hold(rest)
			break
		}
		s.hold(rest[:end])
		s.put(s.held, true)
		s.held, rest = s.held[:0], rest[end+1:]
	}
	return len(p), nil
}

func (s *splitter) hold(b []byte) {
	for len(s.held)+len(b) > s.max {
		n := s.max - len(s.held)
		s.put(append(s.held, b[:n]...), false)
		s.held, b = s.held[:0], b[n:]
	}
	s.held = append(s.held, b...)
}

// close hands on a last line that has no end.
func (s *splitter) close() {
	if len(s.held) > 0 || s.within {
		s.put(s.held, true)
		s.held = s.held[:0]
	}
}

func (s *splitter) put(piece []byte, last bool) {
	s.take(piece, !s.within, last)
	s.within = !last
}

// Bounds of what is held back to compare words.
const (
	maxHeldLines = 2_000
	maxHeldBytes = 256 << 10
)

// blocks gives lines their kinds, and marks words where removed lines are followed by what replaces them.
type blocks struct {
	out   func(Line)
	hunks hunks
	held  []Line // removed lines, then added ones
	bytes int
}

func (b *blocks) take(text string, cut int) {
	l := Line{Kind: b.hunks.kind([]byte(text)), Parts: []Part{{Text: text}}, Cut: cut}
	changed := l.Kind == kindDel || l.Kind == kindAdd
	if n := len(b.held); !changed || n > 0 && l.Kind == kindDel && b.held[n-1].Kind == kindAdd {
		b.flush()
	}
	if !changed {
		b.out(l)
		return
	}
	if len(b.held) >= maxHeldLines || b.bytes+len(text) > maxHeldBytes {
		b.flush()
	}
	b.held, b.bytes = append(b.held, l), b.bytes+len(text)
}

func (b *blocks) flush() {
	var del, add []string
	for _, l := range b.held {
		if text := l.Parts[0].Text[1:]; l.Kind == kindDel {
			del = append(del, text)
		} else {
			add = append(add, text)
		}
	}
	was, now := words(del, add)
	marked := append(was, now...)
	for i, l := range b.held {
		if len(marked) == len(b.held) {
			l.Parts = append([]Part{{Text: l.Parts[0].Text[:1]}}, marked[i]...)
		}
		b.out(l)
	}
	b.held, b.bytes = b.held[:0], 0
}
