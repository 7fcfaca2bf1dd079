package contain

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outsider is what a process other than pid 1 can do to pid 1. A thread inside pid 1 cannot find out: the
// kernel lets every thread signal and trace-check its own process.
type outsider struct {
	done    uint32
	signal  unix.Errno // kill(1, 0)
	memory  unix.Errno // process_vm_readv of pid 1, which asks the same as ptrace does and attaches nothing
	procMem unix.Errno // open /proc/1/mem
	environ unix.Errno // open /proc/1/environ
	root    unix.Errno // read the link /proc/1/root
}

var (
	pathProcMem = [...]byte{'/', 'p', 'r', 'o', 'c', '/', '1', '/', 'm', 'e', 'm', 0}
	pathEnviron = [...]byte{'/', 'p', 'r', 'o', 'c', '/', '1', '/', 'e', 'n', 'v', 'i', 'r', 'o', 'n', 0}
	pathRoot    = [...]byte{'/', 'p', 'r', 'o', 'c', '/', '1', '/', 'r', 'o', 'o', 't', 0}
)

// askOutsider forks a child of this thread, without exec, and has it try pid 1. The child shares one page
// with us and nothing else; it makes raw system calls only and ends.
func askOutsider() (outsider, error) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return outsider{}, err
	}
	defer unix.Munmap(page)
	out := (*outsider)(unsafe.Pointer(&page[0]))

	pid, errno := forkOutsider(out)
	runtime.KeepAlive(page)
	if errno != 0 {
		return outsider{}, errno
	}
	for {
		// ECHILD: the runner's own reaper was faster; the child is dead either way.
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	if out.done != 1 {
		return outsider{}, unix.ECHILD // it died before it had tried everything
	}
	return *out, nil
}

// forkOutsider must not grow its stack, allocate or be preempted in the child: of the Go runtime's threads
// the child has only this one. Hence nosplit, nothing but raw calls, and all signals blocked around it.
//
//go:nosplit
//go:norace
func forkOutsider(out *outsider) (uintptr, unix.Errno) {
	all, old := ^uint64(0), uint64(0)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e == 0 && pid == 0 {
		_, _, out.signal = unix.RawSyscall(unix.SYS_KILL, 1, 0, 0)
		var word [8]byte
		local := [2]uintptr{uintptr(unsafe.Pointer(&word[0])), 8}
		remote := [2]uintptr{8, 8} // an address that no process maps
		_, _, out.memory = unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, 1, uintptr(unsafe.Pointer(&local[0])), 1, uintptr(unsafe.Pointer(&remote[0])), 1, 0)
		at := unix.AT_FDCWD
		_, _, out.procMem = unix.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&pathProcMem[0])), unix.O_RDWR|unix.O_CLOEXEC, 0, 0, 0)
		_, _, out.environ = unix.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&pathEnviron[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		_, _, out.root = unix.RawSyscall6(unix.SYS_READLINKAT, uintptr(at), uintptr(unsafe.Pointer(&pathRoot[0])), uintptr(unsafe.Pointer(&word[0])), 8, 0, 0)
		out.done = 1
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid, e
}
