package screen

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "hello\tworld\n", "hello\tworld\n"},
		{"unicode", "größe 日本語 ✔ \u00a0x", "größe 日本語 ✔ \u00a0x"},
		{"colour", "\x1b[31mred\x1b[0m", "red"},
		{"colon parameters", "\x1b[38:2::1:2:3mred", "red"},
		{"clear", "a\x1b[2J\x1b[Hb", "ab"},
		{"title", "a\x1b]0;evil\x07b", "ab"},
		{"clipboard by ST", "a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"},
		{"link", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"DCS", "a\x1bP$q\"p\x1b\\b", "ab"},
		{"APC PM SOS", "a\x1b_x\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d", "abcd"},
		{"charset", "\x1b(0lqk\x1b(B", "lqk"},
		{"two bytes", "a\x1b7\x1bcb", "ab"},
		{"CSI in 8 bits", "a\u009b31mb", "ab"},
		{"CSI in one byte", "a\x9b31mb", "ab"},
		{"OSC in one byte", "a\x9d0;x\x9cb", "ab"},
		{"OSC of U+009D", "a\u009d0;x\u009cb", "ab"},
		{"cut character is no CSI", "a\xe2\x9b31mb", "a<E2><9B>31mb"},
		{"broken earlier is no cut", "a\xe2" + strings.Repeat("b", 40) + "\x9b31mc", "a<E2>" + strings.Repeat("b", 40) + "c"},
		{"unterminated CSI", "a\x1b[31", "a"},
		{"unterminated OSC", "a\x1b]0;secret", "a"},
		{"unterminated OSC hides one line at most", "a\x1b]0;x\nshown", "a\nshown"},
		{"line feed ends CSI", "a\x1b[3\n1mb", "a\n1mb"},
		{"CAN ends CSI", "a\x1b[3\x18b", "ab"},
		{"escape in string", "a\x1b]0;x\x1b[31mb", "ab"},
		{"tmux wrap", "a\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\b", "ab"},
		{"lone escape", "a\x1b", "a"},
		{"escape and a letter beyond ASCII", "a\x1bé", "aé"},
		{"controls", "a\x00\x07\x08\x0b\x0c\x0e\x7fb", "ab"},
		{"C1", "a\u0085\u0080b", "ab"},
		{"NEL byte", "a\x85b", "a<85>b"},
		{"CRLF", "a\r\nb\r\r\nc", "a\nb\nc"},
		{"lone CR", "good\rbad", "good<CR>bad"},
		{"CR at the end", "x\r", "x<CR>"},
		{"bidi", "a\u202eb\u2066c", "a<U+202E>b<U+2066>c"},
		{"invisible", "a\u200bb\u00adc\ufeffd", "a<U+200B>b<U+00AD>c<U+FEFF>d"},
		{"separators", "a\u2028b\u2029c", "a<U+2028>b<U+2029>c"},
		{"fillers", "a\u3164b\u115fc\u1160d\uffa0e", "a<U+3164>b<U+115F>c<U+1160>d<U+FFA0>e"},
		{"tags", "a\U000e0041b", "a<U+E0041>b"},
		{"variation", "✔\ufe0f\U000e0100", "✔<U+FE0F><U+E0100>"},
		{"grapheme joiner", "a\u034fb", "a<U+034F>b"},
		{"private use", "\ue0b0", "<U+E0B0>"},
		{"not UTF-8", "a\xffb\xc3", "a<FF>b<C3>"},
		{"surrogate", "\xed\xa0\x80", "<ED><A0><80>"},
		{"overlong", "\xc0\xaf", "<C0><AF>"},
		{"replacement character itself", "\ufffd", "\ufffd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Text([]byte(c.in)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	if got, want := Line("a\nb\tc\r\nd\x1b[1m"), "a<LF>b c<LF>d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTextNeverHidesMuch: one sequence cannot blank all output that follows.
func TestTextNeverHidesMuch(t *testing.T) {
	for _, open := range []string{"\x1b]0;", "\x1bP", "\x9f"} {
		in := open + strings.Repeat("x", maxString+100) + "END"
		if got := Text([]byte(in)); !strings.HasSuffix(got, "END") || len(got) > 200 {
			t.Errorf("%q: %d bytes shown", open, len(got))
		}
	}
	if got := Text([]byte("\x1b[" + strings.Repeat("1", 1000) + "END")); !strings.HasSuffix(got, "END") {
		t.Errorf("CSI: got %q", got)
	}
}

// safe is the law of everything that is shown.
func safe(t *testing.T, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Fatalf("not UTF-8: %q", out)
	}
	for _, r := range out {
		if r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Bidi_Control, unicode.Variation_Selector)) {
			t.Fatalf("%U in %q", r, out)
		}
	}
}

// pieces writes b to w in parts whose lengths are the bytes of cuts, in turn.
func pieces(t testing.TB, w io.WriteCloser, b, cuts []byte) {
	t.Helper()
	for i := 0; len(b) > 0; i++ {
		n := 1
		if len(cuts) > 0 {
			n = 1 + int(cuts[i%len(cuts)])
		}
		n = min(n, len(b))
		if m, err := w.Write(b[:n]); m != n || err != nil {
			t.Fatalf("write: %d, %v", m, err)
		}
		b = b[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzText: what is shown is safe; the same in pieces and whole; neutralising it again changes nothing; a line is one line.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "\x1b]52;c;x\x07", "\xe2\x9b", "a\r\nb\rc", "\u202e\u009b1m\x9d", "\x1bPx\x1b\x1b]0;\x9c", "é\xff日", "\xffb\x9b1mc"} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte(s), []byte{1, 0, 2})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		out := Text(in)
		safe(t, out)
		if again := Text([]byte(out)); again != out {
			t.Fatalf("not idempotent: %q, %q", out, again)
		}
		if l := Line(string(in)); strings.ContainsAny(l, "\n\t") {
			t.Fatalf("line %q", l)
		}
		var b bytes.Buffer
		pieces(t, NewWriter(&b), in, cuts)
		if b.String() != out {
			t.Fatalf("in pieces %q, whole %q", b.String(), out)
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWritersReportErrors(t *testing.T) {
	r, err := NewRedactor(map[string][]byte{"A": []byte("12345678")})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]io.Writer{"text": NewWriter(failing{}), "redactor": r.Writer(failing{}), "terminal": NewTerminalFilter(failing{})} {
		if _, err := w.Write([]byte("hello")); err == nil {
			t.Errorf("%s swallowed an error", name)
		}
	}
}
