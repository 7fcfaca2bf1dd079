package keeper

import (
	"encoding/json"
	"fmt"
	"io"
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
)

// Main is the keeper's life. It returns only an error of the start; afterwards it ends with the process.
// The arguments are for those who look for keepers: allocation id, factory id.
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
	ready := os.NewFile(FDReady, "ready")
	k, err := start()
	tell(ready, err)
	if err != nil {
		return err
	}
	for f := range k.main {
		f()
	}
	return nil
}

func tell(w *os.File, err error) {
	var r Ready
	if err != nil {
		r = Ready{Code: sallyport.CodeOf(err).String(), Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(r)
	w.Close()
}

func start() (*keeper, error) {
	k := &keeper{ended: make(chan struct{}), main: make(chan func()), runner: os.NewFile(FDRunner, "runner"),
		plan: os.NewFile(FDPlan, "plan"), collector: os.NewFile(FDCollector, "collector's plan")}
	f := os.NewFile(FDSetup, "setup")
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
	f.Close()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &k.setup); err != nil {
		return nil, fmt.Errorf("read setup: %w", err)
	}
	if k.dir, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", FDFolder)); err != nil {
		return nil, err
	}
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	// Seen by every process before the sandbox exists: from here on the keeper can be found and ended exactly.
	// Not synced: a crash of the machine leaves no process to find.
	if err := k.note(FileSelf, Self{PID: self.PID, StartTime: self.StartTime, Boot: self.Boot}); err != nil {
		return nil, &sallyport.Error{Op: "start keeper", Code: sallyport.CodeUnavailable, Subject: FileSelf, Err: err}
	}
	if err := k.adoptDescriptors(); err != nil {
		return nil, err
	}
	if k.prepared, err = contain.Prepare(k.setup.Confinement); err != nil {
		return nil, err
	}
	wireSocket, err := listener(FDWire)
	if err != nil {
		return nil, err
	}
	egressSocket, err := listener(FDEgress)
	if err != nil {
		return nil, err
	}
	if err := k.restore(); err != nil {
		return nil, err
	}
	if !k.setup.Salvage {
		if err := k.openKept(); err != nil {
			return nil, err
		}
		s, r, egress, err := k.newSandbox(k.plan, k.sources, nil)
		if err != nil {
			return nil, err
		}
		k.sandbox, k.egress = s, egress
		closeAll(k.sources)
		if err := k.takeCopies(r); err != nil {
			s.kill()
			return nil, err
		}
		if k.layers, err = k.receipt(r.Layers); err != nil {
			s.kill()
			return nil, err
		}
		// Not synced either, for the same reason.
		if err := k.note(FileLayers, k.layers); err != nil {
			return nil, err
		}
		go k.guard(s)
	}
	k.armLease()
	go k.watchFolder()
	go k.serve(wireSocket, egressSocket)
	return k, nil
}

// takeCopies remembers what is a plain copy for want of overlays: the collector must know, and a person is told.
func (k *keeper) takeCopies(r runner.Ready) error {
	if len(r.Copied) == 0 {
		return nil
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
	if !k.setup.Salvage {
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
	var began any
	k.started, err = k.recorded(FileStarted, &began)
	if err != nil {
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

// adoptDescriptors names what follows the fixed descriptors; none of it reaches a child by itself.
func (k *keeper) adoptDescriptors() error {
	fd := FDFirst
	take := func(name string) *os.File {
		f := os.NewFile(uintptr(fd), name)
		fd++
		return f
	}
	var group []*os.File
	for range k.setup.Cgroup.Files {
		group = append(group, take("cgroup"))
	}
	if err := k.takeCgroup(group); err != nil {
		return err
	}
	for range k.setup.Sources {
		k.sources = append(k.sources, take("source"))
	}
	if k.setup.Spec.Workspace.Collect {
		for range k.setup.CollectorSources {
			k.again = append(k.again, take("source"))
		}
	}
	return take("own executable").Close()
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

func listener(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "socket")
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
