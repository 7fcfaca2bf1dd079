package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSecretFile: a secret that others can read is refused. One that systemd loaded for the unit is root's, and shows a bit for the group.
func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode   os.FileMode
		loaded string
		ok     bool
	}{
		{0o600, "", true}, {0o400, "", true}, {0o440, "", false}, {0o644, "", false},
		{0o440, dir, os.Geteuid() == 0}, {0o440, filepath.Dir(dir), false}, {0o444, dir, false}, {0o460, dir, false},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", c.loaded)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		s, err := secretFile(path)(t.Context())
		if (err == nil) != c.ok || c.ok && s != "abc" {
			t.Errorf("mode %o, loaded from %q: %q, %v", c.mode, c.loaded, s, err)
		}
	}
}
