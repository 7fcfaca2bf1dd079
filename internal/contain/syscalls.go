package contain

import "golang.org/x/sys/unix"

// The tables below are the whole system call policy, as data. What stands in none of them is answered with
// ENOSYS: that is how a call newer than this list looks on an older kernel, and programs have a path for it.
// Left to ENOSYS on purpose: clone3 (its flags lie behind a pointer that a filter cannot read; libc and Go
// then use clone), io_uring_* (a second way to make most calls, past this filter), memfd_secret, statmount,
// listmount, listns, remap_file_pages.

// allowed passes with any arguments.
var allowed = [][]uint32{
	{ // reading, writing and mapping what is open
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
		unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_LSEEK, unix.SYS_CLOSE,
		unix.SYS_CLOSE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_FCNTL, unix.SYS_FLOCK,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SYNC_FILE_RANGE,
		unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FADVISE64, unix.SYS_READAHEAD, unix.SYS_CACHESTAT,
		unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_VMSPLICE, unix.SYS_COPY_FILE_RANGE,
	},
	{ // files by name; file modes, Landlock and read-only mounts decide what they reach
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_NEWFSTATAT, unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_STATFS,
		unix.SYS_FSTATFS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_GETDENTS64, unix.SYS_GETCWD,
		unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT,
		unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_READLINKAT, unix.SYS_TRUNCATE,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UMASK, unix.SYS_UTIMENSAT, unix.SYS_FILE_GETATTR, unix.SYS_FILE_SETATTR,
	},
	{ // extended attributes
		unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_SETXATTR, unix.SYS_LSETXATTR,
		unix.SYS_FSETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR,
		unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_SETXATTRAT, unix.SYS_GETXATTRAT,
		unix.SYS_LISTXATTRAT, unix.SYS_REMOVEXATTRAT,
	},
	{ // memory; pkey_* is V8's, mseal and map_shadow_stack are libc's
		unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MADVISE,
		unix.SYS_PROCESS_MADVISE, unix.SYS_MSYNC, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2,
		unix.SYS_MUNLOCK, unix.SYS_MLOCKALL, unix.SYS_MUNLOCKALL, unix.SYS_MEMFD_CREATE, unix.SYS_MEMBARRIER,
		unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_MSEAL,
		unix.SYS_MAP_SHADOW_STACK, unix.SYS_GET_MEMPOLICY,
	},
	{ // processes, threads, signals; clone stands in conditional
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
		unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND,
		unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SIGALTSTACK, unix.SYS_SIGNALFD4,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MRELEASE,
		unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_SETPGID, unix.SYS_GETSID,
		unix.SYS_SETSID, unix.SYS_SET_TID_ADDRESS, unix.SYS_RESTART_SYSCALL, unix.SYS_PRCTL, unix.SYS_RSEQ,
		unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_REQUEUE,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST,
	},
	{ // debuggers. A tracer reaches only processes of its own uid, in its own pid namespace, dumpable, and in
		// its own or a nested Landlock domain: the agent's own children. The runner is none of these (another
		// uid where two are mapped, never dumpable, outside the domain), the keeper is not even visible. Since
		// Linux 4.8 the filter runs after the tracer, so tracing does not undo it. Probe tries it on pid 1.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	},
	{ // identity: without capabilities only what changes nothing succeeds, and programs check their answers
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID,
		unix.SYS_GETRESGID, unix.SYS_GETGROUPS, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID,
		unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID,
		unix.SYS_SETGROUPS, unix.SYS_CAPGET, unix.SYS_CAPSET,
	},
	{ // scheduling and resource limits: hard limits and nice values only go down
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL,
		unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_SETATTR, unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY,
		unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_PRLIMIT64,
		unix.SYS_GETRUSAGE, unix.SYS_GETCPU,
	},
	{ // time and waiting
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES,
		unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE,
		unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_DELETE,
		unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME, unix.SYS_PPOLL,
		unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
		unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH,
		unix.SYS_INOTIFY_RM_WATCH,
	},
	{ // sockets that exist; socket, socketpair and setsockopt stand in conditional
		unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SENDTO, unix.SYS_RECVFROM,
		unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
	},
	{ // System V and POSIX IPC (databases under test): the ipc namespace is the sandbox's own
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SEMGET, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
		unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND,
		unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
	},
	{ // Linux AIO (databases under test); every request is a plain read or write of an open file
		unix.SYS_IO_SETUP, unix.SYS_IO_DESTROY, unix.SYS_IO_SUBMIT, unix.SYS_IO_CANCEL, unix.SYS_IO_GETEVENTS,
		unix.SYS_IO_PGETEVENTS,
	},
	{ // a program's own, further confinement: filters and domains only ever add up
		unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
		unix.SYS_LANDLOCK_RESTRICT_SELF,
	},
	{ // facts about the machine
		unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETRANDOM,
	},
}

// denied answers EPERM whatever the arguments.
var denied = [][]uint32{
	{ // mounts and roots
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	},
	{ // namespaces; clone stands in conditional
		unix.SYS_SETNS, unix.SYS_UNSHARE,
	},
	{ // large kernel surfaces that no toolchain needs
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_FANOTIFY_MARK, unix.SYS_KCMP, unix.SYS_LOOKUP_DCOOKIE,
	},
	{ // keyrings are not namespaced: possession crosses every wall
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	},
	{ // files by handle: past every path rule
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	},
	{ // the kernel itself
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
		unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
	},
	{ // the machine's clock and name
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	},
	{ // placement of memory, also of other processes'
		unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_SET_MEMPOLICY_HOME_NODE, unix.SYS_MIGRATE_PAGES,
		unix.SYS_MOVE_PAGES,
	},
}

const (
	all32 = ^uint32(0)

	// newNamespaces are the CLONE_NEW* flags of clone(2). CLONE_NEWTIME is not among them: its bit is part of
	// clone's exit signal, only clone3 and unshare can ask for it.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

	// sockTypeMask is where socket(2) keeps the type; SOCK_CLOEXEC and SOCK_NONBLOCK lie above.
	sockTypeMask = 0xf
)

// conditional passes or fails by its arguments.
var conditional = []rule{
	// New processes and threads, never new namespaces.
	{Number: unix.SYS_CLONE, Otherwise: refused, Clauses: []clause{
		{Tests: []test{{Arg: 0, Mask: newNamespaces, Values: []uint32{0}}}, Verdict: allow},
	}},
	// Unix sockets of each kind; TCP and UDP over IPv4 and IPv6 and no other protocol (MPTCP passes Landlock's
	// TCP rules; SCTP, SMC and raw sockets are large surfaces); netlink only to list interfaces and routes,
	// which libc does with SOCK_RAW. All other families, of which AF_VSOCK is not confined by a network
	// namespace at all, are refused.
	{Number: unix.SYS_SOCKET, Otherwise: refused, Clauses: []clause{
		{Tests: []test{
			{Arg: 0, Mask: all32, Values: []uint32{unix.AF_UNIX}},
			{Arg: 1, Mask: sockTypeMask, Values: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET}},
		}, Verdict: allow},
		{Tests: []test{
			{Arg: 0, Mask: all32, Values: []uint32{unix.AF_INET, unix.AF_INET6}},
			{Arg: 1, Mask: sockTypeMask, Values: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}},
			{Arg: 2, Mask: all32, Values: []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}},
		}, Verdict: allow},
		// Other protocols say so in the kernel's own words: runtimes then use TCP for good.
		{Tests: []test{
			{Arg: 0, Mask: all32, Values: []uint32{unix.AF_INET, unix.AF_INET6}},
			{Arg: 1, Mask: sockTypeMask, Values: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}},
		}, Verdict: noProto},
		{Tests: []test{
			{Arg: 0, Mask: all32, Values: []uint32{unix.AF_NETLINK}},
			{Arg: 1, Mask: sockTypeMask, Values: []uint32{unix.SOCK_RAW, unix.SOCK_DGRAM}},
			{Arg: 2, Mask: all32, Values: []uint32{unix.NETLINK_ROUTE}},
		}, Verdict: allow},
	}},
	{Number: unix.SYS_SOCKETPAIR, Otherwise: refused, Clauses: []clause{
		{Tests: []test{{Arg: 0, Mask: all32, Values: []uint32{unix.AF_UNIX}}}, Verdict: allow},
	}},
	// TCP_ULP turns a plain TCP socket into kernel TLS, SMC or another family's code.
	{Number: unix.SYS_SETSOCKOPT, Otherwise: allow, Clauses: []clause{
		{Tests: []test{
			{Arg: 1, Mask: all32, Values: []uint32{unix.SOL_TCP}},
			{Arg: 2, Mask: all32, Values: []uint32{unix.TCP_ULP}},
		}, Verdict: noOpt},
	}},
	// TIOCSTI and TIOCLINUX type into a terminal somebody else reads; TIOCCONS takes the console's output;
	// TIOCSETD loads line disciplines.
	{Number: unix.SYS_IOCTL, Otherwise: allow, Clauses: []clause{
		{Tests: []test{{Arg: 1, Mask: all32, Values: []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS, unix.TIOCSETD}}}, Verdict: refused},
	}},
	// Ask (-1), the default, 32-bit uname (setarch), and no address randomisation (debuggers, for their own
	// children). READ_IMPLIES_EXEC and MMAP_PAGE_ZERO make exploits easier and are not among them.
	{Number: unix.SYS_PERSONALITY, Otherwise: refused, Clauses: []clause{
		{Tests: []test{{Arg: 0, Mask: all32, Values: []uint32{0, all32, perLinux32, addrNoRandomize}}}, Verdict: allow},
	}},
	// FIFOs, sockets and plain files; no device nodes (a character device 0:0 is an overlay's whiteout).
	{Number: unix.SYS_MKNODAT, Otherwise: allow, Clauses: []clause{deviceNode(2)}},
}

const (
	perLinux32      = 0x0008    // PER_LINUX32, linux/personality.h
	addrNoRandomize = 0x0040000 // ADDR_NO_RANDOMIZE
	uname26         = 0x0020000 // UNAME26: harmless, not needed, so the probe's choice
)

// deviceNode refuses block and character nodes by the mode in argument arg.
func deviceNode(arg int) clause {
	return clause{Tests: []test{{Arg: arg, Mask: unix.S_IFMT, Values: []uint32{unix.S_IFCHR, unix.S_IFBLK}}}, Verdict: refused}
}

// policy is every rule, in no order.
func policy() []rule {
	rules := append([]rule(nil), conditional...)
	rules = append(rules, archConditional...)
	add := func(groups [][]uint32, v verdict) {
		for _, g := range groups {
			for _, nr := range g {
				rules = append(rules, rule{Number: nr, Otherwise: v})
			}
		}
	}
	add(allowed, allow)
	add(archAllowed, allow)
	add(denied, refused)
	add(archDenied, refused)
	return rules
}

// withoutAttach refuses what takes hold of a process from outside: attaching a tracer, and reading, writing or
// taking from another's memory and descriptors. A debugger still traces what it starts; a leak sanitizer, which
// attaches to its parent, does not work.
func withoutAttach(rules []rule) []rule {
	for i := range rules {
		switch rules[i].Number {
		case unix.SYS_PTRACE:
			rules[i].Clauses = append([]clause{{Tests: []test{{Arg: 0, Mask: ^uint32(0), Values: []uint32{unix.PTRACE_ATTACH, unix.PTRACE_SEIZE}}}, Verdict: refused}}, rules[i].Clauses...)
		case unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD:
			rules[i] = rule{Number: rules[i].Number, Otherwise: refused}
		}
	}
	return rules
}
