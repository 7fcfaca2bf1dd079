package contain

import (
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/contain/abi"
)

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	// x32Bit marks a call of the x32 ABI, which shares the architecture id with amd64.
	x32Bit = abi.X32
)

// archAllowed are the calls that only old architectures have; libc still makes them here.
var archAllowed = [][]uint32{{
	unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_CHMOD, unix.SYS_CHOWN,
	unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_READLINK, unix.SYS_RENAME,
	unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_GETDENTS, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
	unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME,
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL,
}}

// archDenied: ports, segments, and system calls that are only removed on newer kernels.
var archDenied = [][]uint32{{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CREATE_MODULE,
}}

var archConditional = []rule{
	{Number: unix.SYS_MKNOD, Otherwise: allow, Clauses: []clause{deviceNode(1)}},
}
