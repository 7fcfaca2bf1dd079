package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
)

// The descriptors that the keeper hands over. Sources of the plan follow.
const (
	fdPlan    = 3
	fdControl = 4 // SOCK_SEQPACKET to the keeper: one Ready out, end of file in
	fdResult  = 5 // the change stream, when the plan is to collect
	// FirstSource is the lowest descriptor a Source may name.
	FirstSource = 6
)

// Init is PID 1 of a sandbox. It never returns.
func Init() {
	// Before anything else: nobody who shares our uid may read our memory or our descriptors.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	deafen()
	if err := contain.SealDescriptors(); err != nil {
		os.Exit(1)
	}
	unix.Umask(0)
	ready, listener, collect := prepare()
	report(ready, listener)
	if ready.Error != "" {
		os.Exit(1)
	}
	if listener != nil {
		listener.Close()
	}
	if collect != nil {
		os.Exit(collect())
	}
	serve()
}

// deafen makes every catchable signal a no-op: a process inside may share our uid. Named are those that Go's
// runtime acts upon by itself; all others it catches and ignores (os/signal, "Default behavior of signals in
// Go programs"). Naming all 65 would take a visit to another thread for each.
func deafen() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT,
		unix.SIGSTKFLT, unix.SIGSYS, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGPROF)
}

// prepare does what the plan says and returns what to report; for a plan that collects, also the work that
// follows the report.
func prepare() (Ready, *os.File, func() int) {
	plan, err := readPlan()
	if err != nil {
		return failed(sallyport.CodeInvalid, err), nil, nil
	}
	if err := loopbackUp(); err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	if err := unix.Sethostname([]byte(plan.Hostname)); err != nil {
		return failed(sallyport.CodeUnsupported, fmt.Errorf("set host name: %w", err)), nil, nil
	}
	listener, err := egressListener(plan.EgressPort)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	raw, err := openCollectSources(plan.Collect)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	var ready Ready
	if err := buildRoot(plan, &ready); err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	plan.closeSources()
	if plan.Collect != nil {
		return Ready{}, nil, func() int { return collectChange(plan, raw) }
	}
	unix.Close(fdResult)
	layers, err := probe(plan)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	if err := dropPowers(); err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	ready.Layers = layers
	return ready, listener, nil
}

func failed(code sallyport.Code, err error) Ready {
	return Ready{Code: code.String(), Error: err.Error()}
}

func readPlan() (*Plan, error) {
	f := os.NewFile(fdPlan, "plan")
	defer f.Close()
	return ReadPlan(f)
}

// ReadPlan reads what MemoryFile wrote; f stays the caller's and may be read again.
func ReadPlan(f *os.File) (*Plan, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return &p, nil
}

func report(r Ready, listener *os.File) {
	b, err := json.Marshal(r)
	if err != nil {
		os.Exit(1)
	}
	var rights []byte
	if listener != nil {
		rights = unix.UnixRights(int(listener.Fd()))
	}
	if err := unix.Sendmsg(fdControl, b, rights, nil, 0); err != nil {
		os.Exit(1)
	}
}

// serve reaps what the command orphans, until the keeper is gone; then PID 1 ends, and with it every process
// of the namespace.
func serve() {
	go func() {
		var b [1]byte
		for {
			n, err := unix.Read(fdControl, b[:])
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				os.Exit(0)
			}
		}
	}()
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(-1, &ws, 0, nil)
		if err == unix.ECHILD {
			waitForChild()
		}
	}
}

// waitForChild sleeps until an orphan is handed to us; there is no event for that, so it polls slowly: a
// zombie costs a pid and nothing else.
func waitForChild() { unix.Nanosleep(&unix.Timespec{Nsec: 200e6}, nil) }

// probe runs the containment probes on a thread that gives up exactly what the command will, and is thrown
// away afterwards.
func probe(p *Plan) ([]sallyport.LayerReport, error) {
	prepared, err := contain.Prepare(p.Confinement())
	if err != nil {
		return nil, err
	}
	var layers []sallyport.LayerReport
	contain.Spend(func() {
		if err = prepared.Apply(); err == nil {
			layers = contain.Probe(p.Probe)
		}
	})
	return layers, err
}

// Confinement is what the command's thread gives up.
func (p *Plan) Confinement() contain.Confinement {
	return contain.Confinement{UID: p.UID, GID: p.GID, ChangeIDs: p.ChangeIDs, Writable: p.Writable, NoAttach: p.NoAttach}
}

// dropPowers takes every capability from every thread of this process. It keeps nothing: reaping needs none.
func dropPowers() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	// Ambient capabilities go with the permitted ones (capabilities(7)): no call of their own, as each one to
	// all threads costs more than most of the start.
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0); e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); e != 0 {
		return fmt.Errorf("no_new_privs: %w", e)
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// loopbackUp brings the only interface up.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}

// egressListener is the socket on which the sandbox's way out is served from outside; nil for none. Plain
// TCP: Go's own listener would be multipath TCP, which Landlock does not see.
func egressListener(port int) (*os.File, error) {
	if port == 0 {
		return nil, nil
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return nil, fmt.Errorf("egress listener: %w", err)
	}
	f := os.NewFile(uintptr(s), "egress")
	if err := unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("egress listener: %w", err)
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, fmt.Errorf("egress listener on port %d: %w", port, err)
	}
	if err := unix.Listen(s, 64); err != nil {
		return nil, fmt.Errorf("egress listener: %w", err)
	}
	return f, nil
}

// closeSources closes the descriptors of the host's folders: after the root stands nobody inside needs them.
func (p *Plan) closeSources() {
	for fd := FirstSource; fd <= FirstSource+p.Sources; fd++ { // the last is our own executable
		unix.Close(fd)
	}
}
