package agent_test

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/agent/agenttest"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
	"sallyport.dev/sallyport/tools/scripted/model"
)

func TestMain(m *testing.M) {
	gatewaytest.Main()
	os.Exit(m.Run())
}

const (
	placeholder = "sallyport-placeholder-att-0001"
	credential  = "sk-real-credential-0123456789"
	closing     = "SCRIPTED-DONE: the file is there"
)

// TestRealAgents runs each preset's real program in a network namespace that has nothing but a loopback
// interface, through the gateway, against a scripted model outside.
func TestRealAgents(t *testing.T) {
	bin := agenttest.Install(t)
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			upstream := model.New(model.Script{
				Commands:    []string{"echo proof > proof.txt; env > env.txt; cat /proc/[0-9]*/environ > all.txt 2>/dev/null; id -u > uid.txt"},
				Closing:     closing,
				Credential:  credential,
				Placeholder: placeholder,
			}, nil)
			server, out := runAgent(t, name, bin, upstream, agent.Task{Text: "Write proof.txt."})
			checkRun(t, upstream, server, out)
		})
	}
}

// What looks like an option or a command of the agent's own must arrive as the task, and feedback beside it.
func TestRealAgentsTakeTaskAsText(t *testing.T) {
	bin := agenttest.Install(t)
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			upstream := model.New(model.Script{
				Commands: []string{"false"}, AfterFeedback: []string{"echo again > again.txt"},
				Closing: closing, Credential: credential,
			}, nil)
			text := []string{"--help {{placeholder}} $(touch injected)", "/exit the program"}
			for _, text := range text {
				server, out := runAgent(t, name, bin, upstream, agent.Task{Text: text, Feedback: "/run/sallyport/files/feedback.md"})
				if got := read(t, out.dir, "again.txt"); got != "again\n" {
					t.Errorf("the feedback did not arrive with the task %q: %s", text, out.text)
				}
				if _, err := os.Stat(filepath.Join(out.dir, "injected")); err == nil {
					t.Errorf("the task %q reached a shell", text)
				}
				if c := server.Counters(); c.Requests == 0 || c.Refused != 0 {
					t.Errorf("counters %+v", c)
				}
			}
		})
	}
}

type output struct{ dir, text string }

func runAgent(t *testing.T, name, bin string, upstream *model.Endpoint, task agent.Task) (*gateway.Server, output) {
	t.Helper()
	api := httptest.NewServer(upstream)
	t.Cleanup(api.Close)
	preset, err := agent.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	preset, err = agent.Override(preset, func(string) string { return api.URL })
	if err != nil {
		t.Fatal(err)
	}
	// An ordinary user inside, this process's own outside, so that it can read its user's cache.
	ns := gatewaytest.Start(t, gatewaytest.User{Inside: 1000, Outside: os.Getuid()})
	ln, err := gateway.Listener(ns.Socket(t, "listen", preset.Endpoint.Listen), preset.Endpoint.Listen)
	if err != nil {
		t.Fatal(err)
	}
	server, err := gateway.Serve(t.Context(), ln, gateway.Config{
		Endpoint: *preset.Endpoint, Placeholder: placeholder,
		Credential: func(context.Context) (string, error) { return credential, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	task.Placeholder = placeholder
	started, err := agent.Build(preset, task)
	if err != nil {
		t.Fatal(err)
	}
	home, dir := t.TempDir(), t.TempDir()
	text, err := ns.Run(t, 50*time.Second, dir, environment(t, bin, home, started.Env), append([]string{filepath.Join(bin, started.Argv[0])}, started.Argv[1:]...)...)
	if err != nil {
		t.Fatalf("%s failed: %v\n%s\n%+v\n%+v", name, err, text, server.Counters(), upstream.Calls())
	}
	return server, output{dir, text}
}

func environment(t *testing.T, bin, home string, agentEnv map[string]string) []string {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not on PATH; Codex needs it")
	}
	// A temporary folder of its own: under /tmp Claude Code keeps one per uid, which another user's run would own.
	temp := t.TempDir()
	env := map[string]string{"HOME": home, "TERM": "dumb", "TMPDIR": temp, "CLAUDE_CODE_TMPDIR": temp, "PATH": strings.Join([]string{bin, filepath.Dir(node), "/usr/bin", "/bin"}, ":")}
	maps.Copy(env, agentEnv)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, fmt.Sprintf("%s=%s", k, env[k]))
	}
	return list
}

func checkRun(t *testing.T, upstream *model.Endpoint, server *gateway.Server, out output) {
	t.Helper()
	if got := read(t, out.dir, "proof.txt"); got != "proof\n" {
		t.Errorf("the tool call wrote %q", got)
	}
	if got := read(t, out.dir, "uid.txt"); got != "1000\n" {
		t.Errorf("the agent ran as uid %q", got)
	}
	if !strings.Contains(out.text, closing) {
		t.Errorf("the closing text is not in the agent's output:\n%s", out.text)
	}
	if all := read(t, out.dir, "all.txt"); strings.Contains(all+out.text+read(t, out.dir, "env.txt"), credential) || !strings.Contains(all, placeholder) {
		t.Error("the credential was inside, or the placeholder was not")
	}
	for _, c := range upstream.Calls() {
		if c.Wrong != "" {
			t.Errorf("the upstream refused %+v", c)
		}
	}
	if c := server.Counters(); c.Refused != 0 || c.Failed != 0 || c.BytesUp == 0 || c.BytesDown == 0 || c.Requests < 2 {
		t.Errorf("counters %+v", c)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
