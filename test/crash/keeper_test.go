package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// slow is an agent that does half of its work and then waits for a file that never comes.
const slow = `echo ran >> ran; echo half > half; echo hello from the agent; while ! test -e go; do sleep 0.05; done`

// continued is an agent that goes on from what slow left.
const continued = `test -e half || { echo begins; exec sh -c '` + slow + `'; }; echo goes on; echo right > value; rm half`

// half waits until slow has done what it does.
func (w *world) half(id sallyport.AttemptID) {
	w.t.Helper()
	w.await("the agent's half", func() bool {
		b, err := os.ReadFile(filepath.Join(w.state, "attempts", string(id), "agent.log"))
		return err == nil && strings.Contains(string(b), "hello from the agent")
	})
}

// failedWell judges an Attempt whose sandbox was ended from outside: a reason, and what was written so far.
func (w *world) failedWell(id sallyport.AttemptID, collected bool) sallyport.Report {
	w.t.Helper()
	rep, code := w.wait(id)
	if code != 30 || rep.State != sallyport.AttemptFailed {
		w.t.Fatalf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.story())
	}
	if rep.Reason.Code == "" || rep.Reason.Code == "internal" || rep.Reason.Message == "" || rep.Reason.Hint == "" {
		w.t.Errorf("no reason that a person can act on: %+v", rep.Reason)
	}
	if refs := w.git("for-each-ref", "refs/heads/sallyport/"); refs != "" {
		w.t.Errorf("a failed attempt made a branch: %s", refs)
	}
	got := ""
	for _, c := range rep.Changes {
		got += c.Path + " "
	}
	if want := map[bool]string{true: "half ran ", false: ""}[collected]; got != want {
		w.t.Errorf("collected %q, want %q\n%s", got, want, w.story())
	}
	w.tidy()
	return rep
}

func TestKeeperIsKilledInMidRun(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "first process"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.start(continued)
			w.half(id)
			_, keeper, first := w.sandbox(sallyport.PurposeExecute)
			w.kill(map[string]int{"keeper": keeper, "first process": first}[who])
			rep := w.failedWell(id, true)
			if rep.Reason.Code != "sandbox-lost" {
				t.Errorf("reason %+v", rep.Reason)
			}
			r := w.sallyport("retry", string(id))
			if r.code != 0 || w.git("show", "sallyport/job:value") != "right" || w.git("show", "sallyport/job:ran") != "ran" {
				t.Errorf("the retry did not go on from there: exit %d\n%s%s", r.code, r.out, r.err)
			}
			w.tidy()
		})
	}
}

// Nobody drives while the keeper dies: whoever adopts collects.
func TestKeeperAndDriverAreKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start(slow)
	w.half(id)
	_, keeper, _ := w.sandbox(sallyport.PurposeExecute)
	w.kill(w.driver())
	w.kill(keeper)
	w.must(0, "reconcile")
	w.awaitEnd(id)
	w.failedWell(id, true)
}

// TestKeeperIsKilledBeforeTheStart: whatever comes of it, it is an end with a reason or none the worse.
func TestKeeperIsKilledBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"sallyport-keeper", "sallyport-runner"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.command("run", "-d", "--name", w.name, "-m", "make it right", "--", "sh", "-c", agent)
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			// By its arguments only, as early as it can be seen.
			pid := 0
			w.await("the first sandbox", func() bool {
				for _, p := range w.processes() {
					if p.args[0] == who {
						pid = p.pid
					}
				}
				return pid != 0
			})
			w.kill(pid)
			if err := run.Wait(); err != nil {
				t.Fatal(err)
			}
			list, err := w.list()
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			id := list[0].Attempt
			w.awaitEnd(id)
			rep, _ := w.wait(id)
			t.Logf("%s: %+v", rep.State, rep.Reason)
			switch rep.State {
			case sallyport.AttemptAccepted:
				w.accepted(id) // it was a base check's: that one is made again
			default:
				w.failedWell(id, false)
			}
		})
	}
}

// bulky leaves enough behind for a collection to take a while.
const bulky = `echo ran >> ran; echo half > half; echo hello from the agent; i=0; while [ $i -lt 3000 ]; do echo $i > bulk.$i; i=$((i+1)); done; echo right > value`

// TestCollectorIsKilled: the agent has ended, and what it left is being read.
func TestCollectorIsKilled(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "collector"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.start(bulky)
			w.awaitEvent(lifecycle.AttemptStage, `"collecting"`)
			pid := 0
			w.await("the collector", func() bool {
				_, keeper, collector := w.sandbox(sallyport.PurposeExecute)
				if pid = keeper; who == "collector" {
					pid = collector
				}
				return pid != 0 || w.count(lifecycle.AttemptBundle, "", id) > 0
			})
			if w.count(lifecycle.AttemptBundle, "", id) > 0 {
				t.Fatalf("it was over before it could be killed\n%s", w.story())
			}
			w.kill(pid)
			rep, code := w.wait(id)
			if code != 0 || len(rep.Changes) != 3003 {
				t.Errorf("exit %d, %s %+v, %d changes, want 3003\n%s", code, rep.State, rep.Reason, len(rep.Changes), w.story())
			}
			w.tidy()
		})
	}
}

// TestCheckLosesItsSandbox: a check whose sandbox is ended from outside, each time it runs, is an error and never
// an answer; what the base's loss would have said is not remembered either.
func TestCheckLosesItsSandbox(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "first process"} {
		for purpose, where := range map[sallyport.Purpose]string{sallyport.PurposeValidate: "right", sallyport.PurposeBase: "wrong"} {
			t.Run(fmt.Sprint(who, " ", purpose), func(t *testing.T) {
				t.Parallel()
				// Only there it would run for ever.
				w := newWorldWith(t, "sh test.sh", "if grep -q "+where+" value; then while true; do sleep 0.05; done; fi\n")
				id := w.start(`echo right > value`)
				kills := 0
				w.await("the end", func() bool {
					if a, keeper, first := w.sandbox(purpose); first != 0 && w.countOf(lifecycle.AllocationRunning, a) > 0 {
						w.kill(map[string]int{"keeper": keeper, "first process": first}[who])
						kills++
					}
					return w.count(lifecycle.LeaseReleased, "", id) > 0
				})
				rep, code := w.wait(id)
				t.Logf("killed %d times: exit %d, %s, %+v, checks %+v", kills, code, rep.State, rep.Reason, rep.Checks)
				if kills == 0 || len(rep.Checks) != 1 || rep.Reason.Message == "" {
					t.Fatalf("%d kills, %+v\n%s", kills, rep, w.story())
				}
				k := rep.Checks[0]
				if purpose == sallyport.PurposeValidate && (code != 20 || k.Status != sallyport.CheckError || rep.State != sallyport.AttemptRejected) {
					t.Errorf("exit %d, %s, %+v", code, rep.State, k)
				}
				if purpose == sallyport.PurposeBase {
					if k.BaseStatus != sallyport.CheckError {
						t.Errorf("the base's status is %q", k.BaseStatus)
					}
					if left, _ := filepath.Glob(filepath.Join(w.state, "base-checks", "*.json")); len(left) > 0 {
						t.Errorf("remembered: %v", left)
					}
				}
				w.tidy()
			})
		}
	}
}

func (w *world) countOf(t lifecycle.Type, a sallyport.AllocationID) int {
	n := 0
	for _, e := range w.events() {
		if e.Type == t && e.Allocation == a {
			n++
		}
	}
	return n
}

func (w *world) report(id sallyport.AttemptID) sallyport.Report {
	w.t.Helper()
	list, err := w.list()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range list {
		if r.Attempt == id {
			return r
		}
	}
	w.t.Fatalf("no %s in ps -a", id)
	return sallyport.Report{}
}
