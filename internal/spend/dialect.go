package spend

import "encoding/json"

// dialect is how one API says things.
type dialect struct {
	request func(*walk) *Refusal
	usage   func(data []byte, u *usage)              // of a whole answer
	event   func(kind string, data []byte, u *usage) // of one event of a stream
	refusal func(no *Refusal) (status int, body []byte)
}

// dialects by the names that prices.yaml uses.
var dialects map[string]*dialect

func init() { // not a literal: the readers look names up in it
	dialects = map[string]*dialect{
		"anthropic-messages": {request: messagesRequest, usage: messagesUsage, event: messagesEvent, refusal: anthropicRefusal},
		"openai-chat":        {request: chatRequest, usage: chatUsage, event: chatEvent, refusal: openaiRefusal},
		"openai-responses":   {request: responsesRequest, usage: responsesUsage, event: responsesEvent, refusal: openaiRefusal},
	}
}

// Answer is no in the API's own error shape, for a client of it. An api of no known dialect gets the commonest shape.
func Answer(api string, no *Refusal) (status int, body []byte) {
	if d := dialects[api]; d != nil {
		return d.refusal(no)
	}
	return openaiRefusal(no)
}

// Spent says that the limit itself refused, not the form of the request.
func (r *Refusal) Spent() bool {
	return r.Reason == ReasonOver || r.Reason == ReasonClosed || r.Reason == ReasonMany
}

func anthropicRefusal(no *Refusal) (int, []byte) {
	status, kind := 400, "invalid_request_error"
	if no.Spent() {
		status, kind = 429, "rate_limit_error"
	}
	return status, encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": "sallyport: " + no.Message, "code": no.Reason}})
}

func openaiRefusal(no *Refusal) (int, []byte) {
	status, kind := 400, "invalid_request_error"
	code := string(no.Reason)
	if no.Spent() {
		status, kind, code = 429, "insufficient_quota", "insufficient_quota"
	}
	return status, encode(map[string]any{"error": map[string]any{"message": "sallyport: " + no.Message, "type": kind, "param": nil, "code": code}})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("spend: " + err.Error()) // strings always encode
	}
	return append(b, '\n')
}

// take stores a whole number that bounds the output.
func (w *walk) take(what string) *Refusal {
	if w.null() {
		return nil
	}
	n, ok := w.number()
	if !ok {
		return refuse(ReasonOutput, "expected %s as a plain whole number", what)
	}
	w.output = append(w.output, n)
	return nil
}

// name stores the model's name.
func (w *walk) name() *Refusal {
	s, ok := w.text()
	if !ok {
		return refuse(ReasonModel, "expected the model's name as text")
	}
	w.model = s
	return nil
}

// oneOf takes one of words, or null; anything else is refused.
func (w *walk) oneOf(why Reason, what string, words ...string) *Refusal {
	if w.null() {
		return nil
	}
	s, ok := w.text()
	for _, word := range words {
		if ok && s == word {
			return nil
		}
	}
	return refuse(why, "%s is priced otherwise: %s", what, shown(s))
}

// absent takes null alone.
func (w *walk) absent(why Reason, format string, args ...any) *Refusal {
	if w.null() {
		return nil
	}
	return refuse(why, format, args...)
}
