package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// beginAtTop is a driver at the top of what was delegated, with a program running beside it: it makes a group there,
// and says how that went and where it and its child are afterwards.
func beginAtTop() {
	child := exec.Command("/bin/sleep", "20")
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	p, _ := unifiedPlace()
	p.parent = os.Args[1]
	p.use = words(readFile(filepath.Join(p.mount, "cgroup.controllers")))
	err := p.makeDir(filepath.Join(p.parent, ours, "x"))
	fmt.Println(err, cgroupOf("self"), cgroupOf(strconv.Itoa(child.Process.Pid)))
}

// cgroupOf is the last element of a process's v2 cgroup.
func cgroupOf(pid string) string {
	for line := range strings.SplitSeq(readFile(filepath.Join("/proc", pid, "cgroup")), "\n") {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return filepath.Base(path)
		}
	}
	return ""
}

// top is a v2 cgroup without anything in it, and a driver that will be born there.
func top(t *testing.T) (dir string, driver *exec.Cmd) {
	t.Helper()
	p, ok := unifiedPlace()
	if !ok {
		t.Skip("missing capability: no v2 hierarchy is mounted")
	}
	dir = filepath.Join(p.mount, "sallyport-top-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("missing capability: the v2 hierarchy cannot be written: %v", err)
	}
	t.Cleanup(func() {
		for _, d := range []string{filepath.Join(ours, "x"), ours, ScopeLeaf, "."} {
			for until := time.Now().Add(5 * time.Second); ; time.Sleep(pollPause) {
				err := unix.Rmdir(filepath.Join(dir, d))
				if err == nil || errors.Is(err, unix.ENOENT) {
					break
				}
				if time.Now().After(until) {
					t.Errorf("%s: %v", d, err)
					break
				}
			}
		}
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	driver = exec.Command(exe, dir)
	driver.Env = []string{roleEnv + "=top"}
	bornIn(t, driver, dir)
	return dir, driver
}

func bornIn(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
}

// A driver looks at the cgroups while its git is running: what it has started goes into the leaf with it.
func TestLeafTakesWhatWasStarted(t *testing.T) {
	_, driver := top(t)
	out, err := driver.CombinedOutput()
	if want := "<nil> " + ScopeLeaf + " " + ScopeLeaf + "\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q; expected %q", err, out, want)
	}
}

// Where somebody else's process stands nobody is moved.
func TestLeafLeavesOthersAlone(t *testing.T) {
	dir, driver := top(t)
	other := exec.Command("/bin/sleep", "20")
	bornIn(t, other, dir)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	out, err := driver.CombinedOutput()
	name := filepath.Base(dir)
	if want := fmt.Sprintf("%v %s %s\n", unix.EBUSY, name, name); err != nil || string(out) != want {
		t.Errorf("%v, %q; expected %q", err, out, want)
	}
	if at := cgroupOf(strconv.Itoa(other.Process.Pid)); at != name {
		t.Errorf("the other process is in %s", at)
	}
}

// What a process that was ended while it tried has left is removed by the next; another's try that goes on is not.
func TestDetectSweepsProbes(t *testing.T) {
	h := Detect()
	if len(h.places) == 0 {
		t.Skipf("missing capability: no controller can be written here: %v", h.Problems)
	}
	for _, p := range h.places {
		left, fresh := filepath.Join(p.parent, ours, probePrefix+"left"), filepath.Join(p.parent, ours, probePrefix+"fresh")
		for _, dir := range []string{left, fresh} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.prune(dir) })
		}
		old := time.Now().Add(-2 * probeMost)
		if err := os.Chtimes(left, old, old); err != nil {
			t.Fatal(err)
		}
	}
	Detect()
	for _, p := range h.places {
		if _, err := os.Lstat(filepath.Join(p.parent, ours, probePrefix+"left")); !os.IsNotExist(err) {
			t.Errorf("%s: what was left is still there: %v", p.parent, err)
		}
		if _, err := os.Lstat(filepath.Join(p.parent, ours, probePrefix+"fresh")); err != nil {
			t.Errorf("%s: a try that goes on: %v", p.parent, err)
		}
	}
}
