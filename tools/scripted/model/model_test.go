package model

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const key = "sk-scripted-0123456789"

func script() *Endpoint {
	return New(Script{Commands: []string{"make a", "make b"}, AfterFeedback: []string{"make c"}, Closing: "all done", Credential: key, Placeholder: "held-instead"}, nil)
}

func call(e *Endpoint, path, header, value, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set(header, value)
	e.ServeHTTP(w, r)
	return w
}

func TestTurns(t *testing.T) {
	claude := `{"model":"m","stream":true,"tools":[{"name":"Bash"}],"messages":[%s]}`
	codex := `{"model":"m","stream":true,"tools":[{"type":"function","name":"exec_command"}],"input":[%s]}`
	nested := `{"model":"m","stream":true,"input":[{"type":"additional_tools","tools":[{"type":"namespace","tools":[{"type":"custom","name":"exec"}]}]}%s]}`
	result := `{"type": "tool_result"}`
	output := `{"type":"function_call_output"}`
	cases := []struct{ name, path, body, want string }{
		{"first", "/v1/messages", fmt.Sprintf(claude, ""), "make a"},
		{"second", "/v1/messages", fmt.Sprintf(claude, result), "make b"},
		{"closing", "/v1/messages", fmt.Sprintf(claude, result+","+result), "all done"},
		{"quoted results do not count", "/v1/messages", fmt.Sprintf(claude, `{"x":"{\"type\":\"tool_result\"}"}`), "make a"},
		{"aside", "/v1/messages", `{"model":"m","messages":[]}`, "scripted"},
		{"not streamed", "/v1/messages", `{"model":"m","tools":[{"name":"Bash"}],"messages":[]}`, "make a"},
		{"feedback", "/v1/messages", fmt.Sprintf(claude, `{"text":"read SALLYPORT_FEEDBACK"}`), "make c"},
		{"codex first", "/v1/responses", fmt.Sprintf(codex, ""), `cmd\":\"make a`},
		{"codex second", "/v1/responses", fmt.Sprintf(codex, output), `cmd\":\"make b`},
		{"codex nested tools", "/v1/responses", fmt.Sprintf(nested, ""), `tools.exec_command({cmd: \"make a\"})`},
		{"codex closing", "/v1/responses", fmt.Sprintf(nested, ","+output+","+output), "all done"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			header, value := "X-Api-Key", key
			if c.path == "/v1/responses" {
				header, value = "Authorization", "Bearer "+key
			}
			w := call(script(), c.path, header, value, c.body)
			// Claude's tool input is JSON inside JSON; its command stands there unescaped.
			if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) {
				t.Fatalf("answered %d %s, expected %q", w.Code, w.Body, c.want)
			}
		})
	}
}

func TestWitness(t *testing.T) {
	cases := []struct{ name, path, header, value, wrong string }{
		{"placeholder", "/v1/messages", "X-Api-Key", "held-instead", "the placeholder left the sandbox"},
		{"placeholder elsewhere", "/v1/messages", "User-Agent", "a held-instead b", "the placeholder left the sandbox"},
		{"nothing", "/v1/messages", "Accept", "x", "the credential is missing or wrong"},
		{"wrong header", "/v1/responses", "X-Api-Key", key, "the credential is missing or wrong"},
		{"no prefix", "/v1/responses", "Authorization", key, "the credential is missing or wrong"},
		{"other call", "/v1/files", "X-Api-Key", key, "no such call"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := script()
			w := call(e, c.path, c.header, c.value, "{}")
			if calls := e.Calls(); w.Code < 400 || len(calls) != 1 || calls[0].Wrong != c.wrong {
				t.Fatalf("answered %d, calls %+v", w.Code, calls)
			}
		})
	}
}

// An endpoint that was given no credential accepts none, the empty one included.
func TestNoCredentialAcceptsNothing(t *testing.T) {
	if w := call(New(Script{}, nil), "/v1/messages", "X-Api-Key", "", "{}"); w.Code != http.StatusUnauthorized {
		t.Fatalf("answered %d", w.Code)
	}
}
