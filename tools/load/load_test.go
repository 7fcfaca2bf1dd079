package main

import (
	"os"
	"testing"

	"sallyport.dev/sallyport/internal/testkit"
)

// TestLoad is a small one of each part: what is lost or left behind is an error of the program's own.
func TestLoad(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, as whom all layers of an idle sandbox are there")
	}
	programs := testkit.Programs(t) // with the build cache where it is
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	l := load{programs: programs, parallel: 8, idle: 8, row: 10, resources: 100, writers: 8, brief: true}
	if err := l.run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}
