package cgroup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Entry is the way into a group, as open descriptors: whoever holds it can put processes in and see which there are, even
// without any right on the files (the kernel asks for the rights of whoever opened them), and nothing else. The zero
// Entry leads nowhere: Start then starts outside any group of ours.
type Entry struct {
	threads []*os.File // v1: one "tasks" for each hierarchy
	procs   []*os.File // one "cgroup.procs" for each hierarchy
}

// Entry opens the group's doors. The caller closes them.
func (g *Group) Entry() (Entry, error) {
	var e Entry
	parts := slices.Clone(g.parts)
	// v1 first, so that Start and EntryFromFiles can tell them apart by number.
	slices.SortStableFunc(parts, func(a, b part) int { return rank(a) - rank(b) })
	for _, p := range parts {
		names := []string{"tasks", "cgroup.procs"}
		if p.v2 {
			names = names[1:]
		}
		for _, name := range names {
			f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_RDWR, 0)
			if err != nil {
				e.Close()
				return Entry{}, &sallyport.Error{Op: "open cgroup entry", Code: sallyport.CodeUnavailable, Subject: p.dir, Message: "expected to open " + name, Err: err}
			}
			if name == "tasks" {
				e.threads = append(e.threads, f)
			} else {
				e.procs = append(e.procs, f)
			}
		}
	}
	return e, nil
}

func rank(p part) int {
	if p.v2 {
		return 1
	}
	return 0
}

// Files are the descriptors to pass to another process, in the order EntryFromFiles expects.
func (e Entry) Files() []*os.File {
	return append(append([]*os.File{}, e.threads...), e.procs...)
}

// EntryFromFiles is the inverse of Files. Which hierarchies they belong to is asked of the descriptors
// themselves. CodeInvalid for anything but control files of cgroups, complete. None: the zero Entry.
func EntryFromFiles(files []*os.File) (Entry, error) {
	v1, v2 := 0, 0
	for i, f := range files {
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
			return Entry{}, entryError(i, err)
		}
		switch int64(st.Type) {
		case unix.CGROUP_SUPER_MAGIC:
			if v2 > 0 {
				return Entry{}, entryError(i, nil)
			}
			v1++
		case unix.CGROUP2_SUPER_MAGIC:
			v2++
		default:
			return Entry{}, entryError(i, nil)
		}
	}
	if v1%2 != 0 || v2 > 1 {
		return Entry{}, entryError(len(files), nil)
	}
	return Entry{threads: files[:v1/2], procs: files[v1/2:]}, nil
}

func entryError(i int, err error) error {
	return &sallyport.Error{Op: "take cgroup entry", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("descriptor %d", i),
		Message: "expected the descriptors of Entry.Files, in their order", Err: err}
}

// Close closes the descriptors; processes inside stay inside.
func (e Entry) Close() {
	for _, f := range e.Files() {
		f.Close()
	}
}

// IsZero reports an Entry that leads nowhere.
func (e Entry) IsZero() bool { return len(e.procs) == 0 }

// Processes are the ids of all that is in the group, as the caller's pid namespace numbers them; it costs as much as there
// is in the group, not on the machine. false: it leads nowhere, or cannot be asked.
func (e Entry) Processes() (pids []int, ok bool) {
	if e.IsZero() {
		return nil, false
	}
	f := e.procs[len(e.procs)-1]
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		return nil, false
	}
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			return nil, false
		}
		pids = append(pids, pid)
	}
	return pids, true
}

// MoveThread puts one thread (0: the calling one) into the v1 hierarchies, so that what it forks is born
// there. The hierarchy of v2 cannot hold a single thread of a process: there it does nothing.
func (e Entry) MoveThread(tid int) error { return put(e.threads, tid) }

// MoveProcess puts a process (0: the calling one) with all its threads into the group. A child that it forked
// before stays outside.
func (e Entry) MoveProcess(pid int) error { return put(e.procs, pid) }

func put(files []*os.File, id int) error {
	for _, f := range files {
		// A raw descriptor: the write must happen on this thread, since 0 means "me".
		if _, err := unix.Write(int(f.Fd()), []byte(strconv.Itoa(id))); err != nil {
			return &sallyport.Error{Op: "enter cgroup", Code: sallyport.CodeDenied, Subject: f.Name(), Message: fmt.Sprintf("expected to put %d in", id),
				Hint: "on v2 a user needs write permission on the common ancestor's cgroup.procs: run inside the delegated subtree", Err: err}
		}
	}
	return nil
}

// Start is syscall.ForkExec into the group: not one instruction of the program runs outside it.
//
// On v1 the calling thread moves in first and its child is born there; the thread stays and is to be thrown
// away. On v2 a thread cannot move alone, and clone3 with CLONE_INTO_CGROUP is neither allowed to a confined
// thread nor to one without rights on the folder. So the child is traced: the kernel stops it at the end of
// its exec, before its first instruction, it is moved, and let go. The ids in attr's PidFD are the child's.
//
// Preconditions: the goroutine is locked to its thread (the tracer is a thread); nobody else in the process
// waits for children without naming one (wait4(-1) would take the stop). It works on a thread that
// contain.Prepared.Apply has confined.
func (e Entry) Start(argv0 string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if err := e.MoveThread(0); err != nil {
		return 0, err
	}
	// The v1 files are one for each "tasks"; what is beyond them is v2's.
	v2 := Entry{procs: e.procs[len(e.threads):]}
	if v2.IsZero() {
		return syscall.ForkExec(argv0, argv, attr)
	}
	return v2.startHeld(argv0, argv, attr)
}

func (e Entry) startHeld(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	held := syscall.ProcAttr{}
	if attr != nil {
		held = *attr
	}
	sys := syscall.SysProcAttr{}
	if held.Sys != nil {
		sys = *held.Sys
	}
	sys.Ptrace = true
	held.Sys = &sys
	pid, err := syscall.ForkExec(argv0, argv, &held)
	if err != nil {
		return 0, err
	}
	if err := e.admit(pid); err != nil {
		syscall.Kill(pid, syscall.SIGKILL)
		wait(pid)
		return 0, err
	}
	return pid, nil
}

// admit moves a child that stands at its exec, and lets it go.
func (e Entry) admit(pid int) error {
	ws, err := wait(pid)
	if err != nil || !ws.Stopped() {
		return &sallyport.Error{Op: "enter cgroup", Code: sallyport.CodeUnavailable, Subject: strconv.Itoa(pid), Message: "expected the new process to stop at its exec", Err: err}
	}
	// Should this process die now, the child dies with it instead of running outside the group.
	if err := syscall.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL); err != nil {
		return &sallyport.Error{Op: "enter cgroup", Code: sallyport.CodeUnavailable, Subject: strconv.Itoa(pid), Message: "expected to bind the new process to this one", Err: err}
	}
	if err := e.MoveProcess(pid); err != nil {
		return err
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		return &sallyport.Error{Op: "enter cgroup", Code: sallyport.CodeUnavailable, Subject: strconv.Itoa(pid), Message: "expected to let the new process go", Err: err}
	}
	return nil
}

func wait(pid int) (syscall.WaitStatus, error) {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err != syscall.EINTR {
			return ws, err
		}
	}
}
