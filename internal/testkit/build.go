// Package testkit is what tests of several rooms share: the real binaries, built once. Only tests import it.
//
// Not for a whole machine around them (test/world).
package testkit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const commands = "sallyport.dev/sallyport/cmd/..."

// given names a folder that holds the programs already, for tests that run as another user than built them.
const given = "SALLYPORT_TEST_PROGRAMS"

// Programs returns a folder, readable by every user, with sallyport, its keeper and its runner as they ship.
func Programs(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(given); dir != "" {
		return dir
	}
	return Build(t, commands)
}

// Symbols returns a folder with the same programs, and the names of what is in them: for looking, not for running.
func Symbols(t testing.TB) string {
	t.Helper()
	return linked(t, commands, true)
}

var (
	buildMu sync.Mutex
	built   = map[string]string{} // by packages
)

// Build returns a folder, readable by every user, with the programs of the packages that match the pattern,
// linked as `make build` does. Its name is the key of their content: all tests of a state of the sources share
// it, in whichever package and process they are, and it never changes under one of them.
func Build(t testing.TB, pattern string) string {
	t.Helper()
	return linked(t, pattern, false)
}

func linked(t testing.TB, pattern string, symbols bool) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	name := pattern
	if symbols {
		name += " with symbols"
	}
	if dir, ok := built[name]; ok {
		return dir
	}
	dir, err := build(pattern, symbols)
	if err != nil {
		t.Fatalf("build %s: %v", name, err)
	}
	built[name] = dir
	return dir
}

func build(pattern string, symbols bool) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	prune(cache)
	key, err := contentKey(pattern, symbols)
	if err != nil {
		return "", err
	}
	for range 5 {
		dir := filepath.Join(cache, key)
		if now := time.Now(); os.Chtimes(dir, now, now) == nil {
			return dir, nil
		}
		if err := link(pattern, dir+".new", symbols); err != nil {
			return "", err
		}
		// Somebody may have edited the sources meanwhile: then what was linked has no name.
		after, err := contentKey(pattern, symbols)
		if err != nil {
			return "", err
		}
		if after == key {
			return dir, os.Rename(dir+".new", dir)
		}
		key = after
	}
	return "", errors.New("the sources change faster than they build")
}

// cacheFolder is this user's; what lies in it is executed, so nobody else may write there.
func cacheFolder() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sallyport-test-programs-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner := fi.Sys().(*syscall.Stat_t).Uid; !fi.IsDir() || int(owner) != os.Getuid() {
		return "", fmt.Errorf("%s: expected a folder of uid %d, it is a %v of uid %d: remove it", dir, os.Getuid(), fi.Mode().Type(), owner)
	}
	return dir, os.Chmod(dir, 0o755) // whatever the umask
}

// prune removes what no test has asked for within a day.
func prune(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && e.IsDir() && time.Since(fi.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

// contentKey changes with every source file, flag and compiler that goes into the programs: each package's
// build id does, and the linker takes all of them.
func contentKey(pattern string, symbols bool) (string, error) {
	ids, err := run("list", "-deps", "-export", "-trimpath", "-f", "{{.BuildID}}", pattern)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(append(ids, pattern...)))[:16]
	if symbols {
		key += "-symbols"
	}
	return key, nil
}

func link(pattern, dir string, symbols bool) error {
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	flags := "-ldflags=-s -w"
	if symbols {
		flags = "-ldflags="
	}
	_, err := run("build", "-trimpath", flags, "-o", dir+string(filepath.Separator), pattern)
	return err
}

// run runs go without cgo, as the programs are shipped.
func run(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, errs.Bytes())
	}
	return out, nil
}
