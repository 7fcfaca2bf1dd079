// Package keeper is the small trusted process that stands outside one local sandbox and outlives Mission
// Control. It is the parent of everything in the sandbox, so the kernel tells it, and nobody inside, how a
// command ended. It holds the wire's listening socket and the egress listener, enforces runtime, disk,
// output and lease by itself, and makes each end durable before it is acknowledged.
//
// It lives in the sandbox's user namespace and outside all its other namespaces: nothing inside has a pid
// for it. It reads no policy and opens no network. What it serves is internal/wire; what it starts first is
// internal/runner.
package keeper

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/contain/cgroup"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/runner"
	"sallyport.dev/sallyport/internal/wire"
)

// The descriptors that a keeper is started with.
const (
	FDControl    = 3 // SOCK_SEQPACKET to whoever started it
	FDRunner     = 4 // the runner's executable
	FDExecutable = 5 // its own
)

// Place is what a keeper is given first, together with its Allocation's id.
type Place struct {
	// Lock is the allocation's folder, locked: whoever else wants to work there waits until this keeper is known there,
	// even if the process that it comes from is gone.
	Lock *os.File
	Log  *os.File // the standard error of keeper and runners from here on
}

// Give gives it the id and the place.
func (p Place) Give(socket *os.File, a sallyport.AllocationID) error {
	return runner.Say(socket, []byte(a), p.Lock, p.Log)
}

// takePlace is the inverse of Give.
func takePlace(control *os.File) (p Place, a sallyport.AllocationID, err error) {
	name, f, err := runner.HearMost(control, 2)
	if err == nil && len(f) != 2 {
		closeAll(f)
		err = fmt.Errorf("expected a folder and a log, got %d files", len(f))
	}
	if err != nil {
		return Place{}, "", err
	}
	return Place{f[0], f[1]}, sallyport.AllocationID(name), nil
}

// Handed is what a keeper is given next: what its runner builds the sandbox of.
type Handed struct {
	// Plan is handed through to the runner as it is: reading it here would cost every start. Nil: the command
	// will not be started, and only what is left of the Allocation is served.
	Plan    *os.File
	Sources []*os.File // of Plan
}

// Files are what to Hand to the keeper.
func (h Handed) Files() []*os.File {
	if h.Plan == nil {
		return nil
	}
	return append([]*os.File{h.Plan}, h.Sources...)
}

// takeHanded is the inverse of Files, over a socket.
func takeHanded(control *os.File) (h Handed, err error) {
	f, err := runner.Take(control)
	if err == nil && len(f) > 0 {
		h.Plan, h.Sources = f[0], f[1:]
	}
	return h, err
}

// Told is what a keeper is given while its runner builds.
type Told struct {
	Setup     *os.File // a Setup, as runner.MemoryFile writes it
	Wire      *os.File // listening socket
	Egress    *os.File // listening socket on which the egress listener is handed out
	Collector *os.File // the plan of the collector's sandbox; used where something will be collected
	// Rest are the cgroup's doors, as many as Setup says, and the sources of Collector.
	Rest []*os.File
}

// Files are what to Hand to the keeper.
func (t Told) Files() []*os.File {
	return append([]*os.File{t.Setup, t.Wire, t.Egress, t.Collector}, t.Rest...)
}

// takeTold is the inverse of Files, over a socket.
func takeTold(control *os.File) (Told, error) {
	f, err := runner.Take(control)
	if err != nil {
		return Told{}, err
	}
	if len(f) < 4 {
		return Told{}, fmt.Errorf("expected 4 files or more, got %d", len(f))
	}
	return Told{f[0], f[1], f[2], f[3], f[4:]}, nil
}

// Names in the allocation's folder.
const (
	FileSelf    = "keeper.json"  // Self: who keeps
	FileLayers  = "layers.json"  // the containment receipt
	FileCopied  = "copied.json"  // targets that are plain copies
	FileStarted = "started.json" // empty: the command was about to start
	FileExit    = "exit.json"    // provider.Exit
	FileFence   = "fence.json"   // the highest fence seen
	FileOutput  = "output"       // the command's output, the spool
	FileBundle  = "bundle"       // the change stream, complete
)

// Setup is what a keeper is told.
type Setup struct {
	Spec        provider.Spec       `json:"spec"`
	Confinement contain.Confinement `json:"confinement"` // repeats what the keeper needs of the command's plan
	Kept        []runner.Source     `json:"kept"`        // folders of cache layers that outlive the sandbox
	Cgroup      CgroupSetup         `json:"cgroup"`
	// Layers are the containment lines that only the outside can state.
	Layers []sallyport.LayerReport `json:"layers"`
}

// CgroupSetup describes the descriptors handed over for the cgroup; zero for none.
type CgroupSetup struct {
	Files  int  `json:"files"`
	Events bool `json:"events"` // the last file counts out-of-memory kills
	// MemoryHeld: the kernel enforces it, so the keeper need not watch.
	MemoryHeld bool `json:"memory_held"`
}

// Self identifies a keeper exactly, for Destroy and Lookup, and PID 1 of each sandbox it made for the Allocation, by its
// number outside. One that is on its way out has no arguments any more to be found by, while its namespace still runs.
type Self struct {
	process.ID
	Sandboxes []process.ID `json:"sandboxes,omitempty"`
}

// Ready is what a keeper tells whoever started it: that it waits for an Allocation, that it bears the id it was
// told, and how the sandbox came out.
type Ready struct {
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

type keeper struct {
	self    process.ID
	setup   Setup
	folder  *os.File // the allocation's
	dir     *os.Root // the same
	log     *os.File
	runner  *os.File   // the runner's executable
	sources []*os.File // of the command's sandbox

	collector *os.File   // its plan
	again     []*os.File // the same, for the collector's
	salvage   bool       // the command will not be started: only its result is served
	kept      []*os.File // folders outside of the allocation's that the sandbox writes to: kept cache layers
	cgroup    cgroup.Entry
	oom       *os.File // nil: nobody counts
	prepared  *contain.Prepared
	spool     *spool
	copied    []string    // targets that are plain copies, for want of overlays
	main      chan func() // work for the main thread, whose end would end every sandbox

	mu      sync.Mutex
	sandbox *sandbox // nil once it is gone
	layers  []sallyport.LayerReport
	fence   int64
	started bool
	command *command
	exit    *provider.Exit
	ended   chan struct{} // closed when exit is durable
	egress  []*os.File    // the sockets of the way out; nil: there is none, or no more

	lease *time.Timer
	hold  *time.Timer

	collecting sync.Mutex
	refused    error // why no bundle will be made; under collecting
}

// Admit implements wire.Host.
func (k *keeper) Admit(id sallyport.AllocationID, secret string, fence int64) error {
	sum := sallyport.Sum([]byte(secret))
	if id != k.setup.Spec.Allocation || subtle.ConstantTimeCompare([]byte(sum), []byte(k.setup.Spec.SecretSum)) != 1 {
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeDenied, Message: "not the secret of this allocation"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if fence < k.fence {
		return &sallyport.Error{Op: "connect", Code: sallyport.CodeFenced, Message: "a later holder has this sandbox"}
	}
	if fence > k.fence {
		// Written first: a later keeper of this allocation must refuse whoever this one refuses. Not synced:
		// it guards against the death of this process; no older holder survives that of the machine.
		if err := k.note(FileFence, fence); err != nil {
			return &sallyport.Error{Op: "connect", Code: sallyport.CodeUnavailable, Message: "the fence could not be written", Err: err}
		}
		k.fence = fence
	}
	return nil
}

// Layers implements wire.Host.
func (k *keeper) Layers() ([]sallyport.LayerReport, error) { return k.layers, nil }

// Input implements wire.Host.
func (k *keeper) Input(p []byte) error {
	k.mu.Lock()
	c := k.command
	k.mu.Unlock()
	if c == nil || c.terminal == nil {
		return &sallyport.Error{Op: "input", Code: sallyport.CodeUnsupported, Message: "the command has no terminal, or has ended"}
	}
	_, err := c.terminal.Write(p)
	return err
}

// Resize implements wire.Host.
func (k *keeper) Resize(cols, rows int) error {
	k.mu.Lock()
	c := k.command
	k.mu.Unlock()
	if c == nil || c.terminal == nil {
		return nil
	}
	return setSize(c.terminal, cols, rows)
}

// Output implements wire.Host.
func (k *keeper) Output(ctx context.Context, offset int64, w io.Writer) (int64, error) {
	if offset < 0 {
		return offset, &sallyport.Error{Op: "output", Code: sallyport.CodeInvalid, Message: "expected an offset of 0 or more"}
	}
	return k.spool.copy(ctx, offset, w)
}

// Wait implements wire.Host.
func (k *keeper) Wait(ctx context.Context) (provider.Exit, error) {
	select {
	case <-k.ended:
		return *k.exit, nil
	case <-ctx.Done():
		return provider.Exit{}, ctx.Err()
	}
}

// Renew implements wire.Host.
func (k *keeper) Renew(ttl time.Duration) error {
	if ttl <= 0 || ttl > provider.MaxLease {
		return &sallyport.Error{Op: "renew", Code: sallyport.CodeInvalid, Message: fmt.Sprintf("a lease between 0 and %v", provider.MaxLease)}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease.Reset(ttl)
	k.hold.Reset(ttl + k.setup.Spec.Hold)
	return nil
}

// holdPatience bounds the wait for a killed sandbox and a slow disk.
const holdPatience = 30 * time.Second

// armLease starts the dead-man switch: at the lease's end the command is stopped and the way out closed;
// after the hold the keeper itself ends. The folder stays for whoever reconciles, who records the loss.
func (k *keeper) armLease() {
	ttl := k.setup.Spec.LeaseTTL
	k.lease = time.AfterFunc(ttl, func() { k.end("lease") })
	k.hold = time.AfterFunc(ttl+k.setup.Spec.Hold, func() {
		k.end("lease")
		select { // the end is durable before the only one who knows it is gone
		case <-k.ended:
		case <-time.After(holdPatience):
		}
		os.Exit(0)
	})
}

// folderPoll is how soon a keeper notices that its allocation's folder was removed.
const folderPoll = 10 * time.Second

// watchFolder ends the keeper, and with it the sandbox, once its folder is gone: nobody can find, collect or
// destroy it any more.
func (k *keeper) watchFolder() {
	for range time.Tick(folderPoll) {
		var st unix.Stat_t
		if unix.Fstat(int(k.folder.Fd()), &st) == nil && st.Nlink == 0 {
			os.Exit(1)
		}
	}
}

// serve answers the wire until the process ends.
func (k *keeper) serve(wireSocket, egressSocket net.Listener) {
	go k.serveEgress(egressSocket)
	_ = wire.NewServer(k).Serve(wireSocket)
}

// record makes v durable under name: written, synced, renamed, folder synced.
func (k *keeper) record(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := name + ".tmp"
	f, err := k.dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = k.dir.Rename(tmp, name)
	}
	if err == nil {
		err = k.syncFolder()
	}
	return err
}

// mark makes the existence of name durable: it has no content, so the folder is all that must be synced.
func (k *keeper) mark(name string) error {
	f, err := k.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return k.syncFolder()
}

// marked reports whether mark was called for name, by whatever keeper.
func (k *keeper) marked(name string) (bool, error) {
	_, err := k.dir.Stat(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// note writes v under name whole or not at all; it outlives this process, not necessarily the machine.
func (k *keeper) note(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := k.dir.WriteFile(name+".tmp", b, 0o600); err != nil {
		return err
	}
	return k.dir.Rename(name+".tmp", name)
}

func (k *keeper) syncFolder() error {
	d, err := k.dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (k *keeper) recorded(name string, v any) (bool, error) {
	b, err := k.dir.ReadFile(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(b, v)
}
