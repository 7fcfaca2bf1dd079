package lifecycle

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

const (
	att  = sallyport.AttemptID("att_00000000000000000000000000")
	alc  = sallyport.AllocationID("alc_00000000000000000000000000")
	alc2 = sallyport.AllocationID("alc_00000000000000000000000004")
	oid  = sallyport.ObjectID("1111111111111111111111111111111111111111")
	oid2 = sallyport.ObjectID("2222222222222222222222222222222222222222")
)

var (
	digest  = sallyport.Sum([]byte("one"))
	digest2 = sallyport.Sum([]byte("two"))
)

func ev(t Type, data any) Event {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	e := Event{At: "2026-01-02T03:04:05.000000006Z", Type: t, Attempt: att, Data: b}
	if OfAllocation(t) {
		e.Allocation = alc
	}
	return e
}

func created() Event {
	return ev(AttemptCreated, Created{WorkOrder: "wo_1", Name: "fix", Number: 1, Manifest: digest, Base: oid, Repository: "/r", Submitter: "ann", StartTree: oid, Separation: "none"})
}

func to(s sallyport.AttemptState, seconds float64) Event {
	return ev(AttemptStage, Stage{State: s, Seconds: seconds})
}

// life is an attempt that is accepted after approval and published.
func life() []Event {
	return []Event{
		created(), to(sallyport.AttemptPreparing, 0.5), ev(LeaseAcquired, LeaseChange{Holder: "h"}),
		ev(AllocationIntended, Intended{Purpose: sallyport.PurposeExecute, Provider: "local", Spec: digest}),
		ev(AllocationBound, Bound{Resource: "r1"}), ev(AllocationReady, nil),
		ev(AttemptLayers, Layers{Layers: []sallyport.LayerReport{{Layer: sallyport.LayerNetwork, Status: sallyport.LayerHeld}}}),
		to(sallyport.AttemptRunning, 1), ev(AllocationRunning, nil), ev(AttemptAgent, sallyport.AgentResult{Exit: 0, Ended: "exit"}),
		to(sallyport.AttemptCollecting, 60), ev(AttemptBundle, Bundle{Digest: digest, Bytes: 9}), ev(AllocationResult, nil),
		ev(AllocationTeardown, sallyport.Reason{Code: "done"}), ev(AllocationTerminated, sallyport.Reason{Code: "gone"}),
		to(sallyport.AttemptInspecting, 2), ev(AttemptImported, Imported{Tree: oid2, Changes: []sallyport.Change{{Path: "a", Status: sallyport.ChangeAdded}}}),
		ev(AttemptFindings, Findings{Findings: []sallyport.Finding{{Rule: "r", Severity: sallyport.SeverityWarn}}}),
		to(sallyport.AttemptValidating, 3), ev(AttemptCheck, sallyport.CheckResult{Name: "test", Status: sallyport.CheckPassed}),
		to(sallyport.AttemptDeciding, 4), ev(AttemptSigned, Signed{Path: "/e", Digest: digest, Commit: oid2}),
		ev(AttemptDecided, Decided{Decision: sallyport.DecisionAwaitingApproval, Reason: sallyport.Reason{Code: "finding"}}),
		ev(AttemptApproved, Approval{Who: "bob", Why: "looks right", Evidence: digest}),
		ev(PublicationIntended, Publication{Target: "branch", Branch: "refs/heads/sallyport/fix", Commit: oid2}),
		ev(PublicationDone, Publication{Target: "branch", Branch: "refs/heads/sallyport/fix", Commit: oid2}),
	}
}

func upTo(t *testing.T, last Type) State {
	t.Helper()
	var s State
	for _, e := range life() {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		if e.Type == last {
			return s
		}
	}
	t.Fatalf("no %s in this life", last)
	return s
}

func TestAWholeLife(t *testing.T) {
	s, err := Fold(life())
	if err != nil {
		t.Fatal(err)
	}
	r := s.Report
	if r.State != sallyport.AttemptAccepted || r.Decision != sallyport.DecisionAccepted || !s.Published || s.Publishing {
		t.Errorf("state %s, decision %s, published %v", r.State, r.Decision, s.Published)
	}
	if r.Branch != "sallyport/fix" || r.Commit != oid2 || r.Tree != oid2 || r.Evidence != "/e" || r.EvidenceDigest != digest {
		t.Errorf("branch %s, commit %s, tree %s, evidence %s", r.Branch, r.Commit, r.Tree, r.Evidence)
	}
	want := map[string]float64{"queued": 0.5, "preparing": 1, "running": 60, "collecting": 2, "inspecting": 3, "validating": 4}
	if !reflect.DeepEqual(r.Timings, want) {
		t.Errorf("timings %v, want %v", r.Timings, want)
	}
	if !strings.Contains(r.Reason.Message, "bob") || !strings.Contains(r.Reason.Message, "looks right") {
		t.Errorf("the reason does not say who approved and why: %q", r.Reason.Message)
	}
	a := s.Allocations[alc]
	if a.State != sallyport.SandboxTerminated || a.Resource != "r1" || a.Attempt != att || a.Purpose != sallyport.PurposeExecute {
		t.Errorf("allocation %+v", a)
	}
}

func TestListsAreNeverNull(t *testing.T) {
	for _, events := range [][]Event{{created()}, life()} {
		s, err := Fold(events)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s.Report)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "null") {
			t.Errorf("null in the report: %s", b)
		}
	}
}

func TestALaterCheckOfTheSameNameReplacesTheEarlier(t *testing.T) {
	s := upTo(t, AttemptCheck)
	for _, c := range []sallyport.CheckResult{{Name: "lint", Status: sallyport.CheckPassed}, {Name: "test", Status: sallyport.CheckFlaky}} {
		if err := s.Apply(ev(AttemptCheck, c)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Report.Checks) != 2 || s.Report.Checks[0].Name != "test" || s.Report.Checks[0].Status != sallyport.CheckFlaky {
		t.Errorf("checks %+v", s.Report.Checks)
	}
}

func TestGuards(t *testing.T) {
	rejectBy := ev(AttemptDisallowed, Approval{Who: "eve"})
	tests := []struct {
		name  string
		after Type
		e     Event
		code  sallyport.Code
		words string
	}{
		{"inspecting needs a bundle", AllocationRunning, to(sallyport.AttemptInspecting, 0), sallyport.CodeConflict, "no bundle"},
		{"validating needs an imported tree", AttemptBundle, to(sallyport.AttemptValidating, 0), sallyport.CodeConflict, "no tree"},
		{"imported needs a bundle", AllocationRunning, ev(AttemptImported, Imported{Tree: oid}), sallyport.CodeConflict, "no bundle"},
		{"approval of other evidence", AttemptDecided, ev(AttemptApproved, Approval{Who: "bob", Evidence: digest2}), sallyport.CodeConflict, "other evidence"},
		{"approval of no evidence", AttemptDecided, ev(AttemptApproved, Approval{Who: "bob"}), sallyport.CodeConflict, "other evidence"},
		{"approval by nobody", AttemptDecided, ev(AttemptApproved, Approval{Evidence: digest}), sallyport.CodeInvalid, "who"},
		{"publication before acceptance", AttemptDecided, ev(PublicationIntended, Publication{Branch: "refs/heads/x", Commit: oid2}), sallyport.CodeConflict, "awaiting-approval"},
		{"publication of another commit", AttemptApproved, ev(PublicationIntended, Publication{Branch: "refs/heads/x", Commit: oid}), sallyport.CodeConflict, "not the one that was signed"},
		{"publication to a short name", AttemptApproved, ev(PublicationIntended, Publication{Branch: "x", Commit: oid2}), sallyport.CodeInvalid, "full ref"},
		{"done without intent", AttemptApproved, ev(PublicationDone, Publication{Branch: "refs/heads/x", Commit: oid2}), sallyport.CodeConflict, "not intended"},
		{"done elsewhere than intended", PublicationIntended, ev(PublicationDone, Publication{Branch: "refs/heads/y", Commit: oid2}), sallyport.CodeConflict, "not intended"},
		{"refused without intent", AttemptApproved, ev(PublicationRefused, sallyport.Reason{Code: "x"}), sallyport.CodeConflict, "no publication"},
		{"rejection of what is being published", PublicationIntended, rejectBy, sallyport.CodeConflict, "under way"},
		{"rejection of what is published", PublicationDone, rejectBy, sallyport.CodeConflict, "published"},
		{"reopening what is being published", PublicationIntended, ev(AttemptReopened, sallyport.Reason{Code: "check-flaky"}), sallyport.CodeConflict, "being so"},
		{"reopening what is published", PublicationDone, ev(AttemptReopened, sallyport.Reason{Code: "check-flaky"}), sallyport.CodeConflict, "published"},
		{"reopening without a reason", AttemptApproved, ev(AttemptReopened, sallyport.Reason{}), sallyport.CodeInvalid, "reason"},
		{"a second publication", PublicationDone, ev(PublicationIntended, Publication{Branch: "refs/heads/x", Commit: oid2}), sallyport.CodeConflict, "already"},
		{"another resource", AllocationBound, ev(AllocationBound, Bound{Resource: "r2"}), sallyport.CodeConflict, "r1"},
		{"created twice", AttemptCreated, created(), sallyport.CodeConflict, "attempt.created"},
		{"cancel after the end", AttemptDecided, ev(CancelRequested, Person{Who: "bob"}), sallyport.CodeConflict, "awaiting-approval"},
		{"unknown key", AttemptCreated, ev(AttemptNotice, map[string]any{"text": "a", "tekst": "b"}), sallyport.CodeInvalid, "tekst"},
		{"no payload", AttemptCreated, ev(AttemptFailed, nil), sallyport.CodeInvalid, "payload"},
		{"a payload where none belongs", AllocationBound, ev(AllocationReady, Bound{Resource: "r"}), sallyport.CodeInvalid, "no payload"},
		{"unknown event", AttemptCreated, ev("attempt.sang", nil), sallyport.CodeInvalid, "does not know"},
		{"stage without a name", AttemptStage, to("", 0), sallyport.CodeConflict, "preparing"},
		{"decided early", AttemptFindings, ev(AttemptDecided, Decided{Decision: sallyport.DecisionRejected}), sallyport.CodeConflict, "inspecting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := upTo(t, tt.after)
			before := marshal(s)
			wantError(t, s.Apply(tt.e), tt.code, tt.words)
			if after := marshal(s); after != before {
				t.Errorf("the refused event changed the state:\n%s\n%s", before, after)
			}
		})
	}
}

func TestEventOfAnotherAttempt(t *testing.T) {
	s := upTo(t, AttemptCreated)
	e := ev(AttemptNotice, Notice{Text: "x"})
	e.Attempt = "att_00000000000000000000000004"
	wantError(t, s.Apply(e), sallyport.CodeInvalid, "att_00000000000000000000000004")
}

func TestNothingIsAcceptedWithoutEvidence(t *testing.T) {
	for _, d := range []sallyport.Decision{sallyport.DecisionAccepted, sallyport.DecisionAwaitingApproval} {
		s := upTo(t, AttemptCheck)
		mustApply(t, &s, to(sallyport.AttemptDeciding, 0))
		wantError(t, s.Apply(ev(AttemptDecided, Decided{Decision: d})), sallyport.CodeConflict, "nothing is signed")
	}
	s := upTo(t, AttemptCheck)
	mustApply(t, &s, to(sallyport.AttemptDeciding, 0), ev(AttemptDecided, Decided{Decision: sallyport.DecisionRejected}))
}

func TestAFactAfterSigningVoidsTheEvidence(t *testing.T) {
	facts := map[string]Event{
		"another tree":     ev(AttemptImported, Imported{Tree: oid}),
		"another bundle":   ev(AttemptBundle, Bundle{Digest: digest2}),
		"a new finding":    ev(AttemptFindings, Findings{Findings: []sallyport.Finding{{Rule: "new"}}}),
		"a changed result": ev(AttemptCheck, sallyport.CheckResult{Name: "test", Status: sallyport.CheckFlaky}),
	}
	for name, e := range facts {
		t.Run(name, func(t *testing.T) {
			s := upTo(t, AttemptSigned)
			mustApply(t, &s, e)
			if s.Report.EvidenceDigest != "" || s.Report.Evidence != "" {
				t.Error("the evidence still counts")
			}
		})
	}
	s := upTo(t, AttemptDecided)
	mustApply(t, &s, facts["a changed result"])
	wantError(t, s.Apply(ev(AttemptApproved, Approval{Who: "bob", Evidence: digest})), sallyport.CodeConflict, "evidence")
	s = upTo(t, AttemptSigned)
	mustApply(t, &s, ev(AttemptCheck, sallyport.CheckResult{Name: "test", Status: sallyport.CheckPassed, Seconds: 9}))
	if s.Report.EvidenceDigest != digest {
		t.Error("a rerun that agrees voided the evidence")
	}
}

func TestAnotherResultInheritsNothing(t *testing.T) {
	s := upTo(t, AttemptSigned)
	mustApply(t, &s, to(sallyport.AttemptPreparing, 0), to(sallyport.AttemptRunning, 0), to(sallyport.AttemptCollecting, 0), ev(AttemptBundle, Bundle{Digest: digest2}))
	if s.Imported != nil || s.Report.Tree != "" || s.Report.Commit != "" || len(s.Report.Checks)+len(s.Report.Findings)+len(s.Report.Changes) != 0 {
		t.Errorf("left over from the first result: %+v", s.Report)
	}
	wantError(t, s.Apply(to(sallyport.AttemptValidating, 0)), sallyport.CodeConflict, "no tree")
}

func TestAllocationKeepsWhatWentWrong(t *testing.T) {
	s := upTo(t, AllocationRunning)
	mustApply(t, &s, ev(AllocationFailed, sallyport.Reason{Code: "memory"}), ev(AllocationTeardown, sallyport.Reason{Code: "done"}), ev(AllocationTerminated, sallyport.Reason{Code: "gone"}))
	if got := s.Allocations[alc].Reason.Code; got != "memory" {
		t.Errorf("reason %q, want that of the failure", got)
	}
	mustApply(t, &s, ev(AllocationOrphaned, sallyport.Reason{Code: "late"}))
	if a := s.Allocations[alc]; a.State != sallyport.SandboxOrphaned || a.Reason.Code != "late" || !a.Open() {
		t.Errorf("a resource that turned up late: %+v", a)
	}
}

func TestCancelIsARecordAndRepeats(t *testing.T) {
	s := upTo(t, AllocationRunning)
	mustApply(t, &s, ev(CancelRequested, Person{Who: "bob"}), ev(CancelRequested, Person{Who: "ann"}), ev(AttemptCancelled, sallyport.Reason{Code: "cancelled"}))
	if !s.CancelRequested || s.Report.State != sallyport.AttemptCancelled || s.Report.Ended == "" {
		t.Errorf("%+v", s)
	}
}

func mustApply(t *testing.T, s *State, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
}

func marshal(s State) string {
	b, err := json.Marshal(struct {
		State
		A map[sallyport.AllocationID]Allocation
	}{s, s.Allocations})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestReopenedNeedsNewEvidenceAndANewWord: what was accepted and is found doubtful later is a person's again,
// who sees evidence with the doubt in it.
func TestReopenedNeedsNewEvidenceAndANewWord(t *testing.T) {
	s := upTo(t, AttemptApproved)
	mustApply(t, &s, ev(AttemptCheck, sallyport.CheckResult{Name: "test", Status: sallyport.CheckFlaky}), ev(AttemptReopened, sallyport.Reason{Code: "check-flaky"}))
	if s.Report.State != sallyport.AttemptAwaitingApproval || s.Report.Decision != sallyport.DecisionAwaitingApproval || s.Report.EvidenceDigest != "" {
		t.Fatalf("%s, %s, evidence %q", s.Report.State, s.Report.Decision, s.Report.EvidenceDigest)
	}
	wantError(t, s.Apply(ev(PublicationIntended, Publication{Branch: "refs/heads/x", Commit: oid2})), sallyport.CodeConflict, "awaiting-approval")
	wantError(t, s.Apply(ev(AttemptApproved, Approval{Who: "bob", Evidence: digest})), sallyport.CodeConflict, "evidence")
	mustApply(t, &s, ev(AttemptSigned, Signed{Path: "/e2", Digest: digest2, Commit: oid2}), ev(AttemptApproved, Approval{Who: "bob", Why: "known", Evidence: digest2}))
	if s.Report.State != sallyport.AttemptAccepted {
		t.Errorf("%s", s.Report.State)
	}
}

func TestTheLastLogOfANameCounts(t *testing.T) {
	s := upTo(t, AttemptSigned)
	log := func(name string, d sallyport.Digest) Event {
		return ev(AttemptLog, Log{Name: name, Digest: d, Bytes: 3})
	}
	apply := func(e Event, want int, signed bool) {
		t.Helper()
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		if len(s.Logs) != want || (s.Report.EvidenceDigest != "") != signed {
			t.Errorf("logs %+v, evidence %q", s.Logs, s.Report.EvidenceDigest)
		}
	}
	apply(log("agent", digest), 1, true) // says nothing against what was signed
	apply(log("agent", digest), 1, true)
	apply(log("check", digest), 2, true)
	apply(log("never", ""), 2, true)
	apply(log("agent", digest2), 2, false)
	if s.Logs[0].Digest != digest2 {
		t.Errorf("%+v", s.Logs)
	}
	apply(log("agent", ""), 1, false)
	for _, bad := range []Log{{}, {Name: "x", Bytes: -1}, {Name: "x", Redactions: -1}, {Name: "x", Digest: "sha256:1"}} {
		if err := s.Apply(ev(AttemptLog, bad)); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestEgressAddsUp(t *testing.T) {
	s := upTo(t, AttemptLayers)
	apply := func(p Egress) {
		t.Helper()
		if err := s.Apply(ev(AttemptEgress, p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Apply(ev(AttemptEgress, Egress{Requests: 1})); sallyport.CodeOf(err) != sallyport.CodeConflict || s.Egress != nil {
		t.Errorf("something went through what was never opened: %v", err)
	}
	apply(Egress{Open: true})
	if s.Egress == nil || *s.Egress != (Egress{}) || s.EgressOpen != 1 {
		t.Errorf("%+v, %d open", s.Egress, s.EgressOpen)
	}
	apply(Egress{Open: true}) // the first driver was ended
	apply(Egress{Requests: 3, Refused: 1, BytesUp: 10, BytesDown: 20})
	apply(Egress{Open: true})
	apply(Egress{Requests: 1, BytesUp: 5})
	if *s.Egress != (Egress{Requests: 4, Refused: 1, BytesUp: 15, BytesDown: 20}) || s.EgressOpen != 1 {
		t.Errorf("%+v, %d open", s.Egress, s.EgressOpen)
	}
	for _, bad := range []Egress{{Requests: -1}, {Refused: 1}, {Open: true, Requests: 1}} {
		if err := s.Apply(ev(AttemptEgress, bad)); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
