package lifecycle

import (
	"slices"

	"sallyport.dev/sallyport"
)

type attemptState = sallyport.AttemptState

// stages are what a driver works in, in their usual order. A driver that took over from a dead one may
// enter any of them again: what holds the order together is not the sequence of words but the facts that
// a stage needs (see guards in fold.go).
var stages = []attemptState{
	sallyport.AttemptPreparing, sallyport.AttemptRunning, sallyport.AttemptCollecting,
	sallyport.AttemptInspecting, sallyport.AttemptValidating, sallyport.AttemptDeciding,
}

var (
	nowhere = []attemptState{""}
	queued  = []attemptState{sallyport.AttemptQueued}
	// live: a driver is or will be at work.
	live = slices.Concat(queued, stages)
	// judged: there is a tree and a conclusion about it, so that a person may ask for more facts.
	judged = []attemptState{sallyport.AttemptAwaitingApproval, sallyport.AttemptAccepted, sallyport.AttemptRejected}
	ended  = slices.Concat(judged, []attemptState{sallyport.AttemptFailed, sallyport.AttemptCancelled})
	every  = slices.Concat(live, ended)
	// begun: everything after queued. A sandbox for a shell may be asked for after the end as well.
	begun = slices.Concat(stages, ended)
)

func only(s ...attemptState) []attemptState { return s }

// attemptTable is the life of an Attempt. Rows without a target are facts: recorded, the state stays.
var attemptTable = table[attemptState]{noun: "attempt", rows: []row[attemptState]{
	{AttemptCreated, nowhere, only(sallyport.AttemptQueued)},

	{AttemptStage, queued, only(sallyport.AttemptPreparing)},
	{AttemptStage, stages, stages},
	{AttemptDecided, only(sallyport.AttemptDeciding), judged},
	{AttemptFailed, live, only(sallyport.AttemptFailed)},
	{AttemptCancelled, live, only(sallyport.AttemptCancelled)},

	{AttemptReopened, only(sallyport.AttemptAwaitingApproval, sallyport.AttemptAccepted), only(sallyport.AttemptAwaitingApproval)},

	// A person's word: the only other way out of an end.
	{AttemptApproved, only(sallyport.AttemptAwaitingApproval), only(sallyport.AttemptAccepted)},
	{AttemptDisallowed, only(sallyport.AttemptAwaitingApproval, sallyport.AttemptAccepted), only(sallyport.AttemptRejected)},
	{CancelRequested, live, nil},

	{AttemptBundle, stages, nil},
	{AttemptImported, stages, nil},
	{AttemptFindings, stages, nil},
	{AttemptLayers, stages, nil},
	{AttemptAgent, stages, nil},
	{AttemptCheck, slices.Concat(stages, judged), nil}, // `check A` reruns after the decision
	{AttemptSetup, stages, nil},
	{AttemptLog, begun, nil},
	{AttemptEgress, stages, nil},
	{AttemptRefused, stages, nil},
	{AttemptReserved, stages, nil},
	{AttemptSettled, stages, nil},
	{AttemptSigned, slices.Concat(stages, only(sallyport.AttemptAwaitingApproval)), nil},
	{AttemptNotice, every, nil},
	{LeaseAcquired, every, nil},
	{LeaseReleased, every, nil},
	{KeyRotated, every, nil},
	{Checkpoint, every, nil},

	{PublicationIntended, only(sallyport.AttemptAccepted), nil},
	{PublicationDone, only(sallyport.AttemptAccepted), nil},
	{PublicationRefused, only(sallyport.AttemptAccepted), nil},

	{AllocationIntended, begun, nil},
	{AllocationBound, every, nil},
	{AllocationReady, every, nil},
	{AllocationRunning, every, nil},
	{AllocationResult, every, nil},
	{AllocationTeardown, every, nil},
	{AllocationTerminated, every, nil},
	{AllocationFailed, every, nil},
	{AllocationOrphaned, every, nil},
}}

// NextAttempt is the state that event on leads to from the given one (empty: the Attempt does not exist).
// want is the state the payload names (attempt.stage, attempt.decided), empty for all other events. CodeConflict,
// in a sentence that names event and state, where the table has no such line.
func NextAttempt(from sallyport.AttemptState, on Type, want sallyport.AttemptState) (sallyport.AttemptState, error) {
	return attemptTable.next(from, on, want)
}
