package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// TestReadCopy: a plain file of the work tree is read, and nothing else is waited for, followed out or read whole.
func TestReadCopy(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(tree, "conf"), 0o755),
		os.WriteFile(filepath.Join(dir, "outside"), []byte("no"), 0o644),
		os.WriteFile(filepath.Join(tree, "conf", ".env"), []byte("KEY=value"), 0o600),
		os.WriteFile(filepath.Join(tree, "large"), make([]byte, maxCopy+1), 0o600),
		os.Symlink("../outside", filepath.Join(tree, "out")),
		os.Symlink("conf/.env", filepath.Join(tree, "link")),
		os.Symlink("..", filepath.Join(tree, "up")),
		unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	from, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if b, err := readCopy(from, "conf/.env"); err != nil || string(b) != "KEY=value" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := readCopy(from, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"large", "out", "link", "fifo", "conf"} {
			if b, err := readCopy(from, name); sallyport.CodeOf(err) != sallyport.CodeInvalid {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
		if b, err := readCopy(from, "up/outside"); err == nil {
			t.Errorf("out of the tree: %q", b)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a FIFO")
	}
}
