package secret

import (
	"bytes"
	"iter"
)

// A text is handed to the library in pieces: it looks at the clock between two rules only, tries every rule
// whose keyword is anywhere in what it was given, and counts all lines for every match. A piece begins again
// before the end of the last, by more than the longest form needs to be recognised.
const (
	pieceBytes = 8 << 10
	overlap    = 1 << 10
)

// pieces are the bounds of pieces of a text that cover it. Where it can be, they lie between two lines, and
// else between two words: half a number may look like a whole one.
func pieces(text []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start := 0; start < len(text); {
			end := len(text)
			if end-start > pieceBytes {
				end = start + pieceBytes
				end = edge(text, end-overlap/2, end)
			}
			if !yield(start, end) || end == len(text) {
				return
			}
			start = edge(text, end-overlap, end-overlap/2)
		}
	}
}

// edge is the best place to cut between from and to: behind the last end of a line, else behind the last
// character that is in no word, else to.
func edge(text []byte, from, to int) int {
	if i := bytes.LastIndexByte(text[from:to], '\n'); i >= 0 {
		return from + i + 1
	}
	for i := to; i > from; i-- {
		if c := text[i-1]; !alnum(c) && bytes.IndexByte([]byte("_-+/=.%"), c) < 0 {
			return i
		}
	}
	return to
}
