// Package model is a model API with no model behind it, for tests and the demonstration: it answers the
// Messages API (/v1/messages) and the Responses API (/v1/responses) from a script. Each turn asks the agent
// for the script's next shell command; when all have run it says a closing text.
//
// It is also a witness: it accepts only the credential it was given, and reports every request that brought
// the placeholder or no credential. Not for anything that a real model should answer.
package model

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// Script is what the endpoint does.
type Script struct {
	Commands []string // shell commands, one for each turn
	// AfterFeedback replaces Commands where the conversation mentions SALLYPORT_FEEDBACK: a second Attempt.
	AfterFeedback []string
	Closing       string // the last turn's text
	Credential    string // the only one that is accepted
	Placeholder   string // must never arrive; empty: not watched for
	Login         bool   // the Messages API is asked with a subscription's token, as a bearer
	Input, Output int    // tokens that each answer says it took; both 0: 11 and 7
}

// Call is one request as it arrived, without headers and body.
type Call struct {
	Method string `json:"method"`
	Target string `json:"target"`
	Status int    `json:"status"`
	Asked  string `json:"asked,omitempty"` // "command 1", "closing", "aside"
	Wrong  string `json:"wrong,omitempty"` // why it was refused
}

// Endpoint is an http.Handler; safe for concurrent use.
type Endpoint struct {
	script Script
	report func(Call)

	mu    sync.Mutex
	calls []Call
}

// New makes an endpoint; report, if not nil, hears of each call when it is answered.
func New(s Script, report func(Call)) *Endpoint { return &Endpoint{script: s, report: report} }

// Calls is what arrived so far.
func (e *Endpoint) Calls() []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Call(nil), e.calls...)
}

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := Call{Method: r.Method, Target: r.RequestURI, Status: http.StatusOK}
	e.answer(w, r, &c)
	e.mu.Lock()
	e.calls = append(e.calls, c)
	e.mu.Unlock()
	if e.report != nil {
		e.report(c)
	}
}

func (e *Endpoint) answer(w http.ResponseWriter, r *http.Request, c *Call) {
	speak, header, prefix := dialect(r.URL.Path)
	if speak == nil || r.Method != http.MethodPost {
		c.refuse(w, http.StatusNotFound, "no such call")
		return
	}
	if wrong := e.checkIdentity(r.Header, header, prefix); wrong != "" {
		c.refuse(w, http.StatusUnauthorized, wrong)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		c.refuse(w, http.StatusBadRequest, "the body broke off")
		return
	}
	q, err := parse(body)
	if err != nil {
		c.refuse(w, http.StatusBadRequest, "the body is not JSON")
		return
	}
	var t turn
	t, c.Asked = e.next(q)
	if t.input, t.output = e.script.Input, e.script.Output; t.input+t.output == 0 {
		t.input, t.output = 11, 7
	}
	speak(w, q, t)
}

func (c *Call) refuse(w http.ResponseWriter, status int, wrong string) {
	c.Status, c.Wrong = status, wrong
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, wrong)
}

// checkIdentity is where a gateway that forwards the placeholder, or adds nothing, is found out.
func (e *Endpoint) checkIdentity(h http.Header, header, prefix string) string {
	if p := e.script.Placeholder; p != "" {
		for _, values := range h {
			for _, v := range values {
				if strings.Contains(v, p) {
					return "the placeholder left the sandbox"
				}
			}
		}
	}
	if e.script.Login {
		header, prefix = "Authorization", "Bearer "
	}
	got, want := h.Values(header), prefix+e.script.Credential
	if e.script.Credential == "" || len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) != 1 {
		return "the credential is missing or wrong"
	}
	return ""
}

// request is the part of both APIs' bodies that the script needs.
type request struct {
	Model  string
	Stream bool
	tools  map[string]bool
	text   string
}

func parse(body []byte) (request, error) {
	q := request{tools: map[string]bool{}, text: string(body)}
	var top map[string]any
	if err := json.Unmarshal(body, &top); err != nil {
		return q, err
	}
	q.Model, _ = top["model"].(string)
	q.Stream, _ = top["stream"].(bool)
	q.collect(top, false)
	return q, nil
}

// collect finds the offered tools wherever they stand: at the top, in an input item, or in a namespace.
func (q request) collect(v any, inTools bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			q.collect(e, inTools)
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok && inTools {
			q.tools[name] = true
		}
		for _, key := range []string{"tools", "input", "function"} {
			q.collect(v[key], key == "tools" || inTools && key == "function")
		}
	}
}

func (q request) has(tools ...string) bool {
	for _, t := range tools {
		if q.tools[t] {
			return true
		}
	}
	return false
}

// turn is what to say: a command to run, or a text.
type turn struct {
	n       int
	command string
	text    string

	input, output int // tokens
}

// results matches a tool's result in either API. Inside a string of the conversation the quotes would be
// escaped, so nothing that a command prints looks like one.
var results = regexp.MustCompile(`"type"\s*:\s*"(tool_result|function_call_output|custom_tool_call_output)"`)

// next counts the results that the conversation already holds: the endpoint has no memory of its own, so
// retries and parallel agents do not confuse it.
func (e *Endpoint) next(q request) (turn, string) {
	if !q.has("Bash", "exec_command", "shell_command", "shell", "exec") {
		return turn{text: "scripted"}, "aside" // a title, a quota probe
	}
	commands := e.script.Commands
	if e.script.AfterFeedback != nil && strings.Contains(q.text, "SALLYPORT_FEEDBACK") {
		commands = e.script.AfterFeedback
	}
	done := len(results.FindAllStringIndex(q.text, -1))
	if done < len(commands) {
		return turn{n: done + 1, command: commands[done]}, fmt.Sprint("command ", done+1)
	}
	return turn{n: done + 1, text: e.script.Closing}, "closing"
}

type object = map[string]any

func event(w http.ResponseWriter, kind string, v object) {
	v["type"] = kind
	b, _ := json.Marshal(v)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	_ = http.NewResponseController(w).Flush()
}

// dialect is how a path's API speaks, and where its credential stands.
func dialect(path string) (speak func(http.ResponseWriter, request, turn), header, prefix string) {
	switch path {
	case "/v1/messages":
		return messages, "X-Api-Key", ""
	case "/v1/messages/count_tokens":
		return countTokens, "X-Api-Key", ""
	case "/v1/responses":
		return responses, "Authorization", "Bearer "
	}
	return nil, "", ""
}
