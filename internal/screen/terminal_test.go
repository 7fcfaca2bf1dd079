package screen

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func filtered(t testing.TB, in string, cuts ...byte) string {
	t.Helper()
	var b bytes.Buffer
	if cuts == nil {
		cuts = []byte{255}
	}
	pieces(t, NewTerminalFilter(&b), []byte(in), cuts)
	return b.String()
}

func TestTerminalPasses(t *testing.T) {
	for name, s := range map[string]string{
		"text": "héllo 日本 👩‍💻\r\n\tx\b", "colours": "\x1b[1;38;5;200m\x1b[38:2::1:2:3m\x1b[4:3m\x1b[m", "cursor": "\x1b[A\x1b[10;20H\x1b[5G\x1b7\x1b8\x1b[s\x1b[u\x1bM",
		"erase": "\x1b[2J\x1b[K\x1b[?K\x1b[3X\x1b[P\x1b[L", "region": "\x1b[2;20r\x1b[S\x1b[T", "alternate": "\x1b[?1049h\x1b[?1049l",
		"paste and mouse": "\x1b[?2004h\x1b[?1000;1006h\x1b[?1004l", "keypad": "\x1b=\x1b>\x1b[?1h", "synchronised": "\x1b[?2026h",
		"kitty keys": "\x1b[>1u\x1b[=5;1u\x1b[<u\x1b[?u", "modify other keys": "\x1b[>4;2m\x1b[>4n", "shape": "\x1b[2 q", "soft reset": "\x1b[!p",
		"line drawing": "\x1b(0lqk\x1b(B\x0e\x0f", "repeat": "-\x1b[10b", "insert": "\x1b[4h\x1b[4l",
	} {
		t.Run(name, func(t *testing.T) {
			if got := filtered(t, s); got != s {
				t.Errorf("got %q, want %q", got, s)
			}
		})
	}
}

func TestTerminalDrops(t *testing.T) {
	for name, s := range map[string]string{
		"title": "\x1b]0;x\x07", "title by ST": "\x1b]2;x\x1b\\", "clipboard": "\x1b]52;c;eA==\x07", "link": "\x1b]8;;http://x\x1b\\", "palette": "\x1b]4;1;?\x07",
		"notification": "\x1b]9;x\x07", "file transfer": "\x1b]1337;File=:eA==\x07", "OSC in 8 bits": "\u009d52;c;x\u009c",
		"DCS": "\x1bP$qm\x1b\\", "sixel": "\x1bPq#0\x1b\\", "tmux": "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\", "APC": "\x1b_Gx\x1b\\", "PM": "\x1b^x\x1b\\", "SOS": "\x1bXx\x1b\\",
		"DA": "\x1b[c\x1b[0c\x1b[>c\x1b[=c", "DECID": "\x1bZ", "DSR": "\x1b[5n\x1b[6n\x1b[?6n", "DECRQM": "\x1b[?25$p\x1b[4$p", "XTVERSION": "\x1b[>q", "DECREQTPARM": "\x1b[x",
		"window": "\x1b[18t\x1b[21t\x1b[8;10;10t\x1b[22;0t", "print": "\x1b[i\x1b[5i\x1b[?5i", "answerback": "\x05", "bell": "\x07",
		"full reset": "\x1bc", "align": "\x1b#8", "locking shift": "\x1bn\x1bo\x1b|", "8-bit mode": "\x1b G", "charset off UTF-8": "\x1b%@",
		"unknown modes": "\x1b[?2031h\x1b[?3h\x1b[?40h\x1b[20h\x1b[?25;2031h", "mode save": "\x1b[?1000s\x1b[?1000r", "mouse highlight": "\x1b[1;2;3;4;5T",
		"repeat bomb": "\x1b[999999999b", "rectangle": "\x1b[1;1;2;2$z", "pointer": "\x1b[>2p", "signed": "\x1b[+5A", "keyboard answer": "\x1b[97;5u\x1b[?5u", "title modes": "\x1b[>2t",
		"load leds": "\x1b[1q", "private in the middle": "\x1b[1?25h", "NUL and DEL": "\x00\x7f", "C1": "\u0084\u0090x\u009c", "too long": "\x1b[" + strings.Repeat("1;", 200) + "m",
		"unterminated": "\x1b[31", "unterminated OSC": "\x1b]0;x", "lone escape": "\x1b", "separators": "\u2028\u2029",
	} {
		t.Run(name, func(t *testing.T) {
			if got := filtered(t, "a"+s); got != "a" {
				t.Errorf("%q let %q through", s, got)
			}
		})
	}
}

func TestTerminalGoesOn(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b]0;x\x07b\x1b[1mc":           "b\x1b[1mc",
		"\x1b]0;x\x1b[31mb":               "\x1b[31mb",
		"\x1b[3\x18b":                     "b",
		"\x1b[3\x1b[1mb":                  "\x1b[1mb",
		"\x1b[3\nb":                       "\nb",
		"\x1bé":                           "é",
		"a\x9b31mb":                       "a\ufffd31mb",
		"\x1bPx\x07y\x1b\\b":              "b",
		"a\xe2\x9b":                       "a\ufffd\ufffd",
		"\x1bP\x1b\x1b]52;c;x\x07\x1b\\b": "b",
	} {
		if got := filtered(t, in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestTerminalEndlessStringCostsNothing(t *testing.T) {
	f := NewTerminalFilter(failing{}) // fails if anything is written
	chunk := bytes.Repeat([]byte("x"), 1<<16)
	if _, err := f.Write([]byte("\x1b]52;")); err != nil {
		t.Fatal(err)
	}
	for range 256 {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if cap(f.seq) > 1024 || cap(f.out) > 1024 {
		t.Errorf("stores %d and %d bytes", cap(f.seq), cap(f.out))
	}
}

// passed is what the output may consist of, written down apart from the filter's own table.
var passed = regexp.MustCompile(`^(?:[^\x00-\x1f\x7f-\x{9f}]|[\x08-\x0f]|\x1b[78=>DEMH]|\x1b[()*+][0AB]|` +
	`\x1b\[[0-9;:]*m|\x1b\[(?:[0-9]{0,9})[A-GIZ\x60ade@JKXPLMSTbg]|\x1b\[[0-9;]*[Hfrs]|\x1b\[u|\x1b\[0*4[hl]|` +
	`\x1b\[\?[0-9;]+[hl]|\x1b\[\?[0-9]*[JK]|\x1b\[\?u|\x1b\[[<=>][0-9;]*u|\x1b\[>[0-9;]+[mn]|\x1b\[[0-9]* q|\x1b\[!p)*$`)

// FuzzTerminalFilter: what is let through is text and what the filter allows by name; the same in pieces and whole; filtering it again changes nothing.
func FuzzTerminalFilter(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "\x1b]52;c;x\x07y", "\xe2\x9b", "\x1b[?1049h\x1b[6n", "\u009b1m\x9d", "\x1bPx\x1b\x1b]0;\x9c", "\x1b(0\x1b[>1u\x1b[1 q"} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte(s), []byte{1, 0, 2})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		whole := filtered(t, string(in))
		if parts := filtered(t, string(in), append(bytes.Clone(cuts), 0)...); parts != whole {
			t.Fatalf("in pieces %q, whole %q", parts, whole)
		}
		if !utf8.ValidString(whole) || !passed.MatchString(whole) {
			t.Fatalf("let through %q", whole)
		}
		if again := filtered(t, whole); again != whole {
			t.Fatalf("not idempotent: %q, %q", whole, again)
		}
	})
}

// TestResetTakesBackEveryMode: each mode a program may set is reset, or does no harm and is named here.
func TestResetTakesBackEveryMode(t *testing.T) {
	harmless := map[int]string{12: "blinking", 45: "wrap backwards", 1007: "wheel in the alternate screen", 1048: "saves the cursor", 1049: "by 1047"}
	on := map[int]bool{7: true, 25: true} // modes whose normal state is set
	for _, m := range screenModes {
		final := "l"
		if on[m] {
			final = "h"
		}
		want := "\x1b[?" + Thousands(m) + final
		want = strings.ReplaceAll(want, ",", "")
		if harmless[m] == "" && m != 7 && m != 25 && !strings.Contains(Reset, want) || on[m] && !strings.Contains(Reset, want) {
			t.Errorf("mode %d is not taken back", m)
		}
	}
	if !strings.HasPrefix(Reset, "\x18\x1b\\") || !strings.HasSuffix(Reset, "\r\n") {
		t.Error("a reset must end an open string first and end on a fresh line")
	}
}
