package control_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/control"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local"
	"sallyport.dev/sallyport/internal/testkit"
)

// world is one state folder and one repository, with drivers as goroutines of this process.
type world struct {
	t    *testing.T
	c    *control.Control
	repo string
}

func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, repo: filepath.Join(dir, "repo")}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	for name, text := range files {
		p := filepath.Join(w.repo, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Tester")
	w.git("config", "user.email", "tester@example.invalid")
	w.git("add", "-A")
	w.git("commit", "-qm", "base")
	programs := testkit.Programs(t)
	cfg := control.Config{State: filepath.Join(dir, "state"),
		Providers: func(f sallyport.FactoryID, state string) ([]provider.Provider, error) {
			p, err := local.Open(local.Config{Factory: f, Folder: filepath.Join(state, "local"), Keeper: filepath.Join(programs, "sallyport-keeper"), Runner: filepath.Join(programs, "sallyport-runner")})
			return []provider.Provider{p}, err
		},
		Driver: func(id sallyport.AttemptID, _ *os.File, _ []string) error {
			go func() {
				if err := w.c.Drive(context.Background(), id); err != nil {
					t.Logf("driver of %s: %v", id, err)
				}
			}()
			return nil
		}}
	var err error
	if w.c, err = control.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.c.Close() })
	return w
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// run submits, drives and follows to the end.
func (w *world) run(flags sallyport.WorkOrder) journal.Attempt {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 90*time.Second)
	defer cancel()
	id, err := w.c.Submit(ctx, control.Request{Dir: w.repo, Flags: flags, Announce: func(s string) { w.t.Log(s) }, Environ: os.Environ()})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.StartDriver(ctx, id); err != nil {
		w.t.Fatal(err)
	}
	at, err := w.c.Follow(ctx, id, control.Observer{Output: func(p []byte) { w.t.Logf("agent: %s", p) }})
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}

const policy = `version: 1
checks:
  - {name: test, run: sh test.sh, timeout: 1m}
publish: {to: branch, approve: on-finding}
`

var shop = map[string]string{"sallyport.yaml": policy, "value": "wrong\n", "test.sh": "grep -q right value\n"}

func TestAcceptedChangeBecomesABranch(t *testing.T) {
	w := newWorld(t, shop)
	head, status := w.git("rev-parse", "HEAD"), w.git("status", "--porcelain")
	at := w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", "echo right > value; git status --short; git commit -qam 'mine'"}})
	r := at.Report
	if r.State != sallyport.AttemptAccepted || !at.Published {
		t.Fatalf("state %s, decision %s, reason %+v, published %v", r.State, r.Decision, r.Reason, at.Published)
	}
	if got := w.git("show", r.Branch+":value"); got != "right" {
		t.Errorf("the branch %q has %q", r.Branch, got)
	}
	if got := w.git("rev-list", "--count", "main.."+r.Branch); got != "1" {
		t.Errorf("%s commits on the branch, want 1", got)
	}
	if w.git("rev-parse", "HEAD") != head || w.git("status", "--porcelain") != status {
		t.Error("the user's checkout was touched")
	}
	if len(r.Checks) != 1 || r.Checks[0].BaseStatus != sallyport.CheckFailed || r.Checks[0].StatusBy != "keeper" {
		t.Errorf("checks %+v", r.Checks)
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCheckThatFailsRejectsAndTheNextAttemptIsTold(t *testing.T) {
	w := newWorld(t, shop)
	at := w.run(sallyport.WorkOrder{Task: "make it right", Attempts: 2, Command: []string{"sh", "-c", `
		if [ -z "$SALLYPORT_FEEDBACK" ]; then echo "all tests pass"; echo better > value; exit 0; fi
		grep -q 'Check "test": failed' "$SALLYPORT_FEEDBACK" && grep -q better value && echo right > value`}})
	if at.Report.State != sallyport.AttemptAccepted || at.Report.Number != 2 {
		t.Fatalf("attempt %d is %s: %+v", at.Report.Number, at.Report.State, at.Report.Reason)
	}
	first, err := w.c.Attempt(t.Context(), string(at.Report.Previous))
	if err != nil || first.Report.Decision != sallyport.DecisionRejected || first.Report.Reason.Code != "check-failed" {
		t.Fatalf("the first attempt: %+v, %v", first.Report.Reason, err)
	}
	if at.Report.Changes[0].Path != "value" || len(at.Report.Changes) != 1 {
		t.Errorf("changes %+v", at.Report.Changes)
	}
}

func TestEndsOtherThanAcceptance(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		state  sallyport.AttemptState
		code   string
	}{
		"the agent fails":              {"echo right > value; exit 3", sallyport.AttemptFailed, "agent-failed"},
		"nothing changed":              {"true", sallyport.AttemptRejected, "no-change"},
		"the change leaves its scope":  {"echo right > value; echo 'version: 1' > sallyport.yaml", sallyport.AttemptRejected, "finding"},
		"a link leads out of the tree": {"echo right > value; ln -s /etc/passwd leak", sallyport.AttemptRejected, "finding"},
		"a test is edited to pass":     {"echo 'exit 0' > test.sh", sallyport.AttemptAwaitingApproval, "tests-edited"},
		"a CI file is added":           {"echo right > value; mkdir -p .github/workflows; echo x > .github/workflows/x.yml", sallyport.AttemptRejected, "finding"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shop)
			at := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", c.script}})
			if at.Report.State != c.state || at.Report.Reason.Code != c.code {
				t.Errorf("%s (%+v), want %s (%s)", at.Report.State, at.Report.Reason, c.state, c.code)
			}
			if out := w.git("for-each-ref", "refs/heads/sallyport"); out != "" {
				t.Errorf("a branch was made: %s", out)
			}
		})
	}
}

// A base that is not the protected ref or behind it may hold an agent's code: what its checks write into
// caches must never become a layer of another sandbox.
func TestOnlyAProtectedBaseWarmsTheCaches(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.MkdirAll(filepath.Join(home, ".npm", "_cacache"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"sallyport.yaml": policy, "value": "wrong\n", "test.sh": "mkdir -p ~/.npm/_cacache/by && id > ~/.npm/_cacache/by/check; grep -q right value\n"}
	w := newWorld(t, files)
	w.git("switch", "-qc", "agents")
	if err := os.WriteFile(filepath.Join(w.repo, "value"), []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.git("commit", "-qam", "not protected")
	w.git("switch", "-q", "main")
	layers := func() int {
		all, err := filepath.Glob(filepath.Join(filepath.Dir(w.repo), "state", "cache-layers", "*", "layer_*", "*", "upper", "by"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	fix := []string{"sh", "-c", "echo right > value"}
	if at := w.run(sallyport.WorkOrder{Name: "from-agents", Base: "agents", Command: fix}); at.Report.State != sallyport.AttemptAwaitingApproval {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	if n := layers(); n != 0 {
		t.Errorf("%d layers were kept from an unprotected base", n)
	}
	if at := w.run(sallyport.WorkOrder{Name: "from-main", Command: fix}); at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	if n := layers(); n != 1 {
		t.Errorf("%d layers were kept from the protected base, want 1", n)
	}
	if at := w.run(sallyport.WorkOrder{Name: "sees-it", Command: []string{"sh", "-c", "cat ~/.npm/_cacache/by/check && echo right > value"}}); at.Report.State != sallyport.AttemptAccepted {
		t.Errorf("a later sandbox does not see the layer: %s: %+v", at.Report.State, at.Report.Reason)
	}
}
