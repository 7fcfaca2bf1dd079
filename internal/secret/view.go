package secret

import (
	"bytes"
	"sort"
)

// view is a text with something taken out that could hide a credential, and where its lines went.
type view struct {
	text  []byte
	lines []int // offset in text at which each line of the original begins
	only  int   // not 0: all of it stands in this one line of the original
}

// line is the original's line, from 1, of an offset in the view.
func (v view) line(at int) int {
	if v.only > 0 {
		return v.only
	}
	return sort.SearchInts(v.lines, at+1)
}

func plain(b []byte) view {
	v := view{text: b, lines: make([]int, 1, bytes.Count(b, []byte{'\n'})+1)}
	for i, c := range b {
		if c == '\n' {
			v.lines = append(v.lines, i+1)
		}
	}
	return v
}

// quiet is without terminal sequences and NUL bytes: what a person reads, and UTF-16 of ASCII as ASCII. False:
// there are none.
func (v view) quiet() (view, bool) {
	if bytes.IndexByte(v.text, 0x1b) < 0 && bytes.IndexByte(v.text, 0) < 0 {
		return view{}, false
	}
	out := view{make([]byte, 0, len(v.text)), []int{0}, v.only}
	for i := 0; i < len(v.text); i++ {
		switch c := v.text[i]; c {
		case 0x1b:
			i += sequence(v.text[i:]) - 1
		case '\n':
			out.text = append(out.text, c)
			out.lines = append(out.lines, len(out.text))
		case 0:
		default:
			out.text = append(out.text, c)
		}
	}
	return out, true
}

// joined is without ends of lines, what indents the next, and what continues a line in source code.
func (v view) joined() view {
	out := view{make([]byte, 0, len(v.text)), make([]int, 0, len(v.lines)), v.only}
	for line := range bytes.Lines(v.text) {
		out.lines = append(out.lines, len(out.text))
		out.text = append(out.text, bytes.Trim(line, " \t\r\n\\\"'`+")...)
	}
	return out
}

// maxSequence bounds what one sequence hides: what follows an unterminated one is looked at.
const maxSequence = 256

// sequence is the length of the terminal sequence at the start of b, which begins with ESC.
func sequence(b []byte) int {
	b = b[:min(len(b), maxSequence)]
	if len(b) < 2 {
		return 1
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < 0x20 {
				return i
			}
		}
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == 0x07:
				return i + 1
			case b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\':
				return i + 2
			case b[i] == '\n':
				return i
			}
		}
	}
	return 2
}
