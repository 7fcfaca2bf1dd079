package secret

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
)

// maxDepth is how many encodings on top of one another are taken off. Who encodes more often is not caught by
// looking: that nothing secret is in the sandbox is the real protection.
const maxDepth = 2

// minRun is the shortest encoded text that can hold the shortest format.
const minRun = 24

const (
	inBase64 = 1 << iota
	inHex
	inPercent
)

var encodedIn = func() (set [256]uint8) {
	for c := range 256 {
		b := byte(c)
		if alnum(b) || b == '+' || b == '/' || b == '-' || b == '_' {
			set[c] |= inBase64
		}
		if b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f' {
			set[c] |= inHex
		}
		if alnum(b) || b == '%' || b == '.' || b == '-' || b == '_' || b == '~' || b == '+' {
			set[c] |= inPercent
		}
	}
	return set
}()

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// encodedRuns calls f for each decoded text in b, with where it stood, until f says no. The text is f's.
func encodedRuns(b []byte, f func(start, end int, decoded []byte) bool) {
	for _, e := range []struct {
		set    uint8
		decode func(run []byte) []byte
	}{{inBase64, fromBase64}, {inHex, fromHex}, {inPercent, fromPercent}} {
		for i := 0; i < len(b); {
			if encodedIn[b[i]]&e.set == 0 {
				i++
				continue
			}
			start := i
			for i < len(b) && encodedIn[b[i]]&e.set != 0 {
				i++
			}
			if i-start < minRun {
				continue
			}
			if d := e.decode(b[start:i]); d != nil && !f(start, i, d) {
				return
			}
		}
	}
}

// fromBase64 decodes a run in whichever of its four alignments gives text: something else may stand before it.
func fromBase64(run []byte) []byte {
	for skip := range 4 {
		r := run[skip:]
		enc := base64.RawStdEncoding
		for _, c := range r {
			if c == '-' || c == '_' {
				enc = base64.RawURLEncoding
			}
		}
		r = r[:len(r)/4*4+[4]int{0, 0, 2, 3}[len(r)%4]]
		head := make([]byte, 24)
		if n, err := enc.Decode(head, r[:min(len(r), 32)/4*4]); err != nil || !readable(head[:n]) {
			continue
		}
		out := make([]byte, enc.DecodedLen(len(r)))
		n, _ := enc.Decode(out, r) // what stands before the first character that is of another alphabet
		return out[:n]
	}
	return nil
}

func fromHex(run []byte) []byte {
	run = run[:len(run)/2*2]
	out := make([]byte, hex.DecodedLen(len(run)))
	if _, err := hex.Decode(out, run); err != nil || !readable(out) {
		return nil
	}
	return out
}

func fromPercent(run []byte) []byte {
	escapes := 0
	for _, c := range run {
		if c == '%' {
			escapes++
		}
	}
	if escapes < 2 {
		return nil
	}
	out, err := url.PathUnescape(string(run))
	if err != nil {
		return nil
	}
	return []byte(out)
}

// readable reports whether b begins as text does: random bytes almost never do.
func readable(b []byte) bool {
	b = b[:min(len(b), 24)]
	for _, c := range b {
		if c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return len(b) >= 8
}
