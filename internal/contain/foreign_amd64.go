package contain

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// int80 makes a 32-bit system call without arguments and returns the kernel's answer.
func int80(number uint32) int32

const getpid386 = 20 // asm/unistd_32.h

// foreignCalls tries the two other ABIs of this machine with getpid.
func foreignCalls(p *trials) {
	p.want("i386 call", call386(), unix.EPERM, unix.ENOSYS)
	_, _, e := unix.RawSyscall(unix.SYS_GETPID|x32Bit, 0, 0, 0)
	p.want("x32 call", raw(e), unix.EPERM, unix.ENOSYS)
}

// call386: a kernel without 32-bit emulation answers with a fault, which is as good as ENOSYS.
func call386() (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if recover() != nil {
			err = unix.ENOSYS
		}
	}()
	if r := int80(getpid386); r < 0 {
		return unix.Errno(-r)
	}
	return nil
}
