package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// moody is a shop whose check also asks a file of the person's package cache, which a test can put there and
// take away between two runs.
func moody(t *testing.T, publish, more string) (w *world, mood string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	mood = filepath.Join(home, ".npm", "_cacache", "mood")
	if err := os.MkdirAll(filepath.Dir(mood), 0o755); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m" + more + "}\npublish: {to: " + publish + ", approve: never}\n",
		"value":          "wrong\n",
		"test.sh":        "if [ -e ~/.npm/_cacache/mood ]; then echo not today; sleep 1; exit 1; fi\ngrep -q right value\n",
	}), mood
}

func (w *world) fixed() journal.Attempt {
	w.t.Helper()
	at := w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", "echo right > value"}})
	if at.Report.State != sallyport.AttemptAccepted {
		w.t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	return at
}

func (w *world) checkIsFlaky(at journal.Attempt, mood string) journal.Attempt {
	w.t.Helper()
	if err := os.WriteFile(mood, nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
	results, err := w.c.Check(w.t.Context(), string(at.Report.Attempt), "")
	if err != nil || len(results) != 1 || results[0].Status != sallyport.CheckFlaky {
		w.t.Fatalf("%+v, %v", results, err)
	}
	after, err := w.c.Attempt(w.t.Context(), string(at.Report.Attempt))
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

// TestFlakyTakesAnAcceptanceBack: what was accepted on an answer that does not repeat waits for a person again,
// on evidence that says so; nothing publishes it meanwhile, and no approval is silent about it.
func TestFlakyTakesAnAcceptanceBack(t *testing.T) {
	w, mood := moody(t, "none", "")
	at := w.fixed()
	after := w.checkIsFlaky(at, mood)
	r := after.Report
	if r.State != sallyport.AttemptAwaitingApproval || r.Decision != sallyport.DecisionAwaitingApproval || r.Reason.Code != "check-flaky" {
		t.Fatalf("%s, %s, %+v", r.State, r.Decision, r.Reason)
	}
	if r.Checks[0].Status != sallyport.CheckFlaky || r.EvidenceDigest == "" || r.EvidenceDigest == at.Report.EvidenceDigest {
		t.Errorf("check %s, evidence %s, before %s", r.Checks[0].Status, r.EvidenceDigest, at.Report.EvidenceDigest)
	}
	if b, err := os.ReadFile(r.Evidence); err != nil || len(b) == 0 {
		t.Errorf("the evidence: %v", err)
	}
	if _, err := w.c.Publish(t.Context(), string(r.Attempt)); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("publish: %v", err)
	}
	// A rerun that agrees with the better answer does not wash it off.
	if err := os.Remove(mood); err != nil {
		t.Fatal(err)
	}
	if results, err := w.c.Check(t.Context(), string(r.Attempt), "test"); err != nil || results[0].Status != sallyport.CheckFlaky {
		t.Errorf("a third run: %+v, %v", results, err)
	}
	if _, err := w.c.Approve(t.Context(), string(r.Attempt), "bob", ""); sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), "flaky") {
		t.Errorf("approve without a why: %v", err)
	}
	if after, err := w.c.Approve(t.Context(), string(r.Attempt), "bob", "known to be moody"); err != nil || after.Report.State != sallyport.AttemptAccepted {
		t.Errorf("approve: %s, %v", after.Report.State, err)
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFlakyAfterPublication: what is out stays out, and whoever looks is told.
func TestFlakyAfterPublication(t *testing.T) {
	w, mood := moody(t, "branch", "")
	after := w.checkIsFlaky(w.fixed(), mood)
	r := after.Report
	if r.State != sallyport.AttemptAccepted || !after.Published || r.Checks[0].Status != sallyport.CheckFlaky {
		t.Errorf("%s, published %v, check %s", r.State, after.Published, r.Checks[0].Status)
	}
	if !strings.Contains(strings.Join(r.Notices, "\n"), "does not give the same answer twice") {
		t.Errorf("notices: %q", r.Notices)
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRetriesAreRecorded: with retries: a pass after a failure is flaky, both runs are told, and a person decides.
func TestRetriesAreRecorded(t *testing.T) {
	w, mood := moody(t, "branch", ", retries: 2")
	if err := os.WriteFile(mood, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	go func() { // better mood once the first run on the change has said no
		for t.Context().Err() == nil {
			logs, _ := filepath.Glob(filepath.Join(filepath.Dir(w.repo), "state", "attempts", "*", "check-test-validate*"))
			for _, l := range logs {
				if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), "not today") {
					_ = os.Remove(mood)
					return
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	at := w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", "echo right > value"}})
	k := at.Report.Checks[0]
	if at.Report.State != sallyport.AttemptAwaitingApproval || at.Report.Reason.Code != "check-flaky" || k.Status != sallyport.CheckFlaky {
		t.Fatalf("%s, %+v, check %s", at.Report.State, at.Report.Reason, k.Status)
	}
	if len(k.Runs) != 2 || k.Runs[0].Status != sallyport.CheckFailed || k.Runs[1].Status != sallyport.CheckPassed {
		t.Errorf("runs: %+v", k.Runs)
	}
}

// TestResultsAreReused: the same check on the very same trees and toolchain is not run again, and says whose
// result it is; `check` always runs.
func TestResultsAreReused(t *testing.T) {
	w, mood := moody(t, "none", "")
	first := w.fixed()
	second := w.fixed()
	if k := second.Report.Checks[0]; k.Reused != first.Report.Attempt || k.Status != sallyport.CheckPassed {
		t.Fatalf("reused %q of %s", k.Reused, first.Report.Attempt)
	}
	// One that turns out flaky is nobody's result any more.
	w.checkIsFlaky(second, mood)
	if err := os.Remove(mood); err != nil {
		t.Fatal(err)
	}
	if k := w.fixed().Report.Checks[0]; k.Reused != "" {
		t.Errorf("a flaky result is reused from %s", k.Reused)
	}
}

// TestChecksInParallel: with parallel: 2 the sandboxes of two checks stand beside each other; their results are in
// policy's order.
func TestChecksInParallel(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nparallel: 2\nlimits: {memory: 512MiB}\nchecks:\n  - {name: slow, run: sh test.sh, timeout: 1m}\n  - {name: quick, run: sh test.sh, timeout: 1m}\npublish: {to: none, approve: never}\n",
		"value":          "wrong\n", "test.sh": "sleep 3; grep -q right value\n",
	})
	at := w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", "echo right > value"}})
	r := at.Report
	if r.State != sallyport.AttemptAccepted || len(r.Checks) != 2 || r.Checks[0].Name != "slow" || r.Checks[1].Name != "quick" {
		t.Fatalf("%s %+v: %+v", r.State, r.Reason, r.Checks)
	}
	began, ended := map[sallyport.AllocationID]int64{}, map[sallyport.AllocationID]int64{}
	var validating []sallyport.AllocationID
	allocations, err := w.c.Journal().Allocations(t.Context(), r.Attempt)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range allocations {
		if a.Purpose == sallyport.PurposeValidate {
			validating = append(validating, a.ID)
		}
	}
	events, err := w.c.Journal().Events(t.Context(), r.Attempt, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		switch e.Type {
		case lifecycle.AllocationRunning:
			began[e.Allocation] = e.Seq
		case lifecycle.AllocationTeardown:
			ended[e.Allocation] = e.Seq
		}
	}
	if len(validating) != 2 || began[validating[1]] > ended[validating[0]] || began[validating[0]] > ended[validating[1]] {
		t.Errorf("%d sandboxes, running from %v to %v", len(validating), began, ended)
	}
}
