package change

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// The sum is what anybody can compute from the files alone, whatever is remembered.
func TestTreeSumIsComputableFromTheFiles(t *testing.T) {
	f := newFixture(t, SHA1, map[string]string{"a": "1\n", "d/b": "2\n"})
	base := f.head().Tree
	tree := f.importTree(base, map[string]string{"new": "3\n", "a": "changed\n"})
	s, dir := f.store, filepath.Join(t.TempDir(), "out")
	if err := s.Export(t.Context(), tree, dir); err != nil {
		t.Fatal(err)
	}
	want := sumOfFolder(t, dir)
	for _, when := range []string{"first", "remembered"} {
		got, err := s.TreeSum(t.Context(), base, tree)
		if err != nil || got != want {
			t.Fatalf("%s: %s, %v; want %s", when, got, err, want)
		}
	}
	other, err := s.TreeSum(t.Context(), base, base)
	if err != nil || other == want {
		t.Errorf("the base has the same sum: %s, %v", other, err)
	}
	// Only the base's blobs are remembered: a name that a sandbox chose is never trusted for its bytes.
	b, err := os.ReadFile(s.sumsPath())
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := s.leaves(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leaves {
		if l.path == "new" && strings.Contains(string(b), string(l.id)) {
			t.Error("a blob that is not the base's is remembered")
		}
	}
}

func sumOfFolder(t *testing.T, dir string) sallyport.Digest {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		sum := sha256.Sum256(b)
		lines = append(lines, fmt.Sprintf("100644 %s\x00%s\n", rel, hex.EncodeToString(sum[:])))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return sallyport.Sum([]byte(strings.Join(lines, "")))
}
