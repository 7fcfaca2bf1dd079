package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sallyport.dev/sallyport"
)

// world is a fake home and repository of real files.
type world struct {
	t          testing.TB
	base       string
	home, repo string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: base, home: base + "/home/u [x]*", repo: base + "/src/repo"}
	w.dir(w.home)
	w.dir(w.repo)
	return w
}

func (w *world) dir(p string) string {
	w.t.Helper()
	if err := os.MkdirAll(p, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) file(p, content string) string {
	w.t.Helper()
	w.dir(filepath.Dir(p))
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) program(p, content string) string {
	w.t.Helper()
	w.file(p, content)
	if err := os.Chmod(p, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) link(p, target string) string {
	w.t.Helper()
	w.dir(filepath.Dir(p))
	if err := os.Symlink(target, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) request(path ...string) Request {
	env := ""
	for _, p := range path {
		env += p + ":"
	}
	return Request{Home: w.home, Repo: w.repo, PathEnv: env + "/usr/bin:/bin", Tools: Auto(), Caches: None()}
}

func (w *world) resolve(r Request) Result {
	w.t.Helper()
	res, err := Resolve(r)
	if err != nil {
		w.t.Fatalf("Resolve: %v\nhint: %s", err, sallyport.HintOf(err))
	}
	return res
}

func (w *world) refuse(r Request, code sallyport.Code) *sallyport.Error {
	w.t.Helper()
	_, err := Resolve(r)
	e, ok := err.(*sallyport.Error)
	if !ok || e.Code != code {
		w.t.Fatalf("got %v, expected an error with code %v", err, code)
	}
	return e
}

// mount is the mount exactly at a path.
func mount(res Result, path string) (sallyport.Mount, bool) {
	for _, m := range res.Mounts {
		if m.Path == path {
			return m, true
		}
	}
	return sallyport.Mount{}, false
}

// shown reports whether a host path can be read inside, following the mounts as a provider makes them: the
// innermost mount decides, and its hidden names hide what is below them too.
func shown(res Result, path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	var in sallyport.Mount
	for _, m := range res.Mounts {
		fi, err := os.Lstat(m.Path)
		if err != nil || fi.Mode()&os.ModeSymlink != 0 {
			continue
		}
		if within(path, m.Path) && len(m.Path) > len(in.Path) {
			in = m
		}
	}
	if in.Path == "" {
		return false
	}
	return !slices.ContainsFunc(in.Hide, func(h string) bool { return within(path, filepath.Join(in.Path, h)) })
}

func wantMount(t *testing.T, res Result, path, mode, reason string) {
	t.Helper()
	m, ok := mount(res, path)
	if !ok || m.Mode != mode || m.Reason != reason {
		t.Errorf("mount %s: got %+v (%v), expected mode %q reason %q", path, m, ok, mode, reason)
	}
}
