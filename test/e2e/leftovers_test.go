package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// clean fails the test if a folder, cgroup, mount or process of a sandbox of this world is left. A keeper may
// be a moment behind: it is given one.
func (w *world) clean() {
	w.t.Helper()
	w.cleanWithin(10 * time.Second)
}

func (w *world) cleanWithin(d time.Duration) {
	w.t.Helper()
	var left []string
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if left = w.leftovers(); len(left) == 0 {
			return
		}
	}
	w.t.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
}

func (w *world) leftovers() []string {
	var left []string
	allocations, _ := filepath.Glob(filepath.Join(w.state, "local", "allocations", "*"))
	left = append(left, allocations...)
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, w.dir) {
				left = append(left, "mount "+strings.TrimSpace(line))
			}
		}
	}
	left = append(left, w.processes()...)
	return append(left, w.cgroups()...)
}

// processes are those that name this world in their arguments or environment.
func (w *world) processes() []string {
	var left []string
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		argv, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		if bytes.Contains(argv, []byte(w.dir)) || bytes.Contains(env, []byte("SALLYPORT_STATE="+w.state)) {
			left = append(left, "process "+filepath.Base(p)+" "+strings.ReplaceAll(string(argv), "\x00", " "))
		}
	}
	return left
}

// cgroups are those that bear this state folder's factory.
func (w *world) cgroups() []string { return cgroupsOf(filepath.Join(w.state, "factory.json")) }

func cgroupsOf(factory string) []string {
	b, err := os.ReadFile(factory)
	if err != nil {
		return nil
	}
	parts := strings.Split(string(b), `"`)
	if len(parts) < 4 {
		return nil
	}
	var left []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/sallyport/", "/sys/fs/cgroup/sallyport/", "/sys/fs/cgroup/*/*/sallyport/"} {
		found, _ := filepath.Glob(pattern + parts[3] + "/alc_*")
		left = append(left, found...)
	}
	return left
}
