package main

// row is one thing that untrusted code tries. The same table is read by the probe inside, which tries, and by the host
// outside, which says what it saw of it.
type row struct {
	id   string
	what string // in the table
	try  func(*probe) result
	// seen says from outside whether it had an effect there; nil: only the probe can tell.
	seen func(*host) bool
}

// result is what the probe says of one row.
type result struct {
	allowed bool
	detail  string // an errno or a few words, the same in every run
}

// group is a heading of the table.
type group struct {
	title string
	rows  []row
}

// facts are what a sandbox is, not what it lets happen.
var facts = []struct{ id, what string }{
	{"uid", "user id inside, and on the host"}, {"caps", "capabilities: effective, bounding"}, {"nnp", "`no_new_privs`"}, {"seccomp", "seccomp (0 none, 2 filter)"},
	{"ns", "namespaces of its own"}, {"procs", "processes in sight"},
}

// groups is the table. Harmless arguments throughout: what could change the machine writes back what it found, or a
// setting that only says how often the kernel logs.
var groups = []group{
	{"Control: what must work, or the rest says nothing", []row{
		{"control-run", "say something", func(*probe) result { return result{true, ""} }, nil},
		{"control-write", "write a file in the working folder", func(p *probe) result { return said(writeFile(p.In("new-file"), "x")) }, nil},
	}},
	{"Files of the host", []row{
		{"read-ssh", "read `~/.ssh/id_ed25519`", func(p *probe) result { return p.holds(p.Home + "/.ssh/id_ed25519") }, nil},
		{"read-other", "read another project's `.env`", func(p *probe) result { return p.holds(p.Home + "/other/.env") }, nil},
		{"read-shadow", "read `/etc/shadow`", func(p *probe) result { return p.same("/etc/shadow", p.Shadow) }, nil},
		{"read-passwd", "read the host's list of users, `/etc/passwd`", func(p *probe) result { return p.same("/etc/passwd", p.Passwd) }, nil},
		{"write-outside", "write a file that everybody may write, outside of the working folder", func(p *probe) result { return said(writeFile(p.Outside+"/file", p.Token)) },
			func(h *host) bool { return h.fileHolds(h.path("outside/file")) }},
		{"write-home", "append to `~/.bashrc`", func(p *probe) result { return said(appendFile(p.Home+"/.bashrc", p.Token)) },
			func(h *host) bool { return h.fileHolds(h.home() + "/.bashrc") }},
		{"write-bin", "put a program into `/usr/local/bin`", func(p *probe) result { return said(writeFile("/usr/local/bin/sallyport-containment", p.Token)) },
			func(h *host) bool { return h.fileHolds("/usr/local/bin/sallyport-containment") }},
		{"write-tmp", "write into the host's `/tmp`", func(p *probe) result { return said(writeFile("/tmp/sallyport-containment-"+p.Token, p.Token)) },
			func(h *host) bool { return h.fileHolds("/tmp/sallyport-containment-" + h.token) }},
		{"write-shm", "write into the host's `/dev/shm`", func(p *probe) result { return said(writeFile("/dev/shm/sallyport-containment-"+p.Token, p.Token)) },
			func(h *host) bool { return h.fileHolds("/dev/shm/sallyport-containment-" + h.token) }},
		{"git-hook", "put a hook into the host's repository", func(p *probe) result { return said(writeFile(p.In(".git/hooks/post-checkout"), p.Token)) },
			func(h *host) bool { return h.fileHolds(h.work() + "/.git/hooks/post-checkout") }},
		{"git-config", "have the host's git start a program, by `.git/config`", func(p *probe) result {
			return said(appendFile(p.In(".git/config"), "[core]\n\tfsmonitor = ./"+p.Token+"\n"))
		}, func(h *host) bool { return h.fileHolds(h.work() + "/.git/config") }},
		{"work-change", "change the person's own working tree", func(p *probe) result { return said(appendFile(p.In("README"), p.Token)) },
			func(h *host) bool { return h.fileHolds(h.work() + "/README") }},
		{"setuid", "gain power by a set-uid program", (*probe).setuid, nil},
	}},
	{"Out, and to others on this host", []row{
		{"tcp-loopback", "TCP to a server on the host's 127.0.0.1", func(p *probe) result { return p.talk("tcp4", "127.0.0.1:"+p.Port) }, heard("tcp4 127.0.0.1")},
		{"tcp-loopback6", "TCP to a server on the host's ::1", func(p *probe) result { return p.talk("tcp6", "[::1]:"+p.Port) }, heard("tcp6 ::1")},
		{"tcp-metadata", "TCP to the metadata address, 169.254.169.254:80", func(p *probe) result { return p.talk("tcp4", metadata+":80") }, heard("tcp4 " + metadata)},
		{"tcp-out", "TCP to an address of the internet", func(p *probe) result { return p.talk("tcp4", internet+":443") }, heard("tcp4 " + internet)},
		{"http-proxy", "HTTP to a host that nobody listed, by the proxy that the environment names", (*probe).proxied, heard("http evil.test")},
		{"udp-out", "UDP to an address of the internet", func(p *probe) result { return p.talk("udp4", internet+":9999") }, heard("udp4 " + internet)},
		{"dns", "a question for a name, which carries data, by the system's resolver", (*probe).resolve, heard("dns")},
		{"unix-path", "a Unix socket of the user's by its path (an SSH agent)", func(p *probe) result { return p.talk("unix", p.Home+"/agent.sock") }, heard("unix agent")},
		{"unix-abstract", "an abstract Unix socket of the host", func(p *probe) result { return p.talk("unix", "@"+p.Abstract) }, heard("unix abstract")},
		{"docker-sock", "`/run/docker.sock`", func(p *probe) result { return p.talk("unix", "/run/docker.sock") }, heard("unix docker")},
		{"sysv", "System V shared memory of the host", (*probe).sysv, nil},
		{"keyctl", "the user's kernel keyring (a key that somebody put there)", (*probe).keys, nil},
		{"env-outside", "the environment of a process outside (`/proc/PID/environ`)", (*probe).environs, nil},
		{"kill-outside", "a signal to a process outside", (*probe).signal, func(h *host) bool { return h.canarySignalled() }},
		{"ptrace-outside", "trace a process outside", (*probe).traceOutside, nil},
		{"outlive", "leave a process that outlives the command", (*probe).outlive, func(h *host) bool { return h.daemonLives() }},
		{"tiocsti", "type into the person's terminal (`TIOCSTI`)", (*probe).typeInto, func(h *host) bool { return h.typed() }},
	}},
	{"The kernel's settings and devices", []row{
		{"core-pattern", "open `/proc/sys/kernel/core_pattern` to write", func(*probe) result { return openWrite("/proc/sys/kernel/core_pattern") }, nil},
		{"sysctl", "change a setting below `/proc/sys`", func(*probe) result { return said(writeExisting(setting, settingProbe)) }, func(h *host) bool { return h.settingChanged() }},
		{"drop-caches", "open `/proc/sys/vm/drop_caches` to write", func(*probe) result { return openWrite("/proc/sys/vm/drop_caches") }, nil},
		{"sysrq", "open `/proc/sysrq-trigger` to write", func(*probe) result { return openWrite("/proc/sysrq-trigger") }, nil},
		{"cgroup", "open `cgroup.procs` of the host's cgroups to write", (*probe).cgroups, nil},
		{"uevent", "open `/sys/kernel/uevent_helper` to write", func(*probe) result { return openWrite("/sys/kernel/uevent_helper") }, nil},
		{"mem", "open `/dev/mem`, `/dev/kmsg`", func(*probe) result { return firstOf(openRead("/dev/mem"), openRead("/dev/kmsg")) }, nil},
		{"disks", "open a block device", (*probe).disks, nil},
		{"mknod", "make a node of a block device", (*probe).mknod, nil},
		{"kvm", "open `/dev/kvm`", func(*probe) result { return openRead("/dev/kvm") }, nil},
	}},
	{"The kernel's calls", []row{
		{"userns", "a new user namespace", func(*probe) result { return cloned(nsUser) }, nil},
		{"netns", "new user and network namespaces", func(*probe) result { return cloned(nsUser | nsNet) }, nil},
		{"mount", "`mount`", (*probe).mount, nil},
		{"open-tree", "`open_tree(OPEN_TREE_CLONE)`", (*probe).openTree, nil},
		{"setns", "`setns` into the first process's network", (*probe).setns, nil},
		{"chroot", "`chroot`", (*probe).chroot, nil},
		{"io-uring", "`io_uring_setup`", (*probe).ioUring, nil},
		{"bpf", "`bpf` (make a map)", (*probe).bpf, nil},
		{"perf", "`perf_event_open` on itself", (*probe).perf, nil},
		{"userfaultfd", "`userfaultfd`", (*probe).userfault, nil},
		{"ptrace-own", "`ptrace` of a child of its own", (*probe).traceOwn, nil},
		{"vm-readv", "`process_vm_readv` of itself", (*probe).vmRead, nil},
		{"add-key", "`add_key`", (*probe).addKey, nil},
		{"handles", "`open_by_handle_at`", (*probe).handles, nil},
		{"personality", "`personality(READ_IMPLIES_EXEC)`", (*probe).personality, nil},
		{"other-abi", "a call by `int 0x80`, and one by x32", (*probe).otherABI, nil},
		{"hostname", "`sethostname`", (*probe).hostname, nil},
		{"clock", "set the clock (to what it is)", (*probe).clock, nil},
		{"socket-unix", "socket: AF_UNIX", func(*probe) result { return socket(afUnix, sockStream, 0) }, nil},
		{"socket-inet", "socket: AF_INET, TCP", func(*probe) result { return socket(afInet, sockStream, 0) }, nil},
		{"socket-dgram", "socket: AF_INET, UDP", func(*probe) result { return socket(afInet, sockDgram, 0) }, nil},
		{"socket-raw", "socket: AF_INET, raw", func(*probe) result { return socket(afInet, sockRaw, 1) }, nil},
		{"socket-mptcp", "socket: MPTCP", func(*probe) result { return socket(afInet, sockStream, 262) }, nil},
		{"socket-route", "socket: AF_NETLINK, routes", func(*probe) result { return socket(afNetlink, sockRaw, 0) }, nil},
		{"socket-netfilter", "socket: AF_NETLINK, netfilter", func(*probe) result { return socket(afNetlink, sockRaw, 12) }, nil},
		{"socket-vsock", "socket: AF_VSOCK, which no namespace confines", func(*probe) result { return socket(afVsock, sockStream, 0) }, nil},
		{"socket-packet", "socket: AF_PACKET", func(*probe) result { return socket(afPacket, sockRaw, 0) }, nil},
		{"socket-alg", "socket: AF_ALG", func(*probe) result { return socket(afAlg, sockSeqpacket, 0) }, nil},
	}},
	{"Too much", []row{
		{"memory", "1 GiB of memory, where 512 MiB were granted", (*probe).memory, nil},
		{"processes", "600 threads, where 256 were granted", (*probe).threads, nil},
		{"disk", "600 MiB of files, where 256 MiB were granted", (*probe).fill, nil},
	}},
}

// Addresses that lie on a loopback interface of the tool's own network, and stand for what lies outside.
const (
	metadata = "169.254.169.254"
	internet = "198.51.100.7"
	resolver = "198.51.100.53"
)

// setting is changed and put back: how many messages the kernel logs at once.
const (
	setting      = "/proc/sys/kernel/printk_ratelimit_burst"
	settingProbe = "11\n"
)

// alone are the rows that each have a run of their own, since what bounds them may end the run.
var alone = []string{"memory", "processes", "disk"}

func rowOf(id string) (row, bool) {
	for _, g := range groups {
		for _, r := range g.rows {
			if r.id == id {
				return r, true
			}
		}
	}
	return row{}, false
}

// heard asks whether a server outside heard the token on one of its addresses.
func heard(on string) func(*host) bool { return func(h *host) bool { return h.heard(on) } }
