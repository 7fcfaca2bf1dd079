package change

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

func (f *fixture) checkout(o CheckoutOptions) Checkout {
	f.t.Helper()
	if o.Commit != "" && o.Branch == "" {
		o.Branch, o.Identity, o.BaseRef = "sallyport/x", "claude-code (sallyport)", "refs/heads/main"
	}
	c, err := f.store.Checkout(bg, o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Release)
	return c
}

// rawCheckout is what the blobs say, written by other means: git cat-file, one by one.
func rawListing(t testing.TB, f *fixture, tree sallyport.ObjectID) string {
	t.Helper()
	dir := t.TempDir()
	for line := range strings.SplitSeq(strings.TrimSuffix(f.storeGit("ls-tree", "-r", "-z", string(tree)), "\x00"), "\x00") {
		head, path, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		fields := strings.Fields(head)
		full := filepath.Join(dir, path)
		os.MkdirAll(filepath.Dir(full), 0o755)
		cmd := exec.Command("git", "--git-dir="+filepath.Join(f.store.dir, "git"), "cat-file", "blob", fields[2])
		body, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		switch fields[0] {
		case "120000":
			os.Symlink(string(body), full)
		case "100755":
			os.WriteFile(full, body, 0o755)
		default:
			os.WriteFile(full, body, 0o644)
		}
	}
	return listing(t, dir, "")
}

func TestCheckoutFilesAreTheRawBlobs(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		old := unix.Umask(0o077)
		c := f.checkout(CheckoutOptions{Tree: f.head().Tree})
		unix.Umask(old)
		if c.GitDir != "" || c.Reused {
			t.Errorf("%+v", c)
		}
		if got, want := listing(t, c.Files, ".git"), rawListing(t, f, f.head().Tree); got != want {
			t.Errorf("files\n%s\nwant\n%s", got, want)
		}
		if names, err := os.ReadDir(filepath.Join(c.Files, ".git")); err != nil || len(names) != 0 {
			t.Errorf(".git: %v %v", names, err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := f.store.Export(bg, f.head().Tree, dir); err != nil {
			t.Fatal(err)
		}
		if got, want := listing(t, dir, ""), rawListing(t, f, f.head().Tree); got != want {
			t.Errorf("export\n%s\nwant\n%s", got, want)
		}
		wantCode(t, "export again", f.store.Export(bg, f.head().Tree, dir), sallyport.CodeConflict)
	})
}

// damage is every kind of way in which a cached folder can become another: what a fixture of sampleFiles has.
var damage = map[string]func(c Checkout) error{
	"manifest of the files":      func(c Checkout) error { return spoil(c.Files) },
	"manifest of the git folder": func(c Checkout) error { return spoil(c.GitDir) },
	"content, same size and time": func(c Checkout) error {
		p := filepath.Join(c.Files, "README")
		fi, err := os.Stat(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte("hellO\n"), 0o644); err != nil {
			return err
		}
		return os.Chtimes(p, fi.ModTime(), fi.ModTime())
	},
	"mode":           func(c Checkout) error { return os.Chmod(filepath.Join(c.Files, "README"), 0o755) },
	"mode of folder": func(c Checkout) error { return os.Chmod(filepath.Join(c.Files, "src/deep"), 0o700) },
	"extra file":     func(c Checkout) error { return os.WriteFile(filepath.Join(c.Files, "src/extra"), nil, 0o644) },
	"extra folder":   func(c Checkout) error { return os.Mkdir(filepath.Join(c.Files, "src/deep/extra"), 0o755) },
	"missing file":   func(c Checkout) error { return os.Remove(filepath.Join(c.Files, "src/a.c")) },
	"missing folder": func(c Checkout) error { return os.RemoveAll(filepath.Join(c.Files, "src")) },
	"target of link": func(c Checkout) error {
		os.Remove(filepath.Join(c.Files, "link"))
		return os.Symlink("src/a.c", filepath.Join(c.Files, "link"))
	},
	"file for folder": func(c Checkout) error {
		os.RemoveAll(filepath.Join(c.Files, "src/deep"))
		return os.WriteFile(filepath.Join(c.Files, "src/deep"), nil, 0o755)
	},
	"folder moved behind a link": func(c Checkout) error {
		away := filepath.Join(filepath.Dir(c.Files), "away")
		if err := os.Rename(filepath.Join(c.Files, "src"), away); err != nil {
			return err
		}
		return os.Symlink(away, filepath.Join(c.Files, "src"))
	},
	"all of it":      func(c Checkout) error { return os.RemoveAll(c.Files) },
	"in .git":        func(c Checkout) error { return os.WriteFile(filepath.Join(c.Files, ".git/x"), nil, 0o644) },
	"HEAD":           func(c Checkout) error { return os.WriteFile(filepath.Join(c.GitDir, "HEAD"), []byte("x"), 0o644) },
	"a hook":         func(c Checkout) error { return os.Mkdir(filepath.Join(c.GitDir, "hooks"), 0o755) },
	"missing object": func(c Checkout) error { return os.RemoveAll(filepath.Join(c.GitDir, "objects/pack")) },
	"both": func(c Checkout) error {
		return errors.Join(os.Remove(filepath.Join(c.Files, "README")), os.Remove(filepath.Join(c.GitDir, "HEAD")))
	},
}

// spoil changes a byte in the middle of the manifest of a folder.
func spoil(folder string) error {
	name := filepath.Join(filepath.Dir(folder), "manifest")
	b, err := os.ReadFile(name)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(name, b, 0o600)
	}
	return err
}

// Nor is a git folder made from what a damaged manifest says of the files.
func TestDamagedManifestIsNotBuiltFrom(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	o := CheckoutOptions{Commit: f.head().Commit}
	before := f.checkout(o)
	if err := spoil(before.Files); err != nil {
		t.Fatal(err)
	}
	o.Branch, o.Identity = "sallyport/other", "x"
	c := f.checkout(o)
	if err := c.Verified(bg); err != nil {
		t.Fatal(err)
	}
	if c.Files == before.Files {
		t.Error("the damaged files were found again")
	}
}

// A found checkout is compared beside its use, and one that is not as it was built is never taken for sound:
// not by who is using it, not by who looks for it next, and not by who takes over from a process that was ended
// before it knew.
func TestDamagedCheckoutIsNeverTrusted(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	o := CheckoutOptions{Commit: f.head().Commit}
	first, second := f.checkout(o), f.checkout(o)
	if first.Reused || !second.Reused || second.Files != first.Files || second.GitDir != first.GitDir {
		t.Fatalf("not reused: %+v %+v", first, second)
	}
	if err := errors.Join(first.Verified(bg), second.Verified(bg), second.Verified(bg)); err != nil {
		t.Fatalf("a sound checkout: %v", err)
	}
	first.Release()
	second.Release()
	files := rawListing(t, f, f.head().Tree)
	for name, act := range damage {
		sound := f.checkout(o)
		if err := sound.Verified(bg); err != nil {
			t.Fatalf("%s: before: %v", name, err)
		}
		refs := listing(t, sound.GitDir, "")
		if err := act(sound); err != nil {
			t.Fatal(err)
		}
		// As if the process that made it had been ended: nobody has said that it is damaged.
		if taken, err := f.store.Reopen(sound.Files, sound.GitDir); err != nil {
			wantCode(t, name+": taken over", err, sallyport.CodeCorrupt)
		} else {
			wantCode(t, name+": taken over", taken.Verified(bg), sallyport.CodeCorrupt)
			taken.Release()
		}
		_, err := f.store.Reopen(sound.Files, sound.GitDir)
		wantCode(t, name+": taken over once it is known", err, sallyport.CodeCorrupt)
		after := f.checkout(o)
		if after.Reused || after.Files == sound.Files && after.GitDir == sound.GitDir {
			t.Errorf("%s: a damaged checkout was found again", name)
		}
		if err := after.Verified(bg); err != nil {
			t.Errorf("%s: the new one: %v", name, err)
		}
		if got := listing(t, after.Files, ".git"); got != files {
			t.Errorf("%s: rebuilt as\n%s", name, got)
		}
		if got := listing(t, after.GitDir, ""); got != refs {
			t.Errorf("%s: git folder rebuilt as\n%s\nwant\n%s", name, got, refs)
		}
		if _, err := os.Stat(filepath.Dir(sound.Files)); err != nil {
			t.Errorf("%s: a checkout in use was removed: %v", name, err)
		}
		sound.Release()
		after.Release()
	}
	wantCode(t, "none", Checkout{}.Verified(bg), sallyport.CodeInvalid)
	_, err := f.store.Reopen(t.TempDir(), "")
	wantCode(t, "a folder of somebody else", err, sallyport.CodeInvalid)
}

// Damage is seen also where nobody asks for the comparison's end.
func TestDamageIsSeenUnasked(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	o := CheckoutOptions{Commit: f.head().Commit}
	c := f.checkout(o)
	defer c.Release()
	if err := damage["mode"](c); err != nil {
		t.Fatal(err)
	}
	again, err := f.store.Reopen(c.Files, c.GitDir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	wantCode(t, "watched", again.Watch(bg), sallyport.CodeCorrupt)
}

// Whoever finds out removes it: it takes no room once nobody uses it.
func TestDamagedCheckoutIsRemoved(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	o := CheckoutOptions{Commit: f.head().Commit}
	f.checkout(o).Release()
	c := f.checkout(o)
	if err := errors.Join(c.Verified(bg), damage["both"](c)); err != nil {
		t.Fatal(err)
	}
	c.Release()
	c = f.checkout(o)
	wantCode(t, "damaged", c.Verified(bg), sallyport.CodeCorrupt)
	for _, h := range c.held {
		<-h.compare.done
	}
	c.Release()
	for _, dir := range []string{c.Files, c.GitDir} {
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// What a git folder is built from is compared first: it would be blessed otherwise.
func TestDamagedPackIsNotBuiltFrom(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	o := CheckoutOptions{Commit: f.head().Commit}
	f.checkout(o)
	for _, key := range []string{"pack-", "index-"} {
		dirs, err := filepath.Glob(filepath.Join(f.store.cacheDir(), key+"*", "data"))
		if err != nil || len(dirs) != 1 {
			t.Fatal(dirs, err)
		}
		if err := os.WriteFile(filepath.Join(dirs[0], "extra"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.Branch, o.Identity = "sallyport/other", "x"
	c := f.checkout(o)
	if err := c.Verified(bg); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, c.GitDir, ""); strings.Contains(got, "extra") {
		t.Errorf("built from what was damaged:\n%s", got)
	}
}

func TestEvictSparesWhatIsInUse(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	used := f.checkout(CheckoutOptions{Tree: f.head().Tree})
	idle := f.checkout(CheckoutOptions{Tree: f.importTree(f.head().Tree, map[string]string{"x": "1"})})
	idle.Release()
	os.MkdirAll(filepath.Join(f.store.cacheDir(), "new-crashed", "data"), 0o755)
	os.WriteFile(filepath.Join(f.store.cacheDir(), "new-crashed", "lock"), nil, 0o600)
	would, err := f.store.Evictable(0)
	if _, serr := os.Stat(idle.Files); err != nil || would == 0 || serr != nil {
		t.Errorf("%d bytes could be removed: %v, %v", would, err, serr)
	}
	if n, err := f.store.Evictable(1 << 40); err != nil || n != 0 {
		t.Errorf("%d bytes beyond a bound that is not met: %v", n, err)
	}
	left, err := f.store.Evict(bg, 0)
	if err != nil || left == 0 {
		t.Errorf("%d %v", left, err)
	}
	if n, err := f.store.Evictable(0); err != nil || n != 0 {
		t.Errorf("%d bytes could be removed of what is in use: %v", n, err)
	}
	if _, err := os.Stat(used.Files); err != nil {
		t.Errorf("in use and gone: %v", err)
	}
	for _, gone := range []string{idle.Files, filepath.Join(f.store.cacheDir(), "new-crashed")} {
		if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there", gone)
		}
	}
	// A copy of the lock in another process keeps it as well.
	held := exec.Command("sleep", "60")
	held.ExtraFiles = used.Locks
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	used.Release()
	if _, err := f.store.Evict(bg, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(used.Files); err != nil {
		t.Errorf("held by a child and gone: %v", err)
	}
	held.Process.Kill()
	held.Wait()
	if left, err := f.store.Evict(bg, 0); err != nil || left != 0 {
		t.Errorf("after all: %d %v", left, err)
	}
}

func TestConcurrentCheckoutsBuildOnce(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	dirs := make([]string, 6)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			store, err := OpenStore(bg, f.state, f.repo)
			if err != nil {
				t.Error(err)
				return
			}
			c, err := store.Checkout(bg, CheckoutOptions{Tree: f.head().Tree})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Release()
			dirs[i] = c.Files
		})
	}
	wg.Wait()
	for _, d := range dirs {
		if d != dirs[0] {
			t.Errorf("built twice: %q", dirs)
		}
	}
}

// The git folder has what can be reached from the base, and nothing else of the user's.
func TestGitDirHasExactlyTheHistory(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		for i := range 4 {
			write(t, f.top, map[string]string{"README": fmt.Sprint("v", i)})
			f.git("commit", "-q", "-am", fmt.Sprint("commit ", i))
		}
		os.WriteFile(filepath.Join(t.TempDir(), "s"), nil, 0o644)
		write(t, f.top, map[string]string{"../planted": "planted secret"})
		planted := f.git("hash-object", "-w", "../planted")
		f.git("checkout", "-q", "-b", "other")
		write(t, f.top, map[string]string{"other.txt": "other branch"})
		f.git("add", "other.txt")
		f.git("commit", "-q", "-m", "other")
		other := f.git("rev-parse", "HEAD")
		f.git("checkout", "-q", "main")
		f.git("gc", "-q") // one pack with everything
		head := f.head()
		for history, commits := range map[string]int{"full": 5, "": 5, "1": 1, "3": 3, "5": 5, "9": 5} {
			c := f.checkout(CheckoutOptions{Commit: head.Commit, History: history})
			g := func(args ...string) string {
				return runGit(t, "/", append([]string{"--git-dir=" + c.GitDir}, args...)...)
			}
			if got := strings.Count(g("log", "--format=%H", "HEAD")+"\n", "\n"); got != commits {
				t.Errorf("history %q: %d commits, want %d", history, got, commits)
			}
			want := map[string]bool{}
			for _, line := range strings.Split(g("rev-list", "--objects", "HEAD"), "\n") {
				want[strings.Fields(line)[0]] = true
			}
			for _, line := range strings.Split(g("cat-file", "--batch-check", "--batch-all-objects"), "\n") {
				id := strings.Fields(line)[0]
				if !want[id] {
					t.Errorf("history %q: unreachable %s", history, line)
				}
				delete(want, id)
			}
			if len(want) != 0 {
				t.Errorf("history %q: %d objects are missing", history, len(want))
			}
			for _, id := range []string{planted, other} {
				if out, err := tryGit("/", "--git-dir="+c.GitDir, "cat-file", "-e", id); err == nil {
					t.Errorf("history %q: %s is visible %s", history, id, out)
				}
			}
			if refs := g("for-each-ref", "--format=%(refname) %(objectname)"); refs != fmt.Sprintf("refs/heads/main %s\nrefs/heads/sallyport/x %s", head.Commit, head.Commit) {
				t.Errorf("refs %q", refs)
			}
			if out := g("fsck", "--strict"); strings.Contains(out, "error") || strings.Contains(out, "dangling") {
				t.Errorf("fsck: %s", out)
			}
			if _, err := os.Stat(filepath.Join(c.GitDir, "objects/info/alternates")); err == nil {
				t.Error("the git folder has alternates")
			}
		}
	})
}

func TestShallowClonesOfTheUserWork(t *testing.T) {
	up := newFixture(t, SHA1, sampleFiles)
	for i := range 3 {
		write(t, up.top, map[string]string{"README": fmt.Sprint(i)})
		up.git("commit", "-q", "-am", fmt.Sprint(i))
	}
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, "/", "clone", "-q", "--depth=2", "file://"+up.top, clone)
	f := &fixture{t: t, top: clone, state: t.TempDir()}
	f.open()
	for history, commits := range map[string]string{"full": "2", "1": "1", "7": "2"} {
		c := f.checkout(CheckoutOptions{Commit: f.head().Commit, History: history})
		if got := runGit(t, "/", "--git-dir="+c.GitDir, "rev-list", "--count", "HEAD"); got != commits {
			t.Errorf("history %s: %s commits, want %s", history, got, commits)
		}
	}
}

func TestCheckoutRefusesBadOptions(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	h := f.head()
	for name, o := range map[string]CheckoutOptions{
		"nothing": {}, "history": {Commit: h.Commit, Branch: "x", History: "-1"}, "history word": {Commit: h.Commit, Branch: "x", History: "some"},
		"branch": {Commit: h.Commit, Branch: "a..b"}, "base ref": {Commit: h.Commit, Branch: "x", BaseRef: "main"},
		"one below the other": {Commit: h.Commit, Branch: "main/x", BaseRef: "refs/heads/main"},
		"injection":           {Commit: h.Commit, Branch: "x\n[core]"},
	} {
		_, err := f.store.Checkout(bg, o)
		wantCode(t, name, err, sallyport.CodeInvalid)
	}
	_, err := f.store.Checkout(bg, CheckoutOptions{Tree: sallyport.ObjectID(strings.Repeat("1", 40))})
	wantCode(t, "absent tree", err, sallyport.CodeNotFound)
}

// Inside a real overlay git works, is quick because the index fits, and says what is true.
func TestGitInsideAnOverlay(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		c := f.checkout(CheckoutOptions{Commit: f.head().Commit})
		// The agent's git is an ordinary one; the attributes of the tree count for it, so keep to files without.
		out, upper := inOverlay(t, mountJob{Lower: []string{c.Files}, GitDir: c.GitDir, Script: `
			exec 2>&1
			git diff-files --name-only | sed 's/^/stale: /'
			git status --porcelain
			git log --format=%s
			git symbolic-ref HEAD
			echo edited > README
			git commit -q -am 'agent did it'
			git log -1 --format='%an %s'
			git diff --stat main | tail -1
			git fsck --strict
		`})
		want := "first\nrefs/heads/sallyport/x\nclaude-code (sallyport) agent did it\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
		if out != want {
			t.Errorf("inside:\n%s\nwant\n%s", out, want)
		}
		if names, _ := os.ReadDir(upper); len(names) != 1 {
			t.Errorf("the upper layer has %v", names)
		}
		if again := f.checkout(CheckoutOptions{Commit: f.head().Commit}); !again.Reused {
			t.Error("using the checkout as a lower layer changed it")
		}
	})
}

func TestDirtyStartShowsAsModifications(t *testing.T) {
	f := newFixture(t, SHA1, map[string]string{"a": "1\n", "b": "2\n", "c": "3\n"})
	tree := f.importTree(f.head().Tree, map[string]string{"a": "9\n", "b": "", "new": "n"})
	c := f.checkout(CheckoutOptions{Commit: f.head().Commit, Tree: tree})
	out, _ := inOverlay(t, mountJob{Lower: []string{c.Files}, GitDir: c.GitDir, Script: "git status --porcelain"})
	if out != " M a\n D b\n?? new\n" {
		t.Errorf("%q", out)
	}
}

func TestLayerShowsExactlyTheTree(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	base := f.head().Tree
	lower := f.checkout(CheckoutOptions{Tree: base})
	for name, changes := range map[string]map[string]string{
		"nothing": {}, "edit": {"README": "new"}, "exec": {"README": "#!x"}, "delete": {"README": ""}, "delete folder": {"src": ""},
		"delete last of folder": {"src/deep/b.c": ""}, "file to folder": {"README/a/b": "1"}, "folder to file": {"src": "file"}, "folder to link": {"src": "-> tests"},
		"link to folder": {"dirlink/q": "1"}, "new deep": {"n/e/w": "1"}, "many": {"src/a.c": "", "src/new/x": "1", "tests": "", "link": "-> README", "README": ""},
	} {
		tree := f.importTree(base, changes)
		layer := filepath.Join(t.TempDir(), "layer")
		if err := f.store.Layer(bg, base, tree, layer); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		inOverlay(t, mountJob{Lower: []string{layer, lower.Files}, Script: "cp -a . '" + saved + "'"})
		if got, want := listing(t, saved, ".git"), rawListing(t, f, tree); got != want {
			t.Errorf("%s: overlay shows\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Equal (path, size, time) must mean equal content, or caches inside lie.
func TestTimesTellContentApart(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	base := f.head().Tree
	other := f.importTree(base, map[string]string{"README": "hellO\n"})
	a, b := f.checkout(CheckoutOptions{Tree: base}), f.checkout(CheckoutOptions{Tree: other})
	layer := filepath.Join(t.TempDir(), "layer")
	if err := f.store.Layer(bg, base, other, layer); err != nil {
		t.Fatal(err)
	}
	times := map[time.Time]string{}
	for name, dir := range map[string]string{"base": a.Files, "other": b.Files, "layer": layer} {
		fi, err := os.Stat(filepath.Join(dir, "README"))
		if err != nil {
			t.Fatal(err)
		}
		if before, taken := times[fi.ModTime()]; taken {
			t.Errorf("%s and %s have README of the same time", name, before)
		}
		times[fi.ModTime()] = name
		if fi.ModTime().After(time.Now().Add(-24 * time.Hour)) {
			t.Errorf("%s: %v is too young for git's index", name, fi.ModTime())
		}
	}
	la, _ := os.Stat(filepath.Join(layer, "README"))
	lb, _ := os.Stat(filepath.Join(a.Files, "src/a.c"))
	if !la.ModTime().After(lb.ModTime()) {
		t.Error("a changed file is older than the base: make would not rebuild")
	}
}

func TestManifestDamageIsSeen(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.checkout(CheckoutOptions{Tree: f.head().Tree})
	name := filepath.Join(t.TempDir(), "m")
	m, err := takeManifest(c.Files, false)
	if err != nil {
		t.Fatal(err)
	}
	data := m.encode()
	os.WriteFile(name, data, 0o600)
	got, err := readManifest(name)
	if err != nil || fmt.Sprint(*got) != fmt.Sprint(*m) {
		t.Fatalf("%+v %v", got, err)
	}
	if err := got.verify(bg, c.Files); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		os.WriteFile(name, bad, 0o600)
		if _, err := readManifest(name); err == nil {
			t.Fatalf("byte %d changed and nothing was said", i)
		}
	}
}

// A manifest names every name below its folder once, folders first, and each with what lstat says.
func TestManifestIsComplete(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.checkout(CheckoutOptions{Tree: f.head().Tree})
	for _, anyCtime := range []bool{false, true} {
		m, err := takeManifest(c.Files, anyCtime)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		err = m.each(func(dir, name string, s fileStat) error {
			p := filepath.Join(dir, name)
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(c.Files, p), &st); err != nil {
				return err
			}
			if s != statOf(&st, anyCtime) || seen[p] || !seen["."] && p != "." || !seen[dir] && p != "." {
				t.Errorf("%s: %+v", p, s)
			}
			seen[p] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(c.Files, func(p string, _ fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(c.Files, p)
			if !seen[rel] {
				t.Errorf("%s is not in it", rel)
			}
			delete(seen, rel)
			return err
		})
		if err != nil || len(seen) > 0 {
			t.Errorf("%v: too many: %v", err, seen)
		}
	}
}
