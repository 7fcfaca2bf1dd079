package control

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
)

const spendPlaceholder = "placeholder-of-a-test"

// metered is a driver whose gateway forwards to an API that a test writes.
func metered(t *testing.T, limit sallyport.SpendLimit, api http.HandlerFunc) (d *driver, ask func(body string) (int, string)) {
	t.Helper()
	d = driving(t)
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	if limit.OnExceeded == "" {
		limit.OnExceeded = sallyport.SpendEnd
	}
	d.m.WorkOrder, d.digest, d.m.Spend = "wo_1", sallyport.Sum(nil), &limit
	d.m.Agent.Endpoint = &sallyport.Endpoint{Upstream: upstream.URL, Paths: []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/files"}, Listen: 18790, Header: "x-api-key", CredentialEnv: "TEST_MODEL_KEY"}
	t.Setenv("TEST_MODEL_KEY", "sk-real-credential-0123456789")
	return d, openMeter(t, d)
}

// openMeter is what openGateway does behind the sandbox.
func openMeter(t *testing.T, d *driver) func(body string) (int, string) {
	t.Helper()
	if err := d.record(t.Context(), journal.Record{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{Open: true}}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.refusals = hear(t.Context(), d)
	c, err := gatewayConfig(d.m, held{Placeholder: spendPlaceholder}, d.refusals.refused)
	if err != nil {
		t.Fatal(err)
	}
	if d.spender, err = d.newSpender(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Budget = d.spender
	if d.gateway, err = gateway.Serve(t.Context(), ln, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.closeGateway(t.Context()) })
	return func(body string) (int, string) {
		path := "/v1/messages"
		if strings.HasPrefix(body, "/") {
			path, body = body, "{}"
		}
		q, err := http.NewRequest("POST", "http://"+ln.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		q.Header.Set("X-Api-Key", spendPlaceholder)
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return res.StatusCode, err.Error()
		}
		return res.StatusCode, string(b)
	}
}

func (d *driver) spendNow(t *testing.T) (journal.Attempt, sallyport.Spend) {
	t.Helper()
	at, err := d.attempt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at.Report.Spend == nil {
		return at, sallyport.Spend{}
	}
	return at, *at.Report.Spend
}

// haiku costs 1 and 5 dollars for a million tokens, and what is asked here at most 4096+… and 1000 tokens.
const haiku = `{"model":"claude-haiku-4-5","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]}`

func says(input, output int) string {
	return fmt.Sprintf(`{"usage":{"input_tokens":%d,"output_tokens":%d}}`, input, output)
}

func TestSpendIsOnRecordBeforeARequestLeaves(t *testing.T) {
	var d *driver
	var ask func(string) (int, string)
	d, ask = metered(t, sallyport.SpendLimit{MicroUSD: 1_000_000}, func(w http.ResponseWriter, r *http.Request) {
		at, now := d.spendNow(t)
		if r.URL.Path == "/v1/messages" && (now.Unsettled != 1 || now.Requests != 1 || now.OutputTokens != 1000 || len(at.Spend.Open) != 1) {
			t.Errorf("while it is out: %+v", now)
		}
		fmt.Fprint(w, says(200, 10))
	})
	if status, answer := ask(haiku); status != 200 {
		t.Fatal(status, answer)
	}
	if status, _ := ask("/v1/messages/count_tokens"); status != 200 {
		t.Fatal(status)
	}
	if _, now := d.spendNow(t); now.Requests != 1 {
		t.Errorf("what is free was counted: %+v", now)
	}
}

func TestSpendIsSettled(t *testing.T) {
	d, ask := metered(t, sallyport.SpendLimit{MicroUSD: 1_000_000}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, says(200, 10)) })
	for range 3 {
		if status, answer := ask(haiku); status != 200 {
			t.Fatal(status, answer)
		}
	}
	if err := d.closeGateway(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, got := d.spendNow(t)
	if want := (sallyport.Spend{USD: 0.00075, Tokens: 630, Requests: 3, InputTokens: 600, OutputTokens: 30}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if s := spendOf(at, d.m); s == nil || s.MicroUSD != 750 || len(spendUnknown(at)) != 0 {
		t.Errorf("evidence: %+v", s)
	}
}

// TestSpendLimitIsMet: the request that would go over it is refused in the API's shape, told once, and ends the Attempt.
func TestSpendLimitIsMet(t *testing.T) {
	for _, on := range []string{sallyport.SpendEnd, sallyport.SpendRefuse} {
		var calls atomic.Int64
		d, ask := metered(t, sallyport.SpendLimit{Tokens: 10_000, OnExceeded: on}, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			fmt.Fprint(w, says(4000, 900))
		})
		over := d.overspent()
		if status, answer := ask(haiku); status != 200 {
			t.Fatal(status, answer)
		}
		for range 3 {
			if status, answer := ask(haiku); status != http.StatusTooManyRequests || !strings.Contains(answer, `"type":"rate_limit_error"`) || !strings.Contains(answer, "of the spend limit of 10,000 tokens is used") {
				t.Fatalf("%s: %d %s", on, status, answer)
			}
		}
		ended := false
		select {
		case <-over:
			ended = true
		case <-time.After(2 * answerGrace):
		}
		if ended != (on == sallyport.SpendEnd) {
			t.Errorf("%s: ended %v", on, ended)
		}
		if err := d.closeGateway(t.Context()); err != nil {
			t.Fatal(err)
		}
		at, now := d.spendNow(t)
		if calls.Load() != 1 || now.Tokens != 4900 || len(at.Report.Refusals) != 1 || at.Report.Refusals[0].Reason != "spend-limit" || at.Report.Refusals[0].Count != 3 {
			t.Errorf("%s: %d calls, %+v, %+v", on, calls.Load(), now, at.Report.Refusals)
		}
		if err := d.affordable(t.Context()); err != nil {
			t.Errorf("there is some left: %v", err)
		}
	}
}

// TestSpendRefusesWhatItCannotBound: nothing leaves, and the Attempt goes on.
func TestSpendRefusesWhatItCannotBound(t *testing.T) {
	d, ask := metered(t, sallyport.SpendLimit{MicroUSD: 1_000_000}, func(http.ResponseWriter, *http.Request) { t.Error("it left") })
	for body, why := range map[string]string{
		strings.Replace(haiku, "haiku-4-5", "unheard-of", 1): "spend-model", strings.Replace(haiku, "{", `{"mcp_servers":[{"url":"x"}],`, 1): "spend-tool", "/v1/files": "spend-call", "[]": "spend-body",
	} {
		if status, answer := ask(body); status != http.StatusBadRequest || !strings.Contains(answer, why) {
			t.Errorf("%s: %d %s", why, status, answer)
		}
	}
	select {
	case <-d.overspent():
		t.Error("the Attempt is to end")
	case <-time.After(2 * answerGrace):
	}
	if at, now := d.spendNow(t); len(at.Report.Refusals) != 4 || now.Requests != 0 {
		t.Errorf("%+v, %+v", at.Report.Refusals, now)
	}
}

// TestSpendMetersModelAPIs: other hosts pass, a model's own host is metered wherever it is asked, and the record stays bounded.
func TestSpendMetersModelAPIs(t *testing.T) {
	d, _ := metered(t, sallyport.SpendLimit{MicroUSD: 1_000_000}, nil)
	s := d.spender
	if c, err := s.Admit(t.Context(), "registry.npmjs.org", "GET", "/left-pad", nil); c != nil || err != nil {
		t.Errorf("another host: %v %v", c, err)
	}
	if c, err := s.Admit(t.Context(), "api.openai.com", "GET", "/v1/models", nil); c != nil || err != nil {
		t.Errorf("a list: %v %v", c, err)
	}
	var no *gateway.Unaffordable
	if _, err := s.Admit(t.Context(), "api.openai.com", "POST", "/v1/batches", []byte("{}")); !errors.As(err, &no) || no.Reason != "spend-call" {
		t.Errorf("a batch: %v", err)
	}
	c, err := s.Admit(t.Context(), "api.anthropic.com", "POST", "/v1/messages", []byte(haiku))
	if err != nil {
		t.Fatal(err)
	}
	c.Close() // not sent
	if _, now := d.spendNow(t); now != (sallyport.Spend{}) {
		t.Errorf("%+v", now)
	}
	s.n = maxMetered
	if _, err := s.Admit(t.Context(), "api.anthropic.com", "POST", "/v1/messages", []byte(haiku)); !errors.As(err, &no) || no.Reason != "spend-requests" || no.Status != http.StatusTooManyRequests {
		t.Errorf("one too many: %v", err)
	}
}

// TestSpendOfManyAtOnce: parallel calls wait for each other rather than go over, and nobody waits for ever.
func TestSpendOfManyAtOnce(t *testing.T) {
	const limit = 100_000
	var together, most, calls atomic.Int64
	d, ask := metered(t, sallyport.SpendLimit{Tokens: limit, OnExceeded: sallyport.SpendRefuse}, func(w http.ResponseWriter, _ *http.Request) {
		n := together.Add(1)
		defer together.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		switch calls.Add(1) % 4 {
		case 0:
			panic(http.ErrAbortHandler) // counts in full
		case 1:
			w.WriteHeader(529)
		default:
			fmt.Fprint(w, says(3000, 500))
		}
	})
	var wg sync.WaitGroup
	for range 60 {
		wg.Add(1)
		go func() { defer wg.Done(); ask(haiku) }()
	}
	wg.Wait()
	if err := d.closeGateway(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, now := d.spendNow(t)
	if now.Tokens > limit || now.Tokens < limit-6000 || now.Unsettled != 0 || most.Load() < 2 || most.Load() > limit/5000 {
		t.Errorf("%+v; %d calls, at most %d together", now, calls.Load(), most.Load())
	}
}

// TestSpendAfterACrash: what a driver left without a settlement counts in full, for this Attempt's next driver and for the next Attempt.
func TestSpendAfterACrash(t *testing.T) {
	hold := make(chan struct{})
	d, ask := metered(t, sallyport.SpendLimit{Tokens: 12_000}, func(w http.ResponseWriter, _ *http.Request) { <-hold; fmt.Fprint(w, says(1, 1)) })
	defer close(hold)
	go ask(haiku)
	for range 500 {
		if _, now := d.spendNow(t); now.Unsettled == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	at, now := d.spendNow(t)
	if now.Unsettled != 1 || now.Tokens < 5000 {
		t.Fatalf("%+v", now)
	}
	if u := spendUnknown(at); len(u) != 1 || !strings.Contains(u[0], "1 request(s)") {
		t.Errorf("%q", u)
	}
	// The next driver sees what is on record, and no more.
	next := &driver{c: d.c, id: d.id, lease: d.lease, m: d.m, digest: d.digest}
	s, err := next.newSpender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if spent, held := s.books.Spent(); spent.Tokens != now.Tokens || held.Tokens != 0 {
		t.Errorf("spent %+v, held %+v, on record %+v", spent, held, now)
	}
	// The same driver, which opens the way out anew where a wire was cut, reserves under other ids.
	twice, err := d.newSpender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := twice.Admit(t.Context(), twice.at.Host, "POST", "/v1/messages", []byte(haiku))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	next.m.Spend = &sallyport.SpendLimit{Tokens: 5000, OnExceeded: sallyport.SpendEnd}
	if err := next.affordable(t.Context()); err == nil || reasonOf(err).Code != "spend" || !strings.Contains(reasonOf(err).Hint, "limits.spend.tokens") {
		t.Errorf("%v", err)
	}
}

// TestSpendAboveWhatWasForeseen: counted as it is, told, and the end.
func TestSpendAboveWhatWasForeseen(t *testing.T) {
	d, ask := metered(t, sallyport.SpendLimit{MicroUSD: 1_000_000}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, says(900_000, 10)) })
	if status, _ := ask(haiku); status != 200 {
		t.Fatal(status)
	}
	if status, answer := ask(haiku); status != http.StatusTooManyRequests || !strings.Contains(answer, "more than could be foreseen") {
		t.Fatal(status, answer)
	}
	<-d.overspent()
	at, now := d.spendNow(t)
	if now.Tokens != 900_010 || !strings.Contains(strings.Join(at.Report.Notices, "\n"), "more than the") {
		t.Errorf("%+v, %q", now, at.Report.Notices)
	}
}

// TestOperatorPrices: the person's own file counts where there is no ceiling, is read strictly, and is frozen as it is.
func TestOperatorPrices(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	if text, err := prices(nil); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	file := filepath.Join(dir, "sallyport", "prices.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := "version: 1\nmodels: {my-model: {input: 1, output: 2, max-output: 10}}\n"
	write(own)
	if text, err := prices(nil); text != own || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if text, err := prices(&manifest.Operator{}); text != "" || err != nil {
		t.Errorf("below a ceiling: %q %v", text, err)
	}
	write("version: 1\nmodels: {my-model: {input: cheap, output: 2}}\n")
	if _, err := prices(nil); sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "US dollars") {
		t.Errorf("%v", err)
	}
	d := driving(t)
	d.m.Spend = &sallyport.SpendLimit{MicroUSD: 1, Prices: own}
	s, err := d.newSpender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.book.Model("my-model"); !ok {
		t.Error("the frozen prices are not used")
	}
}

// TestOwnEndpointIsMetered: however an operator writes the upstream, and also where egress lists it.
func TestOwnEndpointIsMetered(t *testing.T) {
	d, _ := metered(t, sallyport.SpendLimit{MicroUSD: 1}, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	if err := d.closeGateway(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.m.Agent.Endpoint.Upstream = strings.Replace(d.m.Agent.Endpoint.Upstream, "127.0.0.1", "localhost", 1)
	ask := openMeter(t, d)
	if status, answer := ask(haiku); status != http.StatusTooManyRequests {
		t.Errorf("%d %s", status, answer)
	}
	d.m.Agent.Endpoint.Upstream = "https://LLM.corp.example:8443"
	s, err := d.newSpender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !s.Meters("llm.corp.example") || s.Meters("other.corp.example") || s.at.Port != 8443 {
		t.Errorf("%+v", s.at)
	}
}
