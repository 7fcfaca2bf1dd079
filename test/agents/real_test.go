package agents

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/test/world"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// TestRealAgents: a real agent's change becomes a branch, and on the way there its tools find neither the
// credential nor another way out.
func TestRealAgents(t *testing.T) {
	for _, who := range []struct {
		name string
		uid  int
	}{{"as the tests' user", os.Getuid()}, {"as an ordinary user", world.Ordinary}} {
		for _, name := range agent.Names() {
			t.Run(name+" "+who.name, func(t *testing.T) {
				t.Parallel()
				port, reached := stranger(t)
				m := serveModel(t, model.Script{Commands: []string{hostile(apis[name], port)}})
				w := newWorld(t, who.uid)
				useAgent(w, name, m)
				rep := w.Sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--json").Want(0).Report()
				if rep.State != sallyport.AttemptAccepted || w.Git("show", rep.Branch+":a") != "good" {
					t.Fatalf("%s %+v, branch %q", rep.State, rep.Reason, rep.Branch)
				}
				checkFacts(t, w.Git("show", rep.Branch+":facts.txt"))
				m.right(t, 2)
				if n := reached.Load(); n != 0 {
					t.Errorf("a service of the host was reached %d times", n)
				}
				checkCounters(t, rep.Notices)
				// In the clear or as an agent's own JSON may spell it: the one thing that must not be kept.
				if held := w.Holding(w.State, credential, credential[3:]); len(held) > 0 {
					t.Errorf("the credential is in %q", held)
				}
				if held := w.Holding(w.State, "sallyport-placeholder-"); len(held) == 0 {
					t.Error("the search finds nothing: not even the placeholder is in the state folder")
				}
				if out := w.Sallyport("logs", string(rep.Attempt)).Want(0).Says(closing); strings.Contains(out.Out, credential) {
					t.Error("the credential is in the log")
				}
			})
		}
	}
}

func checkFacts(t *testing.T, facts string) {
	t.Helper()
	for fact, want := range map[string]string{
		"files": "0", "decoys": "1", "environment": "", "other-path": "403", "other-key": "403", "second-key": "403", "no-key": "403",
		"listener": "reached", "other-port": "refused", "other-host": "refused", "other-name": "refused",
	} {
		if !strings.Contains("\n"+facts+"\n", "\n"+fact+"="+want+"\n") {
			t.Errorf("expected %s=%s in:\n%s", fact, want, facts)
		}
	}
	if strings.Contains(facts, "placeholder=0") || !strings.Contains(facts, "placeholder=") {
		t.Errorf("the agent has no placeholder:\n%s", facts)
	}
}

func checkCounters(t *testing.T, notices []string) {
	t.Helper()
	for _, n := range notices {
		if !strings.HasPrefix(n, "model API: ") {
			continue
		}
		for _, part := range []string{" 4 refused", "refused: target", "refused: placeholder", "refused: other-authentication"} {
			if !strings.Contains(n, part) {
				t.Errorf("expected %q in the counters: %s", part, n)
			}
		}
		return
	}
	t.Errorf("no counters in the notices: %q", notices)
}

// TestRetryWithFeedback: a rejected first try, and a second that is told why.
func TestRetryWithFeedback(t *testing.T) {
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serveModel(t, model.Script{
				Commands:      []string{"echo bad > a"},
				AfterFeedback: []string{`f=${SALLYPORT_FEEDBACK:-/run/sallyport/files/feedback.md}; grep -q 'looking at a' "$f" && grep -qx bad a && echo good > a`},
			})
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			rep := w.Sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--attempts", "2", "--json").Want(0).Report()
			if rep.State != sallyport.AttemptAccepted || rep.Number != 2 || rep.Previous == "" || w.Git("show", rep.Branch+":a") != "good" {
				t.Errorf("%s, attempt %d after %q: %+v", rep.State, rep.Number, rep.Previous, rep.Reason)
			}
			if first := w.Sallyport("show", string(rep.Previous), "--json").Want(0).Report(); first.State != sallyport.AttemptRejected {
				t.Errorf("the first try: %s", first.State)
			}
			m.right(t, 4)
			if held := w.Holding(w.State, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
		})
	}
}

// TestNoCredential: without the variable, or with a value that cannot be one, nothing is made.
func TestNoCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	agents := path(w)
	for _, name := range agent.Names() {
		for _, value := range []string{"", "sk-short"} {
			w.Env = []string{agents, apis[name].keyEnv + "=" + value}
			r := w.Sallyport("run", "--agent", name, "-m", "Make a good.", "--json").Want(40).Says(apis[name].keyEnv)
			if rep := r.Report(); rep.Attempt != "" || !strings.Contains(rep.Reason.Message, apis[name].keyEnv) || rep.Reason.Hint == "" {
				t.Errorf("%s: %+v", name, rep.Reason)
			}
			if value != "" && strings.Contains(r.Out+r.Err, value) {
				t.Errorf("%s: the value is shown", name)
			}
		}
	}
	if out := w.Sallyport("ps", "-a").Want(0).Out; strings.Contains(out, "x ") || len(w.Leftovers()) > 0 {
		t.Errorf("something was made: %s", out)
	}
}

// TestNotInstalled: an agent that is not there is named, with the folders that were looked in.
func TestNotInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	empty := w.Dir + "/empty"
	w.Must(os.Mkdir(empty, 0o755))
	for name, program := range map[string]string{"claude-code": "claude", "codex": "codex"} {
		w.Env = []string{apis[name].keyEnv + "=" + credential, "PATH=" + empty + ":/usr/bin:/bin"}
		r := w.Sallyport("run", "--agent", name, "-m", "Make a good.", "--json")
		if r.Code != 2 && r.Code != 40 {
			r.Want(2)
		}
		r.Says(program+": is not on PATH", empty, "/usr/bin", "hint: install "+program)
	}
}

// TestDriverKilledWhileModelThinks: the way to the model opens again on the same socket, and the agent, which
// has only seen a broken connection, finishes.
func TestDriverKilledWhileModelThinks(t *testing.T) {
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := holdModel(t, model.Script{Commands: []string{"echo good > a"}})
			think := sync.OnceFunc(func() { close(m.hold) })
			defer think()
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			id := strings.TrimSpace(w.Sallyport("run", "-d", "--agent", name, "--name", "x", "-m", "Make a good.").Want(0).Out)
			select {
			case <-m.arrived:
			case <-time.After(time.Minute):
				t.Fatal("the agent did not call the model")
			}
			w.Kill(w.Driver())
			think()
			rep := w.Sallyport("wait", id, "--json").Want(0).Report()
			if rep.State != sallyport.AttemptAccepted || string(rep.Attempt) != id || rep.Number != 1 || w.Git("show", rep.Branch+":a") != "good" {
				t.Errorf("%s %+v", rep.State, rep.Reason)
			}
			if said := strings.Join(rep.NotChecked, "\n"); !strings.Contains(said, "was not all counted, since a driver was ended: at least ") {
				t.Errorf("what the killed driver let out is taken for nothing: %s", said)
			}
			m.right(t, 2)
			if held := w.Holding(w.State, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
			w.Sallyport("fsck").Want(0)
		})
	}
}

// TestNowhereToStart: a folder that the base does not have is refused with a sentence.
func TestNowhereToStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	w.Folder("empty")
	r := w.Command("", "sh", "-c", `cd empty && exec "$0" run --json -- true`, w.Program()).Want(2).Says("empty", "not in the base")
	if rep := r.Report(); rep.Attempt != "" || rep.Reason.Hint == "" {
		t.Errorf("%q, %+v", rep.Attempt, rep.Reason)
	}
}
