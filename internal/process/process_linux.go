// Package process names a process of this machine exactly: pid, start time and boot, so that a reused pid is
// never taken for its predecessor.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ID is one process for all time on this machine.
type ID struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // field 22 of /proc/PID/stat, clock ticks since boot
	Boot      string `json:"boot"`       // /proc/sys/kernel/random/boot_id
}

var boot struct {
	sync.Mutex
	id string
}

// Boot is this boot's id. It is read once: no process outlives its boot.
func Boot() (string, error) {
	boot.Lock()
	defer boot.Unlock()
	if boot.id == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return "", err
		}
		boot.id = strings.TrimSpace(string(b))
	}
	return boot.id, nil
}

// Self is this process.
func Self() (ID, error) { return Of(os.Getpid()) }

// Of is the process that has pid now; an error if none has.
func Of(pid int) (ID, error) {
	boot, err := Boot()
	if err != nil {
		return ID{}, err
	}
	st, err := Read(pid)
	if err != nil {
		return ID{}, err
	}
	if st.Zombie && Ended(pid) {
		return ID{}, fmt.Errorf("process %d is dead: %w", pid, os.ErrNotExist)
	}
	return ID{PID: pid, StartTime: st.StartTime, Boot: boot}, nil
}

// Stat is what proc_pid_stat(5) says of a process's first thread.
type Stat struct {
	Zombie    bool // it has ended; other threads of the process may still run: Ended
	Exiting   bool // it is on its way out
	StartTime uint64
}

// Read reads it of pid.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return parse(b)
}

func parse(b []byte) (Stat, error) {
	// The name, field 2, may hold spaces and parentheses: count from its end.
	i := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[i+1:]) // the first is field 3, state
	if i < 0 || len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, errors.New("malformed stat line")
	}
	flags, err := strconv.ParseUint(string(f[6]), 10, 32)
	if err != nil {
		return Stat{}, err
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	return Stat{Zombie: f[0][0] == 'Z' || f[0][0] == 'X', Exiting: flags&exiting != 0, StartTime: start}, err
}

// Ended reports of a process whose first thread is a zombie whether all of it is over: others of its threads can still run or,
// with PID 1 of a namespace, wait for the end of that. Its descriptor says when the last one is through (pidfd_open(2)).
func Ended(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 1
}

// exiting is the kernel's flag of a process on its way out (PF_EXITING, linux/sched.h).
const exiting = 0x4

// Ending reports whether exactly this process is dead or on its way out. PID 1 of a namespace is so from before the kernel
// kills the others, while its own end, which waits for theirs, may be long in coming.
func (id ID) Ending() bool {
	now, err := Of(id.PID)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	st, err := Read(id.PID)
	return now != id || st.Exiting || errors.Is(err, fs.ErrNotExist)
}

// NamespaceRuns reports, of PID 1 of a pid namespace, whether it or another process of that namespace still runs. PID 1 is on
// its way out, and has no arguments any more, from before the kernel kills the others until their parents have taken note of
// their ends, which for a parent outside can be never: by itself it is no sign of either.
func (id ID) NamespaceRuns() bool {
	if !id.Alive() {
		return false
	}
	if !id.Ending() {
		return true
	}
	space := fmt.Sprintf("/proc/%d/ns/pid", id.PID)
	ours, err := os.Readlink(space)
	if err != nil {
		return id.Alive()
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == id.PID {
			continue
		}
		// The number of a namespace is given out again only after its PID 1 is gone.
		if theirs, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err != nil || theirs != ours {
			continue
		}
		if _, err := Of(pid); err == nil {
			return true
		}
	}
	return false
}

// Alive reports whether exactly this process runs or is on its way out.
func (id ID) Alive() bool {
	now, err := Of(id.PID)
	return err == nil && now == id
}

// Kill ends exactly this process with SIGKILL. Already gone, or its pid in other hands: nil.
func (id ID) Kill() error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The descriptor pins whoever has the pid now; only then may the start time be compared.
	if !id.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
