package control_test

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// Where the end of the agent's sandbox cannot be recorded, the reason is the journal's, and not that a sandbox which was destroyed
// is not there.
func TestEndThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t, shop)
	able := w.unable("allocation.terminated")
	at := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > value"}})
	able()
	if at.Report.State != sallyport.AttemptFailed || !strings.Contains(at.Report.Reason.Message, "journal") || strings.Contains(at.Report.Reason.Message, "lookup") {
		t.Errorf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	if at.Report.Bundle == "" {
		t.Error("the result is not kept")
	}
	if _, err := w.c.Reconcile(t.Context(), false); err != nil {
		t.Error(err)
	}
	if said, fault := w.fsck(); fault || strings.Contains(said, "to reconcile") {
		t.Error(said)
	}
}
