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
	// Egress narrows what Policy lets the agent reach; nil: not said, empty: nothing.
	Egress *[]EgressRule
	// Learn: what the agent wants to reach and may not is heard, also where that is everything.
	Learn bool
	// Reach is what the invoking user lets the agent reach beyond that.
	Reach []EgressRule
	// Copies are files of the work tree, relative to the repository, that the agent is given beside Policy's.
	Copies []string
	// Credentials narrows the credentials that Policy lets the agent use, by name; nil: not said, empty: none.
	Credentials *[]string
	// Lend names credentials of the invoking user's config that the agent is let use beyond that.
	Lend []string
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
	// What all Attempts together may spend on model APIs.
	SpendMicroUSD   *int64
	SpendTokens     *int64
	SpendOnExceeded *string // SpendEnd or SpendRefuse
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
	Tests   []string      `json:"tests"` // globs of the files that are tests; empty: by the habits of each language
	Timeout time.Duration `json:"timeout_ns"`
	// What follows are controls: what must be seen besides a pass. Each zero value asks for nothing.
	Base           CheckStatus  `json:"base,omitempty"`              // what it must do on the base: passed, failed; empty: anything
	NewTestsOnBase CheckStatus  `json:"new_tests_on_base,omitempty"` // what the change's tests must do on the base's code: failed; empty: not run
	PlantedFault   string       `json:"planted_fault,omitempty"`     // "auto", or the slash-separated path of a patch at the protected ref
	MinTests       int          `json:"min_tests,omitempty"`         // at least so many tests must have run
	TestsNotFewer  bool         `json:"tests_not_fewer,omitempty"`   // at least as many as on the base
	Report         *CheckReport `json:"report,omitempty"`            // where its tests are told; nil: recognised in its output
	Retries        int          `json:"retries,omitempty"`           // so many further runs after a failure; a pass then is flaky
}

// CheckReport says where and in what form a check tells of its tests.
type CheckReport struct {
	Format string `json:"format"`         // a format of internal/checks: go-json, junit, tap, pytest, node, cargo
	Path   string `json:"path,omitempty"` // slash-separated, relative to the check's dir; empty: its output
}

// Publish says where an accepted change goes and who must say so first.
type Publish struct {
	To      string `json:"to"`      // branch | pr | none
	Approve string `json:"approve"` // always | on-finding | never
	// With pr: the repository's address as a Publisher's targets have it, and the short name of the branch that is to be
	// changed. They are resolved before the Manifest is frozen.
	Repository string `json:"repository,omitempty"`
	Base       string `json:"base,omitempty"`
	// Approvers is how many people, not the submitter, must have approved with their own keys; 0: as the Publisher says.
	Approvers int `json:"approvers,omitempty"`
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
	AtBest Decision          `json:"at_best"`
	Policy Source            `json:"policy"`
	Agent  Agent             `json:"agent"`
	Env    map[string]string `json:"env"` // of agent and checks
	Home   string            `json:"home"`
	Mounts []Mount           `json:"mounts"`
	Path   []string          `json:"path"` // PATH, in order
	Scope  Scope             `json:"scope"`
	Limits Limits            `json:"limits"`
	// Spend bounds what model APIs may cost over all Attempts; nil: nothing does.
	Spend    *SpendLimit `json:"spend,omitempty"`
	Checks   []Check     `json:"checks"`
	Setup    []Setup     `json:"setup,omitempty"`    // in order, before the agent and for the checks
	Parallel int         `json:"parallel,omitempty"` // checks that run at the same time; 1 or more
	// Severities are policy's own for a finding's rule; a rule that is not named keeps its default.
	Severities map[string]Severity `json:"severities,omitempty"`
	// Copies are files of the user's work tree, relative to the repository, that the agent is given and that
	// are never part of a change.
	Copies   []string `json:"copies,omitempty"`
	Require  []Layer  `json:"require"`
	Attempts int      `json:"attempts"`
	History  string   `json:"history"`
	Terminal bool     `json:"terminal"`
	// Egress is what the agent may reach, resolved; checks reach nothing.
	Egress []EgressRule `json:"egress"`
	// Learn opens the way out also where nothing may be reached, so that what is refused is heard.
	Learn bool `json:"learn,omitempty"`
	// Resolve are addresses that the operator gave to names; no other name is looked up otherwise.
	Resolve map[string]string `json:"resolve,omitempty"`
	// Forges are the hosts of the repository's remotes, beside those of well-known forges: whatever Egress says, they are
	// only read. nil: none.
	Forges []string `json:"forges,omitempty"`
	// Credentials are what the gateway puts into the agent's requests; no two share a host. nil: none.
	Credentials []Credential `json:"credentials,omitempty"`

	Publish  Publish  `json:"publish"`
	Provider string   `json:"provider"`
	Notices  []string `json:"notices"`
}
