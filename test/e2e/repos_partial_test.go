package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// origin turns the world's repository into one that serves partial clones, and returns it; the person's is gone.
func origin(w *world.World) string {
	w.T.Helper()
	w.Git("config", "uploadpack.allowFilter", "true")
	w.Git("config", "uploadpack.allowAnySHA1InWant", "true")
	at := filepath.Join(w.Dir, "origin")
	w.Must(os.Rename(w.Repo, at))
	return at
}

// clone makes the person's repository a clone of origin.
func clone(w *world.World, origin string, flags ...string) {
	w.T.Helper()
	w.Command(w.Dir, append(append([]string{"git", "clone", "-q"}, flags...), "file://"+origin, w.Repo)...).Want(0)
	w.Git("config", "user.name", "Una User")
	w.Git("config", "user.email", "una@example.invalid")
}

// folders commits a repository with two folders and some history.
func folders(w *world.World) {
	w.T.Helper()
	w.Small()
	for _, n := range []string{"1", "2", "3"} {
		w.File("in/"+n, "in "+n+"\n")
		w.File("out/deep/"+n, "out "+n+"\n")
		w.File("out/.gitignore", "*.log\n#"+n+"\n")
		w.File("often", n+"\n")
		w.Commit(n)
	}
}

// TestSparseCheckout: the agent has the whole tree, and what the cone leaves out is no change of the person's.
func TestSparseCheckout(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	folders(w)
	for _, cone := range [][]string{{"sparse-checkout", "set", "in"}, {"sparse-checkout", "set", "--sparse-index", "in"}} {
		w.Git(cone...)
		if _, err := os.Stat(w.Path("out")); err == nil {
			t.Fatal("git did not leave out/ out")
		}
		before := w.Fingerprint()
		name := strings.TrimPrefix(cone[len(cone)-2], "--")
		r := w.Run(name, `[ "$(cat out/deep/1)" = "out 1" ] && [ -z "$(git status --porcelain)" ] && echo more >> out/deep/2 && echo good > a`).Want(0).Silent("not in the base")
		took(w, r.Report(), map[string]string{"a": "good\n", "out/deep/2": "out 2\nmore\n"})
		dirty := w.Run(name+"-dirty", `[ -e out/deep/1 ] && echo good > a`, "--include-dirty").Want(0).Says("0 changed, 0 untracked").Report()
		took(w, dirty, map[string]string{"a": "good\n"})
		w.Untouched(renewed(w, before), r.Report().Branch, dirty.Branch)
	}
}

// renewed is a fingerprint but for the times of objects: git renews those of folders when it reads a sparse index.
func renewed(w *world.World, before map[string]string) map[string]string {
	w.T.Helper()
	after := w.Fingerprint()
	for name, was := range before {
		now, old := strings.Fields(after[name]), strings.Fields(was)
		if strings.HasPrefix(name, ".git/objects/") && len(now) == 3 && len(old) == 3 && now[0] == old[0] && now[2] == old[2] {
			before[name] = after[name]
		}
	}
	return before
}

// TestPartialClone: with all of the base's files there it works, and its history is as complete as the person's.
// Where files are missing it is refused before anything runs; the command that is named brings them.
func TestPartialClone(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"blob:none", "tree:0"} {
		t.Run(filter, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			folders(w)
			from := origin(w)
			clone(w, from, "--filter="+filter, "--sparse")
			w.Git("sparse-checkout", "set", "in")
			lacking := w.Fingerprint()
			hint := refused(w, w.Run("lacking", "true"), 40, "partial clone and lacks", "objects", "git fetch").Report().Reason.Hint
			w.Untouched(lacking)
			_, command, _ := strings.Cut(hint, ": ")
			w.Command("", "sh", "-c", command).Want(0)
			// From here on nothing can be fetched.
			w.Must(os.Rename(from, from+".gone"))
			before := w.Fingerprint()
			rep := w.Run("whole", `[ "$(cat out/deep/1)" = "out 1" ] && [ "$(git rev-list --count HEAD)" = 4 ] && [ -z "$(git status --porcelain)" ] && git diff --quiet HEAD && echo good > a && git commit -qam mine && git show --stat HEAD`).Want(0).Report()
			took(w, rep, map[string]string{"a": "good\n"})
			noticed(w, rep, "partial clone")
			shallow := w.Run("shallow", `git fsck && echo good > a`, "--history", "1").Want(0).Report()
			took(w, shallow, map[string]string{"a": "good\n"})
			w.Must(os.Rename(from+".gone", from)) // the person's own git may fetch
			w.Untouched(before, rep.Branch, shallow.Branch)
		})
	}
}

// TestPartialCloneChecksOutAll: the usual partial clone has the files of HEAD.
func TestPartialCloneChecksOutAll(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	folders(w)
	clone(w, origin(w), "--filter=blob:none")
	took(w, w.Run("all", `[ "$(cat out/deep/1)" = "out 1" ] && echo good > a`).Want(0).Report(), map[string]string{"a": "good\n"})
	refused(w, w.Run("older", "true", "--base", "HEAD~2"), 40, "partial clone and lacks", "git fetch")
}
