// Package provider is the contract between Mission Control and what makes sandboxes on one substrate.
// It is the whole of it; what a substrate needs beyond stays in that substrate's own room
// (internal/provider/local, …). The suite that holds an implementation to it is providertest.
package provider

import (
	"context"
	"os"
	"time"

	"sallyport.dev/sallyport"
)

// Provider makes, finds and removes disposable sandboxes on one kind of substrate. The code inside is
// hostile; so is every byte that comes over the wire.
//
// Identity: the caller chooses spec.Allocation and journals it before Create; it never serves for a second
// sandbox. The provider marks all it makes with factory and allocation id, so List finds leftovers after
// both sides have lost their memory.
//
// Repetition: every method may be called again, after any error, by another process.
//
// Cancellation: ctx bounds how long the caller waits, not what happens. Once ctx has ended the outcome is
// CodeUnknown and the caller lists.
//
// All methods are safe for concurrent use. Errors are *sallyport.Error.
type Provider interface {
	// Name is the provider's word in manifests and receipts: "local".
	Name() string

	// Describe reports what this host can enforce now, per layer. What cannot be proved is absent.
	Describe(ctx context.Context) (Capabilities, error)

	// Create prepares a sandbox whose runner waits on the wire: no command of the Attempt runs, no way out
	// is open. Equal spec again: the same resource. Another spec: CodeConflict. A required layer that this
	// host cannot enforce: CodeUnsupported, never a weaker sandbox. What it made survives a restart of this
	// process until Destroy or the dead-man switch.
	Create(ctx context.Context, spec Spec) (sallyport.ResourceID, error)

	// Connect opens the wire. A second Connect ends the first. Absent resource: CodeNotFound; a lower fence
	// than one already seen: CodeFenced.
	Connect(ctx context.Context, id sallyport.ResourceID, auth Auth) (Wire, error)

	// Lookup and List report what the substrate shows, not what this process remembers; List includes
	// half-made sandboxes and only what bears this factory's mark. Lookup of an absent id: CodeNotFound, and
	// only that answer proves absence. An id of another boot, host or factory: CodeUnavailable.
	Lookup(ctx context.Context, id sallyport.ResourceID) (Status, error)
	List(ctx context.Context) ([]Status, error)

	// Destroy removes all that the substrate shows for id. Absent: nil. Error: call again.
	Destroy(ctx context.Context, id sallyport.ResourceID) error
}

// Warmer is a Provider that can do beforehand what is the same in every Create.
type Warmer interface {
	// Warm returns once the next Create of this process will be faster, and may be called at any time. What it
	// made holds nothing, bears no Allocation, is in no List, and ends with this process at the latest. An error
	// says no more than that Create will take longer.
	Warm(ctx context.Context) error
}

// Redirector is a Provider that may be able to make Spec.Redirect true.
type Redirector interface {
	// Redirects tries it once per process, and says why not: nil, or CodeUnsupported. Create with Spec.Redirect then
	// fails with the same code.
	Redirects(ctx context.Context) error
}

// Where a sandbox shows what the trusted side lays into it.
const (
	// StubFolder belongs first in PATH: names that mean nothing inside (apt, sudo) answer with a sentence.
	StubFolder = "/run/sallyport/bin"
	// FilesFolder holds Command.Files with relative names.
	FilesFolder = "/run/sallyport/files"
)

// Capabilities are typed facts about this host; the zero value is "cannot".
type Capabilities struct {
	Layers   []sallyport.LayerReport // one per layer, as a sandbox of this host would report it
	StatusBy string                  // who reports an exit status: "keeper" or "runner"
	Egress   bool                    // Wire.Egress hands out a listening socket
	Redirect bool                    // Spec.Redirect can be had
	Notes    []string                // facts for `doctor`: "uid: the user's own (weaker)"
}

// MaxLease bounds what a holder may ask: beyond it a dead Mission Control would leave an agent unattended for
// longer than anybody looks.
const MaxLease = time.Hour

// Spec is everything a sandbox is made from. It is frozen: its digest is journalled before Create.
type Spec struct {
	Factory    sallyport.FactoryID    `json:"factory"`
	Allocation sallyport.AllocationID `json:"allocation"`
	Attempt    sallyport.AttemptID    `json:"attempt"`
	Purpose    sallyport.Purpose      `json:"purpose"`
	SecretSum  sallyport.Digest       `json:"secret_sum"` // digest of Auth.Secret
	Workspace  Workspace              `json:"workspace"`
	Mounts     []sallyport.Mount      `json:"mounts"`
	Caches     []Cache                `json:"caches"`
	Home       string                 `json:"home"` // fresh, writable, at this path inside
	Command    Command                `json:"command"`
	Limits     sallyport.Limits       `json:"limits"`
	Require    []sallyport.Layer      `json:"require"`
	EgressPort int                    `json:"egress_port"` // loopback port whose listening socket is handed out; 0: none
	// Redirect leads all that the sandbox sends to other addresses than loopback's to EgressPort: TCP to the listening
	// socket, UDP to port 53 of whatever resolver to a socket for names; other UDP is refused. Programs need no proxy.
	Redirect bool          `json:"redirect,omitempty"`
	LeaseTTL time.Duration `json:"lease_ttl_ns"` // of the first lease: above 0, at most MaxLease
	Hold     time.Duration `json:"hold_ns"`      // how long a workspace is kept after the lease died
}

// Workspace is the tree the command works on.
type Workspace struct {
	Path   string   `json:"path"`   // absolute, inside
	Layers []string `json:"layers"` // host folders, topmost first, never written; overlay whiteouts count
	GitDir string   `json:"gitdir"` // host folder shown copy-on-write as Path/.git; "": none
	Base   string   `json:"base"`   // commit the gitdir starts from; its descendants are the agent's own
	// Collect: whether the workspace's changes will be asked for.
	Collect bool `json:"collect"`
	// Beside are host folders shown below Layers, topmost first: what setup commands wrote. Where Layers have
	// something, theirs is shown; nothing that is only in Beside counts as part of the tree, and what the command
	// does to it is a change only where it writes it anew. CodeUnsupported where no overlay can be mounted.
	Beside []string `json:"beside,omitempty"`
	// Keep is an empty host folder in which what the command writes stays, as in Cache; with the same restriction.
	Keep string `json:"keep,omitempty"`
}

// Cache says more about one of Mounts whose Mode is "cow", or about Home. What an agent wrote never becomes a
// layer of another sandbox; what a check on the untouched base or a setup command wrote may.
type Cache struct {
	Path string `json:"path"` // the Mount's, or Home
	// Layers are host folders shown over the Mount, topmost first: what earlier checks of a base wrote.
	Layers []string `json:"layers"`
	// Keep is an empty host folder in which what this sandbox writes there stays, in the subfolder "upper", ready
	// to be a layer; "": it dies with the sandbox.
	Keep string `json:"keep"`
}

// Command is the one command a sandbox runs.
type Command struct {
	Argv     []string          `json:"argv"`
	Dir      string            `json:"dir"` // absolute, inside
	Env      map[string]string `json:"env"` // complete: nothing is inherited
	Terminal bool              `json:"terminal"`
	// Placeholders are names in Env that look like credentials and are none.
	Placeholders []string `json:"placeholders"`
	Files        []File   `json:"files"` // a relative name is laid read-only under /run/sallyport/files, an absolute one into the fresh home
}

// File is small content that the trusted side lays into a sandbox.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Status is what the substrate shows of one resource.
type Status struct {
	ID         sallyport.ResourceID
	Allocation sallyport.AllocationID
	Attempt    sallyport.AttemptID
	Alive      bool // a process of it runs, or its workspace is still held
	HalfMade   bool
	Detail     string
}

// Auth is what a holder shows on the wire.
type Auth struct {
	Secret string // the Allocation's secret
	Fence  int64
}

// Wire is Mission Control's end of one sandbox. Every call may be repeated after a reconnect: output and
// bundle are read by offset, Start is once and remembered, Wait returns the recorded end. All data is
// hostile.
type Wire interface {
	// Layers is the containment receipt: what the probes found before any code of the WorkOrder.
	Layers(ctx context.Context) ([]sallyport.LayerReport, error)
	// Start starts the Spec's command. Repeat: nil, it runs once.
	Start(ctx context.Context) error
	// Output copies the command's output from offset to w as it grows, until the command has ended and all
	// was copied, or ctx ends. It returns the next offset.
	Output(ctx context.Context, offset int64, w Writer) (int64, error)
	// Input sends bytes to the command's terminal; Resize sets its size in cells.
	Input(ctx context.Context, p []byte) error
	Resize(ctx context.Context, cols, rows int) error
	// Wait blocks until the command has ended (or ctx does) and returns the recorded end.
	Wait(ctx context.Context) (Exit, error)
	// Stop ends the command. After it no process of it is alive and none can start.
	Stop(ctx context.Context, why string) error
	// Collect stops everything, then copies the change stream (internal/change: Stream) to w.
	Collect(ctx context.Context, w Writer) error
	// Renew tells the sandbox that its holder's lease lasts ttl from now.
	Renew(ctx context.Context, ttl time.Duration) error
	// Egress is the sandbox's listening socket for Spec.EgressPort, made before any code of the WorkOrder ran, and
	// with Spec.Redirect after it the socket on which names are asked. Hostile: check them before use. They are the
	// caller's. CodeUnsupported where there is none.
	Egress(ctx context.Context) ([]*os.File, error)
	Close() error
}

// Writer is io.Writer; named here so that the contract reads in one place.
type Writer interface {
	Write(p []byte) (int, error)
}

// Exit is how a command ended, as the process that By names was told.
type Exit struct {
	Started bool    `json:"started"`
	Code    int     `json:"code"` // -1: none
	Signal  string  `json:"signal,omitempty"`
	Cause   string  `json:"cause"` // "exit", "signal", "runtime", "memory", "disk", "output", "stopped", "lease", "lost", "start"
	By      string  `json:"by"`    // "keeper": the kernel told a process outside the sandbox; "runner": a claim
	Seconds float64 `json:"seconds"`
	Output  int64   `json:"output_bytes"`
	Dropped int64   `json:"dropped_bytes"`
	// Message is why it could not start or was lost; for Cause "runtime" which programs were running then, in one
	// bounded line that a claim is: they choose their own names.
	Message string `json:"message,omitempty"`
}
