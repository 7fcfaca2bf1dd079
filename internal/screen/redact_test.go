package screen

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

func redactor(t testing.TB, secrets map[string][]byte) *Redactor {
	t.Helper()
	r, err := NewRedactor(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRedactForms(t *testing.T) {
	const secret = "s3cr/t \"<value>\"+=é"
	r := redactor(t, map[string][]byte{"TOKEN": []byte(secret + "\n")})
	encoded, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"plain": secret, "json": strings.Trim(string(encoded), `"`), "json without html": `s3cr/t \"<value>\"+=é`,
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "query in lower case": strings.ReplaceAll(url.QueryEscape(secret), "%2F", "%2f"),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		if name == "query in lower case" {
			form = percent.ReplaceAllStringFunc(form, strings.ToLower)
		}
		if got := string(r.Bytes([]byte("a " + form + " b"))); got != "a [redacted:TOKEN] b" {
			t.Errorf("%s: %q gave %q", name, form, got)
		}
	}
	if r.Counts()["TOKEN"] != 8 {
		t.Errorf("counts %v", r.Counts())
	}
}

// TestRedactBase64: found in base64 of anything around it, at each alignment and in both alphabets.
func TestRedactBase64(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for i := range 2000 {
		secret := random(MinSecretBytes + rnd.IntN(40))
		secret[len(secret)-1] = 'x' // not an end of line, which would not count
		r := redactor(t, map[string][]byte{"S": secret})
		text := bytes.Join([][]byte{random(rnd.IntN(7)), secret, random(rnd.IntN(7))}, nil)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			if got := r.Bytes([]byte(enc.EncodeToString(text))); !bytes.Contains(got, []byte("[redacted:S]")) {
				t.Fatalf("trial %d: %x in %x was missed: %s", i, secret, text, got)
			}
		}
	}
}

func TestRedactOverlapAndLength(t *testing.T) {
	r := redactor(t, map[string][]byte{"SHORT": []byte("password"), "LONG": []byte("password-of-the-king"), "NEXT": []byte("king-arthur")})
	for in, want := range map[string]string{
		"password":                                "[redacted:SHORT]",
		"password-of-the-king":                    "[redacted:LONG]",
		"password-of-the-kin":                     "[redacted:SHORT]-of-the-kin",
		"password-of-the-king-arthur":             "[redacted:LONG]",
		"passwordpassword":                        "[redacted:SHORT][redacted:SHORT]",
		"passwor":                                 "passwor",
		"passwopassword":                          "passwo[redacted:SHORT]",
		"password-of-the-king, password, no pass": "[redacted:LONG], [redacted:SHORT], no pass",
	} {
		if got := string(r.Bytes([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestRedactLines(t *testing.T) {
	key := "-----BEGIN KEY-----\nAAAABBBBCCCC\r\nshort\nDDDDEEEEFFFF\n-----END KEY-----\n"
	r := redactor(t, map[string][]byte{"KEY": []byte(key)})
	got := string(r.Bytes([]byte("x AAAABBBBCCCC\n short \nDDDDEEEEFFFF -----BEGIN KEY-----\n")))
	if want := "x [redacted:KEY]\n short \n[redacted:KEY] -----BEGIN KEY-----\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRedactHoldsBackLittle(t *testing.T) {
	r := redactor(t, map[string][]byte{"T": []byte("zzzzsecret")})
	var b bytes.Buffer
	w := r.Writer(&b)
	for _, s := range []struct{ in, shown string }{{"prompt> ", "prompt> "}, {"zzzz", "prompt> "}, {"!", "prompt> zzzz!"}, {"zzzzsecre", "prompt> zzzz!"}, {"t", "prompt> zzzz![redacted:T]"}, {"zz", "prompt> zzzz![redacted:T]"}} {
		if _, err := w.Write([]byte(s.in)); err != nil {
			t.Fatal(err)
		}
		if b.String() != s.shown {
			t.Errorf("after %q: %q, want %q", s.in, b.String(), s.shown)
		}
	}
	if err := w.Close(); err != nil || !strings.HasSuffix(b.String(), "]zz") {
		t.Errorf("close: %v, %q", err, b.String())
	}
}

func TestRedactorRefuses(t *testing.T) {
	for name, value := range map[string]string{"A": "1234567", "B": "", "C": "1234567\r\n\n", "D": "redacted", "E": "xx[redacted:yy", "bad name": "12345678", "": "12345678", "new\nline": "12345678"} {
		_, err := NewRedactor(map[string][]byte{name: []byte(value)})
		if sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
		if err != nil && len(value) > 3 && name != "D" && strings.Contains(err.Error(), strings.TrimSpace(value)) {
			t.Errorf("the error shows the value: %v", err)
		}
	}
	if got := string(redactor(t, nil).Bytes([]byte("hello"))); got != "hello" {
		t.Errorf("without secrets: %q", got)
	}
}

// FuzzRedact: the output holds no form of a secret, however the stream is cut, and everything else is kept.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("aaaabbbb"), []byte("aabbaabb"), []byte("xaaaabbbbaabbaabb"), []byte{0})
	f.Add([]byte("aaaaaaaa"), []byte("aaaaaaaaa"), []byte("aaaaaaaaaaaaaaaaaaaa"), []byte{2, 0})
	f.Add([]byte("abcdefgh"), []byte("efghijkl"), []byte("abcdefghijkl"), []byte{3})
	f.Fuzz(func(t *testing.T, s1, s2, text, cuts []byte) {
		// Brackets are left out: a secret that begins with "]" can be made from a mark and the text behind it.
		if len(s1) > 64 || len(s2) > 64 || bytes.ContainsAny(slices.Concat(s1, s2), "[]") {
			return
		}
		r, err := NewRedactor(map[string][]byte{"ONE": s1, "TWO": s2})
		if err != nil {
			return
		}
		// Plant both, so that the text does hold secrets.
		text = bytes.Join([][]byte{text, s1, text, []byte(hex.EncodeToString(s2)), s2, text}, nil)
		whole := r.Bytes(text)
		for _, list := range r.byFirst {
			for _, p := range list {
				if bytes.Contains(whole, p.bytes) {
					t.Fatalf("%q is left in %q", p.bytes, whole)
				}
			}
		}
		var b bytes.Buffer
		pieces(t, r.Writer(&b), text, cuts)
		if !bytes.Equal(b.Bytes(), whole) {
			t.Fatalf("in pieces %q, whole %q", b.Bytes(), whole)
		}
		// What stands between the marks is in the input, in order.
		rest := text
		for _, part := range bytes.FieldsFunc(bytes.ReplaceAll(bytes.ReplaceAll(whole, []byte("[redacted:ONE]"), []byte{0}), []byte("[redacted:TWO]"), []byte{0}), func(r rune) bool { return r == 0 }) {
			i := bytes.Index(rest, part)
			if i < 0 {
				t.Fatalf("%q is not in what is left of the input", part)
			}
			rest = rest[i+len(part):]
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	secrets := map[string][]byte{}
	for i := range 10 {
		secrets[string(rune('A'+i))] = []byte(strings.Repeat(string(rune('a'+i)), 4) + "-0123456789-secret-value-abcdefghij")
	}
	r := redactor(b, secrets)
	text := bytes.Repeat([]byte("=== RUN TestSomething/with_a_name\n    file_test.go:42: all is well, 0.01s\n"), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Bytes(text)
	}
}

func BenchmarkText(b *testing.B) {
	text := bytes.Repeat([]byte("=== RUN \x1b[32mTestSomething\x1b[0m/with_ä_name\r\n    file_test.go:42: all is well, 0.01s\n"), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Text(text)
	}
}

// TestLiveShowsTheEndOfALineAtOnce: whoever follows a log sees a line when it is written, also where its last
// characters could begin a secret; a secret that comes without a pause is redacted whole, and of one that is typed
// slowly at most its first three characters show.
func TestLiveShowsTheEndOfALineAtOnce(t *testing.T) {
	r, err := NewRedactor(map[string][]byte{"key": []byte("tango-foxtrot-0123456789")})
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	var mu sync.Mutex
	var got bytes.Buffer
	text := func() string { mu.Lock(); defer mu.Unlock(); return got.String() }
	w := r.Live(writerFunc(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return got.Write(p) }), &n)
	write := func(s string) {
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); text() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q, want %q", text(), want)
			}
		}
	}
	write("hello from the agent\x1b[0m\r\n")
	shows("hello from the agent\x1b[0m\r\n")
	write("tan")
	shows("hello from the agent\x1b[0m\r\ntan")
	write("go-foxtrot-01")
	write("23456789 end\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "hello from the agent\x1b[0m\r\ntan[redacted:key] end\n"; text() != want || n != 1 {
		t.Errorf("%q, %d times; want %q", text(), n, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
