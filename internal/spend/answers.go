package spend

import (
	"encoding/json"
	"slices"
)

// What each API says of its own use, in its JSON. Numbers below 0 count as none; what is no number makes the whole unknown.

type anthropicUsage struct {
	Input         *int64 `json:"input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	Output        *int64 `json:"output_tokens"`
	Created       *struct {
		FiveMinutes int64 `json:"ephemeral_5m_input_tokens"`
		Hour        int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Tier       string           `json:"service_tier"`
	Speed      string           `json:"speed"`
	ServerTool map[string]int64 `json:"server_tool_use"`
}

// count takes over what is there: the numbers of a stream are running totals, and a later event need not repeat them.
func (a anthropicUsage) count(u *usage) {
	u.writes = true
	set := func(to *int64, from *int64) {
		if from != nil {
			*to = max(*to, *from)
		}
	}
	set(&u.input, a.Input)
	set(&u.cached, a.CacheRead)
	set(&u.output, a.Output)
	if a.CacheCreation != nil {
		hour := max(0, *a.CacheCreation) // untold: the dearer one
		if a.Created != nil {
			hour = max(0, *a.CacheCreation-max(0, a.Created.FiveMinutes))
		}
		u.written1h = max(u.written1h, hour)
		u.written5m = max(u.written5m, max(0, *a.CacheCreation-hour))
	}
	if a.Tier != "" && !slices.Contains([]string{"standard", "batch", "standard_only"}, a.Tier) || a.Speed != "" && a.Speed != "standard" {
		u.unpriced = true
	}
	for _, n := range a.ServerTool {
		u.unpriced = u.unpriced || n > 0
	}
}

func messagesUsage(data []byte, u *usage) {
	var answer struct {
		Usage *anthropicUsage `json:"usage"`
	}
	if json.Unmarshal(data, &answer) != nil || answer.Usage == nil || answer.Usage.Input == nil || answer.Usage.Output == nil {
		return
	}
	answer.Usage.count(u)
	u.known = true
}

func messagesEvent(_ string, data []byte, u *usage) {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage *anthropicUsage `json:"usage"`
		} `json:"message"`
		Usage *anthropicUsage `json:"usage"`
		Delta struct {
			StopReason *string `json:"stop_reason"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &e) != nil {
		u.seen += int64(len(data))
		return
	}
	switch e.Type {
	case "message_start":
		if e.Message.Usage != nil && e.Message.Usage.Input != nil {
			e.Message.Usage.count(u)
			u.known = true
		}
	case "message_delta":
		if e.Usage != nil && e.Usage.Output != nil {
			e.Usage.count(u)
			u.final = u.final || e.Delta.StopReason != nil && *e.Delta.StopReason != ""
		}
	case "message_stop":
		u.ended = true
	case "content_block_start", "content_block_delta":
		u.seen += int64(len(data))
	}
}

type openaiUsage struct {
	Input   *int64 `json:"input_tokens"`
	Prompt  *int64 `json:"prompt_tokens"`
	Output  *int64 `json:"output_tokens"`
	Answer  *int64 `json:"completion_tokens"`
	Details struct {
		Cached *int64 `json:"cached_tokens"`
		Writes *int64 `json:"cache_write_tokens"`
		Audio  int64  `json:"audio_tokens"`
	} `json:"input_tokens_details"`
	PromptDetails struct {
		Cached *int64 `json:"cached_tokens"`
		Writes *int64 `json:"cache_write_tokens"`
		Audio  int64  `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
}

// count takes the last word as it is; it reports whether both sums were there.
func (o openaiUsage) count(u *usage) bool {
	input, output := o.Input, o.Output
	cached, writes := o.Details.Cached, o.Details.Writes
	if input == nil {
		input, output = o.Prompt, o.Answer
		cached, writes = o.PromptDetails.Cached, o.PromptDetails.Writes
	}
	if input == nil || output == nil {
		return false
	}
	total := max(0, *input)
	part := func(p *int64) int64 { // of what is left of total
		if p == nil {
			return 0
		}
		n := min(max(0, *p), total)
		total -= n
		return n
	}
	u.cached, u.written5m = part(cached), part(writes)
	u.input, u.output, u.writes = total, max(0, *output), writes != nil
	u.unpriced = u.unpriced || o.Details.Audio > 0 || o.PromptDetails.Audio > 0
	u.known = true
	return true
}

// noteTier notes a tier that the table does not price. Standard and the cheaper ones are no surprise.
func noteTier(tier string, u *usage) {
	u.unpriced = u.unpriced || !slices.Contains([]string{"", "default", "standard", "auto", "flex", "batch"}, tier)
}

type openaiAnswer struct {
	Usage *openaiUsage `json:"usage"`
	Tier  string       `json:"service_tier"`
}

func (a openaiAnswer) take(u *usage) {
	if a.Usage != nil && a.Usage.count(u) {
		noteTier(a.Tier, u)
	}
}

func openaiWhole(data []byte, u *usage) {
	var a openaiAnswer
	if json.Unmarshal(data, &a) == nil {
		a.take(u)
	}
}

func chatUsage(data []byte, u *usage)      { openaiWhole(data, u) }
func responsesUsage(data []byte, u *usage) { openaiWhole(data, u) }

// chatEvent: usage stands in the last event before [DONE], and only where the request asked for it.
func chatEvent(_ string, data []byte, u *usage) {
	if string(data) == "[DONE]" {
		u.ended, u.final = true, u.known
		return
	}
	u.seen += int64(len(data))
	var e struct {
		openaiAnswer
		Choices []json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	e.take(u)
	u.final = u.known && len(e.Choices) == 0 // some servers count in every event as they go
}

// responsesEvent: usage stands in the event that ends the answer, whichever end it is.
func responsesEvent(_ string, data []byte, u *usage) {
	var e struct {
		Type     string       `json:"type"`
		Response openaiAnswer `json:"response"`
	}
	if json.Unmarshal(data, &e) != nil {
		u.seen += int64(len(data))
		return
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		u.ended = true
		e.Response.take(u)
		u.final = u.known
	case "response.created", "response.in_progress", "response.queued":
	default:
		u.seen += int64(len(data))
	}
}
