package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What cannot be written is named, however deep below a folder it lies.
func TestWhatCannotBeWrittenIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	w := &fileWriter{root: root, format: SHA1}
	for what, do := range map[string]func() error{
		"a file":     func() error { return w.file(leaf{path: "taken"}, 1) },
		"a folder":   func() error { return makeDir(root, "taken") },
		"a whiteout": func() error { return whiteout(dir, []string{"taken"}) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "taken") || !strings.Contains(err.Error(), "exists") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
