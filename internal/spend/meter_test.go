package spend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":100,\"cache_creation_input_tokens\":50,\"cache_read_input_tokens\":1000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":20,\"ephemeral_1h_input_tokens\":30},\"output_tokens\":2}}}\n\n"
	messageText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello there\"}}\n\n"
	messageDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":40}}\n\n"
	messageStop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

	responsesDone = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":1100,\"input_tokens_details\":{\"cached_tokens\":1000},\"output_tokens\":40,\"output_tokens_details\":{\"reasoning_tokens\":30},\"total_tokens\":1140}}}\n\n"
	responsesText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n"
	chatText      = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}],\"usage\":null}\n\n"
	chatDone      = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n"
)

func meter(t *testing.T, api, body string) *Meter {
	t.Helper()
	m := bounded(t, api, body).Meter()
	m.Sent()
	return m
}

func heard(t *testing.T, m *Meter, status int, kind, answer string) Settled {
	t.Helper()
	m.Answer(status, kind)
	if n, err := m.Write([]byte(answer)); n != len(answer) || err != nil {
		t.Fatal(n, err)
	}
	return m.Settle()
}

func TestSettle(t *testing.T) {
	const stream, whole = "text/event-stream; charset=utf-8", "application/json"
	quiet := strings.Replace(claude, `"thinking":{"type":"adaptive"},`, "", 1) // thinks only where it is asked to
	full := func(api, body string) Settled {
		r := bounded(t, api, body)
		return Settled{HowFull, r.Input, r.Output, r.Amount}
	}
	// opus 4.8: 5 in, 6.25 and 10 written, 0.5 cached, 25 out
	paid := Settled{HowUsage, 1150, 40, Amount{100*5 + 125 + 30*10 + 500 + 40*25, 1190}}
	for name, c := range map[string]struct {
		api, body    string
		status       int
		kind, answer string
		want         Settled
	}{
		"messages stream":         {"anthropic-messages", claude, 200, stream, messageStart + messageText + messageDelta + messageStop, paid},
		"messages stream, CRLF":   {"anthropic-messages", claude, 200, stream, strings.ReplaceAll(messageStart+messageText+messageDelta+messageStop, "\n", "\r\n"), paid},
		"messages without stop":   {"anthropic-messages", claude, 200, stream, messageStart + messageDelta, paid},
		"messages whole":          {"anthropic-messages", claude, 200, whole, `{"content":[],"usage":{"input_tokens":100,"output_tokens":40,"cache_read_input_tokens":0}}`, Settled{HowUsage, 100, 40, Amount{500 + 1000, 140}}},
		"writes not told apart":   {"anthropic-messages", claude, 200, whole, `{"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":10}}`, Settled{HowUsage, 10, 0, Amount{100, 10}}},
		"messages cut":            {"anthropic-messages", quiet, 200, stream, messageStart + messageText, Settled{HowCut, 1150, 1024 + 91, Amount{100*5 + 125 + 30*10 + 500 + (1024+91)*25, 1150 + 1024 + 91}}},
		"messages cut in a line":  {"anthropic-messages", quiet, 200, stream, messageStart + messageText[:60], Settled{HowCut, 1150, 1024 + 33, Amount{100*5 + 125 + 30*10 + 500 + (1024+33)*25, 1150 + 1024 + 33}}},
		"messages cut, thinking":  {"anthropic-messages", claude, 200, stream, messageStart + messageText, Settled{HowCut, 1150, 64000, Amount{100*5 + 125 + 30*10 + 500 + 64000*25, 65150}}},
		"usage is missing":        {"anthropic-messages", quiet, 200, stream, messageText + messageStop, full("anthropic-messages", quiet)},
		"no usage in the whole":   {"anthropic-messages", claude, 200, whole, `{"content":[]}`, full("anthropic-messages", claude)},
		"usage is no number":      {"anthropic-messages", claude, 200, whole, `{"usage":{"input_tokens":"1","output_tokens":1}}`, full("anthropic-messages", claude)},
		"an answer that is none":  {"anthropic-messages", claude, 200, "text/html", `<html>`, full("anthropic-messages", claude)},
		"too long to be read":     {"anthropic-messages", claude, 200, whole, `{"usage":{"input_tokens":1,"output_tokens":1},"x":"` + strings.Repeat("x", maxAnswer) + `"}`, full("anthropic-messages", claude)},
		"an event too long":       {"anthropic-messages", claude, 200, stream, "data: " + strings.Repeat("x", maxAnswer) + "\n\n" + messageStart + messageDelta, paid},
		"the API is overloaded":   {"anthropic-messages", claude, 529, whole, `{"type":"error"}`, Settled{How: HowRefused}},
		"the API refuses":         {"anthropic-messages", claude, 400, whole, `{"type":"error"}`, Settled{How: HowRefused}},
		"something between fails": {"anthropic-messages", claude, 502, whole, ``, full("anthropic-messages", claude)},
		"a search was done":       {"anthropic-messages", claude, 200, whole, `{"usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":{"web_search_requests":1}}}`, Settled{HowAbove, 1, 1, Amount{bounded(t, "anthropic-messages", claude).Amount.MicroUSD + 1, 2}}},

		// sol 6.2: 2 in (2.5 if written, nobody says), 0.2 cached, 10 out
		"responses stream":     {"openai-responses", codex, 200, stream, responsesText + responsesDone, Settled{HowUsage, 1100, 40, Amount{250 + 200 + 400, 1140}}},
		"responses incomplete": {"openai-responses", codex, 200, stream, strings.ReplaceAll(responsesDone, "completed", "incomplete"), Settled{HowUsage, 1100, 40, Amount{250 + 200 + 400, 1140}}},
		"responses whole":      {"openai-responses", codex, 200, whole, `{"usage":{"input_tokens":1100,"input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":0},"output_tokens":40}}`, Settled{HowUsage, 1100, 40, Amount{200 + 200 + 400, 1140}}},
		"responses cut":        {"openai-responses", codex, 200, stream, responsesText, Settled{HowCut, full("openai-responses", codex).Input, 128000, full("openai-responses", codex).Amount}},
		"another tier":         {"openai-responses", codex, 200, whole, `{"service_tier":"priority","usage":{"input_tokens":1,"output_tokens":1}}`, Settled{HowAbove, 1, 1, Amount{bounded(t, "openai-responses", codex).Amount.MicroUSD + 1, 2}}},

		"chat stream":        {"openai-chat", chat, 200, stream, chatText + chatDone, Settled{HowUsage, 10, 5, Amount{6*2 + 2 + 40, 15}}},
		"chat without usage": {"openai-chat", chat, 200, stream, chatText + "data: [DONE]\n\n", full("openai-chat", chat)},
		"chat cut":           {"openai-chat", chat, 200, stream, chatText, Settled{HowCut, full("openai-chat", chat).Input, 100, full("openai-chat", chat).Amount}},
		"chat counts as it goes, and is cut": {"openai-chat", chat, 200, stream, strings.Replace(chatText, "null", `{"prompt_tokens":10,"completion_tokens":1}`, 1),
			Settled{HowCut, 10, 100, Amount{20 + 800, 110}}},
	} {
		if got := heard(t, meter(t, c.api, c.body), c.status, c.kind, c.answer); got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
	if got := bounded(t, "openai-chat", chat).Meter().Settle(); got != (Settled{How: HowUnsent}) {
		t.Errorf("not sent: %+v", got)
	}
	if got := meter(t, "openai-chat", chat).Settle(); got != full("openai-chat", chat) {
		t.Errorf("sent and never answered: %+v", got)
	}
}

// FuzzEvents: whatever an answer holds and however it is cut into pieces, it settles alike, within the reservation unless the API
// itself counts more, and never below what it reported.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{messageStart + messageText + messageDelta + messageStop, responsesText + responsesDone, chatText + chatDone, "data: a\rdata: b\r\n\r\n", "event: x\ndata\n\n", "\n\n:\n"} {
		f.Add(s, uint64(1))
	}
	book := Embedded()
	f.Fuzz(func(t *testing.T, answer string, seed uint64) {
		for api, body := range map[string]string{"anthropic-messages": claude, "openai-responses": codex, "openai-chat": chat} {
			r, no := book.Bound(api, []byte(body))
			if no != nil {
				t.Fatal(no)
			}
			whole, pieces := r.Meter(), r.Meter()
			random := rand.New(rand.NewPCG(seed, 1))
			for _, m := range []*Meter{whole, pieces} {
				m.Answer(200, "text/event-stream")
			}
			_, _ = whole.Write([]byte(answer))
			for rest := []byte(answer); len(rest) > 0; {
				n := 1 + random.IntN(min(len(rest), 20))
				_, _ = pieces.Write(rest[:n])
				rest = rest[n:]
			}
			a, b := whole.Settle(), pieces.Settle()
			if a != b {
				t.Fatalf("%s: %+v whole, %+v in pieces", api, a, b)
			}
			if min(a.Input, a.Output, a.Amount.MicroUSD, a.Amount.Tokens) < 0 || a.Output < whole.u.output {
				t.Fatalf("%s: %+v", api, a)
			}
			if !whole.u.known && a.Amount.MicroUSD > r.Amount.MicroUSD {
				t.Fatalf("%s: %+v of %+v, and the API said nothing", api, a, r)
			}
		}
	})
}

func TestAnswersInTheirOwnShape(t *testing.T) {
	for api, c := range map[string]struct {
		why    Reason
		status int
		words  string
	}{
		"anthropic-messages": {ReasonOver, 429, `{"error":{"code":"spend-limit","message":"sallyport: m","type":"rate_limit_error"},"type":"error"}`},
		"openai-responses":   {ReasonOver, 429, `{"error":{"code":"insufficient_quota","message":"sallyport: m","param":null,"type":"insufficient_quota"}}`},
		"openai-chat":        {ReasonTool, 400, `{"error":{"code":"spend-tool","message":"sallyport: m","param":null,"type":"invalid_request_error"}}`},
	} {
		if status, body := Answer(api, &Refusal{c.why, "m"}); status != c.status || strings.TrimSpace(string(body)) != c.words {
			t.Errorf("%s: %d %s", api, status, body)
		}
	}
}

func TestNamesAreShownHarmless(t *testing.T) {
	_, no := Embedded().Bound("openai-chat", []byte(fmt.Sprintf(`{"model":%q}`, strings.Repeat("\x1b[31m", 100))))
	if no == nil || strings.Contains(no.Message, "\x1b") || len(no.Message) > 400 {
		t.Errorf("%+v", no)
	}
}
