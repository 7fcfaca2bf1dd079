package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/gateway"
)

func TestPresetsAreWhole(t *testing.T) {
	if got := agent.Names(); !slices.Equal(got, []string{"claude-code", "codex"}) {
		t.Fatalf("presets %v", got)
	}
	for _, name := range agent.Names() {
		p, err := agent.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := gateway.Check(*p.Endpoint); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.Endpoint.Paths) == 0 || p.Endpoint.CredentialEnv == "" || p.Env[p.Endpoint.CredentialEnv] != "{{placeholder}}" {
			t.Errorf("%s: the placeholder does not stand where the credential would: %+v", name, p)
		}
		if n := len(p.Command); n < 2 || p.Command[n-2] != "--" || p.Command[n-1] != "{{task}}" {
			t.Errorf("%s: the task is not the one argument after --: %q", name, p.Command)
		}
	}
}

func TestUnknownPresetListsNames(t *testing.T) {
	_, err := agent.Preset("clippy")
	if sallyport.CodeOf(err) != sallyport.CodeNotFound || !strings.Contains(err.Error(), "claude-code, codex") || sallyport.HintOf(err) == "" {
		t.Fatalf("got %v", err)
	}
}

func TestPresetIsACopy(t *testing.T) {
	a, _ := agent.Preset("codex")
	a.Command[0], a.Env["X"], a.Endpoint.Paths[0], a.Endpoint.Upstream = "evil", "1", "/", "https://evil"
	b, _ := agent.Preset("codex")
	if b.Command[0] != "codex" || b.Env["X"] != "" || b.Endpoint.Paths[0] != "/v1/responses" || b.Endpoint.Upstream != "https://api.openai.com" {
		t.Fatalf("a caller changed the preset: %+v", b)
	}
}

func TestOverride(t *testing.T) {
	cases := []struct{ name, value, want string }{
		{"codex", "", "https://api.openai.com"},
		{"codex", "https://models.example/v1", "https://models.example"},
		{"codex", "https://models.example/v1/", "https://models.example"},
		{"codex", "https://models.example", "https://models.example"},
		{"claude-code", "http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"claude-code", "https://models.example/", "https://models.example"},
		{"claude-code", "https://models.example/v1", ""},
		{"codex", "https://models.example/v2", ""},
		{"codex", "https://user:hunter2@models.example", ""},
		{"codex", "https://models.example/?key=hunter2", ""},
		{"codex", "ftp://models.example", ""},
		{"codex", "models.example", ""},
	}
	variables := map[string]string{"codex": "OPENAI_BASE_URL", "claude-code": "ANTHROPIC_BASE_URL"}
	for _, c := range cases {
		p, _ := agent.Preset(c.name)
		got, err := agent.Override(p, func(k string) string {
			if k == variables[c.name] {
				return c.value
			}
			return "https://wrong.example"
		})
		if c.want == "" {
			var e *sallyport.Error
			if !errors.As(err, &e) || e.Code != sallyport.CodeInvalid || e.Subject != variables[c.name] || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s %q: got %v", c.name, c.value, err)
			}
			continue
		}
		if err != nil || got.Endpoint.Upstream != c.want {
			t.Errorf("%s %q: got %q, %v", c.name, c.value, got.Endpoint.Upstream, err)
		}
		if p.Endpoint.Upstream == "https://models.example" {
			t.Error("Override changed its argument")
		}
	}
}

// Whatever a task says, it is exactly one argument, the last, and nothing in it is a template.
func TestBuildLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := agent.Preset(rapid.SampledFrom(agent.Names()).Draw(t, "agent"))
		text := rapid.StringMatching(`(\{\{task\}\}|\{\{placeholder\}\}|\{\{endpoint\}\}|[ -~\n]){1,40}x`).Draw(t, "text")
		s, err := agent.Build(p, agent.Task{Text: text, Placeholder: "held-instead-of-it"})
		if err != nil {
			t.Fatal(err)
		}
		n := len(p.Command)
		if len(s.Argv) != n || s.Argv[n-2] != "--" || strings.TrimPrefix(s.Argv[n-1], "Task: ") != text && s.Argv[n-1] != text {
			t.Fatalf("%q became %q", text, s.Argv)
		}
		for _, a := range s.Argv[:n-1] {
			if strings.Contains(a, "{{") {
				t.Fatalf("not filled in: %q", a)
			}
		}
		if s.Env[p.Endpoint.CredentialEnv] != "held-instead-of-it" || strings.Contains(strings.Join(s.Argv[:n-1], " "), "held-instead-of-it") {
			t.Fatalf("the placeholder is not in the environment alone: %+v", s)
		}
	})
}

func TestBuildFeedback(t *testing.T) {
	p, _ := agent.Preset("codex")
	s, err := agent.Build(p, agent.Task{Text: "Fix it.", Feedback: "/run/sallyport/files/feedback.md", Placeholder: "x"})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Argv[len(s.Argv)-1]
	if s.Env["SALLYPORT_FEEDBACK"] != "/run/sallyport/files/feedback.md" || !strings.HasPrefix(last, "Fix it.\n\n") || !strings.Contains(last, "/run/sallyport/files/feedback.md") {
		t.Fatalf("got %+v", s)
	}
	s, _ = agent.Build(p, agent.Task{Text: "Fix it.", Placeholder: "x"})
	if _, ok := s.Env["SALLYPORT_FEEDBACK"]; ok || s.Argv[len(s.Argv)-1] != "Fix it." {
		t.Fatalf("a first Attempt got feedback: %+v", s)
	}
}

func TestBuildLongTaskLiesInAFile(t *testing.T) {
	p, _ := agent.Preset("claude-code")
	text := strings.Repeat("long ", 40_000)
	s, err := agent.Build(p, agent.Task{Text: text, Placeholder: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.Files["/run/sallyport/files/task.md"]) != text || !strings.Contains(s.Argv[len(s.Argv)-1], "/run/sallyport/files/task.md") || len(s.Argv[len(s.Argv)-1]) > 1000 {
		t.Fatal("the long task is not in the file that the argument names")
	}
}

func TestBuildRefuses(t *testing.T) {
	p, _ := agent.Preset("codex")
	for subject, task := range map[string]agent.Task{
		"task":        {Text: " \n", Placeholder: "x"},
		"placeholder": {Text: "Fix it."},
	} {
		var e *sallyport.Error
		if _, err := agent.Build(p, task); !errors.As(err, &e) || e.Code != sallyport.CodeInvalid || e.Subject != subject {
			t.Errorf("%+v: got %v", task, err)
		}
	}
	for _, text := range []string{"a\x00b", "a\xffb"} {
		if _, err := agent.Build(p, agent.Task{Text: text, Placeholder: "x"}); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A user's own command is not a template, whatever it looks like.
func TestBuildLeavesOwnCommandsAlone(t *testing.T) {
	own := sallyport.Agent{Command: []string{"sh", "-c", "echo {{task}}"}, Env: map[string]string{"A": "{{placeholder}}"}}
	s, err := agent.Build(own, agent.Task{Text: "x", Feedback: "/f"})
	if err != nil || !slices.Equal(s.Argv, own.Command) || s.Env["A"] != "{{placeholder}}" || s.Env["SALLYPORT_FEEDBACK"] != "/f" {
		t.Fatalf("got %+v, %v", s, err)
	}
}

// At a terminal the agent needs no task, and what it would ask at its first start is answered for exactly
// this Attempt's folder and placeholder, whatever the folder is called.
func TestInteractive(t *testing.T) {
	const repository, placeholder = `/home/a b/"quoted"\{{task}}`, "sallyport-placeholder-0123456789abcdef"
	for _, name := range agent.Names() {
		plain, _ := agent.Preset(name)
		p, err := agent.Interactive(name)
		if err != nil || slices.Equal(p.Command, plain.Command) || p.Command[0] != plain.Command[0] || p.Endpoint.Upstream != plain.Endpoint.Upstream {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
		if n := len(p.Command); n < 3 || p.Command[n-2] != "--" || p.Command[n-1] != "{{task}}" {
			t.Fatalf("%s: the task is not the one argument after --: %q", name, p.Command)
		}
		task := agent.Task{Terminal: true, Home: "/home/a", Repository: repository, Placeholder: placeholder}
		s, err := agent.Build(p, task)
		if err != nil || len(s.Argv) != len(p.Command)-2 || slices.Contains(s.Argv, "--") {
			t.Fatalf("%s without a task: %q, %v", name, s.Argv, err)
		}
		task.Text = "--help {{repository}}"
		s, err = agent.Build(p, task)
		if err != nil || s.Argv[len(s.Argv)-1] != task.Text {
			t.Fatalf("%s with a task: %q, %v", name, s.Argv, err)
		}
		answers := strings.Join(s.Argv[:len(s.Argv)-1], " ")
		for path, data := range s.Files {
			if !strings.HasPrefix(path, "/home/a/") || !json.Valid(data) || strings.Contains(string(data), placeholder) {
				t.Errorf("%s: %s: %s", name, path, data)
			}
			answers += string(data)
		}
		if quoted, _ := json.Marshal(repository); !strings.Contains(answers, string(quoted)) {
			t.Errorf("%s: nothing says that the folder is trusted: %s", name, answers)
		}
		task.Text, task.Feedback = "", "/run/sallyport/files/feedback.md"
		if s, err = agent.Build(p, task); err != nil || !strings.Contains(s.Argv[len(s.Argv)-1], task.Feedback) {
			t.Errorf("%s with feedback only: %q, %v", name, s.Argv, err)
		}
		task.Home = ""
		if _, err := agent.Build(p, task); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s without a home: %v", name, err)
		}
	}
	p, _ := agent.Interactive("claude-code")
	s, _ := agent.Build(p, agent.Task{Terminal: true, Home: "/home/a", Repository: "/r", Placeholder: placeholder})
	if !strings.Contains(string(s.Files["/home/a/.claude.json"]), `"`+placeholder[len(placeholder)-20:]+`"`) {
		t.Errorf("the placeholder is not approved: %s", s.Files)
	}
	if _, err := agent.Interactive("clippy"); sallyport.CodeOf(err) != sallyport.CodeNotFound {
		t.Errorf("an unknown preset: %v", err)
	}
}
