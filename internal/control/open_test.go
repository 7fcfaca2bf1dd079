package control_test

import (
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/control"
	"sallyport.dev/sallyport/internal/provider"
)

// Keys and journal lie in the state folder: one that others can write is refused.
func TestStateFolderOfOthersIsRefused(t *testing.T) {
	for name, make := range map[string]func(dir string) error{
		"group-writable": func(dir string) error { return os.Chmod(dir, 0o770) },
		"world-writable": func(dir string) error { return os.Chmod(dir, 0o707) },
		"another user's": func(dir string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(dir, 0o722) // only root can give a folder away
			}
			return os.Chown(dir, 1000, 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := make(dir); err != nil {
				t.Fatal(err)
			}
			_, err := control.Open(t.Context(), control.Config{State: dir, Providers: func(sallyport.FactoryID, string) ([]provider.Provider, error) { return nil, nil }})
			if sallyport.CodeOf(err) != sallyport.CodeDenied {
				t.Errorf("%v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "keys")); err == nil {
				t.Error("keys were made in it")
			}
		})
	}
}
