package sallyport

// Layer is one independent layer of containment (docs/ARCHITECTURE.md §4). No layer proves another.
type Layer string

// The layers, in the order they are reported.
const (
	LayerWorktree    Layer = "worktree"
	LayerProcess     Layer = "process"
	LayerFilesystem  Layer = "filesystem"
	LayerSyscalls    Layer = "syscalls"
	LayerNetwork     Layer = "network"
	LayerCredentials Layer = "credentials"
	LayerCPU         Layer = "cpu"
	LayerMemory      Layer = "memory"
	LayerPIDs        Layer = "pids"
	LayerDisk        Layer = "disk"
	LayerRuntime     Layer = "runtime"
	LayerOutput      Layer = "output"
)

// Layers lists every layer in report order.
func Layers() []Layer {
	return []Layer{LayerWorktree, LayerProcess, LayerFilesystem, LayerSyscalls, LayerNetwork, LayerCredentials,
		LayerCPU, LayerMemory, LayerPIDs, LayerDisk, LayerRuntime, LayerOutput}
}

// RequiredLayers is what must hold before any code of a WorkOrder runs, unless Policy asks for more.
func RequiredLayers() []Layer {
	return []Layer{LayerWorktree, LayerProcess, LayerFilesystem, LayerSyscalls, LayerNetwork, LayerCredentials, LayerRuntime, LayerOutput}
}

// LayerStatus grades the proof of one layer. The zero value is the cautious one.
type LayerStatus string

// The grades.
const (
	LayerNotHeld     LayerStatus = "not-held"     // it was tried and does not hold, or was never tried
	LayerHeld        LayerStatus = "held"         // the kernel or engine enforces it; a probe failed to break it
	LayerWatched     LayerStatus = "watched"      // enforced late, by polling from outside
	LayerNotRequired LayerStatus = "not-required" // nobody asked for it
)

// LayerReport is one line of the containment receipt.
type LayerReport struct {
	Layer    Layer       `json:"layer"`
	Status   LayerStatus `json:"status"`
	Required bool        `json:"required"`
	Weaker   string      `json:"weaker,omitempty"` // what this host gives up against the full layer; empty: nothing
	Proof    string      `json:"proof"`            // what was tried, and what answered
	Grade    Grade       `json:"grade"`            // who saw it
	Fix      string      `json:"fix,omitempty"`    // what would make it hold
}

// Grade says how far a Receipt can be trusted. Grades are never mixed.
type Grade string

// The grades of receipts.
const (
	GradeClaim       Grade = "claim"       // from a sandbox that ran the WorkOrder's or the candidate's code
	GradeProbe       Grade = "probe"       // from our runner, digest known, before any such code ran
	GradeObservation Grade = "observation" // made by the trusted side
)
