package secret

import "bytes"

// The rules of the data are regular expressions, which are dear: each is tried only on the piece of text around
// its keyword that it could match, and only where that has the shape of a credential.
const (
	pieceBefore = 64   // bytes that are looked at before a keyword
	pieceAfter  = 1600 // and behind it; the longest form of the data has about 1,000
	blockAfter  = 600
	minToken    = 16
	minValue    = 8
	maxName     = 23 // between a keyword and the operator
)

const (
	tokenByte = 1 << iota
	nameByte
	operatorByte
	quoteByte
)

var bytesOf = func() (set [256]uint8) {
	mark := func(kind uint8, chars string) {
		for i := range len(chars) {
			set[chars[i]] |= kind
		}
	}
	for c := range 256 {
		if alnum(byte(c)) {
			set[c] |= tokenByte | nameByte
		}
	}
	mark(tokenByte, "_.~+/=:|%@?&-")
	mark(nameByte, "_.- \t\r\n\"'")
	mark(operatorByte, "=>:|?,")
	mark(quoteByte, "`'\" \t\r\n=")
	return set
}()

// run is how far bytes of a kind go on from at, at most most of them.
func run(text []byte, at int, kind uint8, most int) int {
	end := at
	for end < len(text) && end-at < most && bytesOf[text[end]]&kind != 0 {
		end++
	}
	return end
}

// piece is what of text a rule is tried on, where its keyword stands at at to end.
func (r *rule) piece(text []byte, at, end int) (start, stop int, ok bool) {
	start = at
	switch r.shape {
	case block:
		start = bytes.LastIndexByte(text[:at], '\n') + 1
		return max(start, at-blockAfter), min(len(text), at+blockAfter), true
	case assigned:
		operator := run(text, end, nameByte, maxName)
		value := run(text, operator, operatorByte, 4)
		if value == operator {
			return 0, 0, false
		}
		value = run(text, value, quoteByte, 6)
		if stop = run(text, value, tokenByte, pieceAfter); stop-value < minValue || r.mixed && !mixed(text[value:stop]) {
			return 0, 0, false
		}
	default:
		stop = run(text, end, tokenByte, pieceAfter)
	}
	for start > 0 && at-start < pieceBefore && bytesOf[text[start-1]]&tokenByte != 0 {
		start--
	}
	if stop-start < minToken {
		return 0, 0, false
	}
	return r.beside(text, start, stop)
}

// closers may follow a value. The data does not know all of them, but it knows the end of a text.
const closers = ",)]}>&"

// beside adds what must stand beside a token to its piece.
func (r *rule) beside(text []byte, start, stop int) (int, int, bool) {
	whole := stop
	for stop > start && bytes.IndexByte([]byte(".:?"), text[stop-1]) >= 0 {
		stop-- // the sentence's own punctuation
	}
	if stop == whole && stop < len(text) && bytes.IndexByte([]byte(closers), text[stop]) < 0 {
		stop = min(len(text), stop+2) // "\\n" is two
	}
	switch {
	case start > 0 && text[start-1] == '\\' && bytes.IndexByte([]byte("nrt"), text[start]) >= 0:
		start++ // as in JSON or Go source: no part of the word
	case start > 0:
		start--
	}
	return start, stop, true
}

func mixed(value []byte) bool {
	for _, c := range value {
		if letter := lower(c) >= 'a' && lower(c) <= 'z'; !letter && c != '_' && c != '.' && c != '-' {
			return true
		}
	}
	return false
}
