package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Kill ends every process in the group and returns once it is empty. After it nothing can be born there: on
// v1 the process limit is set to 0 first, so that the rounds of signals come to an end. CodeUnavailable when
// ctx ends before (a process in an uninterruptible wait); call again.
//
// A thread that only visits the group (see Entry.Start) is waited for; its process is not killed.
func (g *Group) Kill(ctx context.Context) error {
	if p, ok := g.find(pids); ok {
		write(filepath.Join(p.dir, "pids.max"), "0")
	}
	for {
		if g.Empty() {
			return nil
		}
		for _, p := range g.parts {
			p.killOnce()
		}
		if !pause(ctx) {
			return &sallyport.Error{Op: "kill cgroup", Code: sallyport.CodeUnavailable, Subject: g.Allocation, Message: "processes are still in it", Hint: "call again"}
		}
	}
}

func (p part) killOnce() {
	if p.v2 && write(filepath.Join(p.dir, "cgroup.kill"), "1") == nil { // Linux 5.14
		return
	}
	for _, w := range words(readFile(filepath.Join(p.dir, "cgroup.procs"))) {
		if pid, err := strconv.Atoi(w); err == nil {
			p.killOne(pid)
		}
	}
}

// killOne signals through a pidfd that was opened before the membership was looked at: a number that was
// given to another process in between is left alone. So is a process of which only a thread is here.
func (p part) killOne(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p.holds(pid) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// holds asks the process's first thread where it is.
func (p part) holds(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	v1, v2 := parseSelf(string(data))
	at := v2
	if !p.v2 {
		at = v1[p.use[0]]
	}
	return at == p.path(p.dir)
}

// Stats is what the group used. -1: this host does not count it.
type Stats struct {
	MemoryPeak  int64 // bytes
	OOMKills    int64 // processes killed for want of memory
	PIDsRefused int64 // forks refused by the process limit
	CPUMicros   int64 // cpu time, user and system
}

// Stats reads the counters. A group that is gone has none: all -1 and CodeNotFound.
func (g *Group) Stats() (Stats, error) {
	s := Stats{MemoryPeak: -1, OOMKills: -1, PIDsRefused: -1, CPUMicros: -1}
	gone := true
	for _, p := range g.parts {
		if _, err := os.Lstat(p.dir); !errors.Is(err, unix.ENOENT) {
			gone = false
		}
	}
	if gone {
		return s, &sallyport.Error{Op: "read cgroup", Code: sallyport.CodeNotFound, Subject: g.Allocation, Message: "no cgroup bears this id"}
	}
	if p, ok := g.find(memory); ok {
		s.MemoryPeak = p.number("memory.peak", "memory.max_usage_in_bytes", "memory.current")
		s.OOMKills = p.keyed("oom_kill", "memory.events", "memory.oom_control")
	}
	if p, ok := g.find(pids); ok {
		s.PIDsRefused = p.keyed("max", "pids.events")
	}
	if p, ok := g.find(cpuacct); ok {
		if ns := p.number("cpuacct.usage"); ns >= 0 {
			s.CPUMicros = ns / 1000
		}
	}
	if p, ok := g.find(cpu); ok && p.v2 {
		s.CPUMicros = p.keyed("usage_usec", "cpu.stat")
	}
	return s, nil
}

// number reads the first of files that holds one.
func (p part) number(files ...string) int64 {
	for _, f := range files {
		if n, err := strconv.ParseInt(readFile(filepath.Join(p.dir, f)), 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// keyed reads "key number" from the first of files that has the key.
func (p part) keyed(key string, files ...string) int64 {
	for _, f := range files {
		for _, line := range strings.Split(readFile(filepath.Join(p.dir, f)), "\n") {
			if v, ok := strings.CutPrefix(line, key+" "); ok {
				if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}
