package agents

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// TestRealAgents: a real agent's change becomes a branch, and on the way there its tools find neither the
// credential nor another way out.
func TestRealAgents(t *testing.T) {
	for _, who := range []struct {
		name string
		uid  int
	}{{"as the tests' user", os.Getuid()}, {"as an ordinary user", ordinary}} {
		for _, name := range agent.Names() {
			t.Run(name+" "+who.name, func(t *testing.T) {
				t.Parallel()
				port, reached := stranger(t)
				m := serveModel(t, model.Script{Commands: []string{hostile(apis[name], port)}})
				w := worldOf(t, who.uid)
				w.useAgent(name, m)
				rep := w.sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--json").want(0).report()
				if rep.State != sallyport.AttemptAccepted || w.git("show", rep.Branch+":a") != "good" {
					t.Fatalf("%s %+v, branch %q", rep.State, rep.Reason, rep.Branch)
				}
				checkFacts(t, w.git("show", rep.Branch+":facts.txt"))
				m.right(t, 2)
				if n := reached.Load(); n != 0 {
					t.Errorf("a service of the host was reached %d times", n)
				}
				checkCounters(t, rep.Notices)
				// In the clear or as an agent's own JSON may spell it: the one thing that must not be kept.
				if held := w.holding(w.state, credential, credential[3:]); len(held) > 0 {
					t.Errorf("the credential is in %q", held)
				}
				if held := w.holding(w.state, "sallyport-placeholder-"); len(held) == 0 {
					t.Error("the search finds nothing: not even the placeholder is in the state folder")
				}
				if out := w.sallyport("logs", string(rep.Attempt)).want(0).says(closing); strings.Contains(out.out, credential) {
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
			w := newWorld(t)
			w.useAgent(name, m)
			rep := w.sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--attempts", "2", "--json").want(0).report()
			if rep.State != sallyport.AttemptAccepted || rep.Number != 2 || rep.Previous == "" || w.git("show", rep.Branch+":a") != "good" {
				t.Errorf("%s, attempt %d after %q: %+v", rep.State, rep.Number, rep.Previous, rep.Reason)
			}
			if first := w.sallyport("show", string(rep.Previous), "--json").want(0).report(); first.State != sallyport.AttemptRejected {
				t.Errorf("the first try: %s", first.State)
			}
			m.right(t, 4)
			if held := w.holding(w.state, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
		})
	}
}

// TestNoCredential: without the variable, or with a value that cannot be one, nothing is made.
func TestNoCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.path = w.installed()
	for _, name := range agent.Names() {
		for _, value := range []string{"", "sk-short"} {
			w.env = []string{apis[name].keyEnv + "=" + value}
			r := w.sallyport("run", "--agent", name, "-m", "Make a good.", "--json").want(40).says(apis[name].keyEnv)
			if rep := r.report(); rep.Attempt != "" || !strings.Contains(rep.Reason.Message, apis[name].keyEnv) || rep.Reason.Hint == "" {
				t.Errorf("%s: %+v", name, rep.Reason)
			}
			if value != "" && strings.Contains(r.out+r.err, value) {
				t.Errorf("%s: the value is shown", name)
			}
		}
	}
	if out := w.sallyport("ps", "-a").want(0).out; strings.Contains(out, "x ") || len(w.leftovers()) > 0 {
		t.Errorf("something was made: %s", out)
	}
}

// TestNotInstalled: an agent that is not there is named, with the folders that were looked in.
func TestNotInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.dir + "/empty"
	w.must(os.Mkdir(empty, 0o755))
	for name, program := range map[string]string{"claude-code": "claude", "codex": "codex"} {
		w.env = []string{apis[name].keyEnv + "=" + credential, "PATH=" + empty + ":/usr/bin:/bin"}
		r := w.sallyport("run", "--agent", name, "-m", "Make a good.", "--json")
		if r.code != 2 && r.code != 40 {
			r.want(2)
		}
		r.says(program+": is not on PATH", empty, "/usr/bin", "hint: install "+program)
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
			w := newWorld(t)
			w.useAgent(name, m)
			id := strings.TrimSpace(w.sallyport("run", "-d", "--agent", name, "--name", "x", "-m", "Make a good.").want(0).out)
			select {
			case <-m.arrived:
			case <-time.After(time.Minute):
				t.Fatal("the agent did not call the model")
			}
			w.killDriver(id)
			think()
			rep := w.sallyport("wait", id, "--json").want(0).report()
			if rep.State != sallyport.AttemptAccepted || string(rep.Attempt) != id || rep.Number != 1 || w.git("show", rep.Branch+":a") != "good" {
				t.Errorf("%s %+v", rep.State, rep.Reason)
			}
			m.right(t, 2)
			if held := w.holding(w.state, credential); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
			w.sallyport("fsck").want(0)
		})
	}
}

// killDriver ends the process that drives an Attempt, without a chance to clean up.
func (w *world) killDriver(id string) {
	w.t.Helper()
	for _, p := range w.processes("SALLYPORT_STATE=" + w.state) {
		pid, argv, _ := strings.Cut(p, " ")
		if strings.Contains(argv, " drive "+id) {
			w.must(syscall.Kill(number(w.t, pid), syscall.SIGKILL))
			return
		}
	}
	w.t.Fatalf("no driver of %s runs", id)
}

// TestNowhereToStart: a folder that the base does not have is refused with a sentence.
func TestNowhereToStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(os.Mkdir(w.repo+"/empty", 0o755))
	w.must(os.Lchown(w.repo+"/empty", w.uid, w.uid))
	r := w.command("sh", "-c", `cd empty && exec "$0" run --json -- true`, w.program()).want(2).says("empty", "not in the base")
	if rep := r.report(); rep.Attempt != "" || rep.Reason.Hint == "" {
		t.Errorf("%q, %+v", rep.Attempt, rep.Reason)
	}
}
