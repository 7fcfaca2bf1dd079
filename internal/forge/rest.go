package forge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sallyport.dev/sallyport"
)

// requestDeadline is longer than a busy forge takes to open a pull request (measured in seconds, not in tens of them).
const requestDeadline = 45 * time.Second

// maxAnswer is some fifty pull requests with bodies of the largest size that the forges take.
const maxAnswer = 8 << 20

// REST asks one forge's JSON interface. Each request has a deadline of its own, no redirect is followed (it would carry the
// credential to where nobody configured it), answers are bounded, and a failure comes under the code that Driver promises.
// The forges' own libraries hide status codes, keep the context in the client, or read without bound: hence this.
type REST struct {
	Base   string // https://forge.example/api/v1, no slash at the end
	Client *http.Client
	// Accept is the header of that name; "": application/json.
	Accept string
	// Deadline is for one request; 0: 45 s.
	Deadline time.Duration
	// Refused may give another code to what the forge refused; nil, or its second result false: the code of the status.
	Refused func(*Refusal) (sallyport.Code, bool)
}

// Request is one question to a forge.
type Request struct {
	Op      string // for people: "open a pull request"
	Subject string // for people: the repository's address
	Method  string
	Path    string // below Base, escaped, with its query
	Header  http.Header
	// Secrets are in no error, even where the forge repeats them.
	Secrets []string
	Send    any // as JSON; nil: nothing
	Into    any // from JSON; nil: the answer is not looked at
	// Check says whether what Into holds is what was promised; nil: yes.
	Check func() bool
}

// Refusal is an answer that is not a success. It is in the chain of the *sallyport.Error.
type Refusal struct {
	Status int
	Header http.Header
	Body   []byte // of the forge, not neutralised: for a driver to look into, never to be shown
	words  string
}

func (r *Refusal) Error() string {
	s := "the forge answered " + strings.TrimSpace(strconv.Itoa(r.Status)+" "+http.StatusText(r.Status))
	if r.words != "" {
		s += ": " + r.words
	}
	return s
}

// errAnswer is an answer that came and is of no use.
var errAnswer = errors.New("the forge's answer is not what its interface promises")

// Do asks and returns the answer's headers. Errors: see Driver. A read whose answer was lost is CodeUnavailable, as nothing
// can have happened.
func (r *REST) Do(ctx context.Context, q Request) (http.Header, error) {
	deadline := r.Deadline
	if deadline == 0 {
		deadline = requestDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var left atomic.Bool
	req, err := r.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// From here on bytes may leave; before it there was no connection, or no TLS.
		GotConn: func(httptrace.GotConnInfo) { left.Store(true) },
	}), q)
	if err != nil {
		return nil, q.failure(sallyport.CodeInvalid, "the request cannot be made", "", err)
	}
	client := *r.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Jar, client.Timeout = nil, 0
	resp, err := client.Do(req)
	if err != nil {
		return nil, q.lost(left.Load(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && resp.StatusCode < 300:
		return nil, q.lost(true, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, r.refused(q, resp, body)
	case len(body) > maxAnswer:
		return nil, q.lost(true, errAnswer)
	case q.Into == nil:
		return resp.Header, nil
	}
	if err := json.Unmarshal(body, q.Into); err != nil || string(bytes.TrimSpace(body)) == "null" || q.Check != nil && !q.Check() {
		return nil, q.lost(true, errAnswer)
	}
	return resp.Header, nil
}

func (r *REST) request(ctx context.Context, q Request) (*http.Request, error) {
	var body io.Reader
	if q.Send != nil {
		b, err := json.Marshal(q.Send)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, r.Base+q.Path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.Header {
		req.Header[name] = values
	}
	accept := r.Accept
	if accept == "" {
		accept = "application/json"
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "sallyport")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// reads says that q changes nothing.
func (q Request) reads() bool { return q.Method == http.MethodGet || q.Method == http.MethodHead }

// lost is for a question without a usable answer.
func (q Request) lost(left bool, err error) error {
	// What net/http says repeats the address, which may have been a redirect's.
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case left && !q.reads():
		return q.failure(sallyport.CodeUnknown, "the answer was lost after the request had left", "look at the forge before anything else", err)
	case errors.Is(err, errAnswer):
		return q.failure(sallyport.CodeUnavailable, "the answer is too large, or not JSON as expected", "is this the address of the forge's interface?", err)
	}
	return q.failure(sallyport.CodeUnavailable, "the forge cannot be reached", "", err)
}

func (r *REST) refused(q Request, resp *http.Response, body []byte) error {
	ref := &Refusal{Status: resp.StatusCode, Header: resp.Header, Body: body, words: Words(refusalText(body), q.Secrets...)}
	if resp.StatusCode < 400 {
		return q.moved(resp)
	}
	code := codeOf(q, ref)
	if r.Refused != nil {
		if c, ok := r.Refused(ref); ok {
			code = c
		}
	}
	var err error = ref
	if code == sallyport.CodeUnavailable {
		if later := laterOf(resp.Header, time.Now()); later != nil {
			err = &worded{ref.Error() + "; " + later.Error(), errors.Join(ref, later)}
		}
	}
	return q.failure(code, "", "", err)
}

// moved names where a renamed repository is now. The query stays out: it is nobody's business.
func (q Request) moved(resp *http.Response) error {
	to := "it does not say where"
	if at, err := resp.Location(); err == nil {
		to = Words((&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String(), q.Secrets...)
	}
	return q.failure(sallyport.CodeInvalid, "the forge sends us elsewhere: "+to, "if the repository was renamed, configure its new address", nil)
}

func codeOf(q Request, ref *Refusal) sallyport.Code {
	limited := ref.Header.Get("Retry-After") != "" || ref.Header.Get("X-RateLimit-Remaining") == "0"
	switch s := ref.Status; {
	case s == http.StatusForbidden && limited, s == http.StatusTooManyRequests, s == http.StatusTooEarly, s == http.StatusRequestTimeout:
		return sallyport.CodeUnavailable
	case (s == http.StatusBadGateway || s == http.StatusGatewayTimeout) && !q.reads():
		return sallyport.CodeUnknown // a gateway lost the answer after it had passed the request on
	case s >= 500:
		return sallyport.CodeUnavailable
	case s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusLocked, s == http.StatusUnavailableForLegalReasons:
		return sallyport.CodeDenied
	case s == http.StatusNotFound, s == http.StatusGone:
		return sallyport.CodeNotFound
	case s == http.StatusConflict:
		return sallyport.CodeConflict
	}
	return sallyport.CodeInvalid
}

func (q Request) failure(code sallyport.Code, message, hint string, err error) error {
	if err != nil {
		var ref *Refusal
		if !errors.As(err, &ref) { // whose words are cut already
			err = &worded{Words(err.Error(), q.Secrets...), err}
		}
	}
	return &sallyport.Error{Op: q.Op, Code: code, Subject: q.Subject, Message: message, Hint: hint, Err: err}
}

// worded is an error whose text is safe to show.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.err }

// refusalText is what people want of a refusal: message, and the errors beside it.
func refusalText(body []byte) string {
	var said struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &said) != nil {
		return "" // a page of HTML tells nobody anything
	}
	var parts []string
	for _, raw := range []json.RawMessage{said.Message, said.Error, said.Errors} {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = json.RawMessage(text)
		}
		if s := string(raw); s != "" && s != "null" && s != "[]" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// maxWords is as much of a forge's words as a line of ours bears.
const maxWords = 300

// Words makes one printable line of at most 300 bytes from what a forge or git said. secrets are taken out first.
func Words(s string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < 0x20 || r > 0x7e:
			return '?'
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxWords {
		s = s[:maxWords-1] + "~"
	}
	return s
}

// NewClient is an HTTP client for one forge; caFile names the certificates that it is verified with, "": the system's.
// It uses no proxy of the environment. CodeInvalid: the file has no certificate.
func NewClient(caFile string) (*http.Client, error) {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    15 * time.Second,
		IdleConnTimeout:        time.Minute,
		MaxIdleConns:           4,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 256 << 10,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, &sallyport.Error{Op: "read the forge's certificates", Code: sallyport.CodeInvalid, Subject: caFile, Err: err}
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &sallyport.Error{Op: "read the forge's certificates", Code: sallyport.CodeInvalid, Subject: caFile, Message: "expected certificates in PEM"}
		}
	}
	return &http.Client{Transport: t}, nil
}
