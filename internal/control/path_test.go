package control_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

var update = flag.Bool("update", false, "rewrite testdata/main-job.golden, by which test/sim goes; review the difference as code")

// TestPathOfTheMainJob: the events of a run of the main job, in their order, are those of testdata. The simulation's driver
// is held to the same file. What runs beside the agent is listed apart, since it comes in between at any moment; what is said
// for people only is left out.
func TestPathOfTheMainJob(t *testing.T) {
	w := newWorld(t, shop)
	at := w.run(sallyport.WorkOrder{Task: "make it right", Command: []string{"sh", "-c", "echo right > value"}})
	if at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	events, err := w.c.Journal().Events(t.Context(), "", 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	purposes := map[sallyport.AllocationID]sallyport.Purpose{}
	var path, beside []string
	for _, e := range events {
		line := string(e.Type)
		switch e.Type {
		case lifecycle.AttemptNotice, lifecycle.AttemptLog, lifecycle.AttemptEgress:
			continue
		case lifecycle.LeaseReleased:
			continue // whoever follows may read before or after it
		case lifecycle.AttemptStage:
			var p lifecycle.Stage
			if err := json.Unmarshal(e.Data, &p); err != nil {
				t.Fatal(err)
			}
			line += " " + string(p.State)
		case lifecycle.AllocationIntended:
			var p lifecycle.Intended
			if err := json.Unmarshal(e.Data, &p); err != nil {
				t.Fatal(err)
			}
			purposes[e.Allocation] = p.Purpose
		}
		if p := purposes[e.Allocation]; p == sallyport.PurposeBase {
			beside = append(beside, line+" of "+string(p))
			continue
		} else if p != "" {
			line += " of " + string(p)
		}
		path = append(path, line)
	}
	got := strings.Join(append(append(path, "beside it:"), beside...), "\n") + "\n"
	const file = "testdata/main-job.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the path is another one than that of %s; run with -update, review, and have test/sim follow:\n%s", file, got)
	}
}
