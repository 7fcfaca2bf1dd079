package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
)

// What the keeper starts a runner with.
const (
	FDControl    = 3 // SOCK_SEQPACKET to the keeper
	FDExecutable = 4 // the runner's own
)

// Handed is what a runner is given once its sandbox is known.
type Handed struct {
	Plan    *os.File // as PlanFile writes it
	Log     *os.File // its standard error from here on
	Result  *os.File // takes the change stream, where the plan is to collect
	Sources []*os.File
}

// Files are what to Hand to the runner.
func (h Handed) Files() []*os.File {
	return append([]*os.File{h.Plan, h.Log, h.Result}, h.Sources...)
}

// Init is PID 1 of a sandbox. It never returns.
//
// Over the control socket it says Ready{} when it has made what is the same in every sandbox, hears the id of
// its Allocation, takes what is Handed, and says one Ready about the sandbox. The end of the socket is its end.
func Init() {
	// Before anything else: nobody who shares our uid may read our memory or our descriptors.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	deafen()
	if err := contain.SealDescriptors(); err != nil {
		os.Exit(1)
	}
	unix.Close(FDExecutable)
	unix.Umask(0)
	control := os.NewFile(FDControl, "control")
	root, err := prepareBlank()
	if err != nil {
		report(control, failed(sallyport.CodeUnsupported, err))
		os.Exit(1)
	}
	report(control, Ready{})
	name, _, err := Hear(control)
	if err != nil {
		os.Exit(0) // never used
	}
	// Before it holds anything of the Allocation.
	if err := Bear(string(name)); err != nil {
		os.Exit(1)
	}
	h, err := takeHanded(control)
	if err != nil {
		os.Exit(1)
	}
	ready, wayOut, collect := prepare(root, h)
	report(control, ready, wayOut...)
	if ready.Error != "" {
		os.Exit(1)
	}
	closeAll(wayOut)
	if collect != nil {
		os.Exit(collect(control))
	}
	serve(control)
}

// prepareBlank makes what does not depend on a plan, most of all the first half of the root.
func prepareBlank() (*root, error) {
	// Nothing that is started from here gains a power; what we have is needed until the root stands (dropPowers).
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); e != 0 {
		return nil, fmt.Errorf("no_new_privs: %w", e)
	}
	if err := loopbackUp(); err != nil {
		return nil, err
	}
	if err := contain.Warm(); err != nil {
		return nil, err
	}
	if err := warm(); err != nil {
		return nil, err
	}
	return newRoot()
}

// warm has the decoder look at our types once, which takes it as long as a plan does.
func warm() error {
	b, err := json.Marshal(Plan{Links: make([]Link, 1), Files: make([]File, 1), Binds: make([]Bind, 1), Overlays: make([]Overlay, 1), Collect: &CollectPlan{}})
	if err != nil {
		return err
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	_, err = json.Marshal(Ready{Layers: make([]sallyport.LayerReport, 1)})
	return err
}

func takeHanded(control *os.File) (Handed, error) {
	files, err := Take(control)
	if err != nil {
		return Handed{}, err
	}
	if len(files) < 3 {
		return Handed{}, fmt.Errorf("expected a plan, a log and a result, got %d files", len(files))
	}
	h := Handed{Plan: files[0], Log: files[1], Result: files[2], Sources: files[3:]}
	err = unix.Dup3(int(h.Log.Fd()), 2, 0)
	h.Log.Close()
	return h, err
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
func prepare(b *root, h Handed) (Ready, []*os.File, func(control *os.File) int) {
	plan, err := ReadPlan(h.Plan)
	h.Plan.Close()
	if err != nil {
		return failed(sallyport.CodeInvalid, err), nil, nil
	}
	if err := unix.Sethostname([]byte(plan.Hostname)); err != nil {
		return failed(sallyport.CodeUnsupported, fmt.Errorf("set host name: %w", err)), nil, nil
	}
	wayOut, err := egressSockets(plan)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	raw, err := openCollectSources(plan.Collect, h.Sources)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	var ready Ready
	if err := b.build(plan, h.Sources, &ready); err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	closeAll(h.Sources) // after the root stands nobody inside needs them
	if plan.Collect != nil {
		return Ready{}, nil, func(control *os.File) int { return collectChange(plan, raw, h.Result, control) }
	}
	h.Result.Close()
	layers, err := probe(plan, wayOut)
	if err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	if err := dropPowers(); err != nil {
		return failed(sallyport.CodeUnsupported, err), nil, nil
	}
	ready.Layers = layers
	return ready, wayOut, nil
}

func failed(code sallyport.Code, err error) Ready {
	return Ready{Code: code.String(), Error: err.Error()}
}

func report(control *os.File, r Ready, files ...*os.File) {
	b, err := json.Marshal(r)
	if err == nil {
		err = Say(control, b, files...)
	}
	if err != nil {
		os.Exit(1)
	}
}

// serve reaps what the command orphans, until the keeper is gone; then PID 1 ends, and with it every process
// of the namespace.
func serve(control *os.File) {
	go func() {
		var b [1]byte
		for {
			if _, err := control.Read(b[:]); err != nil {
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
func probe(p *Plan, wayOut []*os.File) ([]sallyport.LayerReport, error) {
	prepared, err := contain.Prepare(p.Confinement())
	if err != nil {
		return nil, err
	}
	var layers []sallyport.LayerReport
	contain.Spend(func() {
		if err = prepared.Apply(); err == nil {
			t := p.Probe
			if p.Redirect {
				t.Redirect = &contain.Redirect{TCP: wayOut[0], UDP: wayOut[1]}
			}
			layers = contain.Probe(t)
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

// egressSockets are what the sandbox's way out is served on from outside: none, a listener, or with a redirect a
// listener and the socket that names are asked on.
func egressSockets(p *Plan) ([]*os.File, error) {
	switch {
	case p.EgressPort == 0:
		return nil, nil
	case p.Redirect:
		return redirected(p.EgressPort)
	}
	f, err := egressListener(p.EgressPort)
	return []*os.File{f}, err
}

// backlog is how many connections wait until they are accepted.
const backlog = 64

// egressListener is the socket without a redirect. Plain TCP: Go's own listener would be multipath TCP, which
// Landlock does not see.
func egressListener(port int) (*os.File, error) {
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
	if err := unix.Listen(s, backlog); err != nil {
		return nil, fmt.Errorf("egress listener: %w", err)
	}
	return f, nil
}
