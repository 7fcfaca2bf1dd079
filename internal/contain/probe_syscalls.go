package contain

import (
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// attempt is a call that the filter must answer with Want. The arguments are chosen so that the kernel itself
// would do nothing and, wherever it can be had, give another answer; Same marks the calls where an
// unprivileged caller gets EPERM from the kernel too, so that the answer alone does not show the filter.
type attempt struct {
	Name string
	Call uintptr
	Args [6]uintptr
	Want unix.Errno
	Same bool
}

const (
	none     = ^uintptr(0) // descriptor or id -1
	badFlags = 0x7fffffff

	uffdUserModeOnly = 1 // linux/userfaultfd.h: the form that needs no privilege
	// newPlus makes clone(2) with a namespace flag invalid (CLONE_THREAD without CLONE_SIGHAND), so that an
	// unfiltered kernel refuses it with EINVAL instead of making a process.
	newPlus = unix.CLONE_THREAD
)

// attempts lists every denied group at least once.
var attempts = []attempt{
	{Name: "bpf", Call: unix.SYS_BPF, Args: [6]uintptr{badFlags}, Want: unix.EPERM, Same: true},
	{Name: "perf_event_open", Call: unix.SYS_PERF_EVENT_OPEN, Args: [6]uintptr{0, 0, none, none, 0}, Want: unix.EPERM},
	{Name: "userfaultfd", Call: unix.SYS_USERFAULTFD, Args: [6]uintptr{uffdUserModeOnly | 0x40000000}, Want: unix.EPERM},
	{Name: "fanotify_init", Call: unix.SYS_FANOTIFY_INIT, Args: [6]uintptr{badFlags, 0}, Want: unix.EPERM, Same: true},
	{Name: "kcmp", Call: unix.SYS_KCMP, Args: [6]uintptr{badFlags, badFlags, 0}, Want: unix.EPERM},
	{Name: "keyctl", Call: unix.SYS_KEYCTL, Args: [6]uintptr{badFlags}, Want: unix.EPERM},
	{Name: "add_key", Call: unix.SYS_ADD_KEY, Want: unix.EPERM},
	{Name: "request_key", Call: unix.SYS_REQUEST_KEY, Want: unix.EPERM},
	{Name: "open_by_handle_at", Call: unix.SYS_OPEN_BY_HANDLE_AT, Args: [6]uintptr{none}, Want: unix.EPERM, Same: true},
	{Name: "name_to_handle_at", Call: unix.SYS_NAME_TO_HANDLE_AT, Args: [6]uintptr{none, 0, 0, 0, badFlags}, Want: unix.EPERM},
	{Name: "mount", Call: unix.SYS_MOUNT, Want: unix.EPERM},
	{Name: "umount2", Call: unix.SYS_UMOUNT2, Args: [6]uintptr{0, badFlags}, Want: unix.EPERM},
	{Name: "pivot_root", Call: unix.SYS_PIVOT_ROOT, Want: unix.EPERM, Same: true},
	{Name: "chroot", Call: unix.SYS_CHROOT, Want: unix.EPERM},
	{Name: "open_tree", Call: unix.SYS_OPEN_TREE, Args: [6]uintptr{none, 0, badFlags}, Want: unix.EPERM},
	{Name: "open_tree_attr", Call: unix.SYS_OPEN_TREE_ATTR, Args: [6]uintptr{none, 0, badFlags}, Want: unix.EPERM},
	{Name: "move_mount", Call: unix.SYS_MOVE_MOUNT, Args: [6]uintptr{none, 0, none, 0, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "fsopen", Call: unix.SYS_FSOPEN, Args: [6]uintptr{0, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "fsconfig", Call: unix.SYS_FSCONFIG, Args: [6]uintptr{none, badFlags}, Want: unix.EPERM},
	{Name: "fsmount", Call: unix.SYS_FSMOUNT, Args: [6]uintptr{none, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "fspick", Call: unix.SYS_FSPICK, Args: [6]uintptr{none, 0, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "mount_setattr", Call: unix.SYS_MOUNT_SETATTR, Args: [6]uintptr{none, 0, badFlags}, Want: unix.EPERM},
	{Name: "setns", Call: unix.SYS_SETNS, Args: [6]uintptr{none, 0}, Want: unix.EPERM},
	{Name: "unshare", Call: unix.SYS_UNSHARE, Args: [6]uintptr{0}, Want: unix.EPERM},
	{Name: "clone(NEWUSER)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWUSER | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWNS)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWNS | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWPID)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWPID | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWNET)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWNET | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWIPC)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWIPC | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWUTS)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWUTS | newPlus}, Want: unix.EPERM},
	{Name: "clone(NEWCGROUP)", Call: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWCGROUP | newPlus}, Want: unix.EPERM},
	{Name: "clone3", Call: unix.SYS_CLONE3, Want: unix.ENOSYS},
	{Name: "io_uring_setup", Call: unix.SYS_IO_URING_SETUP, Want: unix.ENOSYS},
	{Name: "io_uring_enter", Call: unix.SYS_IO_URING_ENTER, Args: [6]uintptr{none}, Want: unix.ENOSYS},
	{Name: "io_uring_register", Call: unix.SYS_IO_URING_REGISTER, Args: [6]uintptr{none, badFlags}, Want: unix.ENOSYS},
	{Name: "memfd_secret", Call: unix.SYS_MEMFD_SECRET, Args: [6]uintptr{badFlags}, Want: unix.ENOSYS},
	{Name: "socket(VSOCK)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}, Want: unix.EPERM},
	{Name: "socket(ALG)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET}, Want: unix.EPERM},
	{Name: "socket(PACKET)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_PACKET, unix.SOCK_RAW}, Want: unix.EPERM, Same: true},
	{Name: "socket(SMC)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_SMC, unix.SOCK_STREAM}, Want: unix.EPERM},
	{Name: "socket(BLUETOOTH)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_BLUETOOTH, unix.SOCK_RAW}, Want: unix.EPERM},
	{Name: "socket(NETLINK,NETFILTER)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, Want: unix.EPERM},
	{Name: "socket(RAW)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, Want: unix.EPERM, Same: true},
	{Name: "socket(MPTCP)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, Want: unix.EPROTONOSUPPORT},
	{Name: "socket(SCTP)", Call: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, Want: unix.EPROTONOSUPPORT, Same: true},
	{Name: "socketpair(INET)", Call: unix.SYS_SOCKETPAIR, Args: [6]uintptr{unix.AF_INET, unix.SOCK_STREAM}, Want: unix.EPERM},
	{Name: "setsockopt(TCP_ULP)", Call: unix.SYS_SETSOCKOPT, Args: [6]uintptr{none, unix.SOL_TCP, unix.TCP_ULP}, Want: unix.ENOPROTOOPT},
	{Name: "ioctl(TIOCSTI)", Call: unix.SYS_IOCTL, Args: [6]uintptr{none, unix.TIOCSTI}, Want: unix.EPERM},
	{Name: "ioctl(TIOCSTI, high bits)", Call: unix.SYS_IOCTL, Args: [6]uintptr{none, unix.TIOCSTI | 1<<40}, Want: unix.EPERM},
	{Name: "ioctl(TIOCLINUX)", Call: unix.SYS_IOCTL, Args: [6]uintptr{none, unix.TIOCLINUX}, Want: unix.EPERM},
	{Name: "ioctl(TIOCSETD)", Call: unix.SYS_IOCTL, Args: [6]uintptr{none, unix.TIOCSETD}, Want: unix.EPERM},
	{Name: "mknod(character device)", Call: unix.SYS_MKNODAT, Args: [6]uintptr{none, 0, unix.S_IFCHR}, Want: unix.EPERM},
	{Name: "mbind", Call: unix.SYS_MBIND, Args: [6]uintptr{1, 0, 0, 0, 0, badFlags}, Want: unix.EPERM},
	{Name: "init_module", Call: unix.SYS_INIT_MODULE, Want: unix.EPERM, Same: true},
	{Name: "delete_module", Call: unix.SYS_DELETE_MODULE, Want: unix.EPERM, Same: true},
	{Name: "kexec_load", Call: unix.SYS_KEXEC_LOAD, Args: [6]uintptr{0, none, 0, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "reboot", Call: unix.SYS_REBOOT, Want: unix.EPERM, Same: true},
	{Name: "swapon", Call: unix.SYS_SWAPON, Args: [6]uintptr{0, badFlags}, Want: unix.EPERM, Same: true},
	{Name: "syslog", Call: unix.SYS_SYSLOG, Args: [6]uintptr{badFlags}, Want: unix.EPERM, Same: true},
	{Name: "clock_settime", Call: unix.SYS_CLOCK_SETTIME, Args: [6]uintptr{badFlags}, Want: unix.EPERM},
	{Name: "sethostname", Call: unix.SYS_SETHOSTNAME, Args: [6]uintptr{0, none}, Want: unix.EPERM, Same: true},
}

func probeSyscalls() sallyport.LayerReport {
	p := &trials{layer: sallyport.LayerSyscalls, fix: "the kernel needs CONFIG_SECCOMP_FILTER, and the thread must be confined before the probe"}
	if status, err := threadStatus(); err != nil {
		p.add("read own status", errName(err), false)
	} else {
		p.add("Seccomp mode", status["Seccomp"], status["Seccomp"] == "2")
	}
	for _, a := range attempts {
		p.attempt(a)
	}
	p.personality()
	foreignCalls(p)
	return p.report()
}

func (p *trials) attempt(a attempt) {
	r, _, e := unix.RawSyscall6(a.Call, a.Args[0], a.Args[1], a.Args[2], a.Args[3], a.Args[4], a.Args[5])
	if e == 0 && a.Call == unix.SYS_SOCKET {
		unix.Close(int(r))
	}
	p.want(a.Name, raw(e), a.Want)
}

// personality is put back where it could be changed.
func (p *trials) personality() {
	old, _, e := unix.RawSyscall(unix.SYS_PERSONALITY, uname26, 0, 0)
	if e == 0 {
		unix.RawSyscall(unix.SYS_PERSONALITY, old, 0, 0)
	}
	p.want("personality(UNAME26)", raw(e), unix.EPERM)
}
