package inspect

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// displayBytes bounds a name on the screen; git's own bound is 4096.
const displayBytes = 512

// Display makes a path safe to show: control, invisible and direction characters become <U+XXXX>, bytes that
// are not UTF-8 <0xXX>, secrets in it <redacted>, and a long one is cut in its middle.
func Display(path string) string {
	path = redact(path)
	var b strings.Builder
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<0x%02X>", path[i])
		case unicode.IsControl(r) || invisible(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Co, r) || unicode.Is(unicode.Zs, r) && r != ' ' || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(path[i : i+n])
		}
		i += n
	}
	return shortenTo(b.String(), displayBytes)
}

// shortenTo cuts the middle out of a text of more than limit bytes.
func shortenTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := limit/2 - 2
	head, tail := s[:half], s[len(s)-half:]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + "…" + tail
}

// bidi are the characters that change the order in which text is shown (Unicode UAX 9).
func bidi(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// bidiMark are the direction marks that ordinary Arabic and Hebrew text uses.
func bidiMark(r rune) bool { return r == 0x200E || r == 0x200F || r == 0x061C }

// invisible are characters that show nothing and are no space: what a reviewer cannot see.
func invisible(r rune) bool {
	switch {
	case r < 0xAD:
		return false
	case bidi(r) || bidiMark(r):
		return true
	case r == 0x00AD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFFA0, r == 0x2800:
		return true
	case r >= 0x180B && r <= 0x180F, r >= 0x200B && r <= 0x200D, r >= 0x2060 && r <= 0x206F, r == 0xFEFF:
		return true
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xFFF9 && r <= 0xFFFB, r >= 0x1D173 && r <= 0x1D17A, r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return false
}
