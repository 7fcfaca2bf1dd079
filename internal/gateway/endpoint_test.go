package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestCheckEndpoint(t *testing.T) {
	good := sallyport.Endpoint{Upstream: "https://api.example.com", Paths: []string{"/v1/messages", "/v1/messages?beta=true"}, Listen: 8899, Header: "authorization", Prefix: "Bearer "}
	if err := Check(good); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, field string
		change      func(*sallyport.Endpoint)
	}{
		{"no scheme", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "api.example.com" }},
		{"http to the world", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "http://api.example.com" }},
		{"http to a private address", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "http://10.0.0.1" }},
		{"other scheme", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "ftp://127.0.0.1" }},
		{"path", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "https://api.example.com/" }},
		{"user", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "https://u:p@api.example.com" }},
		{"query", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "https://api.example.com?x" }},
		{"fragment", "upstream", func(e *sallyport.Endpoint) { e.Upstream = "https://api.example.com#" }},
		{"relative path", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"v1/messages"} }},
		{"absolute target", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"https://x/v1"} }},
		{"double slash", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"//evil/v1"} }},
		{"dots", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"/v1/../x"} }},
		{"escape", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"/v1%2fx"} }},
		{"parameter", "paths", func(e *sallyport.Endpoint) { e.Paths = []string{"/v1;x"} }},
		{"port", "listen", func(e *sallyport.Endpoint) { e.Listen = 0 }},
		{"header", "header", func(e *sallyport.Endpoint) { e.Header = "" }},
		{"hop header", "header", func(e *sallyport.Endpoint) { e.Header = "Host" }},
		{"header injection", "header", func(e *sallyport.Endpoint) { e.Header = "x:\r\ny" }},
		{"prefix injection", "prefix", func(e *sallyport.Endpoint) { e.Prefix = "a\r\nb: " }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := good
			c.change(&e)
			var got *sallyport.Error
			if err := Check(e); !errors.As(err, &got) || got.Code != sallyport.CodeInvalid || got.Subject != c.field {
				t.Fatalf("got %v, expected invalid %s", err, c.field)
			}
		})
	}
}

// FuzzTarget: what is accepted is sent exactly as it was compared, and no
// cleaning or decoding by anybody after us changes it.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/v1/messages", "/v1/messages?beta=true", "//x", "/a/../b", "/a%2fb", "/a?b?c", "/\\x", "/a b", "*", "http://x/", "/a#b", "/é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseTarget(s)
		if err != nil {
			return
		}
		u.Scheme, u.Host = "https", "api.example.com"
		q := http.Request{Method: "POST", URL: u}
		var b strings.Builder
		if err := q.Write(&b); err != nil || !strings.HasPrefix(b.String(), "POST "+s+" HTTP/1.1\r\nHost: api.example.com\r\n") {
			t.Fatalf("%q is sent as %q (%v)", s, b.String(), err)
		}
		path, _, _ := strings.Cut(s, "?")
		if clean, err := url.JoinPath("https://x", path); err != nil || clean != "https://x"+path {
			t.Fatalf("%q is cleaned to %q", path, clean)
		}
	})
}

// What Usable takes, a server sends; what it refuses never leaves, and is not in the error.
func TestUsable(t *testing.T) {
	for value, ok := range map[string]bool{
		"sk-0123456789abcdef": true, "": false, "sk-short": false, "sk-0123456789 abcdef": false,
		"sk-0123456789\tabcdef": false, "sk-0123456789\nabcdef": false, "sk-0123456789\x00abcdef": false,
	} {
		err := Usable(value)
		if (err == nil) != ok || !ok && sallyport.CodeOf(err) != sallyport.CodeInvalid || err != nil && value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
