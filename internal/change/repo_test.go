package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestOpenFindsTheRepository(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		top := initRepo(t, format, sampleFiles)
		r, err := Open(bg, filepath.Join(top, "src/deep"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Top != top || r.GitDir != top+"/.git" || r.CommonDir != top+"/.git" || r.Subfolder != "src/deep" || r.ObjectFormat != format || r.Owner != os.Geteuid() {
			t.Errorf("%+v", r)
		}
		linked := filepath.Join(t.TempDir(), "linked")
		runGit(t, top, "worktree", "add", "-q", linked)
		r, err = Open(bg, linked)
		if err != nil {
			t.Fatal(err)
		}
		if r.Top != linked || r.CommonDir != top+"/.git" || r.GitDir != top+"/.git/worktrees/linked" {
			t.Errorf("linked: %+v", r)
		}
	})
}

func TestOpenRefusesWithANextStep(t *testing.T) {
	top := initRepo(t, SHA1, sampleFiles)
	bare := filepath.Join(t.TempDir(), "bare")
	runGit(t, t.TempDir(), "clone", "-q", "--bare", top, bare)
	super := initRepo(t, SHA1, map[string]string{"x": "x"})
	runGit(t, super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", top, "sub")
	for name, tc := range map[string]struct{ dir, says string }{
		"no repository": {t.TempDir(), "not a git repository"}, "bare": {bare, "bare"}, "inside .git": {top + "/.git/refs", ".git"},
		"submodule": {super + "/sub", "submodule of " + super}, "absent": {top + "/nothing", "cannot look"},
	} {
		_, err := Open(bg, tc.dir)
		wantCode(t, name, err, sallyport.CodeInvalid)
		if err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if name != "absent" && sallyport.HintOf(err) == "" {
			t.Errorf("%s: no hint: %v", name, err)
		}
	}
}

func TestForeignOwnerIsDeniedAndSudoActsAsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to own files as somebody else")
	}
	top := initRepo(t, SHA1, sampleFiles)
	chown(t, top, 1000)
	os.Chmod(filepath.Dir(top), 0o755)
	os.Chmod(filepath.Dir(filepath.Dir(top)), 0o755)
	t.Setenv("SUDO_UID", "")
	_, err := Open(bg, top)
	wantCode(t, "foreign", err, sallyport.CodeDenied)
	t.Setenv("SUDO_UID", "1001")
	_, err = Open(bg, top)
	wantCode(t, "foreign under sudo of a third", err, sallyport.CodeDenied)
	t.Setenv("SUDO_UID", "1000")
	t.Setenv("SUDO_GID", "1000")
	f := &fixture{t: t, top: top, state: t.TempDir()}
	f.open()
	if f.repo.Owner != 1000 {
		t.Fatalf("owner %d", f.repo.Owner)
	}
	commit, err := f.store.Commit(bg, CommitOptions{Tree: f.importTree(f.head().Tree, map[string]string{"new": "n"}), Parent: f.head().Commit, When: when, Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", commit, ""); err != nil {
		t.Fatal(err)
	}
	filepath.Walk(top, func(p string, fi os.FileInfo, err error) error {
		if err != nil || ownerOf(fi) != 1000 {
			t.Errorf("%s belongs to %d (%v)", p, ownerOf(fi), err)
		}
		return nil
	})
}

func TestResolve(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	head := f.head()
	if string(head.Commit) != f.git("rev-parse", "HEAD") || string(head.Tree) != f.git("rev-parse", "HEAD^{tree}") || head.Ref != "refs/heads/main" {
		t.Errorf("%+v", head)
	}
	f.git("tag", "-a", "-m", "t", "v1")
	f.git("branch", "side")
	for rev, ref := range map[string]string{"main": "refs/heads/main", "side": "refs/heads/side", "v1": "refs/tags/v1", "HEAD~0": "", string(head.Commit): ""} {
		got, err := f.repo.Resolve(bg, rev)
		if err != nil || got.Commit != head.Commit || got.Ref != ref {
			t.Errorf("%s: %+v %v", rev, got, err)
		}
	}
	for _, rev := range []string{"nope", "--all", "-x", "HEAD:README", "a\nb", "HEAD^{tree}"} {
		_, err := f.repo.Resolve(bg, rev)
		wantCode(t, rev, err, sallyport.CodeNotFound)
	}
	f.git("checkout", "-q", "--detach")
	if got := f.head(); got.Ref != "" || got.Commit != head.Commit {
		t.Errorf("detached: %+v", got)
	}
	unborn := t.TempDir()
	runGit(t, unborn, "init", "-q")
	r, err := Open(bg, unborn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resolve(bg, "")
	wantCode(t, "unborn", err, sallyport.CodeNotFound)
	if !strings.Contains(sallyport.HintOf(err), "commit") {
		t.Errorf("hint %q", sallyport.HintOf(err))
	}
}

func TestProtectedAndAncestors(t *testing.T) {
	up := newFixture(t, SHA1, sampleFiles)
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, t.TempDir(), "clone", "-q", up.top, clone)
	runGit(t, clone, "checkout", "-q", "-b", "work")
	write(t, clone, map[string]string{"README": "changed"})
	runGit(t, clone, "commit", "-q", "-am", "second")
	r, err := Open(bg, clone)
	if err != nil {
		t.Fatal(err)
	}
	head, _ := r.Resolve(bg, "")
	got, err := r.Protected(bg, "")
	if err != nil || got.Ref != "refs/remotes/origin/main" || got.Commit != up.head().Commit {
		t.Errorf("remote default: %+v %v", got, err)
	}
	if got, err = r.Protected(bg, "work"); err != nil || got.Commit != head.Commit {
		t.Errorf("configured: %+v %v", got, err)
	}
	_, err = r.Protected(bg, "gone")
	wantCode(t, "configured, absent", err, sallyport.CodeNotFound)
	if got, err = up.repo.Protected(bg, ""); err != nil || got.Ref != "refs/heads/main" {
		t.Errorf("no remote: %+v %v", got, err)
	}
	for _, tc := range []struct {
		a, b sallyport.ObjectID
		want bool
	}{{up.head().Commit, head.Commit, true}, {head.Commit, up.head().Commit, false}, {head.Commit, head.Commit, true}} {
		if is, err := r.IsAncestor(bg, tc.a, tc.b); err != nil || is != tc.want {
			t.Errorf("IsAncestor: %v %v, want %v", is, err, tc.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	f := newFixture(t, SHA256, sampleFiles)
	c := f.head().Commit
	if b, err := f.repo.ReadFile(bg, c, "src/deep/b.c", 100); err != nil || string(b) != "int b;\n" {
		t.Errorf("%q %v", b, err)
	}
	for path, code := range map[string]sallyport.Code{"src/none": sallyport.CodeNotFound, "README/x": sallyport.CodeNotFound, "": sallyport.CodeNotFound,
		"src": sallyport.CodeInvalid, "link": sallyport.CodeInvalid, "../README": sallyport.CodeNotFound} {
		_, err := f.repo.ReadFile(bg, c, path, 100)
		wantCode(t, path, err, code)
	}
	_, err := f.repo.ReadFile(bg, c, "README", 3)
	wantCode(t, "too large", err, sallyport.CodeExhausted)
}

func TestIdentity(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SUDO_UID", "")
	f.open()
	if n, e := f.repo.Identity(bg); n == "" || !strings.Contains(e, "@") {
		t.Errorf("fallback: %q %q", n, e)
	}
	os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tname = Zoë\n\temail = z@example.org\n"), 0o644)
	if n, e := f.repo.Identity(bg); n != "Zoë" || e != "z@example.org" {
		t.Errorf("global: %q %q", n, e)
	}
	f.git("config", "user.name", "Local")
	if n, _ := f.repo.Identity(bg); n != "Local" {
		t.Errorf("local: %q", n)
	}
}

// TestOpenRefusesTheRoot: a sandbox has a root of its own, which a work tree there would have to be.
func TestOpenRefusesTheRoot(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	r := &Repo{GitDir: f.repo.GitDir, CommonDir: f.repo.CommonDir, ObjectFormat: SHA1}
	if err := r.complete("/", place{top: "/"}, identity{uid: f.repo.Owner}); sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), "root of the file system") {
		t.Error(err)
	}
}
