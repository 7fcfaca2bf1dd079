package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// setupWorld has a setup that leaves something else each time it runs, and a check that wants what the agent saw.
func setupWorld(t *testing.T) *world.World {
	t.Helper()
	w := newWorldWith(t, "grep -q right value && cmp deps/id id && cmp deps/id $HOME/id\n")
	w.File(".gitignore", "deps/\n")
	w.File("sallyport.yaml", "version: 1\nsetup:\n  - run: mkdir deps && head -c 12 /dev/urandom | od -An -tx1 > deps/id && sleep 0.2 && cp deps/id $HOME/id && echo setup ran\n"+
		"checks:\n  - {name: test, run: sh test.sh, timeout: 1m}\npublish: {to: branch, approve: on-finding}\n")
	w.Commit("with setup")
	return w
}

const setupAgent = agent + "; cp deps/id id"

// killInSetup starts the agent, kills its driver when now says so, and has the n-th recovery bring it to its end.
func killInSetup(w *world.World, n int, now func() bool) {
	w.T.Helper()
	run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", setupAgent)
	run.Stderr = os.Stderr
	w.Must(run.Start())
	pid := 0
	w.Await("the driver", func() bool { pid = w.Driver(); return pid != 0 })
	for !now() && !world.Dead(pid) {
		time.Sleep(200 * time.Microsecond)
	}
	w.Kill(pid)
	w.Must(run.Wait())
	id := w.Created()
	pickUp(w, n, id)
	accepted(w, id)
	rep := w.Show(id)
	// One of the recoveries is another Attempt, which may have run it first.
	if len(rep.Setup) != 1 || rep.Setup[0].Status != sallyport.SetupDone || rep.Setup[0].Reused != "" && len(w.List()) == 1 {
		w.T.Errorf("setup %+v\n%s", rep.Setup, w.Story())
	}
	begun := w.Count(lifecycle.AttemptSetup, `"running"`, id)
	if rep.Setup[0].Reused != "" {
		begun++ // by the other one
	}
	if cut := rep.Setup[0].Cut; begun > 1 && cut != begun-1 && len(w.List()) == 1 || cut > 0 && !strings.Contains(strings.Join(rep.NotChecked, "\n"), "what it sent then was not counted") {
		w.T.Errorf("begun %d times, cut %d, not checked %q", begun, cut, rep.NotChecked)
	}
	kept, err := filepath.Glob(filepath.Join(w.State, "setup/*/layer_*"))
	w.Must(err)
	records, err := filepath.Glob(filepath.Join(w.State, "setup/*/result.json"))
	w.Must(err)
	if len(kept) != 1 || len(records) != 1 || !strings.HasSuffix(kept[0], rep.Setup[0].Left) { // after accepted's gc
		w.T.Errorf("%q, %q, the report names %s", kept, records, rep.Setup[0].Left)
	}
}

// TestDriverIsKilledInSetup: killed after each event from the beginning to the agent's start, and in the middle of
// the command. Agent, base and checks see what one and the same run left, and nothing else is kept.
func TestDriverIsKilledInSetup(t *testing.T) {
	w := setupWorld(t)
	id := w.Start("job", setupAgent)
	awaitEnd(w, id)
	accepted(w, id)
	last := int64(0)
	for _, e := range w.Events() {
		if e.Type == lifecycle.AttemptStage && strings.Contains(e.Data, `"running"`) {
			last = e.Seq
		}
	}
	if last < 10 {
		t.Fatalf("the agent ran after %d events\n%s", last, w.Story())
	}
	for n := int64(3); n <= last; n++ {
		t.Run(fmt.Sprintf("%02d", n), func(t *testing.T) {
			t.Parallel()
			w := setupWorld(t)
			killInSetup(w, int(n), func() bool { return w.Last() >= n })
		})
	}
	for i := range 4 {
		t.Run(fmt.Sprintf("within %d", i), func(t *testing.T) {
			t.Parallel()
			w := setupWorld(t)
			var began time.Time
			killInSetup(w, i, func() bool {
				if began.IsZero() && w.Count(lifecycle.AllocationRunning, "") > 0 {
					began = time.Now()
				}
				return !began.IsZero() && time.Since(began) > time.Duration(i)*80*time.Millisecond
			})
		})
	}
}

// TestTwoSetupsAtOnce: two Attempts on the same base run it beside each other; one result is what both are shown.
func TestTwoSetupsAtOnce(t *testing.T) {
	t.Parallel()
	w := setupWorld(t)
	var ids []sallyport.AttemptID
	for _, name := range []string{"one", "two"} {
		ids = append(ids, w.Start(name, setupAgent))
	}
	left := map[string]bool{}
	for _, id := range ids {
		awaitEnd(w, id)
		rep, code := w.Wait(id)
		if code != 0 || len(rep.Setup) != 1 {
			t.Fatalf("exit %d %+v %+v\n%s", code, rep.Reason, rep.Setup, w.Story())
		}
		left[rep.Setup[0].Left] = true
	}
	if len(left) != 1 || w.Git("show", "sallyport/one:id") != w.Git("show", "sallyport/two:id") {
		t.Errorf("two results: %v", left)
	}
}

// TestCancelInSetup: a person need not wait for a setup.
func TestCancelInSetup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.File("sallyport.yaml", "version: 1\nsetup:\n  - {run: sleep 300}\nchecks:\n  - {name: test, run: sh test.sh}\n")
	w.Commit("slow")
	id := w.Start("job", agent)
	w.AwaitEvent(lifecycle.AllocationRunning, "")
	w.Sallyport("cancel", string(id)).Want(0)
	awaitEnd(w, id)
	if rep := w.Show(id); rep.State != sallyport.AttemptCancelled || rep.Agent.Ran() {
		t.Errorf("%s %+v\n%s", rep.State, rep.Reason, w.Story())
	}
	tidy(w)
	if kept, _ := filepath.Glob(filepath.Join(w.State, "setup/*/layer_*")); len(kept) != 0 {
		t.Errorf("kept: %q", kept)
	}
}
