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
	"sallyport.dev/sallyport/internal/testkit"
)

// mood is a file of the person's package cache that a check asks as well, and that a test can change between two runs
// while nothing else changes.
type mood struct {
	t    *testing.T
	path string
}

func (m mood) is(what string) {
	m.t.Helper()
	if err := os.WriteFile(m.path, []byte(what+"\n"), 0o644); err != nil {
		m.t.Error(err)
	}
}

func moody(t *testing.T, publish, more string) (*world, mood) {
	t.Helper()
	testkit.Programs(t) // before they would be built with an empty cache
	home := t.TempDir()
	t.Setenv("HOME", home)
	m := mood{t, filepath.Join(home, ".npm", "_cacache", "mood")}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o755); err != nil {
		t.Fatal(err)
	}
	m.is("good")
	return newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m" + more + "}\npublish: {to: " + publish + ", approve: never}\n",
		"value":          "wrong\n",
		"test.sh":        "if [ -e sub.sh ]; then . ./sub.sh; elif grep -q bad ~/.npm/_cacache/mood; then echo not today; sleep 1; exit 1; fi\ngrep -q slow ~/.npm/_cacache/mood && sleep 2\ngrep -q right value\n",
	}), m
}

// wanted is what comes of an agent that runs script.
func (w *world) wanted(script string) journal.Attempt {
	w.t.Helper()
	return w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", script}})
}

func (w *world) fixed() journal.Attempt {
	w.t.Helper()
	at := w.wanted("echo right > value")
	if at.Report.State != sallyport.AttemptAccepted {
		w.t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	return at
}

func (w *world) checkIsFlaky(at journal.Attempt, m mood) journal.Attempt {
	w.t.Helper()
	m.is("bad")
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
	w, m := moody(t, "none", "")
	at := w.fixed()
	after := w.checkIsFlaky(at, m)
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
	m.is("good")
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
	w, m := moody(t, "branch", "")
	after := w.checkIsFlaky(w.fixed(), m)
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
	w, m := moody(t, "branch", ", retries: 2")
	m.is("bad")
	go func() { // better mood once the first run on the change has said no
		for t.Context().Err() == nil {
			logs, _ := filepath.Glob(filepath.Join(filepath.Dir(w.repo), "state", "attempts", "*", "check-test-validate*"))
			for _, l := range logs {
				if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), "not today") {
					m.is("good")
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
	w, m := moody(t, "none", "")
	first := w.fixed()
	second := w.fixed()
	if k := second.Report.Checks[0]; k.Reused != first.Report.Attempt || k.Status != sallyport.CheckPassed {
		t.Fatalf("reused %q of %s", k.Reused, first.Report.Attempt)
	}
	// One that turns out flaky is nobody's result any more.
	w.checkIsFlaky(second, m)
	m.is("good")
	third := w.wanted("echo right > value")
	if k := third.Report.Checks[0]; third.Report.Reason.Code != "check-flaky" || k.Reused != "" {
		t.Errorf("after that: %+v, reused %q", third.Report.Reason, k.Reused)
	}
}

// TestFailureIsNotTriedAway: the same tree that failed in one Attempt and passes in the next is for a person.
func TestFailureIsNotTriedAway(t *testing.T) {
	w, m := moody(t, "branch", "")
	m.is("bad")
	first := w.wanted("echo right > value")
	if first.Report.State != sallyport.AttemptRejected {
		t.Fatalf("%s: %+v", first.Report.State, first.Report.Reason)
	}
	m.is("good")
	again := w.wanted("echo right > value")
	if r := again.Report; r.State != sallyport.AttemptAwaitingApproval || r.Reason.Code != "check-flaky" || !strings.Contains(r.Checks[0].Message, "it was failed in attempt") {
		t.Errorf("%s: %+v, %q", r.State, r.Reason, r.Checks[0].Message)
	}
	if r := w.wanted("echo right > value; echo other > other").Report; r.State != sallyport.AttemptAccepted {
		t.Errorf("another tree: %s: %+v", r.State, r.Reason)
	}
}

// TestFailureThatCameMeanwhile: a pass that was found before another Attempt's failure was known, or by a driver that was overtaken
// and wakes, does not take that failure's place.
func TestFailureThatCameMeanwhile(t *testing.T) {
	w, m := moody(t, "branch", "")
	m.is("bad")
	first := w.wanted("echo right > value")
	if first.Report.State != sallyport.AttemptRejected {
		t.Fatalf("%s: %+v", first.Report.State, first.Report.Reason)
	}
	state := filepath.Join(filepath.Dir(w.repo), "state")
	known, err := filepath.Glob(filepath.Join(state, "checks", "*.json"))
	if err != nil || len(known) != 1 {
		t.Fatal(known, err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(known[0], aside); err != nil {
		t.Fatal(err)
	}
	m.is("slow")
	came := make(chan error, 1)
	go func() { // while the second one's check runs
		for t.Context().Err() == nil {
			logs, _ := filepath.Glob(filepath.Join(state, "attempts", "*", "check-test*"))
			if len(logs) < 2 {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			came <- os.Rename(aside, known[0])
			return
		}
	}()
	again := w.wanted("echo right > value")
	if err := <-came; err != nil {
		t.Fatal(err)
	}
	if r := again.Report; r.State != sallyport.AttemptAwaitingApproval || r.Reason.Code != "check-flaky" {
		t.Errorf("%s: %+v, %+v", r.State, r.Reason, r.Checks)
	}
	m.is("good")
	if r := w.wanted("echo right > value").Report; r.State != sallyport.AttemptAwaitingApproval || r.Checks[0].Reused != "" {
		t.Errorf("after that: %s: %+v", r.State, r.Checks)
	}
}

// TestFlakyWhileAPersonDecides: an answer that differs is recorded, whatever a person did while the check ran.
func TestFlakyWhileAPersonDecides(t *testing.T) {
	for _, name := range []string{"publishes", "rejects"} {
		t.Run(name, func(t *testing.T) {
			w, m := moody(t, "none", "")
			at := w.fixed()
			id := string(at.Report.Attempt)
			m.is("bad")
			done := make(chan error, 1)
			go func() { _, err := w.c.Check(t.Context(), id, ""); done <- err }()
			logs := filepath.Join(filepath.Dir(w.repo), "state", "attempts", "*", "*-again*")
			for {
				if l, _ := filepath.Glob(logs); len(l) > 0 {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			var err error
			if name == "publishes" { // as far as until it is killed
				_, err = w.c.Journal().Append(t.Context(), nil, journal.Record{Type: lifecycle.PublicationIntended, Attempt: at.Report.Attempt,
					Data: lifecycle.Publication{Target: "branch", Branch: "refs/heads/sallyport/x", Commit: at.Report.Commit}})
			} else {
				_, err = w.c.Reject(t.Context(), id, "bob", "no")
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			after, err := w.c.Attempt(t.Context(), id)
			if err != nil || after.Report.Checks[0].Status != sallyport.CheckFlaky {
				t.Errorf("check %s, %v", after.Report.Checks[0].Status, err)
			}
			if _, err := w.c.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRerunThatLosesAControl: a pass whose control does not hold any more is another answer.
func TestRerunThatLosesAControl(t *testing.T) {
	w, m := moody(t, "none", "")
	at := w.wanted("printf 'grep -q right value\\nif grep -q bad ~/.npm/_cacache/mood; then echo x > conftest.py; fi\\n' > sub.sh; echo right > value")
	if at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	after := w.checkIsFlaky(at, m)
	if after.Report.State != sallyport.AttemptAwaitingApproval {
		t.Errorf("%s: %+v", after.Report.State, after.Report.Reason)
	}
}

// TestDriverDiesBeforeItSignsAgain: between the record that reopens an acceptance and the new evidence nothing can be
// approved or published; reconcile signs what is missing.
func TestDriverDiesBeforeItSignsAgain(t *testing.T) {
	w, _ := moody(t, "none", "")
	at := w.fixed()
	id := string(at.Report.Attempt)
	k := at.Report.Checks[0]
	k.Status = sallyport.CheckFlaky
	holder, err := journal.SelfHolder()
	if err != nil {
		t.Fatal(err)
	}
	lease, err := w.c.Journal().Acquire(t.Context(), at.Report.Attempt, holder, time.Minute, journal.DeadOnThisHost)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Journal().Append(t.Context(), &lease, journal.Record{Type: lifecycle.AttemptCheck, Attempt: at.Report.Attempt, Data: k},
		journal.Record{Type: lifecycle.AttemptReopened, Attempt: at.Report.Attempt, Data: sallyport.Reason{Code: "check-flaky", Message: "twice"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.c.Journal().Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Approve(t.Context(), id, "bob", "sure"); sallyport.CodeOf(err) != sallyport.CodeConflict || !strings.Contains(sallyport.HintOf(err), "reconcile") {
		t.Errorf("approve: %v (%s)", err, sallyport.HintOf(err))
	}
	if _, err := w.c.Publish(t.Context(), id); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("publish: %v", err)
	}
	lines, err := w.c.Reconcile(t.Context(), false)
	if err != nil || !strings.Contains(strings.Join(lines, "\n"), "signed the evidence of "+id) {
		t.Errorf("reconcile: %q, %v", lines, err)
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if after, err := w.c.Approve(t.Context(), id, "bob", "sure"); err != nil || after.Report.State != sallyport.AttemptAccepted {
		t.Errorf("approve: %s, %v", after.Report.State, err)
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

// TestAStoppedSearchForAWitnessIsNotRemembered: what a cancelled run did not find out about a base must not be that
// base's answer for ever, or the control would be weaker from then on and nobody told.
func TestAStoppedSearchForAWitnessIsNotRemembered(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: 'sh a_test.sh || { sleep 3; exit 1; }', timeout: 1m, planted-fault: auto}\npublish: {to: none, approve: never}\n",
		"value":          "right\n", "a_test.sh": "#!/bin/sh\ngrep -q right value\n",
	})
	state := filepath.Join(filepath.Dir(w.repo), "state")
	remembered := func() (all []string) {
		files, err := filepath.Glob(filepath.Join(state, "base-checks", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b))
		}
		return all
	}
	stop := make(chan struct{})
	go func() { // cancel while the search runs
		defer close(stop)
		for t.Context().Err() == nil {
			logs, _ := filepath.Glob(filepath.Join(state, "attempts", "*", "check-test-witness-1*"))
			for _, l := range logs {
				if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), "a planted fault") {
					if err := w.c.Cancel(t.Context(), filepath.Base(filepath.Dir(l)), "bob", ""); err != nil {
						t.Error(err)
					}
					return
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	agent := sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "sleep 20; echo right, still > value"}}
	if at := w.run(agent); at.Report.State != sallyport.AttemptCancelled {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	<-stop
	if got := remembered(); len(got) != 0 {
		t.Fatalf("remembered of a search that was stopped: %s", got)
	}
	agent.Command[2] = "echo right, still > value"
	w.run(agent)
	if got := remembered(); len(got) != 1 || !strings.Contains(got[0], `"witness":"a_test.sh"`) {
		t.Errorf("remembered: %s", got)
	}
}
