package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/runner"
)

const fileSpec = "spec.json"

func readSpec(dir string) (s provider.Spec, err error) {
	err = read(dir, fileSpec, &s)
	return s, err
}

// recorded makes a sandbox with its spec on record: whole for every process that looks from before it is made, and durable
// when recorded returns nil. What lives may hold something of the Allocation before that: a crash of the machine leaves
// nothing that lives. create calls its argument where it begins to wait for others: to flush earlier would make it wait for
// the disk at each folder that it makes.
func recorded(dir string, spec []byte, create func(waits func()) error) error {
	f, err := os.CreateTemp(dir, "."+fileSpec+"-") // only for its owner
	if err != nil {
		return stateError("create", dir, err)
	}
	defer f.Close()
	if _, err = f.Write(spec); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fileSpec))
	}
	if err != nil {
		return stateError("create", dir, err)
	}
	durable := make(chan error, 1)
	flush := sync.OnceFunc(func() { go func() { durable <- f.Sync() }() })
	err = create(flush)
	flush()
	if serr := <-durable; err == nil && serr != nil {
		err = stateError("create", dir, serr)
	}
	return err
}

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, spec provider.Spec) (sallyport.ResourceID, error) {
	if err := checkSpec(spec, p.cfg.Factory); err != nil {
		return "", err
	}
	id := p.resource(spec.Allocation)
	dir := p.folder(spec.Allocation)
	lock, err := claimFolder(ctx, dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	done, err := p.same(ctx, dir, spec)
	if err != nil || done {
		return id, err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	// Commit point: a crash before leaves an empty folder that bears the id; after, one that can be made
	// again from its own spec. Either is found by List and removed by Destroy.
	err = recorded(dir, b, func(waits func()) error { return p.makeSandbox(ctx, lock, spec, waits) })
	if err != nil {
		if sallyport.CodeOf(err) != sallyport.CodeUnknown {
			// It is certain that nothing was made; what removing does not reach, List still finds.
			_ = p.remove(context.WithoutCancel(ctx), dir, spec.Allocation)
		}
		return "", err
	}
	return id, nil
}

func checkSpec(s provider.Spec, f sallyport.FactoryID) error {
	invalid := func(field, want string) error {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeInvalid, Subject: field, Message: "expected " + want}
	}
	switch {
	case s.Factory != f:
		return invalid("factory", string(f))
	case sallyport.CheckID(sallyport.AllocationPrefix, string(s.Allocation)) != nil:
		return invalid("allocation", "an allocation id")
	case s.SecretSum.Check() != nil:
		return invalid("secret_sum", "a digest")
	case !filepath.IsAbs(s.Workspace.Path) || len(s.Workspace.Layers) == 0:
		return invalid("workspace", "an absolute path and at least one layer")
	case !filepath.IsAbs(s.Home) || s.Home == "/":
		return invalid("home", "an absolute path")
	case len(s.Command.Argv) == 0 || s.Command.Argv[0] == "":
		return invalid("command.argv", "a program")
	case s.Limits.Time <= 0 || s.Limits.Memory <= 0 || s.Limits.PIDs <= 0 || s.Limits.Disk <= 0 || s.Limits.Output <= 0:
		return invalid("limits", "time, memory, pids, disk and output above zero")
	case s.Redirect && s.EgressPort == 0:
		return invalid("egress_port", "a port for the redirect to lead to")
	case s.LeaseTTL <= 0 || s.LeaseTTL > provider.MaxLease:
		return invalid("lease_ttl_ns", "a time above zero, at most "+provider.MaxLease.String())
	}
	for _, f := range s.Command.Files {
		if !filepath.IsAbs(f.Name) && !filepath.IsLocal(f.Name) {
			return invalid("command.files: "+f.Name, "a name below "+provider.FilesFolder)
		}
	}
	for _, l := range s.Require {
		if !slices.Contains(sallyport.Layers(), l) {
			return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: string(l), Message: "expected a layer that this version can prove"}
		}
	}
	return nil
}

// same reports whether spec was already made. A folder whose keeper never came to life is made anew.
func (p *Provider) same(ctx context.Context, dir string, spec provider.Spec) (bool, error) {
	old, err := readSpec(dir)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil && !exists(dir, keeper.FileStarted) {
		return false, p.unmade(ctx, dir, spec.Allocation) // the machine died before it was durable
	}
	if err != nil {
		return false, &sallyport.Error{Op: "create", Code: sallyport.CodeCorrupt, Subject: dir, Err: err}
	}
	a, _ := json.Marshal(old)
	b, _ := json.Marshal(spec)
	if !bytes.Equal(a, b) {
		return false, &sallyport.Error{Op: "create", Code: sallyport.CodeConflict, Subject: string(spec.Allocation), Message: "made before from another spec"}
	}
	ready := exists(dir, keeper.FileLayers)
	if ready && (exists(dir, keeper.FileStarted) || exists(dir, keeper.FileExit)) {
		return true, nil
	}
	if self, err := readSelf(dir); ready && err == nil && self.Alive() {
		return true, nil
	}
	return false, p.unmade(ctx, dir, spec.Allocation)
}

// unmade removes what there is of a sandbox that was not made whole. Also a keeper that has not yet written who it is: two
// of them must never meet in one folder.
func (p *Provider) unmade(ctx context.Context, dir string, a sallyport.AllocationID) error {
	if err := endProcesses(ctx, dir, a); err != nil {
		return err
	}
	return removeData(dir)
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// salvage starts a keeper that only serves what is left of an Allocation.
func (p *Provider) salvage(ctx context.Context, a sallyport.AllocationID) error {
	dir := p.folder(a)
	lock, err := lockFolder(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if kept(dir) {
		return nil // another process was faster
	}
	spec, err := readSpec(dir)
	if err != nil {
		return halfMade(a, err)
	}
	for len(running(dir, a)) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond) // the old keeper's PID 1 is on its way out
	}
	return p.makeSandbox(ctx, lock, spec, nil)
}

func halfMade(a sallyport.AllocationID, err error) error {
	return &sallyport.Error{Op: "connect", Code: sallyport.CodeUnknown, Subject: string(a), Message: "half-made: nothing to serve", Err: err}
}

// makeSandbox prepares everything that takes the caller's powers and hands it to a keeper, which outlives us. lock is the
// Allocation's folder. It calls waits when it has prepared; nil: only what is left of the Allocation is to be served.
func (p *Provider) makeSandbox(ctx context.Context, lock *os.File, spec provider.Spec, waits func()) (err error) {
	salvage, dir := waits == nil, lock.Name()
	s, err := p.spareFor(spec.Allocation)
	if err != nil {
		return err
	}
	var open handles
	defer open.close()
	settled := func() error { return nil }
	defer func() {
		_ = settled()
		if err != nil {
			s.end() // one that bears the id later would be missed by whoever cleans up
		}
		s.close()
	}()
	if !s.ids.own {
		if err := os.Chown(dir, s.ids.hostKeeper, s.ids.hostKeeper); err != nil {
			return stateError("create", dir, err)
		}
	}
	place := keeper.Place{Lock: lock, Log: open.keep(os.OpenFile(filepath.Join(dir, "keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))}
	if open.err != nil {
		return stateError("create", dir, open.err)
	}
	settled = sync.OnceValue(func() error { return p.settle(ctx, s, spec.Allocation, place) })
	if s.isUp() {
		_ = settled() // at once, and not when another thread has come to it
	} else {
		go settled()
	}
	grouped := sync.OnceValues(func() (group, error) { return p.group(spec) })
	go grouped()
	defer func() {
		g, _ := grouped()
		g.close()
	}()
	b := &planner{spec: spec, ids: s.ids, dir: dir, users: s.users, runner: p.cfg.Runner}
	defer b.closeFiles()
	if err := b.build(p.cfg.Runner); err != nil {
		return err
	}
	lures, err := newLures()
	if err != nil {
		return err
	}
	defer lures.close()
	b.plan.Probe = contain.Targets{UID: s.ids.uid, GID: s.ids.gid, OneID: s.ids.own, Processes: 1,
		Absent:   []string{dir, "/etc/shadow", "/run/docker.sock", "/root/.ssh", filepath.Join(spec.Home, ".ssh")},
		Writable: []string{spec.Workspace.Path, spec.Home, "/tmp"}, HostPort: lures.port, Abstract: lures.abstract,
		Env: environment(spec.Command.Env), ForbidNames: forbiddenNames, AllowNames: spec.Command.Placeholders, ForbidValues: forbiddenValues}
	b.plan.NoOverlay = p.cfg.NoOverlay
	h := keeper.Handed{Sources: b.files}
	if !salvage {
		h.Plan = open.keep(runner.PlanFile(b.plan))
	}
	if open.err != nil {
		return stateError("create", dir, open.err)
	}
	if err := settled(); err != nil {
		return err
	}
	if err := s.hand(ctx, h); err != nil {
		return err
	}
	if waits != nil {
		waits()
	}
	// The runner builds and tries meanwhile: it needs nothing of what follows.
	t := keeper.Told{Wire: open.keep(listenIn(dir, socketWire)), Egress: open.keep(listenIn(dir, socketEgress))}
	// A detached mount can be attached once: the collector's sandbox gets a set of its own.
	again := &planner{spec: collectorSpec(spec), ids: s.ids, dir: dir, users: s.users, runner: p.cfg.Runner}
	if spec.Workspace.Collect {
		defer again.closeFiles()
		if err := again.build(p.cfg.Runner); err != nil {
			return err
		}
	}
	t.Collector = open.keep(runner.PlanFile(again.plan))
	setup := keeper.Setup{Spec: told(spec), Confinement: b.plan.Confinement()}
	if setup.Kept, err = b.kept(); err != nil {
		return err
	}
	var known proof // of nothing, in a trial
	if spec.Purpose != purposeTrial && !salvage {
		if err := p.sweepTrials(ctx); err != nil {
			return err
		}
		if known, err = p.proved(ctx); err != nil {
			return err
		}
	}
	group, err := grouped()
	if err != nil {
		return err
	}
	setup.Cgroup, setup.Layers = group.setup, known.withProof(outsideLayers(spec, group))
	t.Setup = open.keep(runner.MemoryFile(setup))
	t.Rest = slices.Concat(group.files, again.files)
	if open.err != nil {
		return stateError("create", dir, open.err)
	}
	return s.tell(ctx, t)
}

// told is what of s a keeper needs: what is mounted or laid into the sandbox is in the plans.
func told(s provider.Spec) provider.Spec {
	s.Mounts, s.Caches, s.Command.Files = nil, nil, nil
	return s
}

func environment(env map[string]string) []string {
	var kv []string
	for k, v := range env {
		kv = append(kv, k+"="+v)
	}
	return kv
}

// handles are files to close together, and the first that could not be had.
type handles struct {
	files []*os.File
	err   error
}

func (h *handles) keep(f *os.File, err error) *os.File {
	if err == nil {
		h.files = append(h.files, f)
	} else if h.err == nil {
		h.err = err
	}
	return f
}

func (h *handles) close() {
	for _, f := range h.files {
		f.Close()
	}
}

// lures are listeners of the host that a probe inside must not reach.
type lures struct {
	tcp      net.Listener
	unix     net.Listener
	port     int
	abstract string
}

func newLures() (*lures, error) {
	t, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("probe target: %w", err)
	}
	l := &lures{tcp: t, port: t.Addr().(*net.TCPAddr).Port, abstract: fmt.Sprintf("sallyport-lure-%d-%d", os.Getpid(), time.Now().UnixNano())}
	if l.unix, err = net.Listen("unix", "@"+l.abstract); err != nil {
		t.Close()
		return nil, fmt.Errorf("probe target: %w", err)
	}
	return l, nil
}

func (l *lures) close() { l.tcp.Close(); l.unix.Close() }

// outsideLayers are the containment lines that only the outside can state.
func outsideLayers(spec provider.Spec, g group) []sallyport.LayerReport {
	held := func(l sallyport.Layer, s sallyport.LayerStatus, proof string) sallyport.LayerReport {
		return sallyport.LayerReport{Layer: l, Status: s, Proof: proof, Grade: sallyport.GradeObservation}
	}
	ls := []sallyport.LayerReport{
		held(sallyport.LayerWorktree, sallyport.LayerHeld, "overlay over a read-only checkout; private gitdir"),
		held(sallyport.LayerDisk, sallyport.LayerWatched, fmt.Sprintf("polled by the keeper: ends above %d bytes", spec.Limits.Disk)),
		held(sallyport.LayerRuntime, sallyport.LayerHeld, fmt.Sprintf("the keeper's clock, outside: ends after %v", spec.Limits.Time)),
		held(sallyport.LayerOutput, sallyport.LayerHeld, fmt.Sprintf("the keeper keeps at most %d bytes", spec.Limits.Output)),
	}
	return append(ls, g.layers...)
}

// lockPatience bounds the wait for another process that works on the same sandbox: a stopped one would hold
// it for ever.
const lockPatience = time.Minute

// lockFolder opens and locks the folder that is dir once the lock is had, until it is closed. It is fs.ErrNotExist where
// there is none.
func lockFolder(ctx context.Context, dir string) (*os.File, error) {
	patience := time.After(lockPatience)
	for {
		f, err := os.Open(dir)
		if err != nil {
			return nil, stateError("lock", dir, err)
		}
		if err := waitForLock(ctx, f, patience); err != nil {
			f.Close()
			return nil, err
		}
		if isStill(f, dir) {
			return f, nil
		}
		f.Close() // whoever had the lock has removed it
	}
}

// claimFolder makes an Allocation's folder, unless it is there, and locks it.
func claimFolder(ctx context.Context, dir string) (*os.File, error) {
	for {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return nil, stateError("create", dir, err)
		}
		lock, err := lockFolder(ctx, dir)
		if !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
}

// isStill reports whether the open f is what path names.
func isStill(f *os.File, path string) bool {
	had, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(had, now)
}

func waitForLock(ctx context.Context, f *os.File, patience <-chan time.Time) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return stateError("lock", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return &sallyport.Error{Op: "lock", Code: sallyport.CodeUnknown, Subject: f.Name(), Message: "the caller stopped waiting while another process works on this sandbox", Err: ctx.Err()}
		case <-patience:
			return &sallyport.Error{Op: "lock", Code: sallyport.CodeUnavailable, Subject: f.Name(), Message: "another process works on this sandbox"}
		case <-time.After(5 * time.Millisecond):
		}
	}
}
