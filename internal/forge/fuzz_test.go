package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// FuzzCheckRef: a ref that may be pushed is one to git-check-ref-format(1) too, and no option, pattern or refspec.
func FuzzCheckRef(f *testing.F) {
	bin, err := exec.LookPath("git")
	if err != nil {
		f.Fatal("this test needs git")
	}
	for _, s := range []string{"refs/heads/a", "refs/heads/sallyport/a.b", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/a:b", "refs/heads/@", "refs/heads/a@{1}", "refs/*", "refs/heads//a", "refs/heads/a/", "refs/\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if checkRef(git{}, ref) != nil {
			return
		}
		if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, ":*?[\\ \n\x00") {
			t.Fatalf("%q passes", ref)
		}
		if err := exec.Command(bin, "check-ref-format", ref).Run(); err != nil {
			t.Fatalf("%q passes, and git refuses it (%v)", ref, err)
		}
	})
}

// answering is a forge that says one thing.
type answering struct {
	status int
	header http.Header
	body   []byte
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// FuzzAnswerOfAForge: whatever a forge answers, a write that was not plainly refused is never told as having had no effect;
// what is taken is JSON to another reader too; and no error holds the credential, or a byte that a terminal would obey.
func FuzzAnswerOfAForge(f *testing.F) {
	const secret = "s3cret-of-the-forge"
	f.Add(200, "", "", []byte(`{"number":1}`))
	f.Add(201, "", "", []byte(`{"number":0}`))
	f.Add(204, "", "", []byte(nil))
	f.Add(301, "Location", "https://u:p@evil.example/"+secret+"?q#f", []byte(nil))
	f.Add(403, "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT", []byte(`{"message":"`+secret+`"}`))
	f.Add(422, "X-RateLimit-Reset", "99999999999999999999", []byte(`{"message":"\u001b]0;x\u0007","errors":[{"message":"`+secret+`"}]}`))
	f.Add(502, "", "", []byte("<html>"))
	f.Add(599, "Retry-After", "-1", []byte(`{"error":{"a":"`+secret+`"}}`))
	f.Fuzz(func(t *testing.T, status int, name, value string, body []byte) {
		if status < 200 || status > 599 {
			return // net/http gives no other
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			var into struct {
				Number int `json:"number"`
			}
			r := REST{Base: "https://forge.example", Client: &http.Client{Transport: answering{status, http.Header{http.CanonicalHeaderKey(name): {value}}, body}}}
			_, err := r.Do(context.Background(), Request{Op: "ask", Subject: "forge.example", Method: method, Path: "/x", Secrets: []string{secret}, Into: &into,
				Check: func() bool { return into.Number > 0 }})
			if err == nil {
				var all map[string]any
				if status > 299 || json.Unmarshal(body, &all) != nil || into.Number < 1 {
					t.Fatalf("%d %q was taken", status, body)
				}
				continue
			}
			var e *sallyport.Error
			if !errors.As(err, &e) {
				t.Fatalf("%#v", err)
			}
			text := err.Error() + sallyport.HintOf(err)
			if strings.Contains(text, secret) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) || len(text) > 2000 {
				t.Fatalf("%d %s: %q", status, method, text)
			}
			useless := sallyport.CodeUnavailable
			if method == http.MethodPost {
				useless = sallyport.CodeUnknown
			}
			if (status < 300 || status == http.StatusBadGateway || status == http.StatusGatewayTimeout) && e.Code != useless {
				t.Fatalf("%d to %s is %v", status, method, e.Code)
			}
		}
	})
}
