package fault

import (
	"os"
	"testing"
)

// A program that is none of ours runs to its end untouched, and leaves nothing to wait for.
func TestAble(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can trace a keeper")
	}
	if err := Able(); err != nil {
		t.Fatal(err)
	}
}
