package cgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// makeDir makes dir and what lies between it and the parent. It may be repeated, and survives another process
// that prunes an empty folder in between: that one stays away while we hold the lock.
func (p place) makeDir(dir string) error {
	var err error
	for range 100 {
		unlock := p.hold()
		err = p.makeOnce(dir)
		unlock()
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return err
}

// hold makes the folder that all of ours lie in and keeps those that prune away from it.
func (p place) hold() (release func()) {
	dir := filepath.Join(p.parent, ours)
	return patiently(func() (*os.File, error) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err // makeOnce says it
		}
		f, err := lock(dir, unix.LOCK_SH)
		if errors.Is(err, unix.ENOENT) {
			err = unix.EWOULDBLOCK // pruned already
		}
		return f, err
	})
}

// patiently takes a lock as soon as it can be had, but is no more than courtesy: whoever may look into a folder can lock it
// for ever, so that after a while we go on without.
func patiently(take func() (*os.File, error)) (release func()) {
	for range 100 {
		f, err := take()
		if err == nil {
			return func() { f.Close() }
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return func() {}
}

// lock is the open folder dir with a lock, which is still what the path names; without waiting.
func lock(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		var had, is unix.Stat_t
		if err = errors.Join(unix.Fstat(int(f.Fd()), &had), unix.Lstat(dir, &is)); err == nil && (had.Ino != is.Ino || had.Dev != is.Dev) {
			err = unix.ENOENT
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (p place) makeOnce(dir string) error {
	rel, err := filepath.Rel(p.parent, dir)
	if err != nil {
		return err
	}
	at := p.parent
	for _, name := range strings.Split(rel, "/") {
		if p.v2 {
			if err := p.giveControllers(at); err != nil {
				return err
			}
		}
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

// giveControllers lets the children of a v2 group have the controllers, one by one: a missing one must not
// take the others with it. Those that do not come are noticed by the write that needs them.
func (p place) giveControllers(dir string) error {
	have := words(readFile(filepath.Join(dir, "cgroup.subtree_control")))
	missing := slices.DeleteFunc(slices.Clone(p.use), func(c string) bool { return slices.Contains(have, c) })
	if len(missing) == 0 {
		return nil
	}
	if err := p.leaveAlone(dir); err != nil {
		return err
	}
	for _, c := range missing {
		err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+c)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// leaveAlone moves this process, and what it has started, out of dir into a leaf below it, if nobody else is there.
// Other people's processes are not touched: EBUSY. It is asked before anything is switched on: the kernel would take
// cpu and pids above processes, and make of the folders below groups for threads, which no process can enter.
func (p place) leaveAlone(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, "cgroup.type")); err != nil {
		return nil // the hierarchy's own top, which may hold processes
	}
	leaf := filepath.Join(dir, ScopeLeaf)
	for range 10 { // what was started while we were still there comes after us
		procs := words(readFile(filepath.Join(dir, "cgroup.procs")))
		if len(procs) == 0 {
			return nil
		}
		if !slices.ContainsFunc(procs, isForeign) {
			if err := enterLeaf(leaf, procs); err != nil {
				return err
			}
			continue
		}
		break
	}
	return unix.EBUSY
}

// enterLeaf moves this process first: what it starts from then on is born in the leaf.
func enterLeaf(leaf string, procs []string) error {
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	me := strconv.Itoa(os.Getpid())
	if i := slices.Index(procs, me); i > 0 {
		procs[0], procs[i] = procs[i], procs[0]
	}
	for _, pid := range procs {
		if err := write(filepath.Join(leaf, "cgroup.procs"), pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// isForeign reports whether pid, as cgroup.procs has it, is neither this process nor below it: a driver has its git
// running beside. One that has ended is nobody's.
func isForeign(pid string) bool {
	me := strconv.Itoa(os.Getpid())
	for range 100 { // they change while they are looked at
		if pid == me {
			return false
		}
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH)
		}
		fields := words(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may hold anything
		if len(fields) < 2 || fields[1] == "0" {
			return true
		}
		pid = fields[1]
	}
	return true
}

// prune removes empty folders of ours, from dir up to the parent, and stops at the first that is in use. One that
// is not there is no reason to stop: whoever was to make it may have been ended before.
func (p place) prune(dir string) {
	all := filepath.Join(p.parent, ours)
	if _, err := os.Lstat(all); err != nil {
		return
	}
	defer patiently(func() (*os.File, error) { return lock(all, unix.LOCK_EX) })()
	for dir != p.parent && strings.HasPrefix(dir, p.parent) {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// write makes exactly one write(2): a control file takes a value whole. It never creates a file, so a missing
// one is an error even where the directory is not a cgroup.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(value))
	return errors.Join(err, f.Close())
}

// readFile is "" where the file cannot be read.
func readFile(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// bare is the errno within err, if there is one.
func bare(err error) error {
	var no unix.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
