package sallyport

import "time"

// Setup is one command that makes ready what the tree does not hold (dependencies, caches), in a sandbox of its
// own from the base's files. What it wrote is shown to agent and checks. Like a Check it comes from the protected
// ref, never from the tree the agent made.
type Setup struct {
	Run     string        `json:"run"` // for sh -c
	Dir     string        `json:"dir"` // slash-separated, relative to the repository; "" is its root
	Egress  []EgressRule  `json:"egress"`
	Timeout time.Duration `json:"timeout_ns"`
	Locks   []string      `json:"locks"` // files, relative to the repository, whose change makes what it wrote another
	// WithoutScripts is what runs in its place where a change edited one of Locks: the same without running anything
	// that the lock file brings. Empty: nothing does, and the base's stays.
	WithoutScripts string `json:"without_scripts"`
}

// SetupStatus is the outcome of one setup command.
type SetupStatus string

// The outcomes.
const (
	SetupRunning SetupStatus = "running" // or its driver was ended meanwhile
	SetupDone    SetupStatus = "done"
	SetupFailed  SetupStatus = "failed"
)

// SetupResult is what was observed of one setup command.
type SetupResult struct {
	Number   int           `json:"number"` // its place under setup:, from 1
	For      string        `json:"for"`    // "base", or "change": from the lock files that the change edited
	Run      string        `json:"run"`    // what ran
	Dir      string        `json:"dir,omitempty"`
	Locks    []string      `json:"locks,omitempty"` // of the change, that it ran from
	Status   SetupStatus   `json:"status"`
	Exit     int           `json:"exit"` // -1: no exit status
	Seconds  float64       `json:"seconds"`
	StatusBy string        `json:"status_by,omitempty"` // "keeper": the kernel told a process outside
	Egress   *EgressTotals `json:"egress,omitempty"`    // nil: it had no way out, or a driver was ended and it is not known
	Cut      int           `json:"cut,omitempty"`       // runs before this one that a driver's end cut short; what they sent is not counted
	Left     string        `json:"left,omitempty"`      // names what it wrote; another name is another run
	Reused   AttemptID     `json:"reused,omitempty"`    // the Attempt that ran it on this very base, command and toolchain
	Log      string        `json:"log,omitempty"`
	Message  string        `json:"message,omitempty"`
	Tail     string        `json:"tail,omitempty"` // last lines of output: redacted, neutralised, a claim
}

// EgressTotals is what went through one way out. Bytes are of bodies.
type EgressTotals struct {
	Requests  int64 `json:"requests"`
	Refused   int64 `json:"refused"`
	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`
}
