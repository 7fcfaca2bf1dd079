package control_test

import (
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// What the old key signed stays verifiable, and each rotation is journalled once.
func TestRotateKey(t *testing.T) {
	w := newWorld(t, shop)
	at := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > value"}})
	if at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%+v", at.Report.Reason)
	}
	for range 2 {
		if err := w.c.RotateKey(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	events, err := w.c.Journal().Events(t.Context(), "", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == lifecycle.KeyRotated {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d rotations in the journal, want 2", n)
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if at := w.run(sallyport.WorkOrder{Name: "second", Task: "t2", Command: []string{"sh", "-c", "echo right > value"}}); at.Report.State != sallyport.AttemptAccepted {
		t.Errorf("after a rotation: %+v", at.Report.Reason)
	}
}
