package sallyport

import "slices"

// Severity orders findings.
type Severity string

// The severities.
const (
	SeverityInfo  Severity = "info"  // worth a reviewer's eye; never changes the decision
	SeverityWarn  Severity = "warn"  // a person must approve (publish.approve: on-finding)
	SeverityBlock Severity = "block" // rejected; no approval overrides it
)

// Finding is one statement about a change, made without running it.
type Finding struct {
	Rule     string   `json:"rule"` // "scope.denied", "link.outside", "secret.github-token"
	Severity Severity `json:"severity"`
	Path     string   `json:"path"` // neutralised for display; empty: the change as a whole
	Message  string   `json:"message"`
	Todo     string   `json:"todo,omitempty"` // what to do about it
}

// ChangeStatus is how one path differs from the base.
type ChangeStatus string

// The statuses. A rename is its removal and its addition: scope is judged on both sides.
const (
	ChangeAdded    ChangeStatus = "added"
	ChangeModified ChangeStatus = "modified"
	ChangeDeleted  ChangeStatus = "deleted"
	ChangeMode     ChangeStatus = "mode"
	ChangeType     ChangeStatus = "type" // file became link, link became file, …
)

// Change is one path of a tree diff.
type Change struct {
	Path   string       `json:"path"` // bytes; in JSON legible only, where they are not UTF-8
	Status ChangeStatus `json:"status"`
	// PathBytes is Path as it is, in JSON alone and only where Path is not UTF-8.
	PathBytes []byte `json:"path_bytes,omitempty"`

	OldMode string   `json:"old_mode,omitempty"` // git's octal: "100644"; empty where absent
	NewMode string   `json:"new_mode,omitempty"`
	OldID   ObjectID `json:"old_id,omitempty"`
	NewID   ObjectID `json:"new_id,omitempty"`
	Size    int64    `json:"size,omitempty"` // bytes of the new blob
}

// CheckStatus is the outcome of one check on one tree.
type CheckStatus string

// The outcomes.
const (
	CheckPassed CheckStatus = "passed"
	CheckFailed CheckStatus = "failed"
	CheckError  CheckStatus = "error"   // could not be run: tool missing, timeout, sandbox lost
	CheckNotRun CheckStatus = "not-run" // its when: globs match nothing in the change
	CheckFlaky  CheckStatus = "flaky"   // reruns on the same tree disagree
)

// CheckResult is what was observed of one check. Status is about the very tree that would be published.
type CheckResult struct {
	Name       string      `json:"name"`
	Run        string      `json:"run"`
	Status     CheckStatus `json:"status"`
	Exit       int         `json:"exit"` // -1: no exit status
	Seconds    float64     `json:"seconds"`
	BaseStatus CheckStatus `json:"base_status,omitempty"` // the same check on the untouched base
	// BaseTests is the outcome with the base's tests and runner configuration put back; empty when the
	// change edits none of them.
	BaseTests CheckStatus `json:"base_tests,omitempty"`
	StatusBy  string      `json:"status_by"` // "keeper": the kernel told a process outside; "runner": a claim
	// Tests and BaseTally are what the check itself told of its tests, here and on the base; nil: nothing that
	// a reader knows. They are claims of the candidate's code: they can spoil a pass and never make one.
	Tests     *Tally    `json:"tests,omitempty"`
	BaseTally *Tally    `json:"base_tally,omitempty"`
	Trees     []Tried   `json:"trees,omitempty"`  // every tree that it ran on, beside the base
	Runs      []Run     `json:"runs,omitempty"`   // more than one where policy asks for retries: every one, in order
	Reused    AttemptID `json:"reused,omitempty"` // the Attempt that ran it on this very tree, toolchain and dependencies
	Controls  []Control `json:"controls"`         // what shows that the check can fail; empty: nothing does
	Message   string    `json:"message,omitempty"`
	Tail      string    `json:"tail,omitempty"` // last lines of output: redacted, neutralised, a claim
}

// Tally is what a test runner said of its tests.
type Tally struct {
	Format  string `json:"format"`
	Tests   int    `json:"tests"` // that ran to an end: passed + failed
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
}

// Tried is one tree that a check ran on. For: "result" (what would be published), "base-tests", "new-tests-on-base"
// or "planted-fault".
type Tried struct {
	For  string   `json:"for"`
	Tree ObjectID `json:"tree"`
}

// Run is one of several runs of one check on one tree.
type Run struct {
	Status  CheckStatus `json:"status"`
	Exit    int         `json:"exit"`
	Seconds float64     `json:"seconds"`
}

// Control is one demonstration that a check is able to fail, or that it did run. One that is not held and
// required rejects the change; one that is not held and not required was asked for and could not be shown, so
// that a person decides.
type Control struct {
	Name     string `json:"name"` // base, new-tests-on-base, planted-fault, min-tests, tests-not-fewer, untouched
	Held     bool   `json:"held"`
	Required bool   `json:"required,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// CanFail reports whether one of the controls has shown that the check is able to fail.
func (r CheckResult) CanFail() bool {
	return slices.ContainsFunc(r.Controls, func(c Control) bool {
		return c.Held && (c.Name == "base" && r.BaseStatus == CheckFailed || c.Name == "new-tests-on-base" || c.Name == "planted-fault")
	})
}

// Reason is why an Attempt stands where it stands, for a person.
type Reason struct {
	Code    string `json:"code"` // kebab-case, stable: "agent-failed", "check-failed", "layer-not-held"
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// AgentResult is the agent's end. It is shown and never decides.
type AgentResult struct {
	Exit    int    `json:"exit"` // -1: no exit status (signal, limit, never started)
	Signal  string `json:"signal,omitempty"`
	Ended   string `json:"ended,omitempty"` // "exit", "signal", "runtime", "memory", "disk", "output", "spend", "cancelled", "lease", "lost"
	By      string `json:"by,omitempty"`    // who saw it: "keeper"
	Output  int64  `json:"output_bytes"`
	Dropped int64  `json:"output_dropped_bytes,omitempty"`
}

// Ran reports whether the agent was started at all, as far as anybody outside knows.
func (r AgentResult) Ran() bool { return r.Ended != "" && r.Ended != "start" }

// Report is the one JSON document of `run --json` and `show --json`, and the journal's projection of an
// Attempt.
type Report struct {
	Attempt   AttemptID    `json:"attempt"`
	WorkOrder WorkOrderID  `json:"work_order"`
	Name      string       `json:"name"` // the WorkOrder's name
	Number    int          `json:"number"`
	Previous  AttemptID    `json:"previous,omitempty"`
	Manifest  Digest       `json:"manifest"`
	State     AttemptState `json:"state"`
	Decision  Decision     `json:"decision"`
	Reason    Reason       `json:"reason"`
	Agent     AgentResult  `json:"agent"`
	Base      ObjectID     `json:"base"`
	Commit    ObjectID     `json:"commit"`
	Tree      ObjectID     `json:"tree"`
	Branch    string       `json:"branch"`
	// PullRequest is the address of the one that the change is in; empty: there is none.
	PullRequest string        `json:"pull_request,omitempty"`
	Changes     []Change      `json:"changes"`
	Layers      []LayerReport `json:"layers"`
	Findings    []Finding     `json:"findings"`
	// Refusals are what the agent wanted to reach and did not, the first different ones.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Spend is what model APIs cost; nil: nothing was metered.
	Spend    *Spend        `json:"spend,omitempty"`
	Setup    []SetupResult `json:"setup,omitempty"`
	Checks   []CheckResult `json:"checks"`
	Evidence string        `json:"evidence"` // path; empty until signed
	// Timings is seconds per stage.
	Timings map[string]float64 `json:"timings"`

	EvidenceDigest Digest   `json:"evidence_digest,omitempty"`
	Bundle         Digest   `json:"bundle,omitempty"`
	Repository     string   `json:"repository"`
	Created        string   `json:"created"`           // RFC 3339, UTC
	Ended          string   `json:"ended,omitempty"`   // RFC 3339, UTC
	Notices        []string `json:"notices,omitempty"` // one-line facts a person should see: "source: worktree", what was left out
	NotChecked     []string `json:"not_checked,omitempty"`
	Separation     string   `json:"separation"` // none | process | user | host, as observed
}
