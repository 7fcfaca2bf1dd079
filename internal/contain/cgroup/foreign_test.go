package cgroup

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// TestAnothersFolderHoldsNothingOfOurs: where somebody else's groups lie behind a closed door, ours are proven
// absent; where the door is our own, nothing is proven.
func TestAnothersFolderHoldsNothingOfOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: only root can make another's folder")
	}
	parent := t.TempDir()
	for dir := parent; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	door := filepath.Join(parent, ours)
	if err := os.Mkdir(door, 0o700); err != nil {
		t.Fatal(err)
	}
	h := Host{known: []place{{parent: parent}}}
	look := func() (open, list error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with what it became
			if err := unix.Setfsuid(1000); err != nil {
				t.Error(err)
			}
			_, open = h.Open("fac", "alc")
			_, list = h.List("fac")
		}()
		<-done
		return open, list
	}
	if open, list := look(); sallyport.CodeOf(open) != sallyport.CodeUnavailable || sallyport.CodeOf(list) != sallyport.CodeUnavailable {
		t.Errorf("behind a door of our own: %v, %v", open, list)
	}
	if err := os.Chown(door, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if open, list := look(); sallyport.CodeOf(open) != sallyport.CodeNotFound || list != nil {
		t.Errorf("behind another's door: %v, %v", open, list)
	}
}
