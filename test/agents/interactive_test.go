package agents

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// TestInteractiveAgents: at a terminal the agents' own screens work, ask nothing at their first start, take
// the task that was given and one that is typed.
func TestInteractiveAgents(t *testing.T) {
	for _, name := range agent.Names() {
		leave := map[string]string{"claude-code": "/exit", "codex": "/quit"}[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serveModel(t, model.Script{Commands: []string{"echo good > ../a"}})
			w := newWorld(t)
			w.useAgent(name, m)
			w.must(os.Mkdir(filepath.Join(w.repo, "sub"), 0o755))
			w.file("sub/b", "b\n")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "sub")
			for i, how := range []struct{ name, dir, task string }{{"given", "sub", "Make a good."}, {"typed", "sub", ""}} {
				args := []string{"run", "-it", "--agent", name, "--name", how.name}
				if how.task != "" {
					args = append(args, "-m", how.task)
				}
				s := w.terminal(how.dir, args...)
				if how.task == "" {
					s.shows("/repo/sub")
					time.Sleep(time.Second) // it draws before it listens
					s.typed("Please")
				}
				s.shows("SCRIPTED-DONE")
				time.Sleep(time.Second)
				s.typed(leave)
				s.shows("ACCEPTED").exits(0)
				if got := w.git("show", "sallyport/"+how.name+":a"); got != "good" {
					t.Errorf("run %d: the branch has %q", i, got)
				}
			}
			m.right(t, 4)
			if held := w.holding(w.state, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
		})
	}
}

// typed types a line as a person does: agents take what comes at once for a paste.
func (t *terminal) typed(line string) {
	t.t.Helper()
	for _, c := range line {
		t.keys(string(c))
		time.Sleep(40 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	t.keys("\r")
}
