package sallyport

// SandboxState is the life of an Allocation's resource. failed and orphaned still own a resource: only
// proof of absence ends them.
type SandboxState string

// The sandbox states, in words and in code (docs/ARCHITECTURE.md §3).
const (
	SandboxProvisioning SandboxState = "provisioning"
	SandboxReady        SandboxState = "ready"
	SandboxRunning      SandboxState = "running"
	SandboxResultReady  SandboxState = "result-ready"
	SandboxTeardown     SandboxState = "teardown"
	SandboxTerminated   SandboxState = "terminated"
	SandboxFailed       SandboxState = "failed"
	SandboxOrphaned     SandboxState = "orphaned"
)

// AttemptState is the life of an Attempt.
type AttemptState string

// The attempt states.
const (
	AttemptQueued           AttemptState = "queued"            // frozen; no driver yet
	AttemptPreparing        AttemptState = "preparing"         // base, sandbox, probes
	AttemptRunning          AttemptState = "running"           // the agent runs
	AttemptCollecting       AttemptState = "collecting"        // agent dead; result on its way to quarantine
	AttemptInspecting       AttemptState = "inspecting"        // imported; findings
	AttemptValidating       AttemptState = "validating"        // checks in fresh sandboxes
	AttemptDeciding         AttemptState = "deciding"          // evidence and decision
	AttemptAwaitingApproval AttemptState = "awaiting-approval" // a person must say
	AttemptAccepted         AttemptState = "accepted"
	AttemptRejected         AttemptState = "rejected"
	AttemptFailed           AttemptState = "failed"
	AttemptCancelled        AttemptState = "cancelled"
)

// Ended reports whether no driver will touch the Attempt again without a person's word.
func (s AttemptState) Ended() bool {
	switch s {
	case AttemptAwaitingApproval, AttemptAccepted, AttemptRejected, AttemptFailed, AttemptCancelled:
		return true
	}
	return false
}

// Decision is what Mission Control concludes from observations and probes only.
type Decision string

// The decisions. The zero value: none yet.
const (
	DecisionNone             Decision = ""
	DecisionAccepted         Decision = "accepted"
	DecisionRejected         Decision = "rejected"
	DecisionAwaitingApproval Decision = "awaiting-approval"
)

// Purpose is what a sandbox is for.
type Purpose string

// The purposes.
const (
	PurposeExecute  Purpose = "execute"
	PurposeBase     Purpose = "base-check" // a check on the untouched base
	PurposeValidate Purpose = "validate"
	PurposeShell    Purpose = "shell"
	PurposeSetup    Purpose = "setup" // a setup command, on the base's files
	// PurposeCredential is no sandbox's: the Allocation's resource is a token that was minted for the Attempt.
	PurposeCredential Purpose = "credential"
)
