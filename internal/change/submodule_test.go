package change

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
)

// submodule gives the fixture one at path, of a repository with these files, and returns its commit.
func (f *fixture) submodule(path string, files map[string]string) {
	f.t.Helper()
	from := f.t.TempDir()
	runGit(f.t, from, "init", "-q", "-b", "main")
	write(f.t, from, files)
	runGit(f.t, from, "add", "-A")
	runGit(f.t, from, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "sub")
	f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, path)
	f.git("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "with "+path)
	f.open()
}

func TestSubmodulesOfAnotherOwnerAreNotRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can give a folder away")
	}
	f := newFixture(t, SHA1, sampleFiles)
	f.submodule("lib", map[string]string{"code": "x\n"})
	here := func() bool {
		subs, err := f.store.Submodules(bg, f.head().Tree)
		if err != nil || len(subs) != 1 || subs[0].Path != "lib" {
			t.Fatalf("%+v %v", subs, err)
		}
		return subs[0].Here
	}
	if !here() {
		t.Error("the submodule is not found")
	}
	if err := os.Chown(filepath.Join(f.top, ".git/modules/lib/objects"), 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if here() {
		t.Error("objects of another user's were read")
	}
}

func TestWhatLiesInASubmoduleIsLeftOut(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	f.submodule("deep/lib", map[string]string{"code": "x\n"})
	start := f.head().Tree
	changed := stream(t, map[string]string{"deep/lib/code": "changed", "deep/lib/new/x": "new", "deep/library": "beside", "copied/x": "given"})
	in, err := f.store.Import(bg, start, bytes.NewReader(changed), collect.DefaultLimits(), "copied")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := f.store.Diff(bg, start, in.Tree)
	if err != nil || len(changes) != 1 || changes[0].Path != "deep/library" {
		t.Errorf("%+v %v", changes, err)
	}
	if in.Left[LeftSubmodule] != 2 || in.Left[LeftWithout] != 1 {
		t.Errorf("left out: %v", in.Left)
	}
}

// TestFilesKeyTellsWhatIsHere: a checkout without a submodule's files is not taken for one with them.
func TestFilesKeyTellsWhatIsHere(t *testing.T) {
	seen := map[string]bool{}
	for _, subs := range [][]Submodule{nil, {{Path: "a", Commit: "1", Here: true}}, {{Path: "b", Commit: "1", Here: true}}, {{Path: "a", Commit: "2", Here: true}},
		{{Path: "a", Commit: "1", Here: true}, {Path: "b", Commit: "1", Here: true}}} {
		key := filesKey(sallyport.ObjectID("t"), subs)
		if seen[key] {
			t.Errorf("%s stands for two", key)
		}
		seen[key] = true
	}
	if filesKey("t", []Submodule{{Path: "a", Commit: "1"}}) != filesKey("t", nil) {
		t.Error("one that is not here is part of the key")
	}
}

// TestFiltered compares with git's own answer in a work tree.
func TestFiltered(t *testing.T) {
	f := newFixture(t, SHA1, map[string]string{".gitattributes": "[attr]big filter=lfs\n*.bin big\n/a/*.txt filter=lfs\n", "a/.gitattributes": "no.bin -filter\n", "a/b/.gitattributes": "*.dat filter=other\n"})
	paths := []string{"x.bin", "a/x.bin", "a/no.bin", "a/x.txt", "a/b/x.txt", "x.txt", "a/b/c/x.dat", "new/folder/y.bin", "odd\nname.bin"}
	got, err := f.store.Filtered(bg, f.head().Tree, "lfs", paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		want := f.git("check-attr", "-z", "filter", "--", p) == p+"\x00filter\x00lfs\x00"
		if got[p] != want {
			t.Errorf("%q: %v, git says %v", p, got[p], want)
		}
	}
	if got, err := f.store.Filtered(bg, f.store.format().emptyTree(), "lfs", paths); err != nil || len(got) != 0 {
		t.Errorf("without attributes: %v %v", got, err)
	}
}
