package runner

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
)

func TestLookPathUsesOnlyTheCommandsOwnPATH(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"prog": 0o755, "data": 0o644, "sub/prog": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path, want string
		err              error
	}{
		{"prog", dir, dir + "/prog", nil},
		{"prog", "/nowhere:" + dir + "/sub:" + dir, dir + "/sub/prog", nil},
		{"data", dir, "", os.ErrNotExist},
		{"prog", "", "", os.ErrNotExist},
		{"sh", "", "", os.ErrNotExist},        // the caller's own PATH does not count
		{"prog", ".:sub", "", os.ErrNotExist}, // relative entries neither
		{"./prog", "", dir + "/prog", nil},    // by the command's folder
		{"sub/prog", "", dir + "/sub/prog", nil},
		{"./data", "", "", os.ErrPermission},
		{"./sub", "", "", os.ErrPermission},
		{dir + "/none", dir, "", os.ErrNotExist},
	} {
		got, err := lookPath(Command{Argv: []string{c.name}, Dir: dir, Env: []string{"PATH=" + c.path}})
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s in %q: %s, %v; expected %s, %v", c.name, c.path, got, err, c.want, c.err)
		}
	}
	if _, err := lookPath(Command{Argv: []string{"sh"}, Dir: "/"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without PATH: %v", err)
	}
}

func TestPathsOfTheNewRoot(t *testing.T) {
	for p, want := range map[string]string{"/": ".", "/a/b/": "a/b", "/a/../../b": "b", "/a//b": "a/b"} {
		if got := rel(p); got != want {
			t.Errorf("rel(%q) = %q, expected %q", p, got, want)
		}
	}
	for _, c := range []struct {
		p, dir string
		want   bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a/b", "/a/", true}} {
		if within(c.p, c.dir) != c.want {
			t.Errorf("within(%q, %q) is not %v", c.p, c.dir, c.want)
		}
	}
}

func TestEveryStubHasASentence(t *testing.T) {
	for _, n := range Stubs() {
		if Sentence(n) == "" {
			t.Errorf("%s says nothing", n)
		}
	}
	if s := Sentence("sallyport-runner"); s != "" {
		t.Errorf("a program of ours is taken for a stub: %s", s)
	}
}

func TestCollectCodeIsTheInverseOfTheStatus(t *testing.T) {
	for c := sallyport.CodeUnknown; c <= sallyport.CodeCorrupt; c++ {
		if got := CollectCode(statusBase + int(c)); got != c {
			t.Errorf("%v came back as %v", c, got)
		}
	}
	for _, status := range []int{-1, 1, 2, 39, statusBase + 10, 137} {
		if got := CollectCode(status); got != sallyport.CodeUnknown {
			t.Errorf("status %d means %v", status, got)
		}
	}
}

func TestMemoryFileIsReadFromItsStart(t *testing.T) {
	f, err := MemoryFile(map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got map[string]int
	b, err := io.ReadAll(f)
	if err != nil || json.Unmarshal(b, &got) != nil || got["a"] != 1 {
		t.Errorf("%q, %v", b, err)
	}
}
