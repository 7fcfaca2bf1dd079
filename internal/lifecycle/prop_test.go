package lifecycle

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// anyEvent draws an event with a payload of its shape; most are out of place, which is the point.
func anyEvent(t *rapid.T) Event {
	pick := func(name string, s ...string) string { return rapid.SampledFrom(s).Draw(t, name) }
	d := rapid.SampledFrom([]sallyport.Digest{digest, digest2}).Draw(t, "digest")
	o := rapid.SampledFrom([]sallyport.ObjectID{oid, oid2}).Draw(t, "oid")
	reason := sallyport.Reason{Code: pick("code", "a", "b")}
	typ := rapid.SampledFrom(slices.Concat(attemptEvents, allocationEvents, []Type{AttemptStage, AttemptStage, AttemptStage})).Draw(t, "type")
	pub := Publication{Branch: pick("branch", "refs/heads/x", "refs/heads/y"), Commit: o}
	var data any
	switch typ {
	case AttemptCreated:
		return created()
	case AttemptStage:
		data = Stage{State: rapid.SampledFrom(every).Draw(t, "to"), Seconds: rapid.Float64Range(0, 9).Draw(t, "seconds")}
	case AttemptBundle:
		data = Bundle{Digest: d}
	case AttemptImported:
		data = Imported{Tree: o}
	case AttemptFindings:
		data = Findings{Findings: []sallyport.Finding{{Rule: pick("rule", "a", "b")}}}
	case AttemptCheck:
		data = sallyport.CheckResult{Name: pick("check", "a", "b"), Status: sallyport.CheckStatus(pick("status", "passed", "failed"))}
	case AttemptAgent:
		data = sallyport.AgentResult{}
	case AttemptSetup:
		data = sallyport.SetupResult{Number: 1, For: pick("for", "base", "change"), Run: "x", Status: sallyport.SetupStatus(pick("status", "running", "done", "failed"))}
	case AttemptLayers:
		data = Layers{}
	case AttemptNotice:
		data = Notice{Text: pick("text", "a", "b")}
	case AttemptLog:
		data = Log{Name: pick("log", "a", "b"), Digest: rapid.SampledFrom([]sallyport.Digest{"", digest, digest2}).Draw(t, "of the log")}
	case AttemptEgress:
		data = rapid.SampledFrom([]Egress{{Open: true}, {}, {Requests: 2, Refused: 1, BytesUp: 3, BytesDown: 4}}).Draw(t, "egress")
	case AttemptRefused:
		data = Refused{Refusals: []sallyport.Refusal{{Host: pick("host", "a", "b"), Reason: "host-not-listed", Count: 1}}}
	case AttemptReserved:
		data = Reserved{ID: pick("request", "1", "2"), InputTokens: 3, OutputTokens: 4, MicroUSD: 5}
	case AttemptSettled:
		data = Settled{ID: pick("request", "1", "2"), How: pick("how", "usage", "unsent"), InputTokens: 1, MicroUSD: 2}
	case AttemptSigned:
		data = Signed{Path: "/e", Digest: d, Commit: o}
	case AttemptDecided:
		data = Decided{Decision: rapid.SampledFrom([]sallyport.Decision{"", sallyport.DecisionAccepted, sallyport.DecisionRejected, sallyport.DecisionAwaitingApproval}).Draw(t, "decision")}
	case CancelRequested:
		data = Person{Who: "p"}
	case AttemptApproved, AttemptDisallowed:
		data = Approval{Who: "p", Evidence: d}
	case LeaseAcquired, LeaseReleased:
		data = LeaseChange{}
	case PublicationIntended, PublicationDone:
		data = pub
	case AllocationIntended:
		data = Intended{Purpose: sallyport.PurposeExecute, Provider: "p"}
	case AllocationBound:
		data = Bound{Resource: sallyport.ResourceID(pick("resource", "r1", "r2"))}
	case AllocationReady, AllocationRunning, AllocationResult, KeyRotated, Checkpoint:
	default:
		data = reason
	}
	e := ev(typ, data)
	if OfAllocation(typ) {
		e.Allocation = rapid.SampledFrom([]sallyport.AllocationID{alc, alc2}).Draw(t, "allocation")
	}
	return e
}

// start lets histories reach the interesting end of a life often enough.
func start(t *rapid.T) []Event {
	l := life()
	return l[:rapid.IntRange(0, len(l)).Draw(t, "prefix")]
}

func TestLawsOfEveryHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := slices.Clone(start(t))
		s, err := Fold(history)
		if err != nil {
			t.Fatalf("every prefix of a life folds: %v", err)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			e := anyEvent(t)
			before, was := s.Clone(), marshal(s)
			if err := s.Apply(e); err != nil {
				if c := sallyport.CodeOf(err); c != sallyport.CodeConflict && c != sallyport.CodeInvalid {
					t.Fatalf("%s: code %v", e.Type, c)
				}
				if marshal(s) != was {
					t.Fatalf("a refused %s changed the state", e.Type)
				}
				continue
			}
			history = append(history, e)
			if marshal(before) != was {
				t.Fatalf("%s changed a clone that was taken before", e.Type)
			}
			checkLaws(t, before, s, e)
		}
		again, err := Fold(history)
		if err != nil {
			t.Fatalf("a legal history does not replay: %v", err)
		}
		if marshal(again) != marshal(s) {
			t.Fatal("replay and live operation differ")
		}
	})
}

func checkLaws(t *rapid.T, before, after State, e Event) {
	b, a := before.Report, after.Report
	word := e.Type == AttemptApproved || e.Type == AttemptDisallowed
	doubt := e.Type == AttemptReopened && a.State == sallyport.AttemptAwaitingApproval && a.EvidenceDigest == ""
	if b.State.Ended() && !word && !doubt && (a.State != b.State || a.Decision != b.Decision) {
		t.Fatalf("an ended attempt went from %s/%s to %s/%s by %s, without a person", b.State, b.Decision, a.State, a.Decision, e.Type)
	}
	if b.State != a.State && a.State == sallyport.AttemptAccepted && a.EvidenceDigest == "" {
		t.Fatal("accepted without evidence")
	}
	if a.State == sallyport.AttemptRejected && (after.Published || after.Publishing) {
		t.Fatal("a rejected attempt is published, or may be")
	}
	if after.Published && !before.Published && (before.Publication == nil || before.Publication.Commit != a.Commit) {
		t.Fatal("published without a durable intent of that commit")
	}
	if was, is := before.Egress, after.Egress; was != nil && (is == nil || is.Requests < was.Requests || is.BytesUp < was.BytesUp) || after.EgressOpen < 0 {
		t.Fatalf("what went out became less: %+v, then %+v with %d open", was, is, after.EgressOpen)
	}
	if e.Type == AttemptLog && b.EvidenceDigest != "" && a.EvidenceDigest != "" && b.State != sallyport.AttemptAccepted && b.State != sallyport.AttemptRejected {
		for _, l := range before.Logs {
			if !slices.Contains(after.Logs, l) {
				t.Fatalf("log %q was replaced under evidence that may name it", l.Name)
			}
		}
	}
	if before.Published && !after.Published {
		t.Fatal("what was published was forgotten")
	}
	if a.State.Ended() != (a.Ended != "") {
		t.Fatalf("state %s, ended %q", a.State, a.Ended)
	}
	proof := []sallyport.SandboxState{sallyport.SandboxProvisioning, sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned}
	for id, al := range after.Allocations {
		was := before.Allocations[id]
		if al.State == sallyport.SandboxTerminated && was.State != al.State && !slices.Contains(proof, was.State) {
			t.Fatalf("terminated after %q", was.State)
		}
		if was.Resource != "" && al.Resource != was.Resource {
			t.Fatalf("allocation bound to %s, then to %s", was.Resource, al.Resource)
		}
	}
	for id := range before.Allocations {
		if _, ok := after.Allocations[id]; !ok {
			t.Fatalf("allocation %s was forgotten", id)
		}
	}
}
