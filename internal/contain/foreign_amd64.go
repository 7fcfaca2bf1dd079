package contain

import (
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/contain/abi"
)

// foreignCalls tries the two other ABIs of this machine with getpid.
func foreignCalls(p *trials) {
	_, err := abi.Call386(abi.Getpid386)
	p.want("i386 call", err, unix.EPERM, unix.ENOSYS)
	_, _, e := unix.RawSyscall(unix.SYS_GETPID|x32Bit, 0, 0, 0)
	p.want("x32 call", raw(e), unix.EPERM, unix.ENOSYS)
}
