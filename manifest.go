package sallyport

import "time"

// WorkOrder is what is asked, after parsing and before Policy narrows it. Pointers and nil slices mean
// "not said"; an empty slice means "nothing".
type WorkOrder struct {
	Name     string // identity within the repository; generated from Task when empty
	Task     string
	Base     string // a revision in the repository; empty: HEAD's branch
	Agent    string // a preset ("claude-code", "codex"); exclusive with Command
	Command  []string
	Scope    *Scope
	Limits   LimitsProposal
	Attempts int // 0: not said (1)
	Env      map[string]string
	History  string // "1", "N" or "full"; empty: not said (full)
	Terminal bool   // -it
	// IncludeDirty starts from the user's working tree instead of the base's.
	IncludeDirty bool
	Require      []string // layers beyond the default; "all"
	Publish      *Publish
	Egress       *[]string
}

// Scope says which paths a change may touch. Patterns are doublestar globs on slash-separated paths.
type Scope struct {
	Allow *[]string `json:"allow,omitempty"` // nil: all; empty: nothing
	Deny  []string  `json:"deny"`
}

// LimitsProposal is Limits where each may be left out (nil).
type LimitsProposal struct {
	Time   *time.Duration
	Memory *int64
	PIDs   *int64
	Disk   *int64
	Output *int64
	CPU    *float64
}

// Limits bound one sandbox. Zero means "no limit" only for CPU.
type Limits struct {
	Time   time.Duration `json:"time_ns"`      // on a clock that stops while the machine is suspended
	Memory int64         `json:"memory_bytes"` //
	PIDs   int64         `json:"pids"`
	Disk   int64         `json:"disk_bytes"`   // workspace, home, /tmp and /dev/shm together
	Output int64         `json:"output_bytes"` // kept output of one command; more is counted and dropped
	CPU    float64       `json:"cpus"`
}

// Check is a command that judges a change. It comes from the protected ref (or the user's own working
// tree), never from the tree the agent made.
type Check struct {
	Name    string        `json:"name"`
	Run     string        `json:"run"` // for sh -c
	Dir     string        `json:"dir"` // slash-separated, relative to the repository; "" is its root
	When    []string      `json:"when"`
	Tests   []string      `json:"tests"` // globs of the files that are tests
	Timeout time.Duration `json:"timeout_ns"`
}

// Publish says where an accepted change goes and who must say so first.
type Publish struct {
	To      string `json:"to"`      // branch | pr | none
	Approve string `json:"approve"` // always | on-finding | never
}

// Agent is a preset resolved: how to start a coding agent and which model API it may reach.
type Agent struct {
	Name     string            `json:"name"`
	Command  []string          `json:"command"`
	Env      map[string]string `json:"env"`
	Endpoint *Endpoint         `json:"endpoint,omitempty"`
}

// Endpoint is the model API that an agent reaches through the gateway. The credential is read on the
// trusted side, at the moment it is needed, and never enters the sandbox.
type Endpoint struct {
	Upstream      string   `json:"upstream"`       // scheme://host[:port]
	Paths         []string `json:"paths"`          // exact paths
	Listen        int      `json:"listen"`         // loopback port inside the sandbox
	Header        string   `json:"header"`         // where the credential goes: "x-api-key", "authorization"
	Prefix        string   `json:"prefix"`         // before the credential: "Bearer "
	CredentialEnv string   `json:"credential_env"` // the trusted side's environment variable that holds it
}

// Mount is one host path given to a sandbox at the same path inside.
type Mount struct {
	Path   string   `json:"path"`
	Mode   string   `json:"mode"`   // "ro": read-only; "cow": writable copy that dies with the sandbox
	Reason string   `json:"reason"` // "system", "tool go", "cache npm", "deps web/node_modules"
	Hide   []string `json:"hide"`   // names below Path that are never shown (credential files)
}

// Source says where the repository's policy came from.
type Source struct {
	Kind   string   `json:"kind"` // "protected-ref", "worktree", "none"
	Ref    string   `json:"ref,omitempty"`
	Commit ObjectID `json:"commit,omitempty"`
	Digest Digest   `json:"digest,omitempty"` // of the file's bytes
}

// Manifest is a WorkOrder compiled with Policy: everything resolved, frozen. The SHA-256 of its canonical
// JSON (RFC 8785) names it. Slices are never nil, so that "nothing" and "not said" cannot be confused.
type Manifest struct {
	Version    int         `json:"version"` // 1
	WorkOrder  WorkOrderID `json:"work_order"`
	Name       string      `json:"name"`
	Task       string      `json:"task"`
	Repository string      `json:"repository"` // absolute path of the work tree
	Subfolder  string      `json:"subfolder"`  // where the user stood, relative; "" is the root
	BaseRef    string      `json:"base_ref"`   // full ref name, "" for a detached commit
	Base       ObjectID    `json:"base"`       // commit
	BaseTree   ObjectID    `json:"base_tree"`
	StartTree  ObjectID    `json:"start_tree"` // what the agent starts from: BaseTree, or the dirty tree
	// AtBest is the ceiling on the decision; "awaiting-approval" where base is not the protected ref.
	AtBest   Decision          `json:"at_best"`
	Policy   Source            `json:"policy"`
	Agent    Agent             `json:"agent"`
	Env      map[string]string `json:"env"` // of agent and checks
	Home     string            `json:"home"`
	Mounts   []Mount           `json:"mounts"`
	Path     []string          `json:"path"` // PATH, in order
	Scope    Scope             `json:"scope"`
	Limits   Limits            `json:"limits"`
	Checks   []Check           `json:"checks"`
	Require  []Layer           `json:"require"`
	Attempts int               `json:"attempts"`
	History  string            `json:"history"`
	Terminal bool              `json:"terminal"`
	Egress   []string          `json:"egress"`
	Publish  Publish           `json:"publish"`
	Provider string            `json:"provider"`
	Notices  []string          `json:"notices"`
}
