package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

func (f *fixture) commit(tree sallyport.ObjectID, message string) sallyport.ObjectID {
	f.t.Helper()
	c, err := f.store.Commit(f.t.Context(), CommitOptions{Tree: tree, Parent: f.head().Commit, AuthorName: "Zoë <x>\n", AuthorEmail: "z@example.org",
		When: time.Unix(1_700_000_000, 0).In(time.FixedZone("", 2*3600)), Message: message})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func TestCommitIsOursAndDeterministic(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		tree := f.importTree(f.head().Tree, map[string]string{"x": "1"})
		c := f.commit(tree, "subject\n\nbody\n\n")
		if again := f.commit(tree, "subject\n\nbody\n\n"); again != c {
			t.Errorf("%s and %s", c, again)
		}
		want := "tree " + string(tree) + "\nparent " + string(f.head().Commit) + "\nauthor Zoë x <z@example.org> 1700000000 +0200\ncommitter Sallyport <sallyport@localhost> 1700000000 +0000\n\nsubject\n\nbody"
		if got := f.storeGit("cat-file", "commit", string(c)); got != want {
			t.Errorf("commit\n%s\nwant\n%s", got, want)
		}
		for name, o := range map[string]CommitOptions{"nul": {Tree: tree, When: when, Message: "a\x00b"}, "empty": {Tree: tree, When: when, Message: " \n"}, "no time": {Tree: tree, Message: "m"},
			"commit as tree": {Tree: c, When: when, Message: "m"}, "no tree": {When: when, Message: "m"}} {
			_, err := f.store.Commit(bg, o)
			wantCode(t, name, err, sallyport.CodeInvalid)
		}
	})
}

// userState is everything of the user's repository that publishing must not touch.
func userState(t *testing.T, f *fixture) string {
	index, err := os.ReadFile(filepath.Join(f.top, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	fi, _ := os.Stat(filepath.Join(f.top, ".git/index"))
	head, _ := os.ReadFile(filepath.Join(f.top, ".git/HEAD"))
	return listing(t, f.top, ".git") + string(index) + fi.ModTime().String() + string(head) + f.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main", "refs/tags", "refs/remotes")
}

func dotGitNames(t *testing.T, f *fixture) map[string]bool {
	names := map[string]bool{}
	filepath.Walk(filepath.Join(f.top, ".git"), func(p string, fi os.FileInfo, err error) error {
		if err == nil && !fi.IsDir() {
			names[strings.TrimPrefix(p, f.top+"/.git/")] = true
		}
		return nil
	})
	return names
}

func TestPublish(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		const ref = "refs/heads/sallyport/fix"
		one := f.commit(f.importTree(f.head().Tree, map[string]string{"x": "1", "src": ""}), "one")
		two := f.commit(f.importTree(f.head().Tree, map[string]string{"x": "2"}), "two")
		write(t, f.top, map[string]string{"README": "dirty\n", "untracked": "u\n"})
		state, before := userState(t, f), dotGitNames(t, f)
		publish := func(c, expect sallyport.ObjectID) error { return f.store.Publish(bg, f.repo, ref, c, expect) }
		if err := publish(one, ""); err != nil {
			t.Fatal(err)
		}
		if got := f.git("rev-parse", ref); got != string(one) {
			t.Errorf("tip %s", got)
		}
		f.git("fsck", "--strict", "--connectivity-only")
		for name := range dotGitNames(t, f) {
			if !before[name] && name != "refs/heads/sallyport/fix" && !strings.HasPrefix(name, "objects/") {
				t.Errorf("also written: %s", name)
			}
		}
		if err := publish(one, ""); err != nil {
			t.Errorf("again: %v", err)
		}
		wantCode(t, "must not exist", publish(two, ""), sallyport.CodeConflict)
		if err := publish(two, one); err != nil {
			t.Errorf("update: %v", err)
		}
		if err := publish(two, one); err != nil {
			t.Errorf("update again: %v", err)
		}
		if got := userState(t, f); got != state {
			t.Error("the user's checkout, index, HEAD or branches changed")
		}
		f.git("update-ref", ref, string(f.head().Commit))
		err := publish(one, two)
		wantCode(t, "moved by a person", err, sallyport.CodeConflict)
		if err != nil && !strings.Contains(err.Error(), string(f.head().Commit)) {
			t.Errorf("the tip is not named: %v", err)
		}
		f.git("update-ref", "-d", ref)
		wantCode(t, "deleted by a person", publish(one, two), sallyport.CodeConflict)
	})
}

func TestPublishRefuses(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.commit(f.importTree(f.head().Tree, map[string]string{"x": "1"}), "one")
	for _, ref := range []string{"refs/heads/main", "refs/heads/sallyport", "refs/heads/sallyport/", "refs/heads/sallyport/../main", "sallyport/x", "HEAD", "refs/heads/sallyport/a..b",
		"refs/heads/sallyport/-", "refs/heads/sallyport/x.lock", "refs/heads/sallyport/x y", "refs/heads/sallyport/x\n", "refs/tags/sallyport/x", ""} {
		err := f.store.Publish(bg, f.repo, ref, c, "")
		if ref == "refs/heads/sallyport/-" {
			if err != nil { // odd, but a valid name
				t.Errorf("%q: %v", ref, err)
			}
			continue
		}
		wantCode(t, ref, err, sallyport.CodeInvalid)
	}
	f.git("update-ref", "-d", "refs/heads/sallyport/-")
	f.git("branch", "sallyport")
	err := f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", c, "")
	wantCode(t, "a branch in the way", err, sallyport.CodeConflict)
	f.git("branch", "-D", "sallyport")
	f.git("checkout", "-q", "-b", "sallyport/x")
	tip := f.head().Commit
	wantCode(t, "checked out", f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", c, tip), sallyport.CodeConflict)
	f.git("checkout", "-q", "main")
	f.git("worktree", "add", "-q", filepath.Join(t.TempDir(), "w"), "sallyport/x")
	wantCode(t, "checked out in another work tree", f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", c, tip), sallyport.CodeConflict)
	if got := f.git("rev-parse", "sallyport/x"); got != string(tip) {
		t.Errorf("moved to %s", got)
	}
}

func TestPublishAfterTheUserCollectedGarbage(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.commit(f.importTree(f.head().Tree, map[string]string{"x": "1"}), "one")
	f.git("gc", "-q", "--prune=now")
	f.open()
	if err := f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", c, ""); err != nil {
		t.Fatal(err)
	}
	if got := f.git("show", "sallyport/x:x"); got != "1" {
		t.Errorf("%q", got)
	}
}

func TestSnapshotAndDirty(t *testing.T) {
	files := map[string]string{"a": "1\n", "b": "2\n", "c": "3\n", "d/e": "4\n", "touched": "5\n", "exec": "6\n", ".gitignore": "*.log\n", "link": "-> a"}
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, files)
		if n, u, err := f.repo.Dirty(bg); n != 0 || u != 0 || err != nil {
			t.Errorf("clean: %d %d %v", n, u, err)
		}
		if tree, n, u, err := f.store.Snapshot(bg); tree != f.head().Tree || n != 0 || u != 0 || err != nil {
			t.Errorf("clean: %s %d %d %v", tree, n, u, err)
		}
		write(t, f.top, map[string]string{"a": "staged\n", "new": "untracked\n", "x.log": "ignored\n", "d/new/f": "deep\n", "link": "-> b", "added": "staged\n"})
		f.git("add", "a", "added")
		write(t, f.top, map[string]string{"a": "staged and edited\n"})
		os.Remove(filepath.Join(f.top, "b"))
		os.RemoveAll(filepath.Join(f.top, "c"))
		write(t, f.top, map[string]string{"c/now/a": "folder\n"})
		os.Chmod(filepath.Join(f.top, "exec"), 0o755)
		later := time.Now().Add(time.Hour)
		os.Chtimes(filepath.Join(f.top, "touched"), later, later)
		index, _ := os.ReadFile(filepath.Join(f.top, ".git/index"))
		objects := len(dotGitNames(t, f))

		tree, n, u, err := f.store.Snapshot(bg)
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(f.top, "x.log"))
		work := t.TempDir()
		if err := os.CopyFS(filepath.Join(work, "w"), os.DirFS(f.top)); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Join(work, "w/.git"))
		if want := gitTree(t, format, filepath.Join(work, "w")); tree != want {
			t.Errorf("tree %s, git makes %s:\n%s", tree, want, f.storeGit("ls-tree", "-r", string(tree)))
		}
		// a, added, b, c, exec, link changed; new, d/new/f, c/now/a untracked
		if n != 6 || u != 3 {
			t.Errorf("%d changed, %d untracked", n, u)
		}
		if n, u, err := f.repo.Dirty(bg); n != 6 || u != 3 || err != nil {
			t.Errorf("Dirty: %d %d %v", n, u, err)
		}
		if now, _ := os.ReadFile(filepath.Join(f.top, ".git/index")); string(now) != string(index) {
			t.Error("the user's index changed")
		}
		if now := len(dotGitNames(t, f)); now != objects {
			t.Errorf("the user's git folder has %d files, had %d", now, objects)
		}
	})
}
