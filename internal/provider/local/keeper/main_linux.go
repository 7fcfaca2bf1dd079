package keeper

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/runner"
	"sallyport.dev/sallyport/internal/wire"
)

// Main is the keeper's life. It returns only an error of the start; afterwards it ends with the process.
// The arguments are for those who look for keepers: allocation id (runner.Unnamed at first), factory id.
//
// It is started before there is an Allocation, holds nothing then, and ends with whoever started it. Over the
// control socket it says Ready when its runner waits for a plan, takes the id of its Allocation and its Place, what it
// is Handed and then what it is Told, and says one Ready about the sandbox.
func Main() error {
	// The kernel ends PID 1 of our sandboxes when the thread that started it ends: it must be this one.
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	// Caught and dropped, not ignored: what is ignored stays so in every program started from here, and an
	// agent's Ctrl-C or broken pipe would do nothing.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTERM, unix.SIGTSTP)
	unix.Umask(0o077)
	if err := contain.SealDescriptors(); err != nil {
		return err
	}
	// 1, not 0: a crash inside must not start the host's core_pattern program, which runs as the host's root
	// and which 0 does not stop (core(5), "Piping core dumps to a program").
	// A host whose hard limit is 0 already does not let us; its pattern is then the operator's own choice.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	unix.Close(FDExecutable)
	control := os.NewFile(FDControl, "control")
	k := &keeper{ended: make(chan struct{}), main: make(chan func()), runner: os.NewFile(FDRunner, "runner")}
	first, err := k.wait(control)
	if err != nil {
		tell(control, err)
		return err
	}
	place, allocation, err := takePlace(control)
	if err != nil {
		return nil // never used: the runner ends with us
	}
	err = k.start(control, first, allocation, place)
	tell(control, err)
	control.Close()
	if err != nil {
		return err
	}
	for f := range k.main {
		f()
	}
	return nil
}

// wait makes ready what needs no Allocation and says so; the runner is the one of the sandbox to be.
func (k *keeper) wait(control *os.File) (*sandbox, error) {
	first, err := k.startRunner(false)
	if err != nil {
		return nil, err
	}
	if err := contain.Warm(); err != nil {
		return nil, err
	}
	if err := warm(); err != nil {
		return nil, err
	}
	if err := wire.Warm(); err != nil {
		return nil, err
	}
	if k.self, err = process.Self(); err != nil {
		return nil, err
	}
	if _, _, err := first.hear(); err != nil {
		return nil, err
	}
	tell(control, nil)
	return first, nil
}

// warm has the decoder look at our types once, which takes it as long as a setup does.
func warm() error {
	b, err := json.Marshal(Setup{Spec: provider.Spec{Mounts: make([]sallyport.Mount, 1), Caches: make([]provider.Cache, 1)}, Kept: make([]runner.Source, 1), Layers: make([]sallyport.LayerReport, 1)})
	if err != nil {
		return err
	}
	var s Setup
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	b, err = json.Marshal(runner.Ready{Layers: make([]sallyport.LayerReport, 1)})
	if err != nil {
		return err
	}
	var r runner.Ready
	return json.Unmarshal(b, &r)
}

// tell says how it stands. Whoever started us may be gone: then nobody has to know.
func tell(control *os.File, err error) {
	var r Ready
	if err != nil {
		r = Ready{Code: sallyport.CodeOf(err).String(), Error: err.Error()}
	}
	if b, err := json.Marshal(r); err == nil {
		_ = runner.Say(control, b, nil)
	}
}

// start takes its Place, has first build its sandbox of what it is Handed, and makes itself ready meanwhile with what
// it is Told.
func (k *keeper) start(control *os.File, first *sandbox, allocation sallyport.AllocationID, place Place) error {
	// From here on we can be found and ended exactly. Only then is anything done with what is of the Allocation.
	if err := runner.Bear(string(allocation)); err != nil {
		return err
	}
	if err := k.settle(place, first); err != nil {
		return err
	}
	h, err := takeHanded(control)
	if err != nil {
		return err
	}
	k.sources, k.salvage = h.Sources, h.Plan == nil
	var given error
	if k.salvage {
		first.kill() // it never bore the id: nobody takes it for the sandbox that is gone
	} else if given = first.name(allocation); given == nil {
		given = first.give(runner.Handed{Plan: h.Plan, Log: k.log, Sources: k.sources})
	}
	wireSocket, egressSocket, err := k.takeRest(control)
	if err == nil {
		err = k.restore()
	}
	if err == nil && !k.salvage {
		err = k.proved(first, given)
	}
	if err != nil {
		return err
	}
	k.armLease()
	go k.watchFolder()
	go k.serve(wireSocket, egressSocket)
	return nil
}

// settle makes the keeper known in its place, and leaves that to others then.
func (k *keeper) settle(p Place, first *sandbox) error {
	defer p.Lock.Close()
	k.log = p.Log
	if err := unix.Dup3(int(k.log.Fd()), 2, 0); err != nil {
		return err
	}
	// Opened anew: what was given stays locked as long as it is open anywhere.
	fd, err := unix.Openat(int(p.Lock.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	k.folder = os.NewFile(uintptr(fd), "allocation")
	if k.dir, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return err
	}
	return k.noteSelf(first)
}

// noteSelf is seen by every process before a sandbox is given anything: from here on it and the keeper can be found and
// ended exactly. Not synced: a crash of the machine leaves no process to find.
func (k *keeper) noteSelf(sandboxes ...*sandbox) error {
	self := Self{ID: k.self}
	for _, s := range sandboxes {
		self.Sandboxes = append(self.Sandboxes, s.id)
	}
	if err := k.note(FileSelf, self); err != nil {
		return &sallyport.Error{Op: "start keeper", Code: sallyport.CodeUnavailable, Subject: FileSelf, Err: err}
	}
	return nil
}

// takeRest takes what it is Told.
func (k *keeper) takeRest(control *os.File) (wireSocket, egressSocket net.Listener, err error) {
	t, err := takeTold(control)
	if err != nil {
		return nil, nil, err
	}
	b, err := runner.ReadMemory(t.Setup)
	t.Setup.Close()
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(b, &k.setup); err != nil {
		return nil, nil, fmt.Errorf("read setup: %w", err)
	}
	group := k.setup.Cgroup.Files
	if group < 0 || group > len(t.Rest) {
		return nil, nil, fmt.Errorf("expected %d files of a cgroup, got %d files", group, len(t.Rest))
	}
	k.collector, k.again = t.Collector, t.Rest[group:]
	if err := k.takeCgroup(t.Rest[:group]); err != nil {
		return nil, nil, err
	}
	if k.prepared, err = contain.Prepare(k.setup.Confinement); err != nil {
		return nil, nil, err
	}
	if wireSocket, err = listener(t.Wire); err != nil {
		return nil, nil, err
	}
	egressSocket, err = listener(t.Egress)
	return wireSocket, egressSocket, err
}

// proved waits for what s built of what it was given (given: how that went), and records what was proved.
func (k *keeper) proved(s *sandbox, given error) error {
	if err := k.openKept(); err != nil {
		return err
	}
	r, wayOut, err := s.built(given)
	if err != nil {
		return err
	}
	if want := Sockets(k.setup.Spec); len(wayOut) != want {
		closeAll(wayOut)
		s.kill()
		return fmt.Errorf("expected %d sockets of the way out from the runner, got %d", want, len(wayOut))
	}
	k.sandbox, k.egress = s, wayOut
	closeAll(k.sources)
	if err := k.takeCopies(r); err != nil {
		s.kill()
		return err
	}
	if k.layers, err = k.receipt(r.Layers); err != nil {
		s.kill()
		return err
	}
	s.staged = k.stage(s)
	// Not synced either, for the same reason as FileSelf.
	if err := k.note(FileLayers, k.layers); err != nil {
		return err
	}
	go k.guard(s)
	return nil
}

// takeCopies remembers what is a plain copy for want of overlays: the collector must know, and a person is told.
func (k *keeper) takeCopies(r runner.Ready) error {
	if len(r.Copied) == 0 {
		return nil
	}
	if w := k.setup.Spec.Workspace; len(w.Beside) > 0 || w.Keep != "" {
		// A copy has no bottom: what setup left could not be told from what the command makes of it.
		return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: w.Path, Message: "setup: needs overlays, and none can be mounted: " + r.Why,
			Hint: "leave setup: out, or keep the repository and the state folder on a file system that overlayfs takes"}
	}
	k.copied = r.Copied
	for i, l := range k.setup.Layers {
		if l.Layer == sallyport.LayerWorktree {
			k.setup.Layers[i].Proof = fmt.Sprintf("plain copy of the checkout (no overlay could be mounted: %s); private gitdir; caches read-only", r.Why)
		}
	}
	return k.record(FileCopied, k.copied)
}

// guard notices a PID 1 that dies before any command was started.
func (k *keeper) guard(s *sandbox) {
	<-s.gone
	k.mu.Lock()
	idle := k.sandbox == s && k.command == nil && !k.started
	if idle {
		k.started = true
	}
	k.mu.Unlock()
	if idle {
		k.finish(provider.Exit{Code: -1, Cause: "lost", Message: "the sandbox ended before its command was started"})
	}
}

// restore reads what an earlier keeper of this allocation left.
func (k *keeper) restore() error {
	f, err := k.dir.OpenFile(FileOutput, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	k.spool = newSpool(f, fi.Size(), k.setup.Spec.Limits.Output)
	if _, err := k.recorded(FileFence, &k.fence); err != nil {
		return err
	}
	if !k.salvage {
		return nil
	}
	if _, err := k.recorded(FileCopied, &k.copied); err != nil {
		return err
	}
	if _, err := k.recorded(FileLayers, &k.layers); err != nil {
		return err
	}
	var e provider.Exit
	found, err := k.recorded(FileExit, &e)
	if err != nil {
		return err
	}
	if k.started, err = k.marked(FileStarted); err != nil {
		return err
	}
	if !found {
		e = provider.Exit{Started: k.started, Code: -1, Cause: "lost", Message: "the sandbox's keeper was ended from outside"}
		k.started = true
		k.finish(e)
		return nil
	}
	k.started = true
	k.exit = &e
	k.spool.finish()
	close(k.ended)
	return nil
}

func closeAll(fs []*os.File) {
	for _, f := range fs {
		f.Close()
	}
}

// receipt joins what the probes found inside and what only the outside can state, in report order, and stops
// the start where a required layer does not hold.
func (k *keeper) receipt(probed []sallyport.LayerReport) ([]sallyport.LayerReport, error) {
	all := append(slices.Clone(k.setup.Layers), probed...)
	var ordered []sallyport.LayerReport
	for _, l := range sallyport.Layers() {
		r := sallyport.LayerReport{Layer: l, Status: sallyport.LayerNotHeld, Proof: "nothing reported it", Grade: sallyport.GradeObservation}
		if i := slices.IndexFunc(all, func(r sallyport.LayerReport) bool { return r.Layer == l }); i >= 0 {
			r = all[i]
		}
		r.Required = slices.Contains(k.setup.Spec.Require, l)
		ordered = append(ordered, r)
		if r.Required && r.Status != sallyport.LayerHeld && r.Status != sallyport.LayerWatched {
			return ordered, &sallyport.Error{Op: "prove layers", Code: sallyport.CodeUnsupported, Subject: string(l),
				Message: "a required layer does not hold: " + r.Proof, Hint: r.Fix}
		}
	}
	return ordered, nil
}

func listener(f *os.File) (net.Listener, error) {
	defer f.Close()
	return net.FileListener(f)
}

// onMain runs f on the main thread.
func (k *keeper) onMain(f func() (*sandbox, error)) (*sandbox, error) {
	type outcome struct {
		s   *sandbox
		err error
	}
	done := make(chan outcome, 1)
	k.main <- func() {
		s, err := f()
		done <- outcome{s, err}
	}
	o := <-done
	return o.s, o.err
}
