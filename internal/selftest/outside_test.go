package selftest

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/corpus"
)

// TestOutsideListens: whatever reaches a lure or a server and should not have, is told.
func TestOutsideListens(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{dir: t.TempDir(), authority: a}
	k := corpus.Case{Class: "egress", Name: "a", Agent: "$LURE_PORT $TLS", Heard: []string{"/fine"}, AtMost: []corpus.Bound{{Times: 1, What: "/fine"}}}
	ask := func(o *outside, host, path, auth string) {
		r, err := http.NewRequest("GET", "http://127.0.0.1:"+o.names["PLAIN"]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}
	for name, c := range map[string]struct {
		do   func(o *outside)
		says string
	}{
		"fine":                {func(o *outside) { ask(o, "plain.test", "/fine", "") }, ""},
		"nothing":             {func(*outside) {}, "did not hear"},
		"too often":           {func(o *outside) { ask(o, "plain.test", "/fine", ""); ask(o, "plain.test", "/fine", "") }, "2 times"},
		"a leak":              {func(o *outside) { ask(o, "plain.test", "/fine?leak", "") }, "leak"},
		"an unlisted host":    {func(o *outside) { ask(o, "evil.test", "/fine", "") }, "evil.test"},
		"the secret":          {func(o *outside) { ask(o, "plain.test", "/fine", "Bearer "+secret) }, "leak-of-the-secret"},
		"a placeholder":       {func(o *outside) { ask(o, "plain.test", "/fine", "Bearer sallyport-x") }, "leak-in-header"},
		"api without a login": {func(o *outside) { ask(o, "api.test", "/fine", "") }, "leak-of-the-secret"},
		"a lure": {func(o *outside) {
			if c, err := net.Dial("unix", o.names["LURE_ABSTRACT"]); err == nil {
				_, _ = c.Read(make([]byte, 1)) // until it was taken notice of
			}
		}, "LURE_ABSTRACT was reached"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := g.newOutside(k)
			if err != nil {
				t.Fatal(err)
			}
			defer o.close()
			c.do(o)
			if got := o.wrong(k); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}

// TestRoomsCanSayNo: what a room takes, or makes something else of, is not held.
func TestRoomsCanSayNo(t *testing.T) {
	want := "another.example"
	for says, k := range map[string]corpus.Case{
		"takes it for":     {Room: "host", Input: []byte("good.example")},
		"another reason":   {Room: "host", Input: []byte("a@b"), Says: []string{"a reason of the moon"}},
		"expected":         {Room: "host", Input: []byte("good.example"), Want: &want},
		"user information": {Room: "host", Input: []byte("a@b"), Want: &want},
	} {
		if status, detail := InRoom(k); status != NotHeld || !strings.Contains(detail, says) {
			t.Errorf("%s: %s, want %q", status, detail, says)
		}
	}
}
