package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
)

const mine = `name: mine
command: [mytool, --model, small, "{{task}}"]
env: {MY_KEY: "{{placeholder}}", MY_URL: "{{endpoint}}/v1"}
endpoint: {upstream: "https://models.example", paths: [/v1/chat/completions], listen: 18790, header: authorization, prefix: "Bearer ", credential_env: MY_KEY}
`

func lay(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path := filepath.Join(dir, "sallyport", "agents", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A person's own preset is used as one that comes with Sallyport.
func TestOwnPreset(t *testing.T) {
	lay(t, "mine.yaml", mine)
	p, err := agent.Preset("mine")
	if err != nil || p.Endpoint.Upstream != "https://models.example" {
		t.Fatalf("%+v, %v", p, err)
	}
	s, err := agent.Build(p, agent.Task{Text: "Fix it.", Placeholder: "held-instead-of-it"})
	if err != nil || !slices.Equal(s.Argv, []string{"mytool", "--model", "small", "Fix it."}) || s.Env["MY_KEY"] != "held-instead-of-it" || s.Env["MY_URL"] != "http://127.0.0.1:18790/v1" {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := agent.Interactive("mine"); sallyport.CodeOf(err) != sallyport.CodeUnsupported {
		t.Errorf("without a form for a terminal: %v", err)
	}
	if _, err := agent.Preset("other"); !strings.Contains(err.Error(), "claude-code, codex, mine") {
		t.Errorf("the list: %v", err)
	}
	if slices.Contains(agent.Names(), "mine") {
		t.Error("it came with Sallyport")
	}
	lay(t, "free.yaml", "name: free\ncommand: [mytool, \"{{task}}\"]\n")
	if p, err := agent.Preset("free"); err != nil || p.Endpoint != nil || p.Env == nil {
		t.Errorf("without a model of its own: %+v, %v", p, err)
	}
	// What comes with Sallyport is not replaced.
	lay(t, "codex.yaml", strings.ReplaceAll(mine, "name: mine", "name: codex"))
	if p, err := agent.Preset("codex"); err != nil || p.Command[0] != "codex" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOwnPresetThatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"another name": {strings.ReplaceAll(mine, "name: mine", "name: yours"), "expected mine"},
		"unknown key":  {mine + "sandbox: off\n", "sandbox"},
		"no task":      {strings.ReplaceAll(mine, `, "{{task}}"`, ""), "{{task}}"},
		"no variable":  {strings.ReplaceAll(mine, ", credential_env: MY_KEY", ""), "credential_env"},
		"no upstream":  {strings.ReplaceAll(mine, `upstream: "https://models.example", `, ""), "upstream"},
		"outside":      {strings.ReplaceAll(mine, "small, ", "small, --, ") + "interactive: {command: [mytool, --, \"{{task}}\"], files: {../x: y}}\n", "home folder"},
		"no yaml":      {"{", "not a preset"},
		"too large":    {mine + strings.Repeat("#", 64<<10), "64 KiB"},
	} {
		lay(t, "mine.yaml", c.text)
		_, err := agent.Preset("mine")
		var e *sallyport.Error
		if !errors.As(err, &e) || e.Code != sallyport.CodeInvalid || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(e.Subject, "mine.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"../mine", "Mine", "", strings.Repeat("a", 41)} {
		if _, err := agent.Preset(name); sallyport.CodeOf(err) != sallyport.CodeNotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
}
