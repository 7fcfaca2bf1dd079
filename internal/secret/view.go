package secret

import (
	"bytes"
	"slices"
	"sort"
)

// view is a reading of a text, and where its bytes stand in the text: from each mark on in the mark's line.
type view struct {
	text  []byte
	marks []mark
}

type mark struct{ at, line int }

// line is the text's line, from 1, of an offset in the view.
func (v view) line(at int) int {
	i := sort.Search(len(v.marks), func(i int) bool { return v.marks[i].at > at })
	return v.marks[max(i-1, 0)].line
}

// add appends bytes that stand in a line of the text.
func (v *view) add(b []byte, line int) {
	if n := len(v.marks); n == 0 || v.marks[n-1].line != line {
		v.marks = append(v.marks, mark{len(v.text), line})
	}
	v.text = append(v.text, b...)
}

func plain(b []byte) view {
	v := view{text: b, marks: make([]mark, 1, bytes.Count(b, []byte{'\n'})+1)}
	v.marks[0].line = 1
	for i, c := range b {
		if c == '\n' {
			v.marks = append(v.marks, mark{i + 1, len(v.marks) + 1})
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
	out := view{text: make([]byte, 0, len(v.text)), marks: slices.Clone(v.marks)}
	next := 0
	for i := 0; i < len(v.text); i++ {
		for ; next < len(v.marks) && v.marks[next].at <= i; next++ {
			out.marks[next].at = len(out.text)
		}
		switch c := v.text[i]; c {
		case 0x1b:
			i += sequence(v.text[i:]) - 1
		case 0:
		default:
			out.text = append(out.text, c)
		}
	}
	for ; next < len(v.marks); next++ {
		out.marks[next].at = len(out.text)
	}
	return out, true
}

// joined is without ends of lines, what indents the next, and what continues a line in source code.
func (v view) joined() view {
	out := view{text: make([]byte, 0, len(v.text)), marks: make([]mark, 0, len(v.marks))}
	at := 0
	for line := range bytes.Lines(v.text) {
		out.add(bytes.Trim(line, " \t\r\n\\\"'`+"), v.line(at))
		at += len(line)
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
