package control

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSetupsAreCollected: what a record names stays as long as it is used; all else goes, the record first.
func TestSetupsAreCollected(t *testing.T) {
	state := t.TempDir()
	c := &Control{cfg: Config{State: state}}
	write := func(name, text string) string {
		path := filepath.Join(state, "setup", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	record := `{"attempt":"att_1","result":{"left":"layer_a"}}`
	used := []string{write("used/result.json", record), write("used/layer_a/workspace/upper/x", "x")}
	gone := []string{write("used/layer_b/workspace/upper/x", "x"), write("used/layer_b.json", record), write("cut/layer_c/home/upper/x", "x"), write("old/layer_a/workspace/upper/x", "x")}
	old := write("old/result.json", record)
	when := time.Now().Add(-keepSetups - time.Hour)
	if err := os.Chtimes(old, when, when); err != nil {
		t.Fatal(err)
	}
	dry, err := c.gcSetups(true)
	if err != nil || len(dry) != 4 {
		t.Fatalf("%q, %v", dry, err)
	}
	for _, p := range slices.Concat(used, gone) {
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("a dry run removed %s", p)
		}
	}
	if did, err := c.gcSetups(false); err != nil || !slices.Equal(did, dry) {
		t.Errorf("%q, %v; announced %q", did, err, dry)
	}
	for _, p := range used {
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("removed %s", p)
		}
	}
	for _, p := range append(gone, old) {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("left %s", p)
		}
	}
}
