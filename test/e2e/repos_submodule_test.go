package e2e

import (
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// library makes a repository beside the person's, with one file and the submodules given by path.
func library(w *world.World, name string, subs map[string]string) string {
	w.T.Helper()
	dir := w.Folder(filepath.Join(w.Dir, name))
	w.Command(dir, "git", "init", "-q", "-b", "main").Want(0)
	w.File(filepath.Join(dir, "code"), name+"\n")
	for path, from := range subs {
		w.Command(dir, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, path).Want(0)
	}
	w.Command(dir, "git", "add", "-A").Want(0)
	w.Command(dir, "git", "-c", "user.name=U", "-c", "user.email=u@example.invalid", "commit", "-qm", name).Want(0)
	return dir
}

// superproject is a repository whose check needs the code of a submodule and of one inside of it. A third is not
// initialised.
func superproject(t *testing.T) *world.World {
	w := world.New(t)
	w.File("a", "base\n")
	w.File("sallyport.yaml", world.Policy("grep -qx lib lib/code && grep -qx deep lib/deep/code && grep -qE 'good|base' a"))
	deep := library(w, "deep", nil)
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library(w, "lib", map[string]string{"deep": deep}), "lib")
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library(w, "other", nil), "more/other")
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	w.Commit("with submodules")
	w.Git("submodule", "--quiet", "deinit", "-f", "more/other")
	return w
}

// TestSubmodules: what is here of submodules is in every sandbox, what is not is an empty folder; nothing in them
// becomes part of the change, and each is said.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	w := superproject(t)
	before := w.Fingerprint()
	rep := w.Run("subs", `set -e
		[ "$(cat lib/code)" = lib ]; [ "$(cat lib/deep/code)" = deep ]; [ -d more/other ]; [ -z "$(ls -A more/other)" ]; [ ! -e lib/.git ]
		[ -z "$(git status --porcelain)" ]
		echo good > a; echo changed > lib/code; echo new > lib/deep/new; rm lib/deep/code; git add -A; git commit -qm mine`).Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n"})
	noticed(w, rep, "submodules", "lib at ", "lib/deep at ")
	noticed(w, rep, "more/other", "git submodule update --init")
	noticed(w, rep, "3 in-submodule")
	w.Untouched(before, rep.Branch)
	only := w.Run("only", "echo changed > lib/code").Want(20).Report()
	if only.Reason.Code != "no-change" {
		t.Errorf("%+v", only.Reason)
	}
	noticed(w, only, "1 in-submodule")
	// What was seen of checks without a submodule says nothing of them with it, nor the other way round.
	w.Git("submodule", "--quiet", "deinit", "-f", "lib")
	if empty := w.Run("empty", "[ -z \"$(ls -A lib)\" ] && echo good > a").Want(20).Report(); empty.Checks[0].BaseStatus != sallyport.CheckFailed || empty.Checks[0].Reused != "" {
		t.Errorf("without the submodule that the check needs: %+v", empty.Checks)
	}
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive", "lib")
	// A submodule that comes later is there in the next run.
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "more/other")
	later := w.Run("later", "[ \"$(cat more/other/code)\" = other ] && echo good > a").Want(0).Report()
	took(w, later, map[string]string{"a": "good\n"})
}

// TestSubmodulesAreNotMoved: a change that adds, removes or replaces one is found.
func TestSubmodulesAreNotMoved(t *testing.T) {
	t.Parallel()
	w := superproject(t)
	for name, k := range map[string]struct {
		script, rule string
		code         int
	}{
		"removed":  {"git rm -q more/other", "submodule.config", 20},
		"gone":     {"rmdir more/other", "submodule.removed", 10},
		"replaced": {"rm -rf more/other && echo file > more/other", "submodule.removed", 10},
		"url":      {"git config -f .gitmodules submodule.lib.url https://example.invalid/evil", "submodule.url", 20},
	} {
		rep := w.Run(name, "echo good > a; "+k.script).Want(k.code).Report()
		if !finds(rep, k.rule) {
			t.Errorf("%s: no finding %s: %+v", name, k.rule, rep.Findings)
		}
	}
	// The person's own submodule that stands elsewhere is not the base's.
	w.File("lib/code", "mine\n")
	w.Command("lib", "git", "-c", "user.name=U", "-c", "user.email=u@example.invalid", "commit", "-qam", "mine").Want(0)
	took(w, w.Run("base", `[ "$(cat lib/code)" = lib ] && echo good > a`).Want(0).Report(), map[string]string{"a": "good\n"})
	w.Git("add", "lib")
	refused(w, w.Run("staged", "true", "--include-dirty"), 2, "lib", "submodule", "commit it first")
	refused(w, w.RunIn("lib", "x", "true"), 2, "submodule of")
}

func finds(r sallyport.Report, rule string) bool {
	for _, f := range r.Findings {
		if f.Rule == rule {
			return true
		}
	}
	return false
}
