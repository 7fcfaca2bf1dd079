package screen

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSourceHidesNothing(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                       "plain\ttext\n",
		"a = \"\x1b]0;\"; evil()\x07\n":       "a = \"<ESC>]0;\"; evil()<BEL>\n",
		"\x1b]52;c;QUFB\x07":                  "<ESC>]52;c;QUFB<BEL>",
		"\x1b]8;;x\x1b\\link\x1b]8;;\x1b\\":   "<ESC>]8;;x<ESC>\\link<ESC>]8;;<ESC>\\",
		"crlf\r\ncr\rx":                       "crlf<CR>\ncr<CR>x",
		"\u202egpj.exe":                       "<U+202E>gpj.exe",
		"\x9b31m \u009b31m \xff\x00\x7f\x08x": "<9B>31m <U+009B>31m <FF><NUL><DEL><BS>x",
		"zero\u200bwidth \U000e0041 é 日本":     "zero<U+200B>width <U+E0041> é 日本",
	} {
		if got := Source([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestSourceLaws: whatever the bytes and however they are cut, the result is visible, every visible character
// and every line is still there, and it does not depend on the writes' borders.
func TestSourceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "bytes")
		want := Source(in)
		var b bytes.Buffer
		w := NewSourceWriter(&b)
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Fatalf("%q in pieces, %q at once", b.String(), want)
		}
		at := 0
		for _, r := range want {
			if r != '\n' && r != '\t' && !visible(r) {
				t.Fatalf("%U in %q", r, want)
			}
		}
		for _, c := range in { // in order, so that nothing that a compiler reads is missing
			if c >= 0x20 && c < 0x7f || c == '\n' {
				i := strings.IndexByte(want[at:], c)
				if i < 0 {
					t.Fatalf("%q is missing in %q", c, want)
				}
				at += i + 1
			}
		}
	})
}
