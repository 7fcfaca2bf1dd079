// Package lifecycle holds the lives of Attempt and Allocation as tables, and the fold from the journal's
// events to what they mean. It is pure: no I/O, no clock, no randomness, so that live operation and replay
// are the same code.
package lifecycle

import (
	"encoding/json"

	"sallyport.dev/sallyport"
)

// Type names an event. The set only grows.
type Type string

// The events. Beside each, its payload.
const (
	AttemptCreated    Type = "attempt.created"          // Created
	AttemptStage      Type = "attempt.stage"            // Stage: preparing, running, collecting, inspecting, validating, deciding
	AttemptBundle     Type = "attempt.bundle"           // Bundle: in quarantine, durable
	AttemptImported   Type = "attempt.imported"         // Imported
	AttemptFindings   Type = "attempt.findings"         // Findings
	AttemptCheck      Type = "attempt.check"            // sallyport.CheckResult
	AttemptAgent      Type = "attempt.agent"            // sallyport.AgentResult
	AttemptSetup      Type = "attempt.setup"            // sallyport.SetupResult: begun, then how it ended
	AttemptLayers     Type = "attempt.layers"           // Layers
	AttemptNotice     Type = "attempt.notice"           // Notice
	AttemptLog        Type = "attempt.log"              // Log
	AttemptEgress     Type = "attempt.egress"           // Egress
	AttemptRefused    Type = "attempt.refused"          // Refused
	AttemptReserved   Type = "attempt.reserved"         // Reserved: durable before the request leaves
	AttemptSettled    Type = "attempt.settled"          // Settled
	AttemptSigned     Type = "attempt.signed"           // Signed
	AttemptDecided    Type = "attempt.decided"          // Decided
	AttemptReopened   Type = "attempt.reopened"         // sallyport.Reason: a fact found later puts the decision back to a person
	AttemptFailed     Type = "attempt.failed"           // sallyport.Reason
	AttemptCancelled  Type = "attempt.cancelled"        // sallyport.Reason
	CancelRequested   Type = "attempt.cancel-requested" // Person
	AttemptApproved   Type = "attempt.approved"         // Approval
	AttemptDisallowed Type = "attempt.rejected-by"      // Approval
	LeaseAcquired     Type = "lease.acquired"           // LeaseChange
	LeaseReleased     Type = "lease.released"           // LeaseChange

	AllocationIntended   Type = "allocation.intended"     // Intended → provisioning
	AllocationBound      Type = "allocation.bound"        // Bound
	AllocationReady      Type = "allocation.ready"        // nil
	AllocationRunning    Type = "allocation.running"      // nil
	AllocationResult     Type = "allocation.result-ready" // nil
	AllocationTeardown   Type = "allocation.teardown"     // sallyport.Reason
	AllocationTerminated Type = "allocation.terminated"   // sallyport.Reason: the proof of absence
	AllocationFailed     Type = "allocation.failed"       // sallyport.Reason
	AllocationOrphaned   Type = "allocation.orphaned"     // sallyport.Reason

	PublicationIntended Type = "publication.intended" // Publication
	PublicationDone     Type = "publication.done"     // Publication
	PublicationRefused  Type = "publication.refused"  // sallyport.Reason

	KeyRotated Type = "key.rotated" // opaque
	Checkpoint Type = "checkpoint"  // opaque: a signed checkpoint
)

// Event is one durable record. Data is the payload's JSON.
type Event struct {
	Seq        int64                  `json:"seq"`
	At         string                 `json:"at"` // RFC 3339 with nanoseconds, UTC; for people, never for deciding
	Type       Type                   `json:"type"`
	Attempt    sallyport.AttemptID    `json:"attempt,omitempty"`
	Allocation sallyport.AllocationID `json:"allocation,omitempty"`
	Fence      int64                  `json:"fence"`
	Data       json.RawMessage        `json:"data"`
	Prev       sallyport.Digest       `json:"prev"`
	Hash       sallyport.Digest       `json:"hash"`
}

// Payloads.
type (
	// Created begins an Attempt.
	Created struct {
		WorkOrder  sallyport.WorkOrderID `json:"work_order"`
		Name       string                `json:"name"`
		Number     int                   `json:"number"`
		Previous   sallyport.AttemptID   `json:"previous,omitempty"`
		Manifest   sallyport.Digest      `json:"manifest"`
		Base       sallyport.ObjectID    `json:"base"`
		Repository string                `json:"repository"`
		Submitter  string                `json:"submitter"`
		StartTree  sallyport.ObjectID    `json:"start_tree"`
		Feedback   string                `json:"feedback,omitempty"` // what the agent is told of earlier Attempts
		Notices    []string              `json:"notices,omitempty"`
		Separation string                `json:"separation"`
	}
	// Stage is the Attempt's next state; Seconds is how long the previous one took.
	Stage struct {
		State   sallyport.AttemptState `json:"state"`
		Seconds float64                `json:"seconds"`
	}
	// Bundle is a collected result, durable in quarantine before this is appended.
	Bundle struct {
		Digest sallyport.Digest `json:"digest"`
		Bytes  int64            `json:"bytes"`
	}
	// Imported is the tree that Mission Control hashed and wrote itself.
	Imported struct {
		Tree    sallyport.ObjectID `json:"tree"`
		Changes []sallyport.Change `json:"changes"`
		Left    map[string]int     `json:"left_out,omitempty"` // what was not taken, counted by reason
		Commits []string           `json:"commits,omitempty"`  // the agent's own messages: claims, neutralised
	}
	// Findings are the inspection's.
	Findings struct {
		Findings []sallyport.Finding `json:"findings"`
	}
	// Layers is the containment receipt.
	Layers struct {
		Layers []sallyport.LayerReport `json:"layers"`
	}
	// Notice is one line a person should see.
	Notice struct {
		Text string `json:"text"`
	}
	// Log is a command's whole redacted output, durable in the Attempt's folder before this is appended. The last
	// one of a name counts. Without a digest: the file is about to be written anew, and what was said of it is void.
	Log struct {
		Name       string           `json:"name"` // "agent", "check-NAME-validate"
		Digest     sallyport.Digest `json:"digest,omitempty"`
		Bytes      int64            `json:"bytes"`
		Redactions int64            `json:"redactions"` // how often a known secret was replaced
	}
	// Egress is appended with Open before a driver opens the way out, and with what went through once it is shut.
	// Those of several drivers add up; of a driver that was ended in between nobody knows.
	Egress struct {
		Open      bool  `json:"open,omitempty"`
		Requests  int64 `json:"requests"` // all, refused ones included
		Refused   int64 `json:"refused"`
		BytesUp   int64 `json:"bytes_up"` // of bodies
		BytesDown int64 `json:"bytes_down"`
	}
	// Refused is what the agent wanted to reach and did not. A refusal that was told before adds to its count; of
	// different ones MaxRefusals are kept, and all are in Egress.
	Refused struct {
		Refusals []sallyport.Refusal `json:"refusals"`
	}
	// Reserved is the most that one request to a model API can cost. What nobody settles counts in full.
	Reserved struct {
		ID           string `json:"id"` // unique in the Attempt
		API          string `json:"api"`
		Model        string `json:"model"`
		InputTokens  int64  `json:"input_tokens"`
		OutputTokens int64  `json:"output_tokens"`
		MicroUSD     int64  `json:"micro_usd"`
	}
	// Settled is what that request did cost, as far as can be known. How: internal/spend's word for what that rests on.
	Settled struct {
		ID           string `json:"id"`
		How          string `json:"how"`
		InputTokens  int64  `json:"input_tokens"`
		OutputTokens int64  `json:"output_tokens"`
		MicroUSD     int64  `json:"micro_usd"`
	}
	// Signed is the evidence.
	Signed struct {
		Path       string             `json:"path"`
		Digest     sallyport.Digest   `json:"digest"`
		KeyID      string             `json:"key_id"`
		Commit     sallyport.ObjectID `json:"commit"`
		NotChecked []string           `json:"not_checked"`
	}
	// Decided is Mission Control's conclusion.
	Decided struct {
		Decision sallyport.Decision `json:"decision"`
		Reason   sallyport.Reason   `json:"reason"`
		Seconds  float64            `json:"seconds"` // how long the state before took
	}
	// Person is who asked.
	Person struct {
		Who string `json:"who"`
		Why string `json:"why,omitempty"`
	}
	// Approval binds a person's word to the evidence and the target.
	Approval struct {
		Who      string           `json:"who"`
		Why      string           `json:"why,omitempty"`
		Evidence sallyport.Digest `json:"evidence"`
		Target   string           `json:"target"`
	}
	// LeaseChange records who drives.
	LeaseChange struct {
		Holder string `json:"holder"`
	}
	// Intended is an Allocation's intent, durable before the resource exists.
	Intended struct {
		Purpose  sallyport.Purpose `json:"purpose"`
		Provider string            `json:"provider"`
		Spec     sallyport.Digest  `json:"spec"`
		Label    string            `json:"label,omitempty"` // for people: the check's name
	}
	// Bound is the provider's exact id.
	Bound struct {
		Resource sallyport.ResourceID `json:"resource"`
	}
	// Publication is one ref moved by compare-and-swap.
	Publication struct {
		Target string             `json:"target"` // "branch" | "pr"
		Branch string             `json:"branch"` // full ref name
		Commit sallyport.ObjectID `json:"commit"`
		Expect sallyport.ObjectID `json:"expect"` // the tip that is replaced; empty: must not exist; of a pr the Publisher knows
		// Of a pr: where, and under which nonce; once it is done also its address and the receipt.
		Repository    string           `json:"repository,omitempty"`
		Base          string           `json:"base,omitempty"` // full ref name
		Nonce         string           `json:"nonce,omitempty"`
		URL           string           `json:"url,omitempty"`
		Receipt       string           `json:"receipt,omitempty"` // path
		ReceiptDigest sallyport.Digest `json:"receipt_digest,omitempty"`
	}
)
