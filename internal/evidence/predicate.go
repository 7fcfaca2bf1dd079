package evidence

import (
	"slices"

	"sallyport.dev/sallyport"
)

// PredicateType names the predicate below.
const PredicateType = "https://sallyport.dev/attestation/attempt/v1"

// IndependenceEmbedded is what an embedded Mission Control says of its own signature.
const IndependenceEmbedded = "embedded: the submitter holds the key; this binds the agent, not the submitter"

// Predicate is what was observed of one Attempt. The types here are the wire format and deliberately not the
// vocabulary's own: a field added there must not change what old evidence means.
type Predicate struct {
	WorkOrder WorkOrder        `json:"work_order"`
	Attempt   Attempt          `json:"attempt"`
	Manifest  sallyport.Digest `json:"manifest"`
	Base      Base             `json:"base"`
	Result    Result           `json:"result"`
	Policy    Policy           `json:"policy"`
	Layers    []Layer          `json:"layers"`   // the containment receipt, one per layer
	Findings  []Finding        `json:"findings"` // made without running the change
	Checks    []Check          `json:"checks"`
	// NotChecked are sentences: what a reader might expect to have been checked and was not.
	NotChecked []string `json:"not_checked"`
	// Attempts are those of the WorkOrder before this one, oldest first: a pass after failures shows them.
	Attempts   []Earlier  `json:"attempts"`
	Decision   Decision   `json:"decision"`
	Separation string     `json:"separation"` // none | process | user | host, as observed
	Journal    JournalRef `json:"journal"`
	Provider   string     `json:"provider"`
	Host       Host       `json:"host"`
	Started    string     `json:"started"` // RFC 3339, UTC
	Ended      string     `json:"ended"`   // RFC 3339, UTC
	Signed     string     `json:"signed"`  // RFC 3339, UTC: the time that the key's validity is judged at
	By         By         `json:"by"`
	Claims     Claims     `json:"claims"`
	// Validated are the trees that commands ran on; empty: not recorded.
	Validated []Validated `json:"validated,omitempty"`
	// Environment names by digest what the checks could read beside the tree; empty: not recorded.
	Environment []Environment `json:"environment,omitempty"`
	// Logs name by digest what commands said, as it was kept: redacted. They are claims; the digest is not.
	Logs   []Log   `json:"logs,omitempty"`
	Egress *Egress `json:"egress,omitempty"` // nil: not recorded; zeros: nothing left the sandbox
	// EgressRules are what the agent might reach beside a model API; empty: nothing, by the Manifest.
	EgressRules []sallyport.EgressRule `json:"egress_rules,omitempty"`
	Spend       *Spend                 `json:"spend,omitempty"` // nil: not recorded; zeros: nothing was spent
	// Setup are the commands that made ready what agent and checks could read beside the tree; empty: none.
	Setup []Setup `json:"setup,omitempty"`
}

// WorkOrder is what was asked.
type WorkOrder struct {
	ID   sallyport.WorkOrderID `json:"id"`
	Name string                `json:"name"`
}

// Attempt names the try. Nonce is chosen by the trusted side for this Attempt alone; a statement about
// another Attempt never matches it.
type Attempt struct {
	ID       sallyport.AttemptID `json:"id"`
	Number   int                 `json:"number"` // from 1
	Previous sallyport.AttemptID `json:"previous,omitempty"`
	Nonce    string              `json:"nonce"`
}

// Base is what the agent started from.
type Base struct {
	Ref       string             `json:"ref"` // full ref name; empty for a detached commit
	Commit    sallyport.ObjectID `json:"commit"`
	Tree      sallyport.ObjectID `json:"tree"`
	StartTree sallyport.ObjectID `json:"start_tree"` // differs from Tree for a dirty work tree or a retry
}

// Result is the change as it was imported, hashed by the trusted side.
type Result struct {
	Tree sallyport.ObjectID `json:"tree"`
	// TreeSHA256 is the SHA-256 over the sorted lines `mode SP path NUL sha256(blob) LF`: where object names
	// are SHA-1, a collision alone does not make two trees look like one.
	TreeSHA256 sallyport.Digest   `json:"tree_sha256"`
	Commit     sallyport.ObjectID `json:"commit,omitempty"` // empty: no commit was made
	Patch      sallyport.Digest   `json:"patch,omitempty"`
	Bundle     sallyport.Digest   `json:"bundle,omitempty"` // the raw result in quarantine
}

// Policy says where the checks and the scope came from.
type Policy struct {
	Kind   string             `json:"kind"` // protected-ref | worktree | none
	Ref    string             `json:"ref,omitempty"`
	Commit sallyport.ObjectID `json:"commit,omitempty"`
	Digest sallyport.Digest   `json:"digest,omitempty"`
}

// Layer is one line of the containment receipt.
type Layer struct {
	Layer    sallyport.Layer       `json:"layer"`
	Status   sallyport.LayerStatus `json:"status"`
	Required bool                  `json:"required"`
	Weaker   string                `json:"weaker,omitempty"`
	Proof    string                `json:"proof"`
	Grade    sallyport.Grade       `json:"grade"`
}

// Finding is one statement about the change.
type Finding struct {
	Rule     string             `json:"rule"`
	Severity sallyport.Severity `json:"severity"`
	Path     string             `json:"path"`
	Message  string             `json:"message"`
	Default  sallyport.Severity `json:"default,omitempty"` // the rule's own severity, where policy gave it another
}

// Check is one command run on the very tree of Result in a fresh sandbox.
type Check struct {
	Name       string                `json:"name"`
	Command    string                `json:"command"`
	Status     sallyport.CheckStatus `json:"status"`
	StatusBy   string                `json:"status_by"` // keeper: the kernel told a process outside; runner: a claim
	Exit       int                   `json:"exit"`      // -1: no exit status
	Seconds    float64               `json:"seconds"`
	BaseStatus sallyport.CheckStatus `json:"base_status,omitempty"`
	BaseTests  sallyport.CheckStatus `json:"base_tests,omitempty"`
	Controls   []Control             `json:"controls"` // empty: nothing shows that the check can fail
	Message    string                `json:"message,omitempty"`
	// Tests and BaseTally are claims of the candidate's code: they can spoil a pass and never make one.
	Tests     *Tally              `json:"tests,omitempty"`
	BaseTally *Tally              `json:"base_tally,omitempty"`
	Runs      []Run               `json:"runs,omitempty"`   // every one, in order, where there was more than one
	Reused    sallyport.AttemptID `json:"reused,omitempty"` // the Attempt that ran it on this very tree and environment
}

// CanFail reports whether a control has shown that the check is able to fail, as the vocabulary's CheckResult
// defines it.
func (c Check) CanFail() bool {
	r := sallyport.CheckResult{BaseStatus: c.BaseStatus}
	for _, k := range c.Controls {
		r.Controls = append(r.Controls, sallyport.Control{Name: k.Name, Held: k.Held})
	}
	return r.CanFail()
}

// Tally is what the check's own runner said of its tests.
type Tally struct {
	Format  string `json:"format"`
	Tests   int    `json:"tests"` // that ran to an end
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
}

// Run is one of several runs of a check on one tree.
type Run struct {
	Status  sallyport.CheckStatus `json:"status"`
	Exit    int                   `json:"exit"`
	Seconds float64               `json:"seconds"`
}

// Control is one demonstration that a check is able to fail.
type Control struct {
	Name   string `json:"name"`
	Held   bool   `json:"held"`
	Detail string `json:"detail,omitempty"`
	// Required: policy asks for it, and nothing is accepted without it.
	Required bool `json:"required,omitempty"`
}

// Earlier is an earlier Attempt of the same WorkOrder.
type Earlier struct {
	ID       sallyport.AttemptID    `json:"id"`
	Number   int                    `json:"number"`
	State    sallyport.AttemptState `json:"state"`
	Decision sallyport.Decision     `json:"decision,omitempty"`
	Evidence sallyport.Digest       `json:"evidence,omitempty"` // of its envelope; empty: none was signed
	Code     string                 `json:"code,omitempty"`     // why it ended so: "agent-failed", "check-failed"
}

// Decision is Mission Control's conclusion.
type Decision struct {
	Decision sallyport.Decision `json:"decision"`
	Code     string             `json:"code"`
	Message  string             `json:"message"`
}

// JournalRef ties the statement to the journal as it stood: everything up to Seq was there when this was
// signed. Note is the signed checkpoint that says so.
type JournalRef struct {
	Origin string           `json:"origin"`
	Seq    int64            `json:"seq"`
	Hash   sallyport.Digest `json:"hash"`
	Note   string           `json:"note"`
}

// Host is where it ran. BootSHA256 is a digest of the boot id: it links Attempts of one boot and names none.
type Host struct {
	Kernel     string           `json:"kernel"`
	BootSHA256 sallyport.Digest `json:"boot_sha256,omitempty"`
}

// By is who signs. Seal fills KeyID.
type By struct {
	KeyID        string `json:"key_id"`
	Version      string `json:"version"` // of Sallyport
	Independence string `json:"independence"`
}

// Validated is one tree that a command ran on. PurposeResult is the tree of Result, and nothing else is.
type Validated struct {
	Purpose string             `json:"purpose"`
	Tree    sallyport.ObjectID `json:"tree"`
}

// The purposes.
const (
	PurposeResult         = "result"            // what would be published
	PurposeBase           = "base"              // the untouched base
	PurposeBaseTests      = "base-tests"        // the result with the base's tests and runner configuration put back
	PurposeNewTestsOnBase = "new-tests-on-base" // the base with the change's tests
	PurposePlantedFault   = "planted-fault"     // the result with a fault that a check must notice
)

// Environment is one thing that the checks could read beside the tree: a root of the toolchain, a cache, a
// dependency folder. Digest is over its identity as the trusted side knows it, which is not always its content.
type Environment struct {
	Name   string           `json:"name"` // "tool go", "cache npm", "deps web/node_modules"
	Digest sallyport.Digest `json:"digest"`
}

// Log is one command's whole redacted output. Redactions is how often a known secret was replaced in it.
type Log struct {
	Name       string           `json:"name"` // "agent", "check-NAME-validate"
	Digest     sallyport.Digest `json:"digest"`
	Bytes      int64            `json:"bytes"`
	Redactions int64            `json:"redactions"`
}

// Egress sums up what left the agent's sandbox through the gateway, the only way out. Bytes are of bodies.
type Egress struct {
	Requests  int64 `json:"requests"` // all, refused ones included
	Refused   int64 `json:"refused"`
	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`
}

// Spend is what the Attempt cost, as far as the gateway metered it.
type Spend struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	MicroUSD     int64 `json:"micro_usd"` // millionths of a US dollar
}

// Claims is what the sandbox that ran the agent said, or what only it could know. Nothing here decided
// anything, and Verify does not vouch for its truth.
type Claims struct {
	Agent    string           `json:"agent"` // the preset's name; empty: a command
	Command  []string         `json:"command"`
	Exit     int              `json:"exit"` // -1: no exit status
	Ended    string           `json:"ended,omitempty"`
	Messages []string         `json:"messages"`                // the agent's commit messages
	Output   sallyport.Digest `json:"output_sha256,omitempty"` // of the redacted output
}

// FromReport takes over everything that a Report knows. What it does not know is left for the caller:
// nonce, start tree, base tree and ref, tree digest, patch, policy, what policy changed of a finding, earlier
// Attempts, environment, logs, egress, spend, journal, provider, host, times of signing and the
// claims beyond the agent's end.
func FromReport(r sallyport.Report) Predicate {
	p := Predicate{
		WorkOrder:  WorkOrder{ID: r.WorkOrder, Name: r.Name},
		Attempt:    Attempt{ID: r.Attempt, Number: r.Number, Previous: r.Previous},
		Manifest:   r.Manifest,
		Base:       Base{Commit: r.Base},
		Result:     Result{Tree: r.Tree, Commit: r.Commit, Bundle: r.Bundle},
		NotChecked: append([]string(nil), r.NotChecked...),
		Decision:   Decision{Decision: r.Decision, Code: r.Reason.Code, Message: r.Reason.Message},
		Separation: r.Separation,
		Started:    r.Created,
		Ended:      r.Ended,
		Claims:     Claims{Exit: r.Agent.Exit, Ended: r.Agent.Ended},
	}
	for _, l := range r.Layers {
		p.Layers = append(p.Layers, Layer{Layer: l.Layer, Status: l.Status, Required: l.Required, Weaker: l.Weaker, Proof: l.Proof, Grade: l.Grade})
	}
	for _, f := range r.Findings {
		p.Findings = append(p.Findings, Finding{Rule: f.Rule, Severity: f.Severity, Path: f.Path, Message: f.Message})
	}
	for _, s := range r.Setup {
		p.Setup = append(p.Setup, setupOf(s))
	}
	for _, c := range r.Checks {
		p.Checks = append(p.Checks, checkOf(c))
		for _, t := range c.Trees {
			if v := (Validated{t.For, t.Tree}); !slices.Contains(p.Validated, v) {
				p.Validated = append(p.Validated, v)
			}
		}
	}
	return p
}

// checkOf leaves out the tail: it is a claim of the candidate's code, and output may hold what nobody looked
// for when it was redacted.
func checkOf(c sallyport.CheckResult) Check {
	out := Check{Name: c.Name, Command: c.Run, Status: c.Status, StatusBy: c.StatusBy, Exit: c.Exit, Seconds: c.Seconds,
		BaseStatus: c.BaseStatus, BaseTests: c.BaseTests, Message: c.Message}
	for _, k := range c.Controls {
		out.Controls = append(out.Controls, Control{Name: k.Name, Held: k.Held, Detail: k.Detail, Required: k.Required})
	}
	for _, r := range c.Runs {
		out.Runs = append(out.Runs, Run(r))
	}
	out.Tests, out.BaseTally, out.Reused = tallyOf(c.Tests), tallyOf(c.BaseTally), c.Reused
	return out
}

func tallyOf(t *sallyport.Tally) *Tally {
	if t == nil {
		return nil
	}
	out := Tally(*t)
	return &out
}

// filled is p with every nil list made empty: the wire form has no null, so that "nothing" and "not said"
// cannot be confused.
func (p Predicate) filled() Predicate {
	p.Layers = nonNil(p.Layers)
	p.Findings = nonNil(p.Findings)
	p.Checks = nonNil(append([]Check(nil), p.Checks...))
	for i := range p.Checks {
		p.Checks[i].Controls = nonNil(p.Checks[i].Controls)
	}
	p.NotChecked = nonNil(p.NotChecked)
	p.Attempts = nonNil(p.Attempts)
	p.Claims.Command = nonNil(p.Claims.Command)
	p.Claims.Messages = nonNil(p.Claims.Messages)
	return p
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
