package model

import (
	"encoding/json"
	"fmt"
	"net/http"
)

func countTokens(w http.ResponseWriter, _ request, _ turn) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"input_tokens": 100})
}

// messages speaks the Messages API, streamed where asked for.
func messages(w http.ResponseWriter, q request, t turn) {
	block, stop := object{"type": "text", "text": t.text}, "end_turn"
	if t.command != "" {
		stop = "tool_use"
		block = object{"type": "tool_use", "id": fmt.Sprintf("toolu_%02d", t.n), "name": "Bash", "input": object{"command": t.command, "description": "scripted step"}}
	}
	usage := object{"input_tokens": t.input, "output_tokens": t.output, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	message := object{"id": fmt.Sprintf("msg_%02d", t.n), "type": "message", "role": "assistant", "model": q.Model, "stop_sequence": nil, "usage": usage}
	if !q.Stream {
		message["content"], message["stop_reason"] = []object{block}, stop
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	message["content"], message["stop_reason"] = []object{}, nil
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "message_start", object{"message": message})
	streamBlock(w, block)
	event(w, "message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	event(w, "message_stop", object{})
}

func streamBlock(w http.ResponseWriter, block object) {
	start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": block["text"]}
	if block["type"] == "tool_use" {
		input, _ := json.Marshal(block["input"])
		start = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": string(input)}
	}
	event(w, "content_block_start", object{"index": 0, "content_block": start})
	event(w, "content_block_delta", object{"index": 0, "delta": delta})
	event(w, "content_block_stop", object{"index": 0})
}
