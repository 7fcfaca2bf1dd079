package credential

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What one who was killed has left of a key goes with the next who opens it, and what is being written stays.
func TestSealerKeepsNoHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "minter.key")
	if _, err := OpenSealer(path); err != nil {
		t.Fatal(err)
	}
	old, fresh := filepath.Join(filepath.Dir(path), ".minter-1"), filepath.Join(filepath.Dir(path), ".minter-2")
	for _, p := range []string{old, fresh} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSealer(path); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".minter-*")); len(left) != 1 || left[0] != fresh {
		t.Errorf("left: %q", left)
	}
}
