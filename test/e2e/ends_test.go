package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// TestEnds: how an agent can end, with the exit code and reason of each; what it left is kept.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	before := w.Fingerprint()
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
		r := w.Run(k.name, k.script, k.flags...).Want(k.code).Silent("\x1b[31m")
		rep := r.Report()
		if rep.Reason.Code != k.reason || rep.Reason.Hint == "" {
			t.Errorf("%s: %+v", k.name, rep.Reason)
		}
		if strings.Contains(k.script, "good") {
			w.Sallyport("diff", string(rep.Attempt), "--name-only").Want(0).Says("a\n")
		}
	}
	w.Untouched(before)
}

// TestWhereAPersonStands: a linked work tree and a detached HEAD are repositories like any other.
func TestWhereAPersonStands(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	side := filepath.Join(w.Dir, "side")
	w.Git("worktree", "add", "-q", "-b", "side", side)
	accepted(t, w, w.RunIn(side, "from-side", "echo good > a").Want(0).Report())
	w.File(".gitignore", "ignored/\n")
	w.File("untracked/b", "b\n")
	w.File("ignored/b", "b\n")
	w.Folder("empty")
	accepted(t, w, w.RunIn("untracked", "dirty", "test -e b && echo good > ../a", "--include-dirty").Want(0).Report())
	for _, dir := range []string{"empty", "ignored"} {
		refused(w, w.RunIn(dir, "x", "true", "--include-dirty"), 2, dir, "empty or ignored", "hint")
		refused(w, w.RunIn(dir, "x", "true"), 2, dir, "not in the base", "hint")
	}
	w.Git("checkout", "-q", "--detach")
	accepted(t, w, w.Run("detached", "echo good > a").Want(0).Report())
	if w.Git("rev-parse", "--abbrev-ref", "HEAD") != "HEAD" {
		t.Error("HEAD was moved")
	}
}
