package lifecycle

import (
	"slices"

	"sallyport.dev/sallyport"
)

// Allocation is what the journal knows of one external resource. Its fields are those of
// journal.Allocation, in the same order, so that one converts to the other.
type Allocation struct {
	ID       sallyport.AllocationID
	Attempt  sallyport.AttemptID
	Purpose  sallyport.Purpose
	Label    string
	Provider string
	Spec     sallyport.Digest
	Resource sallyport.ResourceID
	State    sallyport.SandboxState
	Reason   sallyport.Reason
}

type sandboxState = sallyport.SandboxState

var (
	noSandbox = []sandboxState{""}
	// working: nothing went wrong yet and nobody asked for the end.
	working = []sandboxState{sallyport.SandboxProvisioning, sallyport.SandboxReady, sallyport.SandboxRunning, sallyport.SandboxResultReady}
	// owning: a resource may exist. failed and orphaned own one as well.
	owning = slices.Concat(working, []sandboxState{sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned})
)

func sandbox(s ...sandboxState) []sandboxState { return s }

// allocationTable is the life of an Allocation's resource. A driver that took over may repeat ready,
// running and result-ready.
var allocationTable = table[sandboxState]{noun: "allocation", rows: []row[sandboxState]{
	{AllocationIntended, noSandbox, sandbox(sallyport.SandboxProvisioning)},
	// An id that becomes known late (a half-made sandbox found by List) is recorded in whatever state the
	// Allocation has got to; it never makes a sandbox usable again.
	{AllocationBound, sandbox(sallyport.SandboxProvisioning, sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned), nil},
	{AllocationReady, sandbox(sallyport.SandboxProvisioning, sallyport.SandboxReady), sandbox(sallyport.SandboxReady)},
	{AllocationRunning, sandbox(sallyport.SandboxReady, sallyport.SandboxRunning), sandbox(sallyport.SandboxRunning)},
	{AllocationResult, sandbox(sallyport.SandboxRunning, sallyport.SandboxResultReady), sandbox(sallyport.SandboxResultReady)},
	{AllocationTeardown, owning, sandbox(sallyport.SandboxTeardown)},
	// provisioning may end at once: a Create that was refused, and Lookup says that nothing is there.
	{AllocationTerminated, sandbox(sallyport.SandboxProvisioning, sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned), sandbox(sallyport.SandboxTerminated)},
	{AllocationFailed, slices.Concat(working, sandbox(sallyport.SandboxTeardown)), sandbox(sallyport.SandboxFailed)},
	// terminated → orphaned: a resource that turned up after its absence had been proved.
	{AllocationOrphaned, slices.Concat(owning, sandbox(sallyport.SandboxTerminated)), sandbox(sallyport.SandboxOrphaned)},
}}

// NextSandbox is the state that event on leads to from the given one (empty: not yet intended).
// CodeConflict, in a sentence that names event and state, where the table has no such line.
func NextSandbox(from sallyport.SandboxState, on Type) (sallyport.SandboxState, error) {
	return allocationTable.next(from, on, "")
}

// Open reports whether the Allocation may still own a resource.
func (a Allocation) Open() bool { return slices.Contains(owning, a.State) }
