package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// weigh sums the proportional memory of processes by what they call themselves, in bytes.
func weigh(which func(args []string) bool) map[string]int64 {
	sum := map[string]int64{}
	for _, p := range processes() {
		if which(p.args) {
			sum[filepath.Base(p.args[0])] += pss(p.pid)
		}
	}
	return sum
}

type process struct {
	pid  int
	args []string
}

func processes() (all []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(b) == 0 {
			continue
		}
		all = append(all, process{pid, strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")})
	}
	return all
}

// pss is a process's share of memory (proc_pid_smaps(5)); 0 where it is gone.
func pss(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	return kilobytes(b, "Pss:")
}

// availableMemory is what the kernel thinks it could give away (proc_meminfo(5)).
func availableMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kilobytes(b, "MemAvailable:")
}

func kilobytes(b []byte, field string) int64 {
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == field {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// nothingLeft: processes, cgroups, mounts and folders of a factory's sandboxes. A keeper may be a moment behind.
func nothingLeft(state string, factory sallyport.FactoryID) error {
	var left []string
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if left = leftovers(state, factory); len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("left behind, %d:\n%.2000s", len(left), strings.Join(left, "\n"))
		}
	}
}

func leftovers(state string, factory sallyport.FactoryID) (left []string) {
	ours := map[string]bool{}
	for _, pattern := range []string{"allocations/*", "ids/*", "trial-*"} {
		found, _ := filepath.Glob(filepath.Join(state, "local", pattern))
		left = append(left, found...)
		for _, f := range found {
			ours[filepath.Base(f)] = true
		}
	}
	for _, p := range processes() {
		if len(p.args) > 1 && ours[p.args[1]] {
			left = append(left, fmt.Sprintf("process %d %q", p.pid, p.args))
		}
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, state+"/") {
				left = append(left, "mount "+strings.TrimSpace(line))
			}
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == string(factory) {
			left = append(left, p)
			return fs.SkipDir
		}
		return nil
	})
	return left
}

// size is what a tree takes: files and bytes of content.
func size(dir string) (files int, total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			files++
			total += fi.Size()
		}
		return nil
	})
	return files, total
}
