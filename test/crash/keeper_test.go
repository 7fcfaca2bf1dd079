package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// slow is an agent that does half of its work and then waits for a file that never comes.
const slow = `echo ran >> ran; echo half > half; echo hello from the agent; while ! test -e go; do sleep 0.05; done`

// continued is an agent that goes on from what slow left.
const continued = `test -e half || { echo begins; exec sh -c '` + slow + `'; }; echo goes on; echo right > value; rm half`

// half waits until slow has done what it does.
func half(w *world.World, id sallyport.AttemptID) {
	w.T.Helper()
	w.Await("the agent's half", func() bool {
		b, err := os.ReadFile(filepath.Join(w.State, "attempts", string(id), "agent.log"))
		return err == nil && strings.Contains(string(b), "hello from the agent")
	})
}

// failedWell judges an Attempt whose sandbox was ended from outside: a reason, and what was written so far.
func failedWell(w *world.World, id sallyport.AttemptID, collected bool) sallyport.Report {
	w.T.Helper()
	rep, code := w.Wait(id)
	if code != 30 || rep.State != sallyport.AttemptFailed {
		w.T.Fatalf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.Story())
	}
	if rep.Reason.Code == "" || rep.Reason.Code == "internal" || rep.Reason.Message == "" || rep.Reason.Hint == "" {
		w.T.Errorf("no reason that a person can act on: %+v", rep.Reason)
	}
	if refs := w.Git("for-each-ref", "refs/heads/sallyport/"); refs != "" {
		w.T.Errorf("a failed attempt made a branch: %s", refs)
	}
	got := ""
	for _, c := range rep.Changes {
		got += c.Path + " "
	}
	if want := map[bool]string{true: "half ran ", false: ""}[collected]; got != want {
		w.T.Errorf("collected %q, want %q\n%s", got, want, w.Story())
	}
	tidy(w)
	return rep
}

func TestKeeperIsKilledInMidRun(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "first process"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := start(w, continued)
			half(w, id)
			_, keeper, first := w.Sandbox(sallyport.PurposeExecute)
			w.Kill(map[string]int{"keeper": keeper, "first process": first}[who])
			rep := failedWell(w, id, true)
			if rep.Reason.Code != "sandbox-lost" {
				t.Errorf("reason %+v", rep.Reason)
			}
			r := w.Sallyport("retry", string(id))
			if r.Code != 0 || w.Git("show", "sallyport/job:value") != "right" || w.Git("show", "sallyport/job:ran") != "ran" {
				t.Errorf("the retry did not go on from there: exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			tidy(w)
		})
	}
}

// Nobody drives while the keeper dies: whoever adopts collects.
func TestKeeperAndDriverAreKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, slow)
	half(w, id)
	_, keeper, _ := w.Sandbox(sallyport.PurposeExecute)
	w.Kill(w.Driver())
	w.Kill(keeper)
	w.Sallyport("reconcile").Want(0)
	awaitEnd(w, id)
	failedWell(w, id, true)
}

// TestKeeperIsKilledBeforeTheStart: whatever comes of it, it is an end with a reason or none the worse.
func TestKeeperIsKilledBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"sallyport-keeper", "sallyport-runner"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", agent)
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			// By its arguments only, as early as it can be seen.
			pid := 0
			w.Await("the first sandbox", func() bool {
				for _, p := range w.Processes() {
					if p.Args[0] == who {
						pid = p.PID
					}
				}
				return pid != 0
			})
			w.Kill(pid)
			if err := run.Wait(); err != nil {
				t.Fatal(err)
			}
			list := w.List()
			if len(list) != 1 {
				t.Fatalf("%v", list)
			}
			id := list[0].Attempt
			awaitEnd(w, id)
			rep, _ := w.Wait(id)
			t.Logf("%s: %+v", rep.State, rep.Reason)
			switch rep.State {
			case sallyport.AttemptAccepted:
				accepted(w, id) // it was a base check's: that one is made again
			default:
				failedWell(w, id, false)
			}
		})
	}
}

// bulky leaves enough behind for a collection to take a while.
const bulky = `echo ran >> ran; echo half > half; echo hello from the agent; i=0; while [ $i -lt 900 ]; do seq $i $((i+4000)) > bulk.$i; i=$((i+1)); done; echo right > value`

// TestCollectorIsKilled: the agent has ended, and what it left is being read.
func TestCollectorIsKilled(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "collector"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := start(w, bulky)
			w.AwaitEvent(lifecycle.AttemptStage, `"collecting"`)
			pid := 0
			w.Await("the collector", func() bool {
				_, keeper, collector := w.Sandbox(sallyport.PurposeExecute)
				if pid = keeper; who == "collector" {
					pid = collector
				}
				return pid != 0 || w.Count(lifecycle.AttemptBundle, "", id) > 0
			})
			if w.Count(lifecycle.AttemptBundle, "", id) > 0 {
				t.Fatalf("it was over before it could be killed\n%s", w.Story())
			}
			w.Kill(pid)
			rep, code := w.Wait(id)
			if code != 0 || len(rep.Changes) != 903 {
				t.Errorf("exit %d, %s %+v, %d changes, want 903\n%s", code, rep.State, rep.Reason, len(rep.Changes), w.Story())
			}
			tidy(w)
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
				w := newWorldWith(t, "if grep -q "+where+" value; then while true; do sleep 0.05; done; fi\n")
				id := start(w, `echo right > value`)
				kills := 0
				w.Await("the end", func() bool {
					// One without the other is on its way out already.
					if a, keeper, first := w.Sandbox(purpose); keeper != 0 && first != 0 && w.CountOf(lifecycle.AllocationRunning, a) > 0 {
						w.Kill(map[string]int{"keeper": keeper, "first process": first}[who])
						kills++
					}
					return w.Count(lifecycle.LeaseReleased, "", id) > 0
				})
				rep, code := w.Wait(id)
				t.Logf("killed %d times: exit %d, %s, %+v, checks %+v", kills, code, rep.State, rep.Reason, rep.Checks)
				if kills == 0 || len(rep.Checks) != 1 || rep.Reason.Message == "" {
					t.Fatalf("%d kills, %+v\n%s", kills, rep, w.Story())
				}
				k := rep.Checks[0]
				if purpose == sallyport.PurposeValidate && (code != 20 || k.Status != sallyport.CheckError || rep.State != sallyport.AttemptRejected) {
					t.Errorf("exit %d, %s, %+v", code, rep.State, k)
				}
				if purpose == sallyport.PurposeBase {
					if k.BaseStatus != sallyport.CheckError {
						t.Errorf("the base's status is %q", k.BaseStatus)
					}
					if left, _ := filepath.Glob(filepath.Join(w.State, "base-checks", "*.json")); len(left) > 0 {
						t.Errorf("remembered: %v", left)
					}
				}
				tidy(w)
			})
		}
	}
}
