package spend

import (
	"os"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestTheTableIsWhole(t *testing.T) {
	b := Embedded()
	if b.Date < "2026-11" || b.Source == "" || len(b.Models) < 40 {
		t.Errorf("date %q, source %q, %d models", b.Date, b.Source, len(b.Models))
	}
	for name, m := range b.Models {
		p := m.Price
		if p.Input <= 0 || p.Output < p.Input || p.CacheRead > p.Input || p.CacheWrite < p.Input || p.CacheWrite1h < p.CacheWrite || m.MaxOutput < 1000 || m.Context <= m.MaxOutput || m.Image <= 0 {
			t.Errorf("%s: %+v", name, m)
		}
		if l := m.Long; l != nil && (l.Input <= p.Input || l.Output <= p.Output || l.CacheWrite < l.Input) {
			t.Errorf("%s: long %+v", name, l)
		}
	}
	for name := range dialects {
		if dialects[name].request == nil || dialects[name].event == nil {
			t.Errorf("%s is half made", name)
		}
	}
	if p := b.Models["claude-opus-4-8"].Price; p != (Price{5_000_000, 25_000_000, 500_000, 6_250_000, 10_000_000}) {
		t.Errorf("%+v", p)
	}
}

func TestNames(t *testing.T) {
	b := Embedded()
	for name, known := range map[string]bool{"claude-haiku-4-5-20251001": true, "gpt-4.1-2025-04-14": true, "claude-sonnet-4-20250514": true, "claude-opus-4-8": true,
		"claude-opus-4-9": false, "CLAUDE-OPUS-4-8": false, "claude-opus-4-8-latest": false, "": false, "-20250514": false} {
		if _, ok := b.Model(name); ok != known {
			t.Errorf("%q: %v", name, ok)
		}
	}
}

func TestCalls(t *testing.T) {
	b := Embedded()
	for _, c := range []struct {
		method, path, api string
		kind              Kind
	}{
		{"POST", "/v1/messages", "anthropic-messages", Priced}, {"POST", "/v1/messages/count_tokens", "anthropic-messages", Free},
		{"POST", "/v1/messages/batches", "", Unpriced}, {"GET", "/v1/messages", "", Unpriced}, {"POST", "/v1/images/generations", "", Unpriced},
		{"POST", "/v1/chat/completions", "openai-chat", Priced}, {"POST", "/v1/responses", "openai-responses", Priced}, {"POST", "/v1/responses/", "", Unpriced},
	} {
		if api, kind := b.Call("127.0.0.1", c.method, c.path); api != c.api || kind != c.kind {
			t.Errorf("%s %s: %s %d", c.method, c.path, api, kind)
		}
	}
	if !b.Metered("api.anthropic.com") || b.Metered("registry.npmjs.org") {
		t.Error("hosts")
	}
}

// A model API without prices is known for one, so that nothing is sent to it under a limit; an operator can price it.
func TestUnpricedHosts(t *testing.T) {
	b := Embedded()
	const host, path = "api.groq.com", "/openai/v1/chat/completions"
	if _, kind := b.Call(host, "POST", "/v1/chat/completions"); !b.Metered(host) || kind != Unpriced {
		t.Errorf("metered %v, %d", b.Metered(host), kind)
	}
	own, err := Parse("prices.yaml", []byte("version: 1\ndate: 2027-01-01\nsource: x\napis: [{name: openai-chat, hosts: ["+host+"], paths: ["+path+"]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if api, kind := b.With(own).Call(host, "POST", path); api != "openai-chat" || kind != Priced {
		t.Errorf("%s %d", api, kind)
	}
}

func TestOverride(t *testing.T) {
	own, err := Parse("prices.yaml", []byte(`version: 1
date: 2027-01-01
source: the contract
models:
  claude-opus-4-8: {input: 4, output: 20.5, max-output: 1000}
  "vendor/local": {input: 0, output: 0, max-output: 10, long: {above: 10, input: 1, output: 1}}
apis:
  - {name: openai-chat, hosts: [llm.example], paths: [/openai/v1/chat/completions]}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := Embedded().With(own)
	m, _ := b.Model("claude-opus-4-8")
	// What is not said is no cheaper than what is.
	if m.Price != (Price{4_000_000, 20_500_000, 4_000_000, 4_000_000, 4_000_000}) || m.Image != 0 {
		t.Errorf("%+v", m)
	}
	if _, ok := b.Model("gpt-6.2-sol"); !ok || !b.Metered("llm.example") || !b.Metered("api.openai.com") {
		t.Error("the rest is gone")
	}
	if api, kind := b.Call("llm.example", "POST", "/openai/v1/chat/completions"); api != "openai-chat" || kind != Priced {
		t.Error(api, kind)
	}
	// What one host has means nothing on another that the table is about.
	if api, kind := b.Call("api.openai.com", "POST", "/openai/v1/chat/completions"); kind != Unpriced {
		t.Error(api, kind)
	}
	if api, kind := b.Call("api.openai.com", "POST", "/v1/messages/count_tokens"); kind != Unpriced {
		t.Error(api, kind)
	}
}

// TestTheGuidesPriceFile: what the guide shows can be used as it stands.
func TestTheGuidesPriceFile(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide-spend.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```yaml\nversion: 1\n")
	text, _, _ = strings.Cut(text, "```")
	b, err := Parse("guide", []byte("version: 1\n"+text))
	if err != nil || len(b.Models) != 2 || len(b.Calls) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestWrongPriceFiles(t *testing.T) {
	for _, c := range []struct{ text, words string }{
		{"", "version"}, {"version: 2\n", "version: 1"}, {"version: 1\nmodel: {}\n", "[2:1] unknown field"}, {"version: 1\nmodels: {x: {input: 1}}\n", "models.x"},
		{"version: 1\nmodels:\n  x: {input: -1, output: 1}\n", "expected US dollars"}, {"version: 1\nmodels: {x: {input: 1e3, output: 1}}\n", "expected US dollars"}, {"version: 1\nmodels: {x: {input: 0.1234567, output: 1}}\n", "expected US dollars"},
		{"version: 1\nmodels: {x: {input: 1, output: 1, price: 1}}\n", "unknown field"}, {"version: 1\nmodels: {x: {input: 1, output: 1}, x: {input: 0, output: 0}}\n", "x"},
		{"version: 1\nmodels: {x: {input: 1, output: 1, max-output: -1}}\n", "models.x"}, {"version: 1\nmodels: {x: {input: 1, output: 1, hidden: maybe}}\n", "hidden"},
		{"version: 1\nmodels: {x: {input: 1, output: 1, long: {above: 0, input: 1, output: 1}}}\n", "long"}, {"version: 1\napis: [{name: cohere}]\n", "expected one of anthropic-messages"},
		{"version: 1\napis: [{name: openai-chat, paths: [v1/x]}]\n", "exact paths"}, {"version: 1\n# " + strings.Repeat("x", MaxBook), "at most"},
	} {
		_, err := Parse("prices.yaml", []byte(c.text))
		if sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "prices.yaml") {
			t.Errorf("%.60q: %v", c.text, err)
		}
	}
}

func TestDollars(t *testing.T) {
	for text, want := range map[string]int64{"5": 5_000_000, "0.25": 250_000, "0.000001": 1, "999999999.999999": 999_999_999_999_999} {
		if got, ok := Dollars(text); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "1.", ".5", "1e3", "1,5", "0x1", "1 ", "0.0000001", "1234567890", "NaN"} {
		if _, ok := Dollars(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}
