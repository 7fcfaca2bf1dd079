package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// The tests below mount real overlays. The mount lives in a namespace of a child process (this test binary
// again), so nothing is left when it ends.
const helperEnv = "SALLYPORT_COLLECT_TEST_HELPER"

// job is what the child does.
type job struct {
	Lower     []string
	Upper     string
	Work      string
	Merged    string
	UserXattr bool
	Ops       []op
	Stream    string // where the child writes the Tree stream of the merged folder
	Ignored   []string
}

type op struct{ Do, Path, Arg string }

func TestMain(m *testing.M) {
	if raw := os.Getenv(helperEnv); raw != "" {
		if err := helper(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func helper(raw string) error {
	var j job
	if err := json.Unmarshal([]byte(raw), &j); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	options := "lowerdir=" + strings.Join(j.Lower, ":") + ",upperdir=" + j.Upper + ",workdir=" + j.Work + ",redirect_dir=off,metacopy=off"
	if j.UserXattr {
		options = "lowerdir=" + strings.Join(j.Lower, ":") + ",upperdir=" + j.Upper + ",workdir=" + j.Work + ",userxattr"
	}
	if err := unix.Mount("overlay", j.Merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for _, o := range j.Ops {
		// A random path may lie below a file: then there is nothing to do.
		if err := o.apply(j.Merged); err != nil && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%+v: %w", o, err)
		}
	}
	f, err := os.Create(j.Stream)
	if err != nil {
		return err
	}
	defer f.Close()
	w := NewWriter(f)
	if err := Tree(j.options(j.Merged), w); err != nil {
		return err
	}
	return w.Close()
}

func (o op) apply(root string) error {
	p := filepath.Join(root, o.Path)
	// RemoveAll opens the parent and would wait for ever on a fifo there.
	if fi, err := os.Stat(filepath.Dir(p)); err == nil && !fi.IsDir() {
		return unix.ENOTDIR
	}
	switch o.Do {
	case "write":
		os.RemoveAll(p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		return os.WriteFile(p, []byte(o.Arg), 0o644)
	case "touch": // copied up, not changed
		if fi, err := os.Lstat(p); err != nil || !fi.Mode().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(b)
		return err
	case "exec":
		if _, err := os.Lstat(p); err != nil {
			return nil
		}
		return os.Chmod(p, 0o4755)
	case "rm":
		return os.RemoveAll(p)
	case "mkdir":
		if fi, err := os.Lstat(p); err == nil && !fi.IsDir() {
			os.Remove(p)
		}
		if err := os.MkdirAll(p, 0o755); err != nil && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
		return nil
	case "remake": // an opaque folder
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if err := os.MkdirAll(p, 0o755); err != nil {
			return nil
		}
		return os.WriteFile(filepath.Join(p, "x"), []byte(o.Arg), 0o644)
	case "link":
		os.RemoveAll(p)
		if err := os.Symlink(o.Arg, p); err != nil && !errors.Is(err, unix.ENOTDIR) && !os.IsNotExist(err) {
			return err
		}
		return nil
	case "fifo":
		os.RemoveAll(p)
		if err := unix.Mkfifo(p, 0o644); err != nil && err != unix.ENOTDIR && err != unix.ENOENT {
			return err
		}
		return nil
	case "rename":
		err := os.Rename(p, filepath.Join(root, o.Arg))
		if errors.Is(err, unix.EXDEV) || err != nil {
			return nil // a folder of the base, or nothing there
		}
		return nil
	}
	return errors.New("unknown op")
}

func (j job) options(dir string) Options {
	open := func(p string) *os.File {
		f, err := os.Open(p)
		if err != nil {
			panic(err)
		}
		return f
	}
	o := Options{Dir: open(dir), Limits: DefaultLimits()}
	for _, l := range j.Lower {
		o.Lower = append(o.Lower, open(l))
	}
	o.Ignored = func(paths []string) (map[string]bool, error) {
		m := map[string]bool{}
		for _, p := range paths {
			if slices.Contains(j.Ignored, filepath.Base(p)+strings.Repeat("/", strings.Count(p[len(p)-1:], "/"))) {
				m[p] = true
			}
		}
		return m, nil
	}
	return o
}

func newJob(t *testing.T, userXattr bool) job {
	dir := t.TempDir()
	j := job{UserXattr: userXattr, Stream: filepath.Join(dir, "stream")}
	for _, d := range []struct {
		name string
		into *string
	}{{"upper", &j.Upper}, {"work", &j.Work}, {"merged", &j.Merged}} {
		*d.into = filepath.Join(dir, d.name)
		if err := os.Mkdir(*d.into, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	j.Lower = []string{filepath.Join(dir, "lower")}
	if err := os.Mkdir(j.Lower[0], 0o755); err != nil {
		t.Fatal(err)
	}
	return j
}

// run mounts, applies and returns both streams.
func (j job) run(t *testing.T) (overlay, tree []byte) {
	t.Helper()
	raw, _ := json.Marshal(j)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), helperEnv+"="+string(raw))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if j.UserXattr || os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tree, err := os.ReadFile(j.Stream)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := Overlay(j.options(j.Upper), w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(j.Work, "work"), 0o700) // overlayfs leaves it without permissions
	return b.Bytes(), tree
}

func (j job) base(t *testing.T, files map[string]string) {
	t.Helper()
	for p, content := range files {
		full := filepath.Join(j.Lower[0], p)
		os.MkdirAll(filepath.Dir(full), 0o755)
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			if err := os.Symlink(target, full); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func describe(t *testing.T, stream []byte) []string {
	t.Helper()
	items, err := readAll(stream, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, it := range items {
		switch it.Kind {
		case KindFile:
			lines = append(lines, fmt.Sprintf("F %s %o %s", it.Path, it.Mode, it.Body))
		case KindLink:
			lines = append(lines, fmt.Sprintf("L %s %s", it.Path, it.Target))
		case KindDelete:
			lines = append(lines, "D "+it.Path)
		case KindLeftOut:
			lines = append(lines, fmt.Sprintf("O %s %d", it.Reason, it.Count))
		}
	}
	return lines
}

func variants(t *testing.T, f func(t *testing.T, userXattr bool)) {
	if os.Geteuid() == 0 {
		t.Run("trusted", func(t *testing.T) { f(t, false) })
	}
	t.Run("userxattr", func(t *testing.T) { f(t, true) })
}

func TestOverlayTable(t *testing.T) {
	base := map[string]string{"a": "one", "d/x": "1", "d/y": "2", "d/e/z": "3", "l": "-> a", "keep": "k", "same": "s",
		"gone/f": "1", "swap": "file", "sub/dir/f": "1", "ldir": "-> d", "emptied/f": "1"}
	variants(t, func(t *testing.T, userXattr bool) {
		j := newJob(t, userXattr)
		j.Ignored = []string{"node_modules/", "debug.log"}
		j.base(t, base)
		j.Ops = []op{
			{"write", "a", "two"}, {"touch", "same", ""}, {"exec", "keep", ""}, {"rm", "gone", ""},
			{"rm", "d", ""}, {"mkdir", "d", ""}, {"write", "d/y", "2"}, {"write", "d/new", "n"},
			{"rm", "swap", ""}, {"write", "swap/in", "i"}, {"link", "l", "elsewhere"}, {"write", "sub/dir", "now a file"},
			{"write", "node_modules/big", "b"}, {"write", "debug.log", "b"}, {"write", "new/deep/node_modules/q", "b"}, {"write", "new/deep/f", "f"},
			{"write", "v/.git/config", "evil"}, {"write", "v/ok", "ok"}, {"write", ".git/HEAD", "skip"}, {"write", "w/.GIT", "evil"},
			{"fifo", "pipe", ""}, {"mkdir", "hollow", ""}, {"rm", "ldir", ""}, {"write", "ldir/node_modules/m", "taken"},
			{"rm", "emptied", ""}, {"write", "emptied/debug.log", "x"},
		}
		want := []string{
			"F a 100644 two", "D d/e", "F d/new 100644 n", "D d/x", "D emptied/f", "D gone", "F keep 100755 k", "L l elsewhere",
			"F ldir/node_modules/m 100644 taken", "F new/deep/f 100644 f", "F sub/dir 100644 now a file", "F swap/in 100644 i", "F v/ok 100644 ok",
			"O fifo 1", "O ignored 4", "O nested-git 2",
		}
		slices.SortFunc(want[:13], func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
		overlay, tree := j.run(t)
		if got := describe(t, overlay); !slices.Equal(got, want) {
			t.Errorf("overlay:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !bytes.Equal(overlay, tree) {
			t.Errorf("full walk differs:\n%s", strings.Join(describe(t, tree), "\n"))
		}
	})
}

// Law: whatever an agent does in a real overlay, the upper layer and a full walk of the merged folder tell
// the same story.
func TestOverlayAndTreeAgree(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	variants(t, func(t *testing.T, userXattr bool) {
		for seed := range rounds {
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			j := newJob(t, userXattr)
			j.Ignored = []string{"c/", "b"}
			path := func() string {
				n := 1 + r.IntN(3)
				parts := make([]string, n)
				for i := range parts {
					parts[i] = string("abcd"[r.IntN(4)])
				}
				return strings.Join(parts, "/")
			}
			base := map[string]string{}
			for range 12 {
				base[path()+"/f"] = fmt.Sprint(r.IntN(3))
			}
			j.base(t, base)
			second := filepath.Join(filepath.Dir(j.Upper), "middle")
			os.MkdirAll(second, 0o755)
			os.WriteFile(filepath.Join(second, "m"), []byte("middle"), 0o644)
			if err := unix.Mknod(filepath.Join(second, "a"), unix.S_IFCHR, 0); err != nil {
				t.Fatal(err)
			}
			j.Lower = append([]string{second}, j.Lower...)
			for range 40 {
				do := []string{"write", "write", "touch", "exec", "rm", "mkdir", "remake", "link", "fifo", "rename"}[r.IntN(10)]
				p := path()
				if r.IntN(2) == 0 {
					p += "/f"
				}
				arg := fmt.Sprint(r.IntN(3))
				if do == "rename" {
					arg = path()
				}
				j.Ops = append(j.Ops, op{do, p, arg})
			}
			overlay, tree := j.run(t)
			if !bytes.Equal(overlay, tree) {
				t.Fatalf("seed %d:\noverlay\n%s\ntree\n%s\nops %+v", seed, strings.Join(describe(t, overlay), "\n"), strings.Join(describe(t, tree), "\n"), j.Ops)
			}
			if len(describe(t, overlay)) == 0 {
				t.Errorf("seed %d changes nothing", seed)
			}
		}
	})
}

func TestRedirectAndMetacopyAreRefused(t *testing.T) {
	for _, mark := range []string{"redirect", "metacopy"} {
		j := newJob(t, true)
		p := filepath.Join(j.Upper, "moved")
		if mark == "redirect" {
			os.Mkdir(p, 0o755)
		} else {
			os.WriteFile(p, nil, 0o644)
		}
		if err := unix.Setxattr(p, "user.overlay."+mark, []byte("/etc"), 0); err != nil {
			t.Fatal(err)
		}
		if err := Overlay(j.options(j.Upper), NewWriter(&bytes.Buffer{})); sallyport.CodeOf(err) != sallyport.CodeUnsupported {
			t.Errorf("%s: %v", mark, err)
		}
	}
}

func TestCollectorLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		limit func(*Limits)
		make  func(dir string) error
	}{
		"sparse file": {func(l *Limits) { l.File = 1 << 20 }, func(d string) error {
			os.WriteFile(filepath.Join(d, "big"), nil, 0o644)
			return os.Truncate(filepath.Join(d, "big"), 1<<40)
		}},
		"entries": {func(l *Limits) { l.Entries = 1 }, func(d string) error {
			os.WriteFile(filepath.Join(d, "1"), nil, 0o644)
			return os.WriteFile(filepath.Join(d, "2"), nil, 0o644)
		}},
		"depth": {func(l *Limits) { l.Depth = 2 }, func(d string) error { return os.MkdirAll(filepath.Join(d, "a/b/c"), 0o755) }},
		"total": {func(l *Limits) { l.Total = 10 }, func(d string) error {
			return os.WriteFile(filepath.Join(d, "1"), make([]byte, 11), 0o644)
		}},
	} {
		j := newJob(t, true)
		if err := tc.make(j.Upper); err != nil {
			t.Fatal(err)
		}
		o := j.options(j.Upper)
		tc.limit(&o.Limits)
		if err := Overlay(o, NewWriter(&bytes.Buffer{})); sallyport.CodeOf(err) != sallyport.CodeExhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGitIgnoreIsGits(t *testing.T) {
	base := t.TempDir()
	os.WriteFile(filepath.Join(base, ".gitignore"), []byte("node_modules/\n*.log\n!keep.log\n/only-top\n"), 0o644)
	os.Mkdir(filepath.Join(base, "sub"), 0o755)
	os.Mkdir(filepath.Join(base, ".git"), 0o755)
	os.WriteFile(filepath.Join(base, "sub/.gitignore"), []byte("!special.log\n"), 0o644)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("these tests need git")
	}
	calls := 0
	ignored := GitIgnore(git, base, func(argv []string, stdin []byte) ([]byte, error) {
		calls++
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env, cmd.Stdin = GitEnv(), bytes.NewReader(stdin)
		return cmd.Output()
	})
	want := map[string]bool{"node_modules/": true, "sub/node_modules/": true, "x.log": true, "only-top": true,
		"keep.log": false, "sub/only-top": false, "sub/special.log": false, "node_modules": false, "new/": false,
		":(top)x.log": true, ":!y": false, "a\nb.log": true, "new/q.log": true, "-x": false, "./odd": false}
	delete(want, "./odd")
	var ask []string
	for p := range want {
		ask = append(ask, p)
	}
	got, err := ignored(ask)
	if err != nil {
		t.Fatal(err)
	}
	for p, w := range want {
		if got[p] != w {
			t.Errorf("%q: ignored %v, want %v", p, got[p], w)
		}
	}
	if none, err := ignored([]string{"plain"}); err != nil || len(none) != 0 {
		t.Errorf("none: %v %v", none, err)
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}
