package control_test

import (
	"database/sql"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
)

func summaryOf(at journal.Attempt) string {
	dir, name := filepath.Split(at.Report.Evidence)
	return filepath.Join(dir, strings.Replace(name, "evidence-", "summary-", 1))
}

// The summary beside the evidence is there, is ours, and never kinder than the journal. One that is behind is
// caught up with.
func TestFsckLooksAtSummaries(t *testing.T) {
	w := newWorld(t, map[string]string{"sallyport.yaml": strings.Replace(policy, "approve: on-finding", "approve: always", 1), "value": "wrong\n", "test.sh": "grep -q right value\n"})
	at := w.run(sallyport.WorkOrder{Task: "t", Publish: &sallyport.Publish{To: "none"}, Command: []string{"sh", "-c", "echo right > value"}})
	if at.Report.State != sallyport.AttemptAwaitingApproval {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	id := string(at.Report.Attempt)
	read := func() []byte {
		t.Helper()
		b, err := os.ReadFile(summaryOf(at))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(summaryOf(at), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, fault bool, words string) {
		t.Helper()
		if said, got := w.fsck(); got != fault || !strings.Contains(said, words) {
			t.Errorf("%s: %s", what, said)
		}
	}
	failed := read()
	want("awaiting approval", false, "")
	if _, err := w.c.Approve(t.Context(), id, "una", "looks right"); err != nil {
		t.Fatal(err)
	}
	passed := read()
	want("approved", false, "")
	write(failed)
	want("behind", false, "to reconcile: the summary of "+id)
	if lines, err := w.c.Reconcile(t.Context(), true); err != nil || !slices.Contains(lines, "sign the summary of "+id) {
		t.Errorf("%q, %v", lines, err)
	}
	if lines, err := w.c.Reconcile(t.Context(), false); err != nil || !slices.Contains(lines, "signed the summary of "+id) {
		t.Errorf("%q, %v", lines, err)
	}
	if said, fault := w.fsck(); fault || strings.Contains(said, "summary of") {
		t.Errorf("caught up: %s", said)
	}
	write(append(slices.Clone(passed[:len(passed)/2]), passed[len(passed)/2+1:]...))
	want("damaged", true, "FAULT evidence of "+id)
	if err := os.Remove(summaryOf(at)); err != nil {
		t.Fatal(err)
	}
	want("missing", true, "FAULT evidence of "+id)
	write(passed)
	want("restored", false, "")
	if _, err := w.c.Reject(t.Context(), id, "una", "on second thought"); err != nil {
		t.Fatal(err)
	}
	want("rejected", false, "")
	write(passed)
	want("kinder than the journal", true, "says PASSED")
	// That of another change is none.
	other := w.run(sallyport.WorkOrder{Name: "other", Task: "t", Command: []string{"sh", "-c", "echo right > value; echo more > more"}})
	theirs, err := os.ReadFile(summaryOf(other))
	if err != nil {
		t.Fatal(err)
	}
	write(theirs)
	want("another's", true, "FAULT evidence of "+id)
}

// unable makes the journal refuse one kind of event until it is called again.
func (w *world) unable(event string) (able func()) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(filepath.Dir(w.repo), "state", "journal.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		w.t.Fatal(err)
	}
	exec := func(q string) {
		w.t.Helper()
		if _, err := db.ExecContext(w.t.Context(), q); err != nil {
			w.t.Fatal(err)
		}
	}
	exec(`CREATE TRIGGER unable BEFORE INSERT ON events WHEN NEW.type = '` + event + `' BEGIN SELECT RAISE(ABORT, 'for the test'); END`)
	return func() { exec(`DROP TRIGGER unable`); db.Close() }
}

// Between what is signed and what is decided anything may come: nothing has passed until then.
func TestNothingPassesBeforeItIsDecided(t *testing.T) {
	w := newWorld(t, shop)
	able := w.unable("attempt.decided")
	at := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > value"}})
	able()
	if at.Report.State != sallyport.AttemptFailed || at.Report.Evidence == "" {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	if said, fault := w.fsck(); fault {
		t.Errorf("%s", said)
	}
}

// An acceptance that is taken back has no summary that says PASSED, also while the new evidence is not signed.
func TestNothingPassesOnceItIsDoubted(t *testing.T) {
	w, m := moody(t, "none", "")
	at := w.fixed()
	m.is("bad")
	able := w.unable("attempt.signed")
	_, err := w.c.Check(t.Context(), string(at.Report.Attempt), "")
	able()
	if err == nil {
		t.Fatal("it was signed")
	}
	b, err := os.ReadFile(summaryOf(at))
	if err != nil {
		t.Fatal(err)
	}
	if _, payload, _ := strings.Cut(string(b), `"payload":"`); !strings.Contains(decoded(t, payload), `"verificationResult":"FAILED"`) {
		t.Errorf("%s", decoded(t, payload))
	}
}

func decoded(t *testing.T, payload string) string {
	t.Helper()
	payload, _, _ = strings.Cut(payload, `"`)
	b, err := base64.StdEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
