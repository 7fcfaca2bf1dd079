package screen

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
)

// spell lists every way in which a stream may hold a secret and must not keep it.
func spell(t testing.TB, secret string) map[string]string {
	t.Helper()
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	upperHex := strings.ToUpper(hex.EncodeToString([]byte(secret)))
	var percent, wide strings.Builder
	for i := range len(secret) {
		fmt.Fprintf(&percent, "%%%02X", secret[i])
	}
	for _, u := range utf16.Encode([]rune(secret)) {
		wide.WriteByte(byte(u))
		wide.WriteByte(byte(u >> 8))
	}
	half := len(secret) / 2
	all := map[string]string{
		"exact": secret, "json": strings.Trim(string(quoted), `"`), "json with escaped slashes": strings.ReplaceAll(strings.Trim(string(quoted), `"`), "/", `\/`),
		"url query": url.QueryEscape(secret), "url path": url.PathEscape(secret), "every byte escaped": percent.String(),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": upperHex, "utf-16": wide.String(),
		"colour inside": secret[:3] + "\x1b[1;31m" + secret[3:half] + "\x1b[0m" + secret[half:], "title inside": secret[:half] + "\x1b]0;a title\x07" + secret[half:],
		"bell inside": secret[:half] + "\a" + secret[half:], "wrapped": secret[:half] + "\r\n" + secret[half:],
		"wrapped base64": base64.StdEncoding.EncodeToString([]byte("aaa" + secret))[:12] + "\n" + base64.StdEncoding.EncodeToString([]byte("aaa" + secret))[12:],
	}
	for shift := range 3 {
		text := strings.Repeat("p", 3+shift) + secret + "s"
		all[fmt.Sprintf("base64, alignment %d", shift)] = base64.StdEncoding.EncodeToString([]byte(text))
		all[fmt.Sprintf("base64url, alignment %d", shift)] = base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	return all
}

// told is what a reader could get out of bytes: it takes away what hides and undoes each encoding.
func told(b []byte) string {
	plain := strings.NewReplacer("\n", "", "\x00", "").Replace(Text(b))
	out := plain
	if u, err := url.PathUnescape(plain); err == nil {
		out += "\n" + u
	}
	for _, word := range strings.FieldsFunc(plain, func(r rune) bool { return strings.ContainsRune(" <>[]", r) }) {
		if h, err := hex.DecodeString(word); err == nil {
			out += "\n" + string(h)
		}
		word = strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(word)
		if d, err := base64.RawStdEncoding.DecodeString(word); err == nil {
			out += "\n" + string(d)
		}
	}
	return out
}

// TestNoSpellingArrives: whichever way it is spelled, and wherever the stream is cut, nothing of the secret
// beyond what an encoding's neighbours share arrives.
func TestNoSpellingArrives(t *testing.T) {
	for _, secret := range []string{"sk-ant-" + "x9/Q+b7 \"K<m>=Ptz", "0123abcd" + "XYZW/9+"} {
		r := redactor(t, map[string][]byte{"KEY": []byte(secret)})
		for name, form := range spell(t, secret) {
			if !strings.Contains(told([]byte("a "+form+" b")), secret) && !strings.Contains(name, "json") && name != "url query" {
				t.Fatalf("%s: the test would not notice it", name)
			}
			text := "before " + form + " after"
			for cut := range len(text) + 1 {
				var b bytes.Buffer
				w := r.Writer(&b)
				for _, p := range []string{text[:cut], text[cut:]} {
					if _, err := w.Write([]byte(p)); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				got := b.String()
				if !strings.Contains(got, Mark("KEY")) || strings.Contains(told(b.Bytes()), secret) || strings.Contains(got, form) {
					t.Fatalf("%s, cut at %d: %q", name, cut, got)
				}
				if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
					t.Fatalf("%s, cut at %d: what stands around it is lost: %q", name, cut, got)
				}
			}
		}
	}
}

// TestOneByteAtATime is the slowest stream there is, and of a secret of several lines.
func TestOneByteAtATime(t *testing.T) {
	key := "first-line-of-it\nsecond-line-of-it\nx\n"
	r := redactor(t, map[string][]byte{"KEY": []byte(key)})
	for name, text := range map[string]string{"whole": "a " + key + "b", "a line": "a second-line-of-it b", "a terminal's": "a " + strings.ReplaceAll(key, "\n", "\r\n") + "b", "as one line": "a first-line-of-itsecond-line-of-it b"} {
		var b bytes.Buffer
		w := r.Writer(&b)
		for i := range len(text) {
			if _, err := w.Write([]byte{text[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.Contains(got, "line-of-it") || !strings.HasPrefix(got, "a [redacted:KEY]") || !strings.HasSuffix(got, "b") {
			t.Errorf("%s: %q", name, got)
		}
		if !bytes.Equal(b.Bytes(), r.Bytes([]byte(text))) {
			t.Errorf("%s: at once it is %q", name, r.Bytes([]byte(text)))
		}
	}
}

func TestWhatIsNoSecretIsKept(t *testing.T) {
	r := redactor(t, map[string][]byte{"KEY": []byte("sk-ant-0123456789")})
	for _, text := range []string{"", "plain\n", "\x1b[31mred\x1b[0m\r\n", "sk-ant-01234", "s\nk\n-\n", "\x1b", "\x1b]0;unterminated", "\x00\x00", "sk-ant-\x1b[0m01234", strings.Repeat("long line ", 10000), "ünïcode \u202e"} {
		if got := string(r.Bytes([]byte(text))); got != text {
			t.Errorf("%.60q became %.60q", text, got)
		}
	}
}

// TestTerminalEchoes: what a person types is seen at once, though it could begin a secret; the secret is not.
func TestTerminalEchoes(t *testing.T) {
	r := redactor(t, map[string][]byte{"KEY": []byte("sk-ant-0123456789")})
	var b bytes.Buffer
	w := r.Terminal(&b)
	for _, s := range []struct{ in, shown string }{{"$ ", "$ "}, {"s", "$ s"}, {"k", "$ sk"}, {"-", "$ sk-"}, {"a", "$ sk-"}, {"x", "$ sk-ax"}, {" sk-", "$ sk-ax sk-"}, {"ant-012345678", "$ sk-ax sk-"}, {"9", "$ sk-ax sk-[redacted:KEY]"}, {"!\x1b[", "$ sk-ax sk-[redacted:KEY]!\x1b["}} {
		if _, err := w.Write([]byte(s.in)); err != nil {
			t.Fatal(err)
		}
		if b.String() != s.shown {
			t.Fatalf("after %q: %q, want %q", s.in, b.String(), s.shown)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	r := redactor(t, map[string][]byte{"B": []byte("password-of-b"), "A": []byte("password-of-a")})
	if got := r.Names([]byte("x password-of-a " + hex.EncodeToString([]byte("password-of-b")))); strings.Join(got, " ") != "A B" {
		t.Errorf("%v", got)
	}
	if got := r.Names([]byte("password")); got != nil || len(r.Counts()) != 0 {
		t.Errorf("%v, %v", got, r.Counts())
	}
}
