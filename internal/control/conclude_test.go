package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// TestReasonNamesWhatFailed: what a person reads of a file that could not be written says which, and why.
func TestReasonNamesWhatFailed(t *testing.T) {
	_, err := os.ReadFile(filepath.Join(t.TempDir(), "receipt.json"))
	if got := messageOf(stateError("/state/receipt.json", err)); !strings.Contains(got, "/state/receipt.json") || !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	if got := messageOf(&sallyport.Error{Op: "publish", Subject: "x", Message: "the branch is not free"}); got != "the branch is not free" {
		t.Error(got)
	}
}
