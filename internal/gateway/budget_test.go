package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// purse is a Budget that a test writes.
type purse struct {
	admit func(body []byte) error

	mu   sync.Mutex
	said []string // what came of each request, in order
}

func (p *purse) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *purse) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "; ")
}

func (p *purse) Meters(host string) bool { return host == "api.example.com" }

func (p *purse) Admit(_ context.Context, host, method, path string, body []byte) (Charge, error) {
	p.say("%s %s %s %q", method, host, path, body)
	if p.admit != nil {
		if err := p.admit(body); err != nil {
			return nil, err
		}
	}
	return &coin{p: p}, nil
}

type coin struct {
	p    *purse
	seen strings.Builder
}

func (c *coin) Sent() { c.p.say("sent") }
func (c *coin) Answer(status int, h http.Header) {
	c.p.say("answer %d %s", status, h.Get("Content-Type"))
}
func (c *coin) Seen(p []byte) { c.seen.Write(p) }
func (c *coin) Close()        { c.p.say("close %q", c.seen.String()) }

func withBudget(p *purse) func(*Config) { return func(c *Config) { c.Budget = p } }

func (p *purse) await(t *testing.T, want string) {
	t.Helper()
	for range 200 {
		if p.heard() == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("heard\n%s\nexpected\n%s", p.heard(), want)
}

func TestBudgetHearsWhatIsSentAndAnswered(t *testing.T) {
	p := &purse{}
	var got string
	r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		got = fmt.Sprintf("%d %s", q.ContentLength, b)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}), withBudget(p))
	// The bytes that were judged are those that leave.
	if res, answer := r.post(t, "/v1/messages?beta=true", `{"a" :1}`); res.StatusCode != 200 || answer != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || got != `8 {"a" :1}` {
		t.Errorf("%d %q, the API got %q", res.StatusCode, answer, got)
	}
	p.await(t, `POST 127.0.0.1 /v1/messages "{\"a\" :1}"; sent; answer 200 text/event-stream; close "data: 0\n\ndata: 1\n\ndata: 2\n\n"`)
}

func TestBudgetRefuses(t *testing.T) {
	reached := false
	p := &purse{admit: func([]byte) error {
		return &Unaffordable{Reason: "spend-limit", Message: "no", Status: 429, Body: []byte(`{"type":"error"}`)}
	}}
	r := newRig(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), withBudget(p))
	res, answer := r.post(t, "/v1/messages", `{}`)
	if res.StatusCode != 429 || answer != `{"type":"error"}` || res.Header.Get("X-Should-Retry") != "false" || reached {
		t.Errorf("%d %q %v, reached %v", res.StatusCode, answer, res.Header, reached)
	}
	c := r.settled(t, 1)
	if c.Refused != 1 || c.Refusals[0].Reason != "spend-limit" || p.heard() != `POST 127.0.0.1 /v1/messages "{}"` {
		t.Errorf("%+v; %s", c, p.heard())
	}
	// What cannot be decided does not leave, and says nothing of the trusted side.
	p.admit = func([]byte) error { return errors.New("the journal at /secret/place is full") }
	if res, answer := r.post(t, "/v1/messages", `{}`); res.StatusCode != http.StatusBadGateway || strings.Contains(answer, "secret") || reached {
		t.Errorf("%d %q", res.StatusCode, answer)
	}
}

func TestBudgetHearsOfWhatBreaks(t *testing.T) {
	t.Run("the API is not there", func(t *testing.T) {
		p := &purse{}
		r := newRig(t, http.NotFoundHandler(), withBudget(p), func(c *Config) { c.Endpoint.Upstream = "https://127.0.0.1:1" })
		if res, _ := r.post(t, "/v1/messages", `{}`); res.StatusCode != http.StatusBadGateway {
			t.Error(res.Status)
		}
		p.await(t, `POST 127.0.0.1 /v1/messages "{}"; close ""`)
	})
	t.Run("the API breaks off", func(t *testing.T) {
		p := &purse{}
		r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.ReadAll(q.Body)
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}), withBudget(p))
		q, _ := http.NewRequest("POST", "http://127.0.0.1/v1/messages", strings.NewReader("{}"))
		q.Header.Set("X-Api-Key", testPlaceholder)
		if res, err := r.client.Do(q); err == nil {
			_, _ = io.ReadAll(res.Body)
			res.Body.Close()
		}
		p.await(t, `POST 127.0.0.1 /v1/messages "{}"; sent; answer 200 text/plain; charset=utf-8; close "half"`)
	})
	t.Run("the agent breaks off", func(t *testing.T) {
		p := &purse{}
		r := newRig(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		}), withBudget(p))
		ctx, cancel := context.WithCancel(t.Context())
		q, _ := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/v1/messages", strings.NewReader("{}"))
		q.Header.Set("X-Api-Key", testPlaceholder)
		res, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(res.Body, make([]byte, 4))
		cancel()
		res.Body.Close()
		p.await(t, `POST 127.0.0.1 /v1/messages "{}"; sent; answer 200 text/plain; charset=utf-8; close "half"`)
	})
	t.Run("the body breaks off", func(t *testing.T) {
		p := &purse{}
		r := newRig(t, http.NotFoundHandler(), withBudget(p))
		r.raw(t, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+testPlaceholder+"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n")
		if c := r.settled(t, 1); c.Refused != 1 || p.heard() != "" || r.server.heldBodies.Load() != 0 {
			t.Errorf("%+v; %q; %d bytes held", c, p.heard(), r.server.heldBodies.Load())
		}
	})
}

// TestBudgetBodiesAreBounded: one by itself, and all that are held at the same time.
func TestBudgetBodiesAreBounded(t *testing.T) {
	hold := make(chan struct{})
	p := &purse{admit: func([]byte) error { <-hold; return errors.New("enough") }}
	r := newRig(t, http.NotFoundHandler(), withBudget(p))
	var release sync.Once
	defer release.Do(func() { close(hold) })
	if res, answer := r.post(t, "/v1/messages", strings.Repeat("x", maxBody+1)); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res, _ := r.post(t, "/v1/messages", strings.Repeat("x", 30<<20))
			mu.Lock()
			defer mu.Unlock()
			statuses[res.StatusCode]++
			if res.StatusCode == http.StatusServiceUnavailable {
				release.Do(func() { close(hold) })
			}
		}()
	}
	wg.Wait()
	if statuses[http.StatusServiceUnavailable] == 0 || statuses[http.StatusServiceUnavailable]+statuses[http.StatusBadGateway] != 6 {
		t.Errorf("%v", statuses)
	}
	r.settled(t, 7)
	if n := r.server.heldBodies.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// What a Budget would judge is what the API reads, so it is in no encoding.
func TestBudgetBodiesAreNotEncoded(t *testing.T) {
	p := &purse{}
	rule := apiRule()
	rule.OwnAuth = true
	o := newOpenRig(t, nil, []egress.Rule{rule})
	o.server.budget, o.server.proxy.budget = p, p
	for _, kind := range []string{"deflate", "identity, gzip"} {
		status, body := o.ask(t, "POST", o.at("api.example.com", "/v1/x"), map[string]string{"Content-Encoding": kind}, `{}`)
		if status != http.StatusUnsupportedMediaType || o.reached() != 0 || p.heard() != "" {
			t.Errorf("%s: %d %q; %s", kind, status, body, p.heard())
		}
	}
}
