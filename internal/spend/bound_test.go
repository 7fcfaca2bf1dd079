package spend

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The bodies have the shape of those that Claude Code 2.1.197 and Codex 0.171.0 send.
const (
	claude = `{"model":"claude-opus-4-8","messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]},{"role":"system","content":"y"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a"}]}]}],` +
		`"system":[{"type":"text","text":"be good","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}],` +
		`"metadata":{"user_id":"u"},"max_tokens":64000,"thinking":{"type":"adaptive"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"high"},"stream":true}`
	codex = `{"model":"gpt-6.2-sol","stream":true,"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"f","parameters":{}}]}]},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]},{"type":"reasoning","encrypted_content":"AAAA","summary":[]},{"type":"custom_tool_call","call_id":"c","name":"exec","input":"i"},` +
		`{"type":"custom_tool_call_output","call_id":"c","output":"done"}],"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"low"},"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","text":{"verbosity":"low"},"client_metadata":{"a":"b"}}`
	chat = `{"model":"gpt-4.1","messages":[{"role":"user","content":"hello"}],"max_completion_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`
)

func bounded(t *testing.T, api, body string) Reserved {
	t.Helper()
	r, no := Embedded().Bound(api, []byte(body))
	if no != nil {
		t.Fatalf("%s: %v (%s)", api, no, no.Reason)
	}
	return r
}

func TestBoundOfRealRequests(t *testing.T) {
	for _, c := range []struct {
		api, body     string
		output        int64
		input, answer int64 // prices, in micro-dollars per million tokens
	}{
		{"anthropic-messages", claude, 64000, 6_250_000, 25_000_000},
		{"openai-responses", codex, 128000, 2_500_000, 10_000_000},
		{"openai-chat", chat, 100, 2_000_000, 8_000_000},
	} {
		r := bounded(t, c.api, c.body)
		// Every byte may be a token, and what the API adds is in it.
		if r.Input < int64(len(c.body))+overhead || r.Input > 2*int64(len(c.body))+overhead {
			t.Errorf("%s: %d input tokens for %d bytes", c.api, r.Input, len(c.body))
		}
		want := Amount{MicroUSD: cost(r.Input, c.input) + cost(c.output, c.answer), Tokens: r.Input + c.output}
		if r.Output != c.output || r.Amount != want {
			t.Errorf("%s: %+v, expected %+v", c.api, r, want)
		}
	}
}

// set is body with one key replaced or added.
func set(t testing.TB, body, key, value string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	m[key] = json.RawMessage(value)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err, value)
	}
	return string(b)
}

func said(block string) string { return `[{"role":"user","content":[` + block + `]}]` }

// TestRefused is the list of what a spend limit cannot let out. Each is the real request with one thing changed, so that
// nothing else is the reason.
func TestRefused(t *testing.T) {
	type row struct {
		key, value string
		why        Reason
	}
	for api, c := range map[string]struct {
		body string
		rows []row
	}{
		"anthropic-messages": {claude, []row{
			{"model", `"claude-of-tomorrow"`, ReasonModel}, {"model", `null`, ReasonModel}, {"model", `["claude-opus-4-8"]`, ReasonModel}, {"model", `""`, ReasonModel},
			{"max_tokens", `1e3`, ReasonOutput}, {"max_tokens", `-1`, ReasonOutput}, {"max_tokens", `"64"`, ReasonOutput}, {"max_tokens", `99999999999999999999999`, ReasonOutput}, {"max_tokens", `1000000001`, ReasonOutput},
			{"mcp_servers", `[{"type":"url","url":"https://x"}]`, ReasonTool}, {"container", `"c_1"`, ReasonTool}, {"service_tier", `"priority"`, ReasonTier},
			{"speed", `"fast"`, ReasonTier}, {"inference_geo", `"us"`, ReasonTier}, {"fallbacks", `[]`, ReasonField}, {"output_config", `{"effort":"high","tries":2}`, ReasonField}, {"context_management", `{"edits":[{"type":"compact_20260112"}]}`, ReasonTool},
			{"tools", `[{"type":"web_search_20250305","name":"web_search"}]`, ReasonTool}, {"tools", `[{"type":"code_execution_20250825","name":"c"}]`, ReasonTool}, {"tools", `[{"type":"computer_20250124","name":"c"}]`, ReasonTool},
			{"messages", said(`{"type":"image","source":{"type":"url","url":"https://x/i.png"}}`), ReasonRemote}, {"messages", said(`{"type":"image","source":{"type":"file","file_id":"f"}}`), ReasonReference},
			{"messages", said(`{"type":"document","source":{"type":"base64","data":"AA"}}`), ReasonMedia}, {"messages", said(`{"type":"document","source":{"type":"url","url":"u"}}`), ReasonRemote},
			{"messages", said(`{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url"}}]}}`), ReasonRemote},
			{"messages", said(`{"type":"tool_result","content":[{"type":"image","source":{"type":"url"}}]}`), ReasonRemote}, {"messages", said(`{"type":"container_upload","file_id":"f"}`), ReasonReference},
			{"messages", said(`{"type":"web_search_tool_result","content":[]}`), ReasonTool}, {"messages", said(`{"type":"new_thing"}`), ReasonField}, {"messages", said(`{"text":"x"}`), ReasonField}, {"messages", `{}`, ReasonBody},
		}},
		"openai-chat": {chat, []row{
			{"n", `2`, ReasonSeveral}, {"n", `"1"`, ReasonSeveral}, {"prediction", `{"type":"content","content":"x"}`, ReasonField}, {"audio", `{"voice":"x"}`, ReasonMedia},
			{"modalities", `["text","audio"]`, ReasonMedia}, {"web_search_options", `{}`, ReasonTool}, {"service_tier", `"priority"`, ReasonTier}, {"service_tier", `"flex"`, ReasonTier},
			{"tools", `[{"type":"web_search"}]`, ReasonTool}, {"new_field", `1`, ReasonField}, {"reasoning_effort", `"ultra"`, ReasonTier},
			{"messages", said(`{"type":"image_url","image_url":{"url":"https://x/i.png"}}`), ReasonRemote}, {"messages", said(`{"type":"input_audio"}`), ReasonMedia}, {"messages", said(`{"type":"file","file":{"file_id":"f"}}`), ReasonMedia},
			{"messages", `[{"role":"assistant","audio":{"id":"a"}}]`, ReasonReference},
		}},
		"openai-responses": {codex, []row{
			{"previous_response_id", `"resp_1"`, ReasonReference}, {"conversation", `{"id":"c"}`, ReasonReference}, {"prompt", `{"id":"p"}`, ReasonReference}, {"background", `true`, ReasonSeveral}, {"background", `"x"`, ReasonSeveral},
			{"service_tier", `"priority"`, ReasonTier}, {"tools", `[{"type":"web_search"}]`, ReasonTool}, {"tools", `[{"type":"file_search"}]`, ReasonTool}, {"tools", `[{"type":"code_interpreter"}]`, ReasonTool},
			{"tools", `[{"type":"computer_use_preview"}]`, ReasonTool}, {"tools", `[{"type":"image_generation"}]`, ReasonTool}, {"tools", `[{"type":"mcp"}]`, ReasonTool}, {"tools", `[{"name":"x"}]`, ReasonTool}, {"tools", `[{"type":"tool_search"}]`, ReasonTool},
			{"input", `[{"type":"additional_tools","tools":[{"type":"namespace","tools":[{"type":"web_search"}]}]}]`, ReasonTool},
			{"input", `[{"type":"item_reference","id":"i"}]`, ReasonReference}, {"input", `[{"type":"web_search_call","id":"i"}]`, ReasonTool}, {"input", `[{"type":"compaction"}]`, ReasonField},
			{"input", `[{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}]`, ReasonRemote}, {"input", `[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]`, ReasonReference},
			{"input", `[{"role":"user","content":[{"type":"input_file","file_url":"u"}]}]`, ReasonMedia}, {"input", `[{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://x"}]}]`, ReasonRemote},
			{"context_management", `[{"type":"compaction"}]`, ReasonTool}, {"reasoning", `{"effort":"ultra"}`, ReasonTier}, {"reasoning", `{"mode":"pro"}`, ReasonField}, {"max_output_tokens", `1.5`, ReasonOutput},
		}},
	} {
		bounded(t, api, c.body)
		for _, r := range c.rows {
			_, no := Embedded().Bound(api, []byte(set(t, c.body, r.key, r.value)))
			if no == nil || no.Reason != r.why || len(no.Message) > 300 {
				t.Errorf("%s with %s: %s gave %+v, expected %s", api, r.key, r.value, no, r.why)
			}
		}
	}
}

// TestOneReading: what two parsers could read differently is not sent.
func TestOneReading(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, body := range []string{``, ` `, `null`, `[]`, `"x"`, claude + `{}`, claude + ` x`, claude[:len(claude)-1], "\xef\xbb\xbf" + claude, strings.Replace(claude, "hello", "hel\xfflo", 1),
		strings.Replace(claude, `"model"`, `"model":"claude-haiku-4-5","model"`, 1), strings.Replace(claude, `"model"`, `"mod\u0065l":"claude-haiku-4-5","model"`, 1),
		strings.Replace(claude, `"command":{"type"`, `"command":{"a":1,"\u0061":2,"type"`, 1), strings.Replace(claude, `64000`, `64000,"max_tokens":1`, 1),
		set(t, claude, "metadata", deep), strings.Replace(claude, `"stream":true`, `"stream":NaN`, 1), `{"model":"claude-opus-4-8","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","type":"image"}]}]}`,
	} {
		if _, no := Embedded().Bound("anthropic-messages", []byte(body)); no == nil || no.Reason != ReasonBody {
			t.Errorf("%.80q: %+v", body, no)
		}
	}
	if _, no := Embedded().Bound("anthropic-complete", []byte(claude)); no == nil || no.Reason != ReasonCall {
		t.Errorf("an unknown API: %+v", no)
	}
}

func TestImages(t *testing.T) {
	data := strings.Repeat("A", 400_000)
	text := bounded(t, "anthropic-messages", set(t, claude, "messages", said(`{"type":"text","text":"`+data+`"}`)))
	image := bounded(t, "anthropic-messages", set(t, claude, "messages", said(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+data+`"}}`)))
	if text.Input < 400_000 || image.Input > 20_000 || image.Input < 5000+overhead {
		t.Errorf("%d tokens as text, %d as an image", text.Input, image.Input)
	}
	// A picture is one only where the API takes it for one: a tool's input is text.
	hidden := bounded(t, "anthropic-messages", set(t, claude, "messages", said(`{"type":"tool_use","id":"i","name":"n","input":{"type":"image","source":{"type":"base64","data":"`+data+`"}}}`)))
	if hidden.Input < 400_000 {
		t.Errorf("%d tokens for text that looks like an image", hidden.Input)
	}
	codexImage := bounded(t, "openai-responses", set(t, codex, "input", `[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,`+data+`"}]}]`))
	if codexImage.Input > 40_000 || codexImage.Input < 25_000 {
		t.Errorf("%d tokens for an image", codexImage.Input)
	}
}

func TestCachesAndTiers(t *testing.T) {
	one := strings.ReplaceAll(strings.Replace(claude, `,"cache_control":{"type":"ephemeral"}`, "", 1), `,"cache_control":{"type":"ephemeral"}`, "")
	if r := bounded(t, "anthropic-messages", one); r.inputPrice != 5_000_000 {
		t.Errorf("without a cache: %d", r.inputPrice)
	}
	for _, ttl := range []string{`"1h"`, `"2h"`, `7`} {
		hour := strings.Replace(claude, `"ephemeral"}`, `"ephemeral","ttl":`+ttl+`}`, 1)
		if r := bounded(t, "anthropic-messages", hour); r.inputPrice != 10_000_000 {
			t.Errorf("a cache for %s: %d", ttl, r.inputPrice)
		}
	}
	// A prompt that may be longer than the short tier's is priced as one that is.
	long := set(t, set(t, claude, "model", `"claude-haiku-5-5"`), "messages", said(`{"type":"text","text":"`+strings.Repeat("a", 100_000)+`"}`))
	if r := bounded(t, "anthropic-messages", long); r.inputPrice != 625_000 || r.outputPrice != 2_500_000 {
		t.Errorf("a long prompt: %d, %d", r.inputPrice, r.outputPrice)
	}
	// Nothing is longer than the model can read.
	huge := set(t, set(t, claude, "model", `"claude-haiku-4-5-20251001"`), "messages", said(`{"type":"text","text":"`+strings.Repeat("a", 500_000)+`"}`))
	if r := bounded(t, "anthropic-messages", huge); r.Input != 200_000 {
		t.Errorf("a huge prompt: %d", r.Input)
	}
	// A budget above max_tokens bounds the answer.
	if r := bounded(t, "anthropic-messages", set(t, claude, "thinking", `{"type":"enabled","budget_tokens":90000}`)); r.Output != 90000 || !r.hidden {
		t.Errorf("a budget: %+v", r)
	}
	if r := bounded(t, "openai-chat", set(t, chat, "max_tokens", "500")); r.Output != 500 {
		t.Errorf("two maxima: %d", r.Output)
	}
	// A model without a known maximum must be asked with one.
	own, err := Parse("own", []byte("version: 1\nmodels: {local: {input: 0, output: 0.000001}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	book := Embedded().With(own)
	if _, no := book.Bound("openai-chat", []byte(`{"model":"local","messages":[]}`)); no == nil || no.Reason != ReasonOutput {
		t.Errorf("no maximum: %+v", no)
	}
	if r, no := book.Bound("openai-chat", []byte(`{"model":"local","messages":[],"max_tokens":1}`)); no != nil || r.Amount.MicroUSD != 1 {
		t.Errorf("a fraction is rounded up: %+v %+v", r, no)
	}
	if _, no := book.Bound("openai-chat", []byte(set(t, `{"model":"local","max_tokens":1}`, "messages", said(`{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}`)))); no == nil || no.Reason != ReasonMedia {
		t.Errorf("an image without a price: %+v", no)
	}
}

// TestWeigh: what an API may make of a text before it counts is not longer than what is reserved.
func TestWeigh(t *testing.T) {
	for _, s := range []string{"plain", "日本語", "\ufdfa", "🙂", `{"a":[1,2],"b":{}}`, "\u1e9b\u0323", `\ufdfa`} {
		var v any = s
		escaped := fmt.Sprintf("%+q", s)
		spaced, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if n := weigh([]byte(s)); n < int64(len(s)) || n+2 < int64(len(escaped)) && !strings.Contains(s, `"`) && !strings.Contains(s, `\`) || n < int64(len(spaced))/2 {
			t.Errorf("%q weighs %d; escaped it has %d bytes", s, n, len(escaped))
		}
	}
	if n := weigh([]byte("\ufdfa")); n != 33 {
		t.Errorf("the longest normal form weighs %d", n)
	}
	if n := weigh([]byte(`\ufdfa`)); n != 33 {
		t.Errorf("the longest normal form, escaped, weighs %d", n)
	}
}

// FuzzBound: no body makes it panic or take long; what it lets out is one JSON object without a key twice, and bounded by at least its
// length.
func FuzzBound(f *testing.F) {
	for _, s := range []string{claude, codex, chat, `{"a":{"a":[{}]}}`, `{"model":"gpt-4.1","max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":"data:image/png;base64,AA"}]}]}`} {
		f.Add(s)
	}
	book := Embedded()
	f.Fuzz(func(t *testing.T, body string) {
		for api := range dialects {
			r, no := book.Bound(api, []byte(body))
			if no != nil {
				if no.Reason == "" || no.Message == "" || len(no.Message) > 600 {
					t.Fatalf("%+v", no)
				}
				continue
			}
			if !json.Valid([]byte(body)) || twice(json.NewDecoder(strings.NewReader(body))) {
				t.Fatalf("let out %q", body)
			}
			if min(r.Input, r.Output, r.Amount.MicroUSD, r.Amount.Tokens) < 0 || !strings.Contains(body, "image") && r.Input < min(int64(len(body)), 100_000) {
				t.Fatalf("%+v for %d bytes", r, len(body))
			}
		}
	})
}

// twice is another reader's word on whether a key stands twice in an object.
func twice(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return false
			}
			if seen[key.(string)] || twice(d) {
				return true
			}
			seen[key.(string)] = true
		}
		_, _ = d.Token()
	case json.Delim('['):
		for d.More() {
			if twice(d) {
				return true
			}
		}
		_, _ = d.Token()
	}
	return false
}

// TestWorkIsBounded: blocks within blocks cost a few readings of the body, and no more.
func TestWorkIsBounded(t *testing.T) {
	inner := `{"type":"custom","name":"` + strings.Repeat("a", 2_000_000) + `"}`
	for range 40 {
		inner = `{"type":"namespace","tools":[` + inner + `]}`
	}
	body := `{"model":"gpt-6.2-sol","tools":[` + inner + `],"input":[]}`
	w, no := begin([]byte(body))
	if no != nil {
		t.Fatal(no)
	}
	_ = responsesRequest(w)
	if w.ahead > (maxAhead+1)*len(body) {
		t.Errorf("%d bytes were read ahead of %d", w.ahead, len(body))
	}
	if _, no := Embedded().Bound("openai-responses", []byte(body)); no == nil {
		t.Error("let out")
	}
}
