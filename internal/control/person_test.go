package control_test

import (
	"os"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// What a person accepts is to be published from the same moment on: whatever comes between that word and the branch, there is
// either no word yet, or somebody who goes on.
func TestApprovedIsPublished(t *testing.T) {
	w := newWorld(t, map[string]string{"sallyport.yaml": strings.Replace(policy, "approve: on-finding", "approve: always", 1), "value": "wrong\n", "test.sh": "grep -q right value\n"})
	at := w.run(sallyport.WorkOrder{Name: "job", Task: "t", Command: []string{"sh", "-c", "echo right > value"}})
	id := string(at.Report.Attempt)
	able := w.unable("publication.intended")
	_, err := w.c.Approve(t.Context(), id, "una", "read it")
	able()
	if after, _ := w.c.Attempt(t.Context(), id); err == nil || after.Report.State != sallyport.AttemptAwaitingApproval {
		t.Fatalf("%v, and it is %s, with nobody to publish it", err, after.Report.State)
	}
	// The summary is what comes next. It cannot be written.
	summary, err := os.ReadFile(summaryOf(at))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(summaryOf(at)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(summaryOf(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Approve(t.Context(), id, "una", "read it"); err == nil {
		t.Fatal("a summary took the place of a folder")
	}
	if err := os.Remove(summaryOf(at)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(summaryOf(at), summary, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Reconcile(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if after, err := w.c.Attempt(t.Context(), id); err != nil || after.Report.State != sallyport.AttemptAccepted || !after.Published {
		t.Errorf("%s, published %v, %v", after.Report.State, after.Published, err)
	}
	if said, fault := w.fsck(); fault || strings.Contains(said, "to reconcile") {
		t.Error(said)
	}
}
