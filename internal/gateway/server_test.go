package gateway

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
)

const (
	testPlaceholder = "placeholder-of-att-0001"
	testCredential  = "sk-real-credential-0123456789"
)

// rig is one gateway between a namespace and a TLS upstream that a test writes.
type rig struct {
	server *Server
	client *http.Client // dials inside the namespace
	ns     *gatewaytest.Namespace
	mu     sync.Mutex
	events []Event
}

func newRig(t *testing.T, upstream http.Handler, change ...func(*Config)) *rig {
	t.Helper()
	up := httptest.NewTLSServer(upstream)
	t.Cleanup(up.Close)
	r := &rig{ns: gatewaytest.Start(t, gatewaytest.Users()[0])}
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	c := Config{
		Endpoint: sallyport.Endpoint{
			Upstream: up.URL, Paths: []string{"/v1/messages", "/v1/messages?beta=true"},
			Listen: testPort, Header: "x-api-key",
		},
		Placeholder: testPlaceholder, Roots: roots,
		Credential: func(context.Context) (string, error) { return testCredential, nil },
		Observe: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
	}
	for _, f := range change {
		f(&c)
	}
	ln, err := Listener(r.ns.Socket(t, "listen", testPort), testPort)
	if err != nil {
		t.Fatal(err)
	}
	r.server, err = Serve(t.Context(), ln, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Close() })
	r.client = &http.Client{Transport: &http.Transport{
		DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return r.ns.Dial(testPort)
		},
	}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func (r *rig) post(t *testing.T, target, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequest("POST", "http://127.0.0.1:18899"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", testPlaceholder)
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Add(headers[i], headers[i+1])
	}
	res, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// raw sends bytes and returns the answer's status line and body as they are.
func (r *rig) raw(t *testing.T, request string) string {
	t.Helper()
	c, err := r.ns.Dial(testPort)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, request)
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestForwardSwapsPlaceholder(t *testing.T) {
	var got *http.Request
	var body []byte
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got = q
		body, _ = io.ReadAll(q.Body)
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Location", "https://internal.example/")
		w.Header().Set("Alt-Svc", `h3="other.example:443"`)
		w.Header().Set("Request-Id", "req_1")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	res, answer := r.post(t, "/v1/messages?beta=true", `{"hello":1}`, "Anthropic-Version", "2023-06-01", "X-Original-Url", "/admin", "Connection", "Anthropic-Beta", "Anthropic-Beta", "hop")
	if res.StatusCode != 200 || answer != `{"ok":true}` {
		t.Fatalf("got %d %s", res.StatusCode, answer)
	}
	if got.Header.Get("X-Api-Key") != testCredential || len(got.Header["X-Api-Key"]) != 1 {
		t.Errorf("the upstream got the credential header %q", got.Header["X-Api-Key"])
	}
	if got.URL.RequestURI() != "/v1/messages?beta=true" || string(body) != `{"hello":1}` || got.Header.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("the upstream got %s %q %v", got.URL, body, got.Header)
	}
	for _, h := range []string{"X-Original-Url", "Anthropic-Beta", "X-Forwarded-For", "Via"} {
		if got.Header.Get(h) != "" {
			t.Errorf("the header %s left", h)
		}
	}
	if strings.HasPrefix(got.Host, "127.0.0.1:18899") {
		t.Errorf("the agent's Host %q left", got.Host)
	}
	if res.Header.Get("Set-Cookie")+res.Header.Get("Location")+res.Header.Get("Alt-Svc") != "" || res.Header.Get("Request-Id") != "req_1" {
		t.Errorf("the agent got the headers %v", res.Header)
	}
	c := r.settled(t, 1)
	if c.Refused != 0 || c.BytesUp != 11 || c.BytesDown != 11 {
		t.Errorf("counters %+v", c)
	}
}

// settled waits until n requests are counted: an answer reaches the agent before the handler has returned.
func (r *rig) settled(t *testing.T, n int64) Counters {
	t.Helper()
	for range 200 {
		if c := r.server.Counters(); c.Requests >= n {
			return c
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("expected %d requests, counted %+v", n, r.server.Counters())
	return Counters{}
}

func TestRefusals(t *testing.T) {
	reached := false
	r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	auth := "X-Api-Key: " + testPlaceholder + "\r\n"
	line := func(first, headers string) string {
		return first + " HTTP/1.1\r\nHost: 127.0.0.1:18899\r\n" + headers + "Content-Length: 0\r\n\r\n"
	}
	cases := []struct{ name, request, reason string }{
		{"other path", line("POST /v1/files", auth), "target"},
		{"longer path", line("POST /v1/messages/", auth), "target"},
		{"dot segment", line("POST /v1/x/../messages", auth), "target"},
		{"double slash", line("POST //v1/messages", auth), "target"},
		{"escaped slash", line("POST /v1%2fmessages", auth), "target"},
		{"escaped letter", line("POST /v1/%6dessages", auth), "target"},
		{"other query", line("POST /v1/messages?key=AIza", auth), "target"},
		{"fragment", line("POST /v1/messages#x", auth), "target"},
		{"absolute form", line("POST http://evil.example/v1/messages", auth), "target"},
		{"case", line("POST /V1/messages", auth), "target"},
		{"GET", line("GET /v1/messages", auth), "method"},
		{"DELETE", line("DELETE /v1/messages", auth), "method"},
		{"CONNECT", "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "method"},
		{"HEAD elsewhere", line("HEAD /v1/messages", auth), ""},
		{"OPTIONS *", line("OPTIONS *", auth), "method"},
		{"no placeholder", line("POST /v1/messages", ""), "placeholder"},
		{"wrong placeholder", line("POST /v1/messages", "X-Api-Key: "+testPlaceholder+"x\r\n"), "placeholder"},
		{"two placeholders", line("POST /v1/messages", auth+auth), "placeholder"},
		{"with a prefix", line("POST /v1/messages", "X-Api-Key: Bearer "+testPlaceholder+"\r\n"), "placeholder"},
		{"placeholder elsewhere", line("POST /v1/messages", auth+"User-Agent: "+testPlaceholder+"\r\n"), "placeholder-elsewhere"},
		{"authorization", line("POST /v1/messages", auth+"Authorization: Bearer stolen\r\n"), "other-authentication"},
		{"proxy-authorization", line("POST /v1/messages", auth+"Proxy-Authorization: Basic eDp5\r\n"), "other-authentication"},
		{"cookie", line("POST /v1/messages", auth+"Cookie: sessionKey=1\r\n"), "other-authentication"},
		{"google key", line("POST /v1/messages", auth+"x-goog-api-key: AIza\r\n"), "other-authentication"},
		{"azure key", line("POST /v1/messages", auth+"api-key: 1\r\n"), "other-authentication"},
		{"amazon token", line("POST /v1/messages", auth+"X-Amz-Security-Token: 1\r\n"), "other-authentication"},
		{"websocket", line("POST /v1/messages", auth+"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"), "upgrade"},
		{"h2c", line("POST /v1/messages", auth+"Upgrade: h2c\r\n"), "upgrade"},
		{"too large", "POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n", maxBody+1), "body-too-large"},
		{"encoded body", line("POST /v1/messages", auth+"Content-Encoding: gzip\r\n"), "request-encoding"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := r.raw(t, c.request)
			if !strings.HasPrefix(answer, "HTTP/1.1 4") {
				t.Fatalf("answered %q", answer)
			}
			if c.reason != "" && !strings.Contains(answer, `"code":"`+c.reason+`"`) {
				t.Fatalf("answered %q, expected the reason %s", answer, c.reason)
			}
		})
	}
	if reached {
		t.Error("a refused request reached the upstream")
	}
	n := int64(len(cases))
	if c := r.settled(t, n); c.Refused != n || c.BytesUp != 0 || len(c.Refusals) == 0 || c.Refusals[0].Count == 0 {
		t.Errorf("counters %+v", c)
	}
}

// What net/http itself answers must not be a way around: HTTP/2 by prior knowledge, bad framing.
func TestRefusesOtherProtocols(t *testing.T) {
	reached := false
	r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	auth := "X-Api-Key: " + testPlaceholder + "\r\n"
	for name, request := range map[string]string{
		"h2 preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"two lengths":        "POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"unknown encoding":   "POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + auth + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
		"header with spaces": "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key : " + testPlaceholder + "\r\n\r\n",
		"huge header":        "POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + auth + "Accept: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n",
		"not http":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		if answer := r.raw(t, request); strings.HasPrefix(answer, "HTTP/1.1 2") {
			t.Errorf("%s: answered %q", name, answer)
		}
	}
	if reached {
		t.Error("one of them reached the upstream")
	}
}

func TestHeadIsAnsweredHere(t *testing.T) {
	r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("HEAD / left") }))
	if a := r.raw(t, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(a, "HTTP/1.1 200") {
		t.Fatalf("answered %q", a)
	}
}

// The first event arrives while the upstream still waits.
func TestStreamsAtOnce(t *testing.T) {
	seen := make(chan struct{})
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-seen:
			_, _ = io.WriteString(w, "data: two\n\n")
		case <-time.After(5 * time.Second):
			_, _ = io.WriteString(w, "data: too late\n\n")
		}
	}))
	q, _ := http.NewRequest("POST", "http://x/v1/messages", strings.NewReader("{}"))
	q.Header.Set("X-Api-Key", testPlaceholder)
	res, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	first, _ := in.ReadString('\n')
	close(seen)
	rest, _ := io.ReadAll(in)
	if first != "data: one\n" || !strings.Contains(string(rest), "two") {
		t.Fatalf("got %q then %q", first, rest)
	}
}

// An upstream that repeats the credential, cut anywhere, never gets it to the agent.
func TestAnswerWithCredentialIsCut(t *testing.T) {
	const before = "your key "
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		split, _ := io.ReadAll(q.Body)
		text := before + q.Header.Get("X-Api-Key") + " is good"
		at := len(before) + len(split)
		for _, part := range []string{text[:at], text[at:]} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2 * time.Millisecond)
		}
	}))
	for split := range len(testCredential) {
		q, _ := http.NewRequest("POST", "http://x/v1/messages", strings.NewReader(strings.Repeat("x", split)))
		q.Header.Set("X-Api-Key", testPlaceholder)
		res, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || !strings.HasPrefix(before, string(b)) {
			t.Fatalf("split %d: the agent got %q, %v", split, b, err)
		}
	}
	n := int64(len(testCredential))
	if c := r.settled(t, n); c.Refused != n || c.Refusals[0].Reason != "credential-in-answer" || c.Refusals[0].Count != n {
		t.Fatalf("counters %+v", c)
	}
}

// An API may answer before it has read the request; the answer must arrive whole.
func TestEarlyAnswerArrivesWhole(t *testing.T) {
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
		_, _ = io.WriteString(w, "no such model")
	}))
	for range 20 {
		if res, body := r.post(t, "/v1/messages", strings.Repeat("x", 1<<10)); res.StatusCode != 400 || body != "no such model" {
			t.Fatalf("answered %d %q", res.StatusCode, body)
		}
	}
}

func TestAnswersNotPassedOn(t *testing.T) {
	cases := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "https://evil.example/", http.StatusTemporaryRedirect)
		},
		"answer-encoding": func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b")
		},
		"credential-in-answer": func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("X-Debug", "got "+q.Header.Get("X-Api-Key"))
		},
	}
	for reason, h := range cases {
		t.Run(reason, func(t *testing.T) {
			r := newRig(t, h)
			res, body := r.post(t, "/v1/messages", "{}")
			if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, reason) || strings.Contains(fmt.Sprint(res.Header, body), testCredential) || res.Header.Get("Location") != "" {
				t.Fatalf("answered %d %v %s", res.StatusCode, res.Header, body)
			}
		})
	}
}

// Statuses and error bodies of the API are the agent's business: it retries by them.
func TestUpstreamErrorsPassOn(t *testing.T) {
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	}))
	res, body := r.post(t, "/v1/messages", "{}")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "7" || body != "slow down\n" {
		t.Fatalf("answered %d %v %q", res.StatusCode, res.Header, body)
	}
}

func TestUntrustedUpstreamGetsNothing(t *testing.T) {
	reached := false
	r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }),
		func(c *Config) { c.Roots = x509.NewCertPool() })
	res, body := r.post(t, "/v1/messages", "{}")
	if res.StatusCode != 502 || reached || strings.Contains(body, "x509") {
		t.Fatalf("answered %d %s, reached %v", res.StatusCode, body, reached)
	}
	if c := r.settled(t, 1); c.Failed != 1 {
		t.Errorf("counters %+v", c)
	}
}

func TestCredentialUnavailable(t *testing.T) {
	cases := map[string]func(context.Context) (string, error){
		"error":   func(context.Context) (string, error) { return "", errors.New("locked") },
		"short":   func(context.Context) (string, error) { return "ollama", nil },
		"newline": func(context.Context) (string, error) { return testCredential + "\n", nil },
		"unset":   FromEnv("ANTHROPIC_API_KEY", func(string) string { return "" }),
	}
	for name, read := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request left") }),
				func(c *Config) { c.Credential = read })
			if res, body := r.post(t, "/v1/messages", "{}"); res.StatusCode != 502 || strings.Contains(body, "sk-real") {
				t.Fatalf("answered %d %s", res.StatusCode, body)
			}
		})
	}
}

func TestChunkedBodyIsCapped(t *testing.T) {
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) }))
	q, _ := http.NewRequest("POST", "http://x/v1/messages", io.LimitReader(zeros{}, maxBody+1))
	q.Header.Set("X-Api-Key", testPlaceholder)
	res, err := r.client.Do(q)
	if err == nil {
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("answered %d", res.StatusCode)
		}
	}
	if c := r.settled(t, 1); c.Refused != 1 || c.Refusals[0].Reason != "body-too-large" || c.BytesUp > maxBody {
		t.Fatalf("counters %+v", c)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRevokeCutsWhatIsUnderWay(t *testing.T) {
	started := make(chan struct{})
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		close(started)
		<-q.Context().Done()
	}))
	q, _ := http.NewRequest("POST", "http://x/v1/messages", strings.NewReader("{}"))
	q.Header.Set("X-Api-Key", testPlaceholder)
	res, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-started
	r.server.Revoke()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer ended as if it were whole")
	}
	if res, body := r.post(t, "/v1/messages", "{}"); res.StatusCode != 403 || !strings.Contains(body, "attempt-ended") {
		t.Errorf("after Revoke: %d %s", res.StatusCode, body)
	}
}

func TestContextEndsServer(t *testing.T) {
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	ln, err := Listener(ns.Socket(t, "listen", testPort), testPort)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Serve(ctx, ln, Config{Endpoint: sallyport.Endpoint{Upstream: "https://api.example", Listen: testPort, Header: "x-api-key"},
		Placeholder: testPlaceholder, Credential: func(context.Context) (string, error) { return testCredential, nil }})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-s.Done():
	case <-time.After(2 * time.Second):
		t.Fatal("the server did not end with its context")
	}
	if s.Err() != nil {
		t.Fatalf("a closed server reports %v", s.Err())
	}
}

// Connections over the cap wait; one that says nothing does not keep its slot for ever (headerTimeout).
func TestConnectionCap(t *testing.T) {
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, "ok") }),
		func(c *Config) { c.Connections = 2 })
	var idle []net.Conn
	for range 2 {
		c, err := r.ns.Dial(testPort)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	time.Sleep(50 * time.Millisecond)
	done := make(chan string, 1)
	go func() {
		_, body := r.post(t, "/v1/messages", "{}")
		done <- body
	}()
	select {
	case b := <-done:
		t.Fatalf("a third connection was served over a cap of two: %q", b)
	case <-time.After(200 * time.Millisecond):
	}
	for _, c := range idle {
		_ = c.Close()
	}
	select {
	case b := <-done:
		if b != "ok" {
			t.Fatalf("got %q", b)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no slot came free")
	}
}

// An agent can refuse-loop; what is remembered and told stays bounded.
func TestRefusalsAreBounded(t *testing.T) {
	heard := 0
	m := meter{observe: func(Event) { heard++ }}
	for i := range 10 * maxRefusals {
		m.record(Event{Kind: Refused, Reason: "target", Method: "POST", Target: fmt.Sprintf("/%d\x1b[2J", i)})
		m.record(Event{Kind: Refused, Reason: "target", Method: "POST", Target: "/0\x1b[2J"})
	}
	c := m.snapshot()
	if heard != maxRefusals || len(c.Refusals) != maxRefusals || c.Refused != 20*maxRefusals {
		t.Fatalf("heard %d, remembered %d, counted %d", heard, len(c.Refusals), c.Refused)
	}
	if strings.Contains(c.Refusals[0].Target, "\x1b") || c.Refusals[0].Count != 10*maxRefusals+1 {
		t.Fatalf("remembered %+v", c.Refusals[0])
	}
}

func TestRefusalIsJSONForBothAPIs(t *testing.T) {
	w := httptest.NewRecorder()
	answer(w, 403, "target", `say "no"`)
	var got struct {
		Type  string
		Error struct{ Type, Code, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Type != "error" || got.Error.Code != "target" || got.Error.Message != `sallyport: say "no"` {
		t.Fatalf("%s: %v", w.Body, err)
	}
}
