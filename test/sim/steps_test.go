package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

func calm(t *testing.T, publish string) Result {
	t.Helper()
	r := Run(&chooser{}, Options{Calm: true, Trace: true, Order: &Order{Checks: 1, Publish: publish, Approve: "never", Attempts: 1, AtBest: sallyport.DecisionAccepted}})
	if r.Law != "" {
		t.Fatal(r.Law, r.What)
	}
	return r
}

// TestOrderOfSteps: without a fault the parties go through the table, and with faults through nothing that is in none.
func TestOrderOfSteps(t *testing.T) {
	var got, want []string
	for _, does := range calm(t, "pr").Taken {
		if !strings.HasSuffix(does, ": renew") && !strings.HasPrefix(does, "mission control: ") {
			got = append(got, does)
		}
	}
	known := map[string]bool{}
	for _, s := range mainJob {
		want = append(want, s.who+": "+s.does)
		known[s.who+": "+s.does] = true
	}
	if !slices.Equal(got, want) {
		t.Errorf("taken:\n%s\nthe table:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range elsewhere {
		known[s.who+": "+s.does] = true
	}
	missed := map[string]bool{}
	for s := range uint64(2000) {
		for _, does := range Run(fresh(s), Options{Trace: true}).Taken {
			if !known[does] && !missed[does] {
				missed[does] = true
				t.Errorf("seed %d takes a step that no table has: %s", s, does)
			}
		}
	}
}

// TestStepsAreInTheCode: the functions that the tables name are there.
func TestStepsAreInTheCode(t *testing.T) {
	sources, asked := map[string]string{}, map[string]bool{}
	for _, s := range slices.Concat(mainJob, elsewhere) {
		if sources[s.room] == "" {
			files, err := filepath.Glob(filepath.Join("../..", s.room, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatal(s.room, err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[s.room] += string(b)
			}
		}
		if asked[s.room+s.in] {
			continue
		}
		asked[s.room+s.in] = true
		if !regexp.MustCompile(`(?m)^func (\(\w+ \*?\w+\) )?` + s.in + `\(`).MatchString(sources[s.room]) {
			t.Errorf("%s has no %s, which does %q", s.room, s.in, s.does)
		}
	}
}

// TestPathIsTheRealOne: a real driver's journal (TestPathOfTheMainJob of internal/control) and a real Publisher's points
// (TestKilled of internal/publisher), as they recorded them, are what the parties here do.
func TestPathIsTheRealOne(t *testing.T) {
	var path, beside []string
	purposes := map[sallyport.AllocationID]sallyport.Purpose{}
	for _, e := range calm(t, "branch").Events {
		line := string(e.Type)
		switch e.Type {
		case lifecycle.LeaseReleased:
			continue
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
		p := purposes[e.Allocation]
		if p != "" {
			line += " of " + string(p)
		}
		if p == sallyport.PurposeBase {
			beside = append(beside, line)
		} else if len(path) == 0 || path[len(path)-1] != "publication.done" { // what reconcile does after it
			path = append(path, line)
		}
	}
	b, err := os.ReadFile("../../internal/control/testdata/main-job.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(append(path, "beside it:"), beside...), "\n") + "\n"; got != string(b) {
		t.Errorf("the simulation's driver:\n%s\nthe real one:\n%s", got, b)
	}

	if b, err = os.ReadFile("../../internal/publisher/testdata/killed.golden"); err != nil {
		t.Fatal(err)
	}
	var real, ours []string
	for _, m := range regexp.MustCompile(`(?m)^\| first: before (\S+) `).FindAllStringSubmatch(string(b), -1) {
		real = append(real, m[1])
	}
	for _, s := range mainJob {
		if s.who == "publisher" && !slices.Contains([]string{"find", "get", "tip"}, s.does) { // looking changes nothing
			ours = append(ours, strings.TrimSuffix(s.does, " a pull request"))
		}
	}
	if !slices.Equal(real, ours) {
		t.Errorf("the real Publisher: %v\nthe simulation's: %v", real, ours)
	}
}
