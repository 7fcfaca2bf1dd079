package local

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/provider"
)

// keeping has a sandbox keep what it writes to workspace and home below dir.
func keeping(t *testing.T, spec *provider.Spec, dir string) {
	t.Helper()
	spec.Workspace.Keep = filepath.Join(dir, "workspace")
	spec.Caches = []provider.Cache{{Path: spec.Home, Layers: []string{}, Keep: filepath.Join(dir, "home")}}
	for _, d := range []string{spec.Workspace.Keep, spec.Caches[0].Keep} {
		must(t, os.MkdirAll(d, 0o711))
	}
}

// seeing shows what was kept below dir.
func seeing(spec *provider.Spec, dir string) {
	spec.Workspace.Beside = []string{filepath.Join(dir, "workspace", "upper")}
	spec.Caches = []provider.Cache{{Path: spec.Home, Layers: []string{filepath.Join(dir, "home", "upper")}}}
}

// paths are what a change stream names.
func paths(t *testing.T, w provider.Wire) string {
	t.Helper()
	var b bytes.Buffer
	must(t, w.Collect(t.Context(), &b))
	var names []string
	r := collect.NewReader(&b, collect.DefaultLimits())
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return strings.Join(names, " ")
		}
		must(t, err)
		if rec.Path != "" {
			names = append(names, rec.Path)
		}
	}
}

// What one sandbox kept lies below the tree of the next: the tree is never hidden or changed by it, and nothing of
// it counts as the next one's change unless that writes it anew.
func TestBesideTheTree(t *testing.T) {
	b := newBench(t)
	must(t, os.MkdirAll(b.base+"/src", 0o755))
	must(t, os.WriteFile(b.base+"/src/kept", []byte("of the tree\n"), 0o644))
	kept := t.TempDir()
	must(t, os.Chmod(kept, 0o755))
	spec, auth := b.spec("sh", "-c", "mkdir deps sub; echo 1 > deps/one; echo 1 > deps/two; ln -s /etc/passwd deps/link; mkfifo deps/pipe; echo overwritten > src/kept; rm -r src; mkdir src; ln -s / src/kept; echo home > $HOME/tool; echo made > made")
	keeping(t, &spec, kept)
	first := b.start(spec, auth)
	if out, e := first.all(); e.Code != 0 {
		t.Fatalf("%+v\n%s", e, out)
	}
	if got := paths(t, first); !strings.Contains(got, "src/kept") || !strings.Contains(got, "deps/one") {
		t.Errorf("the first one's own change: %s", got)
	}
	first.destroy()
	if _, err := os.Lstat(kept + "/workspace/upper/deps/one"); err != nil {
		t.Fatalf("not kept: %v", err)
	}

	spec, auth = b.spec("sh", "-c", "cat deps/one $HOME/tool src/kept made && test -L deps/link && test -p deps/pipe && test ! -L src/kept && echo 2 >> deps/two && rm deps/one made && rm -r sub && echo new > mine && echo 2 > $HOME/tool && mkdir sub && echo x > sub/x")
	seeing(&spec, kept)
	second := b.start(spec, auth)
	out, e := second.all()
	if e.Code != 0 || out != "1\nhome\nof the tree\nmade\n" {
		t.Errorf("%+v\n%s", e, out)
	}
	if got := paths(t, second); got != "deps/two mine sub/x" {
		t.Errorf("the second one's change: %s", got)
	}
	second.destroy()
	for name, want := range map[string]string{"workspace/upper/deps/two": "1\n", "workspace/upper/deps/one": "1\n", "home/upper/tool": "home\n"} {
		if got, err := os.ReadFile(filepath.Join(kept, name)); err != nil || string(got) != want {
			t.Errorf("%s was written to: %q, %v", name, got, err)
		}
	}

	// Files of the trusted side lie above what was kept in the home.
	spec, auth = b.spec("sh", "-c", "cat $HOME/tool $HOME/.config/x; echo 3 > $HOME/.config/y && ls $HOME/.config")
	seeing(&spec, kept)
	spec.Command.Files = []provider.File{{Name: spec.Home + "/tool", Data: []byte("ours\n")}, {Name: spec.Home + "/.config/x", Data: []byte("ours too\n")}}
	third := b.start(spec, auth)
	if out, e := third.all(); e.Code != 0 || out != "ours\nours too\nx\ny\n" {
		t.Errorf("%+v\n%s", e, out)
	}
}

// Where no overlay can be mounted nothing lies beside a tree, and that is said before anything runs.
func TestBesideNeedsOverlays(t *testing.T) {
	for name, change := range map[string]func(*provider.Spec, string){"beside": seeing, "keep": func(s *provider.Spec, dir string) { keeping(t, s, dir) }} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cfg.NoOverlay = true
			kept := t.TempDir()
			for _, d := range []string{"workspace", "home"} {
				must(t, os.MkdirAll(filepath.Join(kept, d, "upper"), 0o755))
			}
			spec, _ := b.spec("true")
			change(&spec, kept)
			_, err := b.Create(b.ctx(), spec)
			if sallyport.CodeOf(err) != sallyport.CodeUnsupported || !strings.Contains(err.Error(), "overlays") {
				t.Errorf("Create: %v", err)
			}
			must(t, b.Destroy(b.ctx(), b.resource(spec.Allocation)))
		})
	}
}

// What is kept counts against the disk limit as if it were the sandbox's own.
func TestKeptCountsAsDisk(t *testing.T) {
	b := newBench(t)
	kept := t.TempDir()
	must(t, os.Chmod(kept, 0o755))
	spec, auth := b.spec("sh", "-c", "head -c 40000000 /dev/urandom > big; sleep 20")
	keeping(t, &spec, kept)
	spec.Limits.Disk = 20 << 20
	if _, e := b.start(spec, auth).all(); e.Cause != "disk" {
		t.Errorf("%+v", e)
	}
}
