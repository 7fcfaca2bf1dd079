package forge

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// raw is a server that reads a request and then does what it likes with the connection.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 64<<10)) // what it says does not matter
				answer(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func ask(ctx context.Context, base, method string) error {
	client, err := NewClient("")
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var into struct{ Number int }
	r := REST{Base: base, Client: client, Deadline: time.Second}
	_, err = r.Do(ctx, Request{Op: "ask", Subject: base, Method: method, Path: "/x", Send: map[string]string{"a": "b"}, Into: &into,
		Check: func() bool { return into.Number > 0 }})
	return err
}

// What is known of an outcome depends on how far the request came, not on what net/http calls the failure.
func TestOutcomeOnTheWire(t *testing.T) {
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	write := func(s string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, s) }
	}
	for _, c := range []struct {
		what, base  string
		read, write sallyport.Code
	}{
		{"nobody listens", "http://127.0.0.1:1", sallyport.CodeUnavailable, sallyport.CodeUnavailable},
		{"no such host", "http://forge.invalid", sallyport.CodeUnavailable, sallyport.CodeUnavailable},
		{"a certificate that nobody vouches for", tls.URL, sallyport.CodeUnavailable, sallyport.CodeUnavailable},
		{"cut after the request", raw(t, write("")), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"cut in the headers", raw(t, write("HTTP/1.1 201 Crea")), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"cut in the body", raw(t, write("HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{\"number\":")), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"cut in a refusal's body", raw(t, write("HTTP/1.1 409 Conflict\r\nContent-Length: 99\r\n\r\n{\"mess")), sallyport.CodeConflict, sallyport.CodeConflict},
		{"not HTTP", raw(t, write("SSH-2.0-x\r\n")), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"nothing comes", raw(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"too large a header", raw(t, write("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20))), sallyport.CodeUnavailable, sallyport.CodeUnknown},
		{"not what was asked", raw(t, write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")), sallyport.CodeUnavailable, sallyport.CodeUnknown},
	} {
		t.Run(c.what, func(t *testing.T) {
			for method, want := range map[string]sallyport.Code{http.MethodGet: c.read, http.MethodPost: c.write, http.MethodPatch: c.write, http.MethodDelete: c.write} {
				began := time.Now()
				err := ask(t.Context(), c.base, method)
				if err == nil || sallyport.CodeOf(err) != want || time.Since(began) > 10*time.Second {
					t.Errorf("%s: %v (%v) after %v, expected %v", method, err, sallyport.CodeOf(err), time.Since(began), want)
				}
			}
		})
	}
}

func TestCodesOfAnswers(t *testing.T) {
	for status, want := range map[int]sallyport.Code{
		400: sallyport.CodeInvalid, 401: sallyport.CodeDenied, 403: sallyport.CodeDenied, 404: sallyport.CodeNotFound, 405: sallyport.CodeInvalid,
		408: sallyport.CodeUnavailable, 409: sallyport.CodeConflict, 410: sallyport.CodeNotFound, 422: sallyport.CodeInvalid, 423: sallyport.CodeDenied,
		425: sallyport.CodeUnavailable, 429: sallyport.CodeUnavailable, 451: sallyport.CodeDenied,
		500: sallyport.CodeUnavailable, 502: sallyport.CodeUnknown, 503: sallyport.CodeUnavailable, 504: sallyport.CodeUnknown, 599: sallyport.CodeUnavailable,
		300: sallyport.CodeInvalid, 304: sallyport.CodeInvalid,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		err := ask(t.Context(), server.URL, http.MethodPost)
		server.Close()
		if err == nil || sallyport.CodeOf(err) != want {
			t.Errorf("%d: %v (%v), expected %v", status, err, sallyport.CodeOf(err), want)
		}
	}
}

func TestLater(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		headers string // name=value, by blanks
		want    time.Duration
	}{
		{"Retry-After=120", 2 * time.Minute},
		{"Retry-After=0", 0},
		{"Retry-After=Mon,_30_Nov_2026_12:00:30_GMT", 30 * time.Second},
		{"Retry-After=999999999999", 24 * time.Hour},
		{"X-RateLimit-Remaining=0 X-RateLimit-Reset=1796040060", time.Minute},
		{"RateLimit-Remaining=0 RateLimit-Reset=1796040060", time.Minute},
		{"X-RateLimit-Remaining=0 X-RateLimit-Reset=1896040060", 24 * time.Hour},
		{"Retry-After=5 X-RateLimit-Remaining=0 X-RateLimit-Reset=1796040060", 5 * time.Second},
		{"X-RateLimit-Remaining=7 X-RateLimit-Reset=1796040060", -1},
		{"X-RateLimit-Remaining=0 X-RateLimit-Reset=soon", -1},
		{"Retry-After=-5", -1},
		{"Retry-After=soon", -1},
		{"", -1},
	} {
		h := http.Header{}
		for _, kv := range strings.Fields(c.headers) {
			k, v, _ := strings.Cut(kv, "=")
			h.Set(k, strings.ReplaceAll(v, "_", " "))
		}
		got := laterOf(h, now)
		switch {
		case c.want < 0 && got != nil:
			t.Errorf("%q: %v", c.headers, got)
		case c.want >= 0 && (got == nil || !got.Until.Equal(now.Add(c.want))):
			t.Errorf("%q: %v, expected in %v", c.headers, got, c.want)
		}
	}
}

// GitHub answers 403 where others say 429.
func TestForbiddenByARateLimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", "1796040060")
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	err := ask(t.Context(), server.URL, http.MethodGet)
	var later *Later
	if sallyport.CodeOf(err) != sallyport.CodeUnavailable || !errors.As(err, &later) {
		t.Errorf("%v (%v)", err, sallyport.CodeOf(err))
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		" a\n\tb\r\n c ":           "a b c",
		"\x1b[2Jx\u202ey\x00":      "?[2Jx?y?",
		"token s3cret, s3cret":     "token [secret], [secret]",
		strings.Repeat("é", 1000):  strings.Repeat("?", 299) + "~",
		strings.Repeat("ab", 150):  strings.Repeat("ab", 150),
		strings.Repeat("ab", 1500): strings.Repeat("ab", 149) + "a~",
	} {
		if got := Words(in, "s3cret", ""); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
}

func TestClientWithCertificates(t *testing.T) {
	for _, file := range []string{"/nonexistent/ca.pem", "rest_test.go"} {
		if _, err := NewClient(file); err == nil || sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: %v", file, err)
		}
	}
}
