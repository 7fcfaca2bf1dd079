package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEnds: how an agent can end, with the exit code and reason of each; what it left is kept.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	before := w.fingerprint()
	for _, k := range []struct {
		name, script, reason string
		code                 int
		flags                []string
	}{
		{"nothing", "true", "no-change", 20, nil},
		{"status", "echo good > a; exit 7", "agent-failed", 30, nil},
		{"killed", "echo good > a; kill -9 $$", "agent-failed", 30, nil},
		{"too-long", "echo good > a; sleep 60", "limit", 30, []string{"--time", "2s"}},
		{"link", "echo good > a; ln -s /etc/passwd link", "finding", 20, nil},
		{"odd-name", `echo good > a; printf x > "$(printf 'sp\033[31mred')"`, "finding", 20, nil},
	} {
		r := w.run(k.name, k.script, k.flags...).want(k.code).silent("\x1b[31m")
		rep := r.report()
		if rep.Reason.Code != k.reason || rep.Reason.Hint == "" {
			t.Errorf("%s: %+v", k.name, rep.Reason)
		}
		if strings.Contains(k.script, "good") {
			w.sallyport("diff", string(rep.Attempt), "--name-only").want(0).says("a\n")
		}
	}
	w.untouched(before)
}

// TestWhereAPersonStands: a linked work tree and a detached HEAD are repositories like any other.
func TestWhereAPersonStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	side := filepath.Join(w.dir, "side")
	w.git("worktree", "add", "-q", "-b", "side", side)
	accepted(t, w, w.runIn(side, "from-side", "echo good > a").want(0).report())
	w.git("checkout", "-q", "--detach")
	accepted(t, w, w.run("detached", "echo good > a").want(0).report())
	if w.git("rev-parse", "--abbrev-ref", "HEAD") != "HEAD" {
		t.Error("HEAD was moved")
	}
}
