package crash_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// recoveries are the commands each of which must pick up what a crash left.
var recoveries = map[string]func(w *world, id sallyport.AttemptID){
	"reconcile": func(w *world, _ sallyport.AttemptID) { w.must(0, "reconcile") },
	"ps":        func(w *world, _ sallyport.AttemptID) { w.must(0, "ps") },
	"attach":    func(w *world, id sallyport.AttemptID) { w.must(0, "attach", string(id)) },
	"wait":      func(w *world, id sallyport.AttemptID) { w.must(0, "wait", string(id)) },
	// The same WorkOrder again: refused while it is live, and it is picked up; where it had just been
	// finished, the second run finds the branch as its own and ends for itself.
	"run": func(w *world, _ sallyport.AttemptID) { w.sallyport("run", "--name", "other", "--", "true") },
}

var recoveryOrder = []string{"reconcile", "ps", "wait", "run", "attach"}

// recover brings id to its end by the n-th of the recoveries, and by nothing else.
func (w *world) recover(n int, id sallyport.AttemptID) {
	w.t.Helper()
	name := recoveryOrder[n%len(recoveryOrder)]
	w.t.Logf("driver killed after event %d; recovery by %s", w.last(), name)
	if w.count(lifecycle.PublicationIntended, "", id) > w.count(lifecycle.PublicationDone, "", id) && (name == "ps" || name == "run") {
		name = "reconcile" // nothing lives any more; what is left is one ref
	}
	recoveries[name](w, id)
	w.awaitEnd(id)
}

// killDriver starts the agent and kills its driver when now says so; now is asked again and again from the
// driver's first moment. It reports whether there was still a driver to kill.
func (w *world) killDriver(now func(began time.Time) bool) (sallyport.AttemptID, bool) {
	w.t.Helper()
	run := w.command("run", "-d", "--name", w.name, "-m", "make it right", "--", "sh", "-c", agent)
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		w.t.Fatal(err)
	}
	pid := 0
	w.await("the driver", func() bool { pid = w.driver(); return pid != 0 })
	began := time.Now()
	for !now(began) && !dead(pid) {
		time.Sleep(200 * time.Microsecond)
	}
	alive := !dead(pid)
	w.kill(pid)
	if err := run.Wait(); err != nil {
		w.t.Fatalf("run -d: %v", err)
	}
	for _, e := range w.events() {
		if e.Type == lifecycle.AttemptCreated {
			return e.Attempt, alive
		}
	}
	w.t.Fatalf("no attempt\n%s", w.story())
	return "", false
}

// points is how many moments of a driver's life are tried; SALLYPORT_CRASH_POINTS makes the grid finer.
func points(t *testing.T, usual int) int {
	n := usual
	if s := os.Getenv("SALLYPORT_CRASH_POINTS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("SALLYPORT_CRASH_POINTS: %q is no number above 0", s)
		}
	}
	return n
}

// TestDriverIsKilledAtAnyTime sweeps over a driver's life in time.
func TestDriverIsKilledAtAnyTime(t *testing.T) {
	var life time.Duration
	w := newWorld(t).cold()
	id, alive := w.killDriver(func(began time.Time) bool { life = time.Since(began); return false })
	if alive {
		t.Fatal("the driver did not end by itself")
	}
	w.accepted(id)
	t.Logf("a driver's life is %v", life)
	n := points(t, 20)
	for i := range n {
		after := life * time.Duration(i) / time.Duration(n)
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if i%2 == 0 {
				w.cold()
			}
			id, alive := w.killDriver(func(began time.Time) bool { return time.Since(began) >= after })
			t.Logf("after %v, alive %v", after, alive)
			w.recover(i, id)
			w.accepted(id)
		})
	}
}

// TestDriverIsKilledAfterEachEvent takes each durable step as a point, on either side of which lies an effect.
func TestDriverIsKilledAfterEachEvent(t *testing.T) {
	w := newWorld(t)
	id := w.start(agent)
	w.awaitEnd(id)
	last := w.last()
	if last < 20 {
		t.Fatalf("only %d events\n%s", last, w.story())
	}
	for n := int64(1); n <= last; n++ {
		t.Run(fmt.Sprintf("%02d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, _ := w.killDriver(func(time.Time) bool { return w.last() >= n })
			w.recover(int(n), id)
			w.accepted(id)
		})
	}
}

// TestEveryDriverIsKilled: each driver in turn lives a little longer than the one before; the Attempt gets to
// its end all the same, once.
func TestEveryDriverIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.killDriver(func(time.Time) bool { return w.last() >= 2 })
	for n := 1; ; n++ {
		if n > 100 {
			t.Fatalf("no end\n%s", w.story())
		}
		w.must(0, "reconcile")
		pid := w.driver()
		if pid == 0 {
			break
		}
		for at := w.last(); w.last() < at+int64(n) && !dead(pid); {
			time.Sleep(200 * time.Microsecond)
		}
		w.kill(pid)
	}
	w.awaitEnd(id)
	w.accepted(id)
}

// TestSubmitterIsKilledAtAnyTime: the command line is killed while it submits. Either there is no Attempt, or
// it can be picked up.
func TestSubmitterIsKilledAtAnyTime(t *testing.T) {
	n := points(t, 8)
	for i := range n {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.command("run", "-d", "--name", w.name, "-m", "make it right", "--", "sh", "-c", agent)
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.NewTimer(150 * time.Millisecond * time.Duration(i) / time.Duration(n))
			ended := make(chan error, 1)
			go func() { ended <- run.Wait() }()
			select {
			case <-timer.C:
				_ = run.Process.Kill()
				<-ended
			case <-ended:
			}
			w.must(0, "reconcile")
			list, err := w.list()
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				w.tidy()
				id := w.start(agent)
				w.awaitEnd(id)
				w.accepted(id)
				return
			}
			w.awaitEnd(list[0].Attempt)
			w.accepted(list[0].Attempt)
		})
	}
}
