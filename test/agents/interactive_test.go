package agents

import (
	"os"
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
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			w.File("sub/b", "b\n")
			w.Commit("sub")
			for i, how := range []struct{ name, dir, task string }{{"given", "sub", "Make a good."}, {"typed", "sub", ""}} {
				args := []string{"run", "-it", "--agent", name, "--name", how.name}
				if how.task != "" {
					args = append(args, "-m", how.task)
				}
				s := w.Terminal(how.dir, args...)
				if how.task == "" {
					s.Shows("/repo/sub")
					time.Sleep(time.Second) // it draws before it listens
					s.Type("Please")
				}
				s.Shows("SCRIPTED-DONE")
				time.Sleep(time.Second)
				s.Type(leave)
				s.Shows("ACCEPTED").Exits(0)
				if got := w.Git("show", "sallyport/"+how.name+":a"); got != "good" {
					t.Errorf("run %d: the branch has %q", i, got)
				}
			}
			m.right(t, 4)
			if held := w.Holding(w.State, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
		})
	}
}
