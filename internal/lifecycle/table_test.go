package lifecycle

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt; review the difference as code")

var sandboxStates = []sallyport.SandboxState{"", sallyport.SandboxProvisioning, sallyport.SandboxReady, sallyport.SandboxRunning,
	sallyport.SandboxResultReady, sallyport.SandboxTeardown, sallyport.SandboxTerminated, sallyport.SandboxFailed, sallyport.SandboxOrphaned}

var attemptStates = slices.Concat(nowhere, every)

var attemptEvents = []Type{AttemptCreated, AttemptStage, AttemptBundle, AttemptImported, AttemptFindings, AttemptCheck, AttemptAgent,
	AttemptLayers, AttemptNotice, AttemptLog, AttemptSetup, AttemptEgress, AttemptRefused, AttemptReserved, AttemptSettled, AttemptSigned, AttemptDecided, AttemptReopened, AttemptFailed, AttemptCancelled, CancelRequested, AttemptApproved,
	AttemptDisallowed, LeaseAcquired, LeaseReleased, PublicationIntended, PublicationDone, PublicationRefused, KeyRotated, Checkpoint}

var allocationEvents = []Type{AllocationIntended, AllocationBound, AllocationReady, AllocationRunning, AllocationResult,
	AllocationTeardown, AllocationTerminated, AllocationFailed, AllocationOrphaned}

// matrix writes every state × event: the states it leads to, or a dash.
func matrix[S ~string](states []S, events []Type, next func(S, Type, S) (S, error)) string {
	var b strings.Builder
	for _, from := range states {
		for _, on := range events {
			var to []string
			for _, want := range slices.Concat([]S{""}, states) {
				if got, err := next(from, on, want); err == nil && !slices.Contains(to, string(got)) {
					to = append(to, string(got))
				}
			}
			if len(to) == 0 {
				to = []string{"-"}
			}
			fmt.Fprintf(&b, "%-18s %-25s %s\n", "("+string(from)+")", on, strings.Join(to, " "))
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the table is not that of %s; run with -update and review:\n%s", path, got)
	}
}

func TestEveryAttemptStateAndEvent(t *testing.T) {
	golden(t, "attempt.txt", matrix(attemptStates, slices.Concat(attemptEvents, allocationEvents), NextAttempt))
}

func TestEverySandboxStateAndEvent(t *testing.T) {
	golden(t, "sandbox.txt", matrix(sandboxStates, allocationEvents, func(s sallyport.SandboxState, on Type, _ sallyport.SandboxState) (sallyport.SandboxState, error) {
		return NextSandbox(s, on)
	}))
}

// The laws below hold whatever the golden files say.

func TestAnEndedAttemptLeavesOnlyByAPersonsWord(t *testing.T) {
	for _, from := range every {
		for _, on := range slices.Concat(attemptEvents, allocationEvents) {
			for _, want := range attemptStates {
				to, err := NextAttempt(from, on, want)
				if err != nil || !from.Ended() || to == from {
					continue
				}
				if on == AttemptReopened && to == sallyport.AttemptAwaitingApproval {
					continue // a doubt puts it before a person, and never further
				}
				if on != AttemptApproved && on != AttemptDisallowed {
					t.Errorf("%s left by %s to %s", from, on, to)
				}
			}
		}
	}
}

func TestTerminatedOnlyAfterProofCanBeHad(t *testing.T) {
	may := []sallyport.SandboxState{sallyport.SandboxProvisioning, sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned}
	for _, from := range sandboxStates {
		for _, on := range allocationEvents {
			to, err := NextSandbox(from, on)
			if err == nil && to == sallyport.SandboxTerminated && !slices.Contains(may, from) {
				t.Errorf("%q became terminated by %s", from, on)
			}
			if err == nil && from == sallyport.SandboxTerminated && to != sallyport.SandboxOrphaned {
				t.Errorf("terminated became %q by %s", to, on)
			}
		}
	}
}

func TestEveryEventIsKnownExactlyOnce(t *testing.T) {
	all := slices.Concat(attemptEvents, allocationEvents)
	if n := len(attemptHandlers) + len(allocationHandlers); n != len(all) {
		t.Errorf("%d handlers, %d events in this test", n, len(all))
	}
	for _, e := range all {
		if !Known(e) {
			t.Errorf("%s has no handler", e)
		}
		if _, inTable := firstState(e); !inTable {
			t.Errorf("%s is in no table", e)
		}
	}
	if Known("attempt.unheard-of") {
		t.Error("an event that nobody defined is known")
	}
}

func firstState(e Type) (string, bool) {
	for _, r := range attemptTable.rows {
		if r.on == e {
			return string(r.from[0]), true
		}
	}
	return "", false
}

func TestARefusalNamesEventAndState(t *testing.T) {
	_, err := NextAttempt(sallyport.AttemptRejected, AttemptApproved, "")
	wantError(t, err, sallyport.CodeConflict, "attempt.approved", "rejected")
	_, err = NextAttempt(sallyport.AttemptQueued, AttemptStage, sallyport.AttemptRunning)
	wantError(t, err, sallyport.CodeConflict, "attempt.stage", "running", "queued")
	_, err = NextSandbox(sallyport.SandboxRunning, AllocationTerminated)
	wantError(t, err, sallyport.CodeConflict, "allocation.terminated", "running")
	_, err = NextSandbox("", AllocationReady)
	wantError(t, err, sallyport.CodeConflict, "allocation.ready", "does not exist")
}

func wantError(t *testing.T, err error, code sallyport.Code, words ...string) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Fatalf("error %v, want code %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}
