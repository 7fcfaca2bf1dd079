package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBuild: one folder per state of the sources, with every program, and another for another pattern.
func TestBuild(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const runner = "sallyport.dev/sallyport/cmd/sallyport-runner"
	first, err := build(runner, false)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(filepath.Join(first, "sallyport-runner"))
	if err != nil || was.Mode().Perm()&0o055 != 0o055 {
		t.Fatalf("not for every user: %v %v", was, err)
	}
	again, err := build(runner, false)
	if err != nil || again != first {
		t.Fatalf("%q, want %q (%v)", again, first, err)
	}
	if is, err := os.Stat(filepath.Join(again, "sallyport-runner")); err != nil || !os.SameFile(was, is) || !is.ModTime().Equal(was.ModTime()) {
		t.Errorf("it was built twice: %v, %v", is, err)
	}
	if other, err := contentKey("sallyport.dev/sallyport/cmd/sallyport-keeper", false); err != nil || filepath.Base(first) == other {
		t.Errorf("two patterns share the key %s (%v)", other, err)
	}
}

// TestCacheFolderOfAnother: programs are not taken from a place that somebody else has prepared.
func TestCacheFolderOfAnother(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir, err := cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := cacheFolder(); err == nil {
		t.Error("a link was taken for the folder")
	}
}
