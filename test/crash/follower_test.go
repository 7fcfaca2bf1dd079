package crash_test

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// follow starts `run` in the foreground, without a terminal, and returns once its Attempt has got to event.
func (w *world) follow(script string, event lifecycle.Type, text string) (*exec.Cmd, *bytes.Buffer, sallyport.AttemptID) {
	w.t.Helper()
	run := w.command("run", "--name", w.name, "-m", "make it right", "--", "sh", "-c", script)
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.awaitEvent(event, text)
	for _, e := range w.events() {
		if e.Type == lifecycle.AttemptCreated {
			return run, &said, e.Attempt
		}
	}
	w.t.Fatalf("no attempt\n%s", w.story())
	return nil, nil, ""
}

// gated is an agent that works until the journal has a notice of its start, and a moment longer.
const gated = `echo hello from the agent; sleep 0.3; echo ran >> ran; echo right > value`

func TestFollowerIsKilled(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run, _, id := w.follow(gated, lifecycle.AllocationRunning, "")
			driver := w.driver()
			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = run.Wait()
			w.awaitEnd(id)
			if n := w.count(lifecycle.LeaseAcquired, "", id); n != 1 || driver == 0 {
				t.Errorf("%d drivers, want the first one (%d) to go on\n%s", n, driver, w.story())
			}
			w.accepted(id)
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
			run, said, id := w.follow(continued, lifecycle.AllocationRunning, "")
			w.half(id)
			if err := run.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(run.Wait()); code != c.code {
				t.Errorf("exit %d, want %d\n%s", code, c.code, said)
			}
			if !strings.Contains(said.String(), "-d") {
				t.Errorf("it does not name -d:\n%s", said)
			}
			w.cancelledWell(id, true)
			if r := w.sallyport("retry", string(id)); r.code != 0 || w.git("show", "sallyport/job:ran") != "ran" {
				t.Errorf("the retry did not go on from there: exit %d\n%s%s", r.code, r.out, r.err)
			}
			w.tidy()
		})
	}
}

// TestSecondInterruptDoesNotWait: the command line ends at once, also while the driver cannot act.
func TestSecondInterruptDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, said, id := w.follow(slow, lifecycle.AllocationRunning, "")
	w.half(id)
	driver := w.driver()
	if err := syscall.Kill(driver, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.awaitEvent(lifecycle.CancelRequested, "")
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(run.Wait()); code != 130 {
		t.Errorf("exit %d, want 130\n%s", code, said)
	}
	if err := syscall.Kill(driver, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.awaitEnd(id)
	w.cancelledWell(id, true)
}

func (w *world) cancelledWell(id sallyport.AttemptID, collected bool) {
	w.t.Helper()
	rep, code := w.wait(id)
	if code != 130 || rep.State != sallyport.AttemptCancelled || rep.Reason.Message == "" {
		w.t.Fatalf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.story())
	}
	if collected && len(rep.Changes) != 2 {
		w.t.Errorf("collected %+v\n%s", rep.Changes, w.story())
	}
	if refs := w.git("for-each-ref", "refs/heads/sallyport/"); refs != "" {
		w.t.Errorf("a cancelled attempt made a branch: %s", refs)
	}
	w.tidy()
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
				check, script := "grep -q right value\n", slow
				if p.stops == "check" {
					check, script = "grep -q wrong value || while true; do sleep 0.05; done\n", `echo ran >> ran; echo right > value`
				}
				w := newWorldWith(t, "sh test.sh", check)
				run := w.command("run", "-d", "--name", w.name, "-m", "make it right", "--", "sh", "-c", script)
				if err := run.Start(); err != nil {
					t.Fatal(err)
				}
				w.awaitEvent(p.event, p.text)
				if driver == "dead" {
					if p.event == lifecycle.AttemptCreated {
						_ = run.Process.Kill() // before it has started one, perhaps
					}
					_ = run.Wait()
					if pid := w.driver(); pid != 0 {
						w.kill(pid)
					}
				}
				id := w.events()[0].Attempt
				w.must(0, "cancel", string(id), "--why", "wrong branch")
				_ = run.Wait()
				w.awaitEnd(id)
				w.cancelledWell(id, false)
			})
		}
	}
}
