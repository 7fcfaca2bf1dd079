package crash_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// follow starts `run` in the foreground, without a terminal, and returns once its Attempt has got to event.
func follow(w *world.World, script string, event lifecycle.Type, text string) (*exec.Cmd, *bytes.Buffer, sallyport.AttemptID) {
	w.T.Helper()
	run := w.Verb("run", "--name", "job", "-m", "make it right", "--", "sh", "-c", script)
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.AwaitEvent(event, text)
	return run, &said, w.Created()
}

// gated is an agent that works until the journal has a notice of its start, and a moment longer.
const gated = `echo hello from the agent; sleep 0.3; echo ran >> ran; echo right > value`

func TestFollowerIsKilled(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run, _, id := follow(w, gated, lifecycle.AllocationRunning, "")
			driver := w.Driver()
			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = run.Wait()
			awaitEnd(w, id)
			if n := w.Count(lifecycle.LeaseAcquired, "", id); n != 1 || driver == 0 {
				t.Errorf("%d drivers, want the first one (%d) to go on\n%s", n, driver, w.Story())
			}
			accepted(w, id)
		})
	}
}

// TestInterrupt: Ctrl-C and its kin reach the command line only; what was collected is kept.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig  syscall.Signal
		code int
	}{"INT": {syscall.SIGINT, 130}, "TERM": {syscall.SIGTERM, 143}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run, said, id := follow(w, continued, lifecycle.AllocationRunning, "")
			half(w, id)
			if err := run.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			if code := w.WaitFor(run); code != c.code {
				t.Errorf("exit %d, want %d\n%s", code, c.code, said)
			}
			if !strings.Contains(said.String(), "-d") {
				t.Errorf("it does not name -d:\n%s", said)
			}
			cancelledWell(w, id, true)
			if r := w.Sallyport("retry", string(id)); r.Code != 0 || w.Git("show", "sallyport/job:ran") != "ran" {
				t.Errorf("the retry did not go on from there: exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			tidy(w)
		})
	}
}

// TestSecondInterruptDoesNotWait: the command line ends at once, also while the driver cannot act.
func TestSecondInterruptDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, said, id := follow(w, slow, lifecycle.AllocationRunning, "")
	half(w, id)
	driver := w.Driver()
	if !pauseAfter(w, driver, lifecycle.AllocationRunning, "") {
		t.Fatalf("the driver ended before it could be stopped\n%s", w.Story())
	}
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.AwaitEvent(lifecycle.CancelRequested, "")
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := w.WaitFor(run); code != 130 {
		t.Errorf("exit %d, want 130\n%s", code, said)
	}
	if err := syscall.Kill(driver, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitEnd(w, id)
	cancelledWell(w, id, true)
}

func cancelledWell(w *world.World, id sallyport.AttemptID, collected bool) {
	w.T.Helper()
	rep, code := w.Wait(id)
	if code != 130 || rep.State != sallyport.AttemptCancelled || rep.Reason.Message == "" {
		w.T.Fatalf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.Story())
	}
	if collected && len(rep.Changes) != 2 {
		w.T.Errorf("collected %+v\n%s", rep.Changes, w.Story())
	}
	if refs := w.Git("for-each-ref", "refs/heads/sallyport/"); refs != "" {
		w.T.Errorf("a cancelled attempt made a branch: %s", refs)
	}
	tidy(w)
}

// TestCancelDuringCollection: nobody waits for a result that does not come, and nothing of it is kept.
func TestCancelDuringCollection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, bulky)
	stopCollector(w, id)
	began := time.Now()
	w.Sallyport("cancel", string(id)).Want(0)
	awaitEnd(w, id)
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := w.Count(lifecycle.AttemptBundle, "", id); n != 0 {
		t.Errorf("%d bundles of a collection that was cut short", n)
	}
	if n := w.Count(lifecycle.AttemptNotice, "was not collected", id); n != 1 {
		t.Errorf("the loss is noted %d times, want 1\n%s", n, w.Story())
	}
	if left, _ := filepath.Glob(filepath.Join(w.State, "quarantine", "*")); len(left) > 0 {
		t.Errorf("left in quarantine: %v", left)
	}
	cancelledWell(w, id, false)
}

// stopCollector stops the collector, once there is one, before its result is in quarantine.
func stopCollector(w *world.World, id sallyport.AttemptID) {
	w.T.Helper()
	w.AwaitEvent(lifecycle.AttemptStage, `"collecting"`)
	pid := 0
	w.Await("the collector", func() bool {
		_, _, pid = w.Sandbox(sallyport.PurposeExecute)
		return pid != 0 || w.Count(lifecycle.AttemptBundle, "", id) > 0
	})
	if pid != 0 {
		w.Must(syscall.Kill(pid, syscall.SIGSTOP))
	}
	if w.Count(lifecycle.AttemptBundle, "", id) > 0 {
		w.T.Fatalf("it was over before it could be stopped\n%s", w.Story())
	}
}

// TestCancelAtEachStage, by a living driver and by the one that replaces a dead one.
func TestCancelAtEachStage(t *testing.T) {
	t.Parallel()
	type point struct {
		event lifecycle.Type
		text  string
		stops string // the agent or the check waits there
	}
	for name, p := range map[string]point{
		"queued":     {lifecycle.AttemptCreated, "", "agent"},
		"preparing":  {lifecycle.AttemptStage, `"preparing"`, "agent"},
		"running":    {lifecycle.AllocationRunning, "", "agent"},
		"validating": {lifecycle.AllocationIntended, `"validate"`, "check"},
	} {
		for _, driver := range []string{"alive", "dead"} {
			t.Run(name+" "+driver, func(t *testing.T) {
				t.Parallel()
				check, script := right, slow
				if p.stops == "check" {
					check, script = "grep -q wrong value || while true; do sleep 0.05; done\n", `echo ran >> ran; echo right > value`
				}
				w := newWorldWith(t, check)
				run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", script)
				if err := run.Start(); err != nil {
					t.Fatal(err)
				}
				w.AwaitEvent(p.event, p.text)
				if driver == "dead" {
					if p.event == lifecycle.AttemptCreated {
						_ = run.Process.Kill() // before it has started one, perhaps
					}
					_ = run.Wait()
					if pid := w.Driver(); pid != 0 {
						w.Kill(pid)
					}
				}
				id := w.Events()[0].Attempt
				w.Sallyport("cancel", string(id), "--why", "wrong branch").Want(0)
				_ = run.Wait()
				awaitEnd(w, id)
				cancelledWell(w, id, false)
				if rep := w.Show(id); !strings.Contains(rep.Reason.Message, "wrong branch") {
					t.Errorf("the reason does not say why: %+v", rep.Reason)
				}
			})
		}
	}
}
