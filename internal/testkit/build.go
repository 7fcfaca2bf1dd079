// Package testkit is what tests of several rooms share: the real binaries, built once. Only tests import it.
package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var build struct {
	once sync.Once
	dir  string
	err  error
}

// Programs builds sallyport, its keeper and its runner as they are shipped and returns their folder. It is
// shared by the tests of one package and readable by every user.
func Programs(t testing.TB) string {
	t.Helper()
	build.once.Do(func() {
		if build.dir = os.Getenv("SALLYPORT_TEST_PROGRAMS"); build.dir != "" {
			return
		}
		build.dir, build.err = os.MkdirTemp("", "sallyport-programs-")
		if build.err != nil {
			return
		}
		build.err = os.Chmod(build.dir, 0o755)
		if build.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-o", build.dir+string(filepath.Separator), "sallyport.dev/sallyport/cmd/sallyport-keeper", "sallyport.dev/sallyport/cmd/sallyport-runner")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			build.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatalf("build the programs: %v", build.err)
	}
	return build.dir
}

// Cleanup removes what Programs built; call it at the end of TestMain.
func Cleanup() {
	if build.dir != "" && os.Getenv("SALLYPORT_TEST_PROGRAMS") == "" {
		os.RemoveAll(build.dir)
	}
}
