package model

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// responses speaks the Responses API, always streamed.
func responses(w http.ResponseWriter, q request, t turn) {
	item := object{"type": "message", "id": fmt.Sprintf("msg_%02d", t.n), "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": t.text, "annotations": []object{}}}}
	if t.command != "" {
		item = shellCall(q, t)
	}
	id := fmt.Sprintf("resp_%02d", t.n)
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "response.created", object{"response": object{"id": id, "object": "response", "status": "in_progress", "model": q.Model, "output": []object{}}})
	event(w, "response.output_item.added", object{"output_index": 0, "item": item})
	event(w, "response.output_item.done", object{"output_index": 0, "item": item})
	event(w, "response.completed", object{"response": object{"id": id, "object": "response", "status": "completed", "model": q.Model, "output": []object{item},
		"usage": object{"input_tokens": t.input, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": t.output, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": t.input + t.output}}})
}

// shellCall uses whichever shell tool this version of the agent offers for its model.
func shellCall(q request, t turn) object {
	id, call := fmt.Sprintf("fc_%02d", t.n), fmt.Sprintf("call_%02d", t.n)
	function := func(name string, arguments object) object {
		a, _ := json.Marshal(arguments)
		return object{"type": "function_call", "id": id, "call_id": call, "name": name, "arguments": string(a), "status": "completed"}
	}
	switch {
	case q.has("exec_command"):
		return function("exec_command", object{"cmd": t.command})
	case q.has("shell_command"):
		return function("shell_command", object{"command": t.command})
	case q.has("shell"):
		return function("shell", object{"command": []string{"sh", "-c", t.command}})
	}
	// "exec" takes JavaScript that calls the tools.
	quoted, _ := json.Marshal(t.command)
	return object{"type": "custom_tool_call", "id": id, "call_id": call, "name": "exec", "status": "completed",
		"input": "const r = await tools.exec_command({cmd: " + string(quoted) + "}); text(JSON.stringify(r));"}
}
