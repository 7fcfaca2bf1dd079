package forgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/credential/credentialtest"
	"sallyport.dev/sallyport/internal/forge"
)

// fault stands between a driver and its forge. Armed, it answers in the forge's place.
type fault struct {
	next  http.RoundTripper
	armed atomic.Pointer[answer]
	hosts atomic.Pointer[string] // the last host that was asked
}

// answer is given to each request of this method, "": to every one.
type answer struct {
	method string
	give   func(*http.Request, http.RoundTripper) (*http.Response, error)
}

func (f *fault) RoundTrip(r *http.Request) (*http.Response, error) {
	f.hosts.Store(&r.URL.Host)
	if a := f.armed.Load(); a != nil && (a.method == "" || a.method == r.Method) {
		return a.give(r, f.next)
	}
	return f.next.RoundTrip(r)
}

// canned is an answer with a body and headers in pairs.
func canned(method string, status int, body io.Reader, headers ...string) *answer {
	return &answer{method, func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
	}}
}

// lostAnswer lets the request do its work and cuts the connection before the answer.
func lostAnswer(method string) *answer {
	return &answer{method, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}}
}

// broken is a driver with its credential, whose requests pass the fault from now on.
func (s suite) broken(t *testing.T, a *answer) (forge.Driver, forge.Grant, *fault) {
	t.Helper()
	f := &fault{}
	d := s.rig.Driver(t, Options{Wrap: func(next http.RoundTripper) http.RoundTripper { f.next = next; return f }})
	g := s.grant(t, d)
	f.armed.Store(a)
	t.Cleanup(func() { f.armed.Store(nil) }) // before the credential is revoked
	return d, g, f
}

func (s suite) redirect(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308} {
		to := canned("", status, strings.NewReader(""), "Location", "https://elsewhere.example/new/place?token=x")
		d, g, f := s.broken(t, to)
		_, err := d.Find(s.context(t), g, branch("r"), "main")
		code(t, err, sallyport.CodeInvalid)
		if !strings.Contains(err.Error(), "https://elsewhere.example/new/place") || strings.Contains(err.Error(), "token=x") {
			t.Errorf("%d: %v", status, err)
		}
		_, err = d.Create(s.context(t), g, proposal(branch("r"), "main"))
		code(t, err, sallyport.CodeInvalid)
		if host := *f.hosts.Load(); strings.Contains(host, "elsewhere") {
			t.Errorf("%d: %s was asked", status, host)
		}
	}
}

func (s suite) limited(t *testing.T) {
	d, g, _ := s.broken(t, canned("", http.StatusTooManyRequests, strings.NewReader(`{"message":"slow down"}`), "Retry-After", "120"))
	before := time.Now()
	_, found := d.Find(s.context(t), g, branch("l"), "main")
	_, made := d.Create(s.context(t), g, proposal(branch("l"), "main"))
	for _, err := range []error{found, made} {
		code(t, err, sallyport.CodeUnavailable)
		var later *forge.Later
		if !errors.As(err, &later) || later.Until.Before(before.Add(119*time.Second)) || later.Until.After(time.Now().Add(121*time.Second)) {
			t.Errorf("%v: until %v", err, later)
		}
	}
}

func (s suite) down(t *testing.T) {
	for _, status := range []int{500, 503} {
		d, g, _ := s.broken(t, canned("", status, strings.NewReader("<html>no</html>")))
		_, err := d.Find(s.context(t), g, branch("d"), "main")
		code(t, err, sallyport.CodeUnavailable)
		_, err = d.Create(s.context(t), g, proposal(branch("d"), "main"))
		code(t, err, sallyport.CodeUnavailable)
	}
	// A gateway answers so when it has passed the request on and heard nothing.
	d, g, _ := s.broken(t, canned(http.MethodPost, http.StatusGatewayTimeout, strings.NewReader("")))
	_, err := d.Create(s.context(t), g, proposal(branch("d"), "main"))
	code(t, err, sallyport.CodeUnknown)
}

func (s suite) lost(t *testing.T) {
	d, g, f := s.broken(t, nil)
	head := branch("lost")
	tip := s.rig.Branch(t, head)
	f.armed.Store(lostAnswer(http.MethodPost))
	_, err := d.Create(s.context(t), g, proposal(head, "main"))
	code(t, err, sallyport.CodeUnknown)
	f.armed.Store(lostAnswer(http.MethodGet))
	_, err = d.Find(s.context(t), g, head, "main")
	code(t, err, sallyport.CodeUnavailable) // a read changes nothing
	f.armed.Store(nil)
	prs := s.find(t, d, g, head, "main")
	if len(prs) != 1 || prs[0].Tip != tip {
		t.Errorf("looked up: %+v", prs)
	}
}

// endless gives blanks for ever and counts them.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (s suite) endless(t *testing.T) {
	for _, status := range []int{200, 500} {
		var body endless
		d, g, f := s.broken(t, canned("", status, &body))
		_, err := d.Find(s.context(t), g, branch("e"), "main")
		code(t, err, sallyport.CodeUnavailable)
		f.armed.Store(canned(http.MethodPost, status, &body))
		_, err = d.Create(s.context(t), g, proposal(branch("e"), "main"))
		want := sallyport.CodeUnknown // it said that it did something
		if status == 500 {
			want = sallyport.CodeUnavailable
		}
		code(t, err, want)
		if n := body.read.Load(); n > 64<<20 {
			t.Errorf("%d: read %d bytes of it", status, n)
		}
	}
}

func (s suite) nonsense(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"number":"x"`, `"text"`, "null"} {
		d, g, f := s.broken(t, canned("", 200, strings.NewReader(body)))
		if prs, err := d.Find(s.context(t), g, branch("n"), "main"); sallyport.CodeOf(err) != sallyport.CodeUnavailable || err == nil {
			t.Errorf("%q: found %v, %v", body, prs, err)
		}
		f.armed.Store(canned(http.MethodPost, 201, strings.NewReader(body)))
		if pr, err := d.Create(s.context(t), g, proposal(branch("n"), "main")); sallyport.CodeOf(err) != sallyport.CodeUnknown || err == nil {
			t.Errorf("%q: created %+v, %v", body, pr, err)
		}
	}
}

func (s suite) words(t *testing.T) {
	d, g, f := s.broken(t, nil)
	said, _ := json.Marshal(map[string]string{"message": "\x1b[2Jfirst\nsecond \u202e" + g.Secret + strings.Repeat(" long", 2000)}) // a string cannot fail
	f.armed.Store(canned("", http.StatusBadRequest, bytes.NewReader(said)))
	_, err := d.Find(s.context(t), g, branch("w"), "main")
	code(t, err, sallyport.CodeInvalid)
	text := err.Error()
	if strings.ContainsAny(text, "\n\x1b\u202e") || len(text) > 800 || !strings.Contains(text, "first second") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	unspoken(t, text, g.Secret)
}

// unspoken fails where text holds the secret in any spelling.
func unspoken(t *testing.T, text, secret string) {
	t.Helper()
	if secret != "" {
		credentialtest.Holds(t, "the text", []byte(text), credentialtest.Spellings(secret))
	}
}

func (s suite) wrongCredential(t *testing.T) {
	const canary = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee01"
	d := s.rig.Driver(t, Options{Credential: canary})
	ctx := s.context(t)
	g, err := d.Mint(ctx, unique("wrong"))
	errs := []error{err}
	if err == nil { // a configured one is not tried before it is used
		_, find := d.Find(ctx, g, branch("x"), "main")
		_, create := d.Create(ctx, g, proposal(branch("x"), "main"))
		_, get := d.Get(ctx, g, 1)
		_, inspect := d.Inspect(ctx, g, "main")
		put, label := d.Label(ctx, g, 1, []string{"l"})
		if len(put) > 0 { // what it may not see it leaves out
			t.Errorf("labels %q, %v", put, label)
		}
		errs = []error{find, create, get, inspect, d.Edit(ctx, g, 1, forge.Text{Title: "t"}), d.Close(ctx, g, 1, "c")}
	}
	for _, err := range errs {
		code(t, err, sallyport.CodeDenied)
		unspoken(t, fmt.Sprintf("%v %+v %#v", err, err, err), canary)
	}
}

func (s suite) printed(t *testing.T) {
	d, g := s.ready(t)
	r := d.Remote(g)
	unspoken(t, fmt.Sprintf("%v %s %#v", g, g, g), g.Secret)
	unspoken(t, r.URL+" "+r.SSH, g.Secret)
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || r.SSH == "" && u.User != nil {
		t.Errorf("the address to push to is %q, %v", r.URL, err)
	}
	if r.SSH == "" && r.Header == "" {
		t.Error("git is given no credential")
	}
}

func (s suite) revoke(t *testing.T) {
	d, g := s.ready(t)
	ctx := s.context(t)
	if g.Class != forge.ClassMinted {
		if err := d.Revoke(ctx, g); err != nil {
			t.Errorf("a configured one: %v", err)
		}
		s.find(t, d, g, branch("v"), "main") // and it still is good
		return
	}
	if g.ID == "" {
		t.Error("a minted credential has no name")
	}
	s.find(t, d, g, branch("v"), "main")
	for range 2 {
		if err := d.Revoke(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Find(ctx, g, branch("v"), "main")
	code(t, err, sallyport.CodeDenied)
	_, err = d.Create(ctx, g, proposal(branch("v"), "main"))
	code(t, err, sallyport.CodeDenied)
	unspoken(t, err.Error(), g.Secret)
}

func (s suite) mintAgain(t *testing.T) {
	d, _, f := s.broken(t, nil)
	if !d.Describe().Mints {
		return // a configured one is what it is
	}
	mark := unique("again")
	ctx := s.context(t)
	f.armed.Store(lostAnswer(http.MethodPost))
	_, err := d.Mint(ctx, mark)
	code(t, err, sallyport.CodeUnknown)
	f.armed.Store(nil)
	g, err := d.Mint(ctx, mark)
	if err != nil {
		t.Fatal(err)
	}
	s.find(t, d, g, branch("m"), "main")
	if err := d.Revoke(ctx, g); err != nil {
		t.Fatal(err)
	}
}

func (s suite) cancelled(t *testing.T) {
	hang := &answer{"", func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}}
	d, g, _ := s.broken(t, hang)
	for name, call := range map[string]func(context.Context) error{
		"Find":    func(ctx context.Context) error { _, err := d.Find(ctx, g, branch("c"), "main"); return err },
		"Create":  func(ctx context.Context) error { _, err := d.Create(ctx, g, proposal(branch("c"), "main")); return err },
		"Inspect": func(ctx context.Context) error { _, err := d.Inspect(ctx, g, "main"); return err },
		"Edit":    func(ctx context.Context) error { return d.Edit(ctx, g, 1, forge.Text{Title: "t"}) },
		"Label":   func(ctx context.Context) error { _, err := d.Label(ctx, g, 1, []string{"l"}); return err },
		"Close":   func(ctx context.Context) error { return d.Close(ctx, g, 1, "c") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		if c := sallyport.CodeOf(err); err == nil || c != sallyport.CodeUnavailable && c != sallyport.CodeUnknown || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v (%v) after %v", name, err, c, time.Since(began))
		}
	}
}
