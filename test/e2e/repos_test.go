package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// took fails the test unless the Attempt was accepted and its branch differs from its base in exactly these files,
// which have these bytes; "-" stands for a file that is gone.
func took(w *world.World, r sallyport.Report, want map[string]string) {
	w.T.Helper()
	if r.Decision != sallyport.DecisionAccepted || r.Branch == "" {
		w.T.Fatalf("decision %q, branch %q, %+v, findings %+v", r.Decision, r.Branch, r.Reason, r.Findings)
	}
	changed := map[string]bool{}
	for p := range strings.SplitSeq(w.Command("", "git", "diff-tree", "-r", "-z", "--name-only", "--no-renames", string(r.Base), r.Branch).Want(0).Out, "\x00") {
		if p == "" {
			continue
		}
		changed[p] = true
		if _, ok := want[p]; !ok {
			w.T.Errorf("the branch changes %q as well", p)
		}
	}
	for path, content := range want {
		if !changed[path] {
			w.T.Errorf("the branch does not change %q", path)
		}
		got := w.Command("", "git", "cat-file", "blob", r.Branch+":"+path)
		if content == "-" {
			if got.Code == 0 {
				w.T.Errorf("%q is still there", path)
			}
		} else if got.Want(0).Out != content {
			w.T.Errorf("%q is %q, want %q", path, got.Out, content)
		}
	}
}

// mode is that of a path on a branch, as git writes it.
func mode(w *world.World, branch, path string) string {
	w.T.Helper()
	mode, _, _ := strings.Cut(w.Git("ls-tree", branch, "--", path), " ")
	return mode
}

// noticed fails the test unless one of the Attempt's notices has all of the words.
func noticed(w *world.World, r sallyport.Report, words ...string) {
	w.T.Helper()
	for _, n := range r.Notices {
		all := true
		for _, word := range words {
			all = all && strings.Contains(n, word)
		}
		if all {
			return
		}
	}
	w.T.Errorf("no notice has the words %q: %q", words, r.Notices)
}

// TestLinksAndModes: links inside and executable bits come and go as they are.
func TestLinksAndModes(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File("bin/tool", "#!/bin/sh\necho tool\n")
	w.File("plain", "#!/bin/sh\necho plain\n")
	w.Must(os.Chmod(w.Path("plain"), 0o644))
	w.Must(os.Symlink("../a", w.Path("bin/a")))
	w.Must(os.Symlink("bin", w.Path("folder")))
	w.Commit("links and modes")
	before := w.Fingerprint()
	rep := w.Run("links", `set -e
		[ "$(readlink bin/a)" = ../a ]; [ "$(cat folder/a)" = base ]; [ -x bin/tool ]; [ ! -x plain ]; [ "$(folder/tool)" = tool ]
		[ -z "$(git status --porcelain)" ]
		chmod +x plain; chmod -x bin/tool; ln -sf tool bin/a; ln -s bin/tool short; echo good > folder/new`).Want(0).Report()
	took(w, rep, map[string]string{"plain": "#!/bin/sh\necho plain\n", "bin/tool": "#!/bin/sh\necho tool\n", "bin/a": "tool", "short": "bin/tool", "bin/new": "good\n"})
	for path, want := range map[string]string{"plain": "100755", "bin/tool": "100644", "bin/a": "120000", "short": "120000", "folder": "120000"} {
		if got := mode(w, rep.Branch, path); got != want {
			t.Errorf("%s has mode %s, want %s", path, got, want)
		}
	}
	w.Untouched(before, rep.Branch)
}

// TestNames: a name need not be UTF-8; the bytes of the name are kept, and of all others.
func TestNames(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	latin, koi, other := "na\xefve.txt", "\xd0\xcf/\xc6\xc1\xca\xcc", "na\xeeve.txt"
	w.File(latin, "one\n")
	w.File(koi, "two\n")
	w.File(other, "three\n")
	w.Commit("names of another age")
	before := w.Fingerprint()
	untouched := w.Run("beside", `[ "$(cat "$(printf 'na\357ve.txt')")" = one ] && echo good > a`).Want(0).Report()
	took(w, untouched, map[string]string{"a": "good\n"})
	edited := w.Run("edited", `echo more >> "$(printf 'na\357ve.txt')"; rm "$(printf 'na\356ve.txt')"; echo good > a`, "--approve", "never")
	rep := edited.Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n", latin: "one\nmore\n", other: "-"})
	w.Untouched(before, untouched.Branch, rep.Branch)
	w.Sallyport("show", string(rep.Attempt)).Want(0)
	w.Sallyport("diff", string(rep.Attempt)).Want(0)
	w.Sallyport("verify", rep.Evidence, "--key", w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)).Want(0)
	w.Sallyport("fsck").Want(0)
}

// TestLinkedWorktree: from a linked worktree, on its branch; the main one's files and index stay as they are.
func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	tree := filepath.Join(w.Dir, "linked")
	w.Git("worktree", "add", "-q", tree, "-b", "side")
	before := w.Fingerprint()
	index := w.Read(filepath.Join(w.Repo, ".git/worktrees/linked/index"))
	rep := w.RunIn(tree, "linked", `[ "$(git rev-parse --abbrev-ref HEAD)" = sallyport/linked ] && [ -d .git ] && [ "$PWD" = "`+tree+`" ] && echo good > a`).Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n"})
	w.Untouched(before, rep.Branch)
	if w.Read(filepath.Join(w.Repo, ".git/worktrees/linked/index")) != index || w.Read(filepath.Join(tree, "a")) != "base\n" {
		t.Error("the linked worktree was touched")
	}
}

// TestShallow: a shallow clone stays one; the agent sees the history that there is.
func TestShallow(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	for _, n := range []string{"2", "3", "4"} {
		w.File("n", n)
		w.Commit(n)
	}
	origin := filepath.Join(w.Dir, "origin")
	w.Must(os.Rename(w.Repo, origin))
	w.Command(w.Dir, "git", "clone", "-q", "--depth", "2", "file://"+origin, w.Repo).Want(0)
	w.Git("config", "user.name", "Una User")
	w.Git("config", "user.email", "una@example.invalid")
	before := w.Fingerprint()
	rep := w.Run("shallow", `[ "$(git rev-list --count HEAD)" = 2 ] && git fsck && [ -z "$(git status --porcelain)" ] && echo good > a`).Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n"})
	w.Untouched(before, rep.Branch)
	w.Git("fsck")
	w.Sallyport("fsck").Want(0)
}

// TestSHA256Objects: the other object format, from the base to the evidence.
func TestSHA256Objects(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Must(os.RemoveAll(w.Path(".git")))
	w.Git("init", "-q", "-b", "main", "--object-format=sha256")
	w.Git("config", "user.name", "Una User")
	w.Git("config", "user.email", "una@example.invalid")
	w.Small()
	before := w.Fingerprint()
	rep := w.Run("sha256", `[ "$(git rev-parse --show-object-format)" = sha256 ] && git log && [ -z "$(git status --porcelain)" ] && echo good > a && git add a && git commit -qm done`).Want(0).Report()
	if len(rep.Commit) != 64 || len(rep.Tree) != 64 {
		t.Errorf("commit %s, tree %s", rep.Commit, rep.Tree)
	}
	took(w, rep, map[string]string{"a": "good\n"})
	w.Untouched(before, rep.Branch)
	key := w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)
	w.Sallyport("verify", rep.Evidence, "--key", key, "--commit", string(rep.Commit)).Want(0)
	rejected(t, w.Run("bad", "echo bad > a").Want(20).Report())
	w.Sallyport("fsck").Want(0)
}

// TestOneInsideAnother: the inner repository is none of the outer one's, and is one to run in by itself. What an
// agent makes into a repository is left out, and said.
func TestOneInsideAnother(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	inner := w.Folder("vendor/inner")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Una User"}, {"config", "user.email", "una@example.invalid"}} {
		w.Command(inner, append([]string{"git"}, args...)...).Want(0)
	}
	w.File("vendor/inner/a", "base\n")
	w.File("vendor/inner/sallyport.yaml", world.Policy("grep -qE 'good|base' a"))
	w.Command(inner, "git", "add", "-A").Want(0)
	w.Command(inner, "git", "commit", "-qm", "inner").Want(0)
	before := w.Fingerprint()
	outer := w.Run("outer", `[ ! -e vendor ] && echo good > a && mkdir -p x/y && git init -q x/y && echo lost > x/y/f && echo kept > x/z`).Want(0).Report()
	took(w, outer, map[string]string{"a": "good\n", "x/y/f": "lost\n", "x/z": "kept\n"})
	noticed(w, outer, "nested-git")
	w.Untouched(before, outer.Branch)
	dirty := w.Run("dirty", "[ ! -e vendor/inner ] && echo good > a", "--include-dirty").Want(0).Report()
	took(w, dirty, map[string]string{"a": "good\n"})
	in := w.RunIn(inner, "inner", `[ ! -e ../../a ] && [ "$(git rev-parse --show-toplevel)" = "$PWD" ] && echo good > a`).Want(0).Report()
	if got := w.Command(inner, "git", "show", in.Branch+":a").Want(0).Out; got != "good\n" {
		t.Errorf("inner: %q", got)
	}
	if w.Command("", "git", "rev-parse", "--verify", "-q", in.Branch).Code == 0 {
		t.Error("the inner repository's branch is in the outer one")
	}
	refused(w, w.RunIn(filepath.Join(inner, ".git"), "x", "true"), 2, ".git")
}

// TestStrangePaths: a checkout may lie anywhere.
func TestStrangePaths(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{
		"spaces": "my old  project ", "quotes": `it's "quoted" \back\slash`, "newline": "two\nlines", "newline at the end": "end\n",
		"signs": "a,b:c;d$HOME*?[x]%s&#", "option": "-rf", "unicode": "naïve-日本",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			at := filepath.Join(w.Dir, folder)
			w.Must(os.Rename(w.Repo, at))
			w.Repo = at
			w.Small()
			before := w.Fingerprint()
			rep := w.Run("x", `[ "$(cat a)" = base ] && git status --porcelain && echo good > a`).Want(0).Report()
			took(w, rep, map[string]string{"a": "good\n"})
			w.Untouched(before, rep.Branch)
			if again := w.Run("y", "echo bad > a").Want(20).Report(); again.Decision != sallyport.DecisionRejected {
				t.Errorf("%+v", again)
			}
			w.Sallyport("ps").Want(0)
			w.Sallyport("show", string(rep.Attempt)).Want(0)
			w.Sallyport("fsck").Want(0)
		})
	}
}

// TestPathIsNotUTF8: a manifest is JSON, which cannot name such a path.
func TestPathIsNotUTF8(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	at := filepath.Join(w.Dir, "na\xefve")
	w.Must(os.Rename(w.Repo, at))
	w.Repo = at
	refused(w, w.Run("x", "true"), 2, "not UTF-8", "move it")
}
