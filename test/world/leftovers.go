package world

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Clean fails the test if a folder, cgroup, mount or process of a sandbox of this world is left. A keeper may
// be a moment behind: it is given one.
func (w *World) Clean() {
	w.T.Helper()
	w.CleanWithin(10 * time.Second)
}

// CleanWithin is Clean with another patience.
func (w *World) CleanWithin(d time.Duration) {
	w.T.Helper()
	var left []string
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if left = w.Leftovers(); len(left) == 0 {
			return
		}
	}
	w.T.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
}

// Leftovers are what an ended Attempt leaves nothing of, a line each.
func (w *World) Leftovers() []string {
	w.T.Helper()
	var left []string
	for _, pattern := range []string{"allocations/*", "ids/*", "trial-*"} {
		found, _ := filepath.Glob(filepath.Join(w.State, "local", pattern))
		left = append(left, found...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.Must(err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.Dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	for _, p := range w.Processes() {
		left = append(left, fmt.Sprintf("process %d %q", p.PID, p.Args))
	}
	return append(left, Cgroups(w.Factory())...)
}

// CgroupsOf are those of the factory that a copy of a state folder's factory.json names.
func CgroupsOf(factoryFile string) []string { return Cgroups(factoryIn(factoryFile)) }

// Cgroups are those that bear a factory's id, on every hierarchy.
func Cgroups(factory string) (left []string) {
	if factory == "" {
		return nil
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == factory {
			left = append(left, p)
			return fs.SkipDir
		}
		return nil
	})
	return left
}
