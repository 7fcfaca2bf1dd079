package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call that a sandbox has no use for. Its arguments are never good for anything: whatever
// answers otherwise than with a refusal has got as far as the kernel's own code.
type call struct {
	name   string
	number uintptr
	args   [4]uintptr
}

const none = ^uintptr(0) // no descriptor, no process, no address

// surfaces are the groups of calls: kernel GROUP.
var surfaces = map[string][]call{
	"mounts": {{"mount", unix.SYS_MOUNT, [4]uintptr{none, none, none}}, {"umount2", unix.SYS_UMOUNT2, [4]uintptr{none}}, {"fsopen", unix.SYS_FSOPEN, [4]uintptr{none}},
		{"fsmount", unix.SYS_FSMOUNT, [4]uintptr{none}}, {"move_mount", unix.SYS_MOVE_MOUNT, [4]uintptr{none, none, none, none}}, {"open_tree", unix.SYS_OPEN_TREE, [4]uintptr{none, none, 1}},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, [4]uintptr{none, none}}, {"pivot_root", unix.SYS_PIVOT_ROOT, [4]uintptr{none, none}}, {"chroot", unix.SYS_CHROOT, [4]uintptr{none}},
		{"quotactl", unix.SYS_QUOTACTL, [4]uintptr{none, none, none, none}}},
	"namespaces": {{"setns", unix.SYS_SETNS, [4]uintptr{none}}, {"unshare user", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWUSER}}, {"unshare mount", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWNS}},
		{"unshare net", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWNET}}, {"unshare pid", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWPID}}, {"unshare ipc", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWIPC}},
		{"unshare uts", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWUTS}}, {"unshare cgroup", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWCGROUP}}, {"unshare time", unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWTIME}},
		{"clone3", unix.SYS_CLONE3, [4]uintptr{none, 64}}},
	"keys": {{"add_key", unix.SYS_ADD_KEY, [4]uintptr{none, none}}, {"request_key", unix.SYS_REQUEST_KEY, [4]uintptr{none, none}},
		{"keyctl", unix.SYS_KEYCTL, [4]uintptr{unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1}}},
	"bpf":         {{"bpf", unix.SYS_BPF, [4]uintptr{0, none, 16}}},
	"perf":        {{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [4]uintptr{none}}},
	"userfaultfd": {{"userfaultfd", unix.SYS_USERFAULTFD, [4]uintptr{1}}}, // user mode only: what is given to everybody
	"io-uring":    {{"io_uring_setup", unix.SYS_IO_URING_SETUP, [4]uintptr{1, none}}, {"io_uring_enter", unix.SYS_IO_URING_ENTER, [4]uintptr{none}}, {"io_uring_register", unix.SYS_IO_URING_REGISTER, [4]uintptr{none}}},
	"handles":     {{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [4]uintptr{none, none, none, none}}, {"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [4]uintptr{none, none}}},
	"watching":    {{"fanotify_init", unix.SYS_FANOTIFY_INIT, [4]uintptr{none}}, {"fanotify_mark", unix.SYS_FANOTIFY_MARK, [4]uintptr{none}}, {"kcmp", unix.SYS_KCMP, [4]uintptr{none, none}}},
	"modules": {{"init_module", unix.SYS_INIT_MODULE, [4]uintptr{none, 0, none}}, {"finit_module", unix.SYS_FINIT_MODULE, [4]uintptr{none, none}}, {"delete_module", unix.SYS_DELETE_MODULE, [4]uintptr{none}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, [4]uintptr{0, none, none, none}}},
	"machine": {{"reboot", unix.SYS_REBOOT, [4]uintptr{}}, {"swapon", unix.SYS_SWAPON, [4]uintptr{none}}, {"swapoff", unix.SYS_SWAPOFF, [4]uintptr{none}},
		{"acct", unix.SYS_ACCT, [4]uintptr{none}}, {"syslog", unix.SYS_SYSLOG, [4]uintptr{3, none, 1}}, {"sethostname", unix.SYS_SETHOSTNAME, [4]uintptr{none, none}},
		{"setdomainname", unix.SYS_SETDOMAINNAME, [4]uintptr{none, none}}},
	"clock": {{"settimeofday", unix.SYS_SETTIMEOFDAY, [4]uintptr{none, none}}, {"clock_settime", unix.SYS_CLOCK_SETTIME, [4]uintptr{none, none}},
		{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, [4]uintptr{none, none}}, {"adjtimex", unix.SYS_ADJTIMEX, [4]uintptr{none}}},
	"pages": {{"move_pages", unix.SYS_MOVE_PAGES, [4]uintptr{1, 1, none}}, {"migrate_pages", unix.SYS_MIGRATE_PAGES, [4]uintptr{1, 1, none, none}},
		{"mbind", unix.SYS_MBIND, [4]uintptr{none, none, none, none}}, {"set_mempolicy", unix.SYS_SET_MEMPOLICY, [4]uintptr{none}}},
	// The filter sees the number of an ioctl before the kernel sees that there is no such terminal.
	"terminal": {{"TIOCSTI", unix.SYS_IOCTL, [4]uintptr{none, unix.TIOCSTI, none}}, {"TIOCLINUX", unix.SYS_IOCTL, [4]uintptr{none, unix.TIOCLINUX, none}},
		{"TIOCCONS", unix.SYS_IOCTL, [4]uintptr{none, unix.TIOCCONS, none}}, {"TIOCSETD", unix.SYS_IOCTL, [4]uintptr{none, unix.TIOCSETD, none}}},
	"personality": {{"READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, [4]uintptr{0x0400000}}, {"MMAP_PAGE_ZERO", unix.SYS_PERSONALITY, [4]uintptr{0x0100000}}, {"ADDR_COMPAT_LAYOUT", unix.SYS_PERSONALITY, [4]uintptr{0x0200000}}},
	"vsock":       {{"vsock", unix.SYS_SOCKET, [4]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM, 0}}, {"vsock datagrams", unix.SYS_SOCKET, [4]uintptr{unix.AF_VSOCK, unix.SOCK_DGRAM, 0}}},
	"af-alg":      {{"AF_ALG", unix.SYS_SOCKET, [4]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}}},
	"mptcp":       {{"MPTCP", unix.SYS_SOCKET, [4]uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}}, {"MPTCP over IPv6", unix.SYS_SOCKET, [4]uintptr{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}}},
	"raw-sockets": {{"raw ICMP", unix.SYS_SOCKET, [4]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}}, {"raw IP", unix.SYS_SOCKET, [4]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW}},
		{"packet", unix.SYS_SOCKET, [4]uintptr{unix.AF_PACKET, unix.SOCK_RAW, 0}}, {"raw IPv6", unix.SYS_SOCKET, [4]uintptr{unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}}},
	"netlink": {{"netfilter", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}}, {"xfrm", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}},
		{"audit", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}}, {"generic", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}},
		{"uevents", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT}}, {"sock_diag", unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}}},
}

// kernel tries one group: kernel GROUP. "families" and "other-abis" are not tables.
func kernel(args []string) {
	group := args[0]
	switch group {
	case "families":
		families()
		return
	case "other-abis":
		otherABIs()
		return
	}
	calls, ok := surfaces[group]
	if !ok {
		check(fmt.Errorf("no group %q", group))
	}
	for _, c := range calls {
		_, _, e := unix.Syscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
		answered(c.name, e)
	}
	if group == "namespaces" {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		if cmd.Run() == nil {
			won("cloned a user namespace")
		}
	}
}

// refusals are what a filter, a lacking call or a lacking family answer. All else is the kernel's own code.
var refusals = []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT}

func answered(name string, e unix.Errno) {
	if slices.Contains(refusals, e) {
		fmt.Printf("%s: %v\n", name, e)
		return
	}
	won("%s reached the kernel: %v", name, e)
}

// families opens a socket of every family but the four that a program may have.
func families() {
	for family := range uintptr(64) {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
			continue
		}
		for _, kind := range []uintptr{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			if _, _, e := unix.Syscall(unix.SYS_SOCKET, family, kind, 0); !slices.Contains(refusals, e) {
				won("a socket of family %d, type %d: %v", family, kind, e)
			}
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	check(err)
	if err := unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_ULP, "tls"); err == nil || errors.Is(err, unix.ENOTCONN) {
		won("TCP_ULP: %v", err)
	}
}

// sysctl looks for anything below /proc/sys, and beside it, that can be opened to write. It writes nothing.
func sysctl([]string) {
	n := 0
	look := func(p string) {
		n++
		if f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			f.Close()
			// What is masked is the null device.
			if fi, err := os.Stat(p); err != nil || fi.Mode()&os.ModeCharDevice == 0 {
				won("opened %s to write", p)
			}
		}
	}
	_ = filepath.WalkDir("/proc/sys", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			look(p)
		}
		return nil
	})
	for _, p := range []string{"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/kcore", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/bus/pci/00", "/proc/latency_stats", "/proc/pressure/cpu"} {
		look(p)
	}
	fmt.Println("looked at", n)
}

// power asks for more than a command has: identity, priority, limits.
func power([]string) {
	for name, err := range map[string]error{
		"setresuid": unix.Setresuid(0, 0, 0), "setresgid": unix.Setresgid(0, 0, 0), "setgroups": unix.Setgroups([]int{0}),
		"setpriority": unix.Setpriority(unix.PRIO_PROCESS, 0, -20),
	} {
		if err == nil {
			won("%s", name)
		}
	}
	param := struct{ priority int32 }{50}
	if _, _, e := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param))); e == 0 {
		won("a real-time scheduler")
	}
	if _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, 1, 0, 1<<13); e == 0 {
		won("real-time input and output")
	}
	if os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) == nil {
		won("safe from the kernel's killer")
	}
	var l unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_CORE, &l))
	if l.Max != unix.RLIM_INFINITY && unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}) == nil {
		won("core dumps without a limit")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: none32, Permitted: none32, Inheritable: none32}, {Effective: none32, Permitted: none32, Inheritable: none32}}
	if unix.Capset(&header, &all[0]) == nil {
		won("every capability")
	}
}

const none32 = ^uint32(0)

// inMemory runs this program from a file that has no name and lies on no file system: memfd ATTEMPT...
func inMemory(args []string) {
	self, err := os.ReadFile("/proc/self/exe")
	check(err)
	fd, err := unix.MemfdCreate("x", 0)
	check(err)
	_, err = unix.Write(fd, self)
	check(err)
	_ = unix.Fchmod(fd, 0o6777)
	cmd := exec.Command(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}
