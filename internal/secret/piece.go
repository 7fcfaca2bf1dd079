package secret

import (
	"bytes"
	"iter"
)

// A text is handed to the library in pieces: it looks at the clock between two rules only, tries every rule
// whose keyword is anywhere in what it was given, and counts all lines for every match. Pieces of 2 KB took half
// the time of pieces of 8 KB (Go's net sources). Each begins overlap before the end of the last: the longest
// form takes 257 bytes to be recognised, a Kubernetes Secret some 400.
const (
	pieceBytes = 2 << 10
	overlap    = 512
	edgeBytes  = 256 // how far back a good place to cut is looked for
)

// pieces are the bounds of pieces of a text that cover it. Where it can be, they lie between two lines, and
// else between two words: half a number may look like a whole one.
func pieces(text []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start := 0; start < len(text); {
			end := len(text)
			if end-start > pieceBytes {
				end = edge(text, start+pieceBytes-edgeBytes, start+pieceBytes)
			}
			if !yield(start, end) || end == len(text) {
				return
			}
			start = edge(text, end-overlap-edgeBytes, end-overlap)
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
