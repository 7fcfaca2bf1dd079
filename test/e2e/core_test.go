package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// TestMainJob is the main job as root and as an ordinary user: the same sentences hold for both.
func TestMainJob(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		w.Small()
		before := w.Fingerprint()
		good := w.Run("good", "echo good > a; id -u; head -2 /proc/self/status").Want(0).Report()
		accepted(t, w, good)
		bad := w.Run("bad", "echo bad > a; echo all tests pass; exit 0").Want(20).Report()
		rejected(t, bad)
		w.Untouched(before, "sallyport/good")
		if got := w.Git("branch", "--list", "--format=%(refname:short)"); got != "main\nsallyport/good" {
			t.Errorf("branches: %q", got)
		}
		failed := w.Run("failed", "echo good > a; exit 3").Want(30).Report()
		if failed.State != sallyport.AttemptFailed || failed.Agent.Exit != 3 || failed.Reason.Code != "agent-failed" {
			t.Errorf("an agent that failed: %s, exit %d, %+v", failed.State, failed.Agent.Exit, failed.Reason)
		}
		human(t, w)
		for name, l := range layers(good) {
			if l.Required && l.Status != sallyport.LayerHeld {
				t.Errorf("required layer %s: %+v", name, l)
			}
		}
		w.Sallyport("fsck").Want(0)
	})
}

func accepted(t *testing.T, w *world.World, r sallyport.Report) {
	t.Helper()
	if r.State != sallyport.AttemptAccepted || r.Decision != sallyport.DecisionAccepted {
		t.Fatalf("state %s, decision %s, %+v", r.State, r.Decision, r.Reason)
	}
	tip := w.Git("rev-parse", r.Branch)
	if tip != string(r.Commit) || w.Git("rev-parse", tip+"^{tree}") != string(r.Tree) || w.Git("rev-parse", tip+"^@") != string(r.Base) {
		t.Errorf("branch %s is at %s, report says commit %s, tree %s, base %s", r.Branch, tip, r.Commit, r.Tree, r.Base)
	}
	if got := w.Git("log", "-1", "--format=%an <%ae>|%cn", r.Branch); got != "Una User <una@example.invalid>|Sallyport" {
		t.Errorf("author and committer: %s", got)
	}
	for _, k := range r.Checks {
		if k.StatusBy != "keeper" {
			t.Errorf("check %s: status by %q", k.Name, k.StatusBy)
		}
	}
	if fi, err := os.Stat(r.Evidence); err != nil || fi.Size() == 0 {
		t.Errorf("evidence: %v", err)
	}
}

func rejected(t *testing.T, r sallyport.Report) {
	t.Helper()
	if r.State != sallyport.AttemptRejected || r.Decision != sallyport.DecisionRejected || r.Branch != "" {
		t.Errorf("state %s, decision %s, branch %q", r.State, r.Decision, r.Branch)
	}
	for _, k := range r.Checks {
		if k.Status == sallyport.CheckFailed && k.Exit != 0 && k.BaseStatus == sallyport.CheckPassed {
			return
		}
	}
	t.Errorf("no check failed that passes on the base: %+v", r.Checks)
}

// human looks at the screen without --json: the verdict on stdout in at most 12 lines, the rest on stderr.
func human(t *testing.T, w *world.World) {
	t.Helper()
	r := w.Sallyport("run", "--name", "seen", "-m", "Be seen", "--", "sh", "-c", `echo good news > a; printf 'out \033]0;title\007 text\n'`).Want(0)
	if n := strings.Count(strings.TrimRight(r.Out, "\n"), "\n") + 1; n > 12 {
		t.Errorf("the last screen has %d lines:\n%s", n, r.Out)
	}
	for _, part := range []string{"ACCEPTED", "sallyport/seen", "test", "passed"} {
		if !strings.Contains(r.Out, part) {
			t.Errorf("the screen does not say %q:\n%s", part, r.Out)
		}
	}
	if strings.Contains(r.Out+r.Err, "\x1b]0;") {
		t.Error("the agent set the terminal's title")
	}
	r.Says("text")
	bad := w.Sallyport("run", "--name", "seen-bad", "-m", "Be seen", "--", "sh", "-c", "echo no > a").Want(20).Says("REJECTED", "failed", "looking at a")
	if n := strings.Count(bad.Out, "\n"); n > 12+20 {
		t.Errorf("the screen of a rejected change has %d lines:\n%s", n, bad.Out)
	}
}

func layers(r sallyport.Report) map[sallyport.Layer]sallyport.LayerReport {
	out := map[sallyport.Layer]sallyport.LayerReport{}
	for _, l := range r.Layers {
		out[l.Layer] = l
	}
	return out
}

func has(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
