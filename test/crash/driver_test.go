package crash_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// recoveries are the commands each of which must pick up what a crash left.
var recoveries = map[string]func(w *world.World, id sallyport.AttemptID){
	"reconcile": func(w *world.World, _ sallyport.AttemptID) { w.Sallyport("reconcile").Want(0) },
	"ps":        func(w *world.World, _ sallyport.AttemptID) { w.Sallyport("ps").Want(0) },
	"attach":    func(w *world.World, id sallyport.AttemptID) { w.Sallyport("attach", string(id)).Want(0) },
	"wait":      func(w *world.World, id sallyport.AttemptID) { w.Sallyport("wait", string(id)).Want(0) },
	// The same WorkOrder again: refused while it is live, and it is picked up; where it had just been
	// finished, the second run finds the branch as its own and ends for itself.
	"run": func(w *world.World, _ sallyport.AttemptID) { w.Sallyport("run", "--name", "other", "--", "true") },
}

var recoveryOrder = []string{"reconcile", "ps", "wait", "run", "attach"}

// pickUp brings id to its end by the n-th of the recoveries, and by nothing else.
func pickUp(w *world.World, n int, id sallyport.AttemptID) {
	w.T.Helper()
	name := recoveryOrder[n%len(recoveryOrder)]
	w.T.Logf("driver killed after event %d; recovery by %s", w.Last(), name)
	if w.Count(lifecycle.PublicationIntended, "", id) > w.Count(lifecycle.PublicationDone, "", id) && (name == "ps" || name == "run") {
		name = "reconcile" // nothing lives any more; what is left is one ref
	}
	recoveries[name](w, id)
	awaitEnd(w, id)
}

// killDriver starts the agent and kills its driver when now says so; now is asked again and again from the
// driver's first moment. It reports whether there was still a driver to kill.
func killDriver(w *world.World, now func(began time.Time) bool) (sallyport.AttemptID, bool) {
	w.T.Helper()
	run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", agent)
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		w.T.Fatal(err)
	}
	pid := 0
	w.Await("the driver", func() bool { pid = w.Driver(); return pid != 0 })
	began := time.Now()
	for !now(began) && !world.Dead(pid) {
		time.Sleep(200 * time.Microsecond)
	}
	alive := !world.Dead(pid)
	w.Kill(pid)
	if err := run.Wait(); err != nil {
		w.T.Fatalf("run -d: %v", err)
	}
	return w.Created(), alive
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
	w := coldWorld(t, right)
	id, alive := killDriver(w, func(began time.Time) bool { life = time.Since(began); return false })
	if alive {
		t.Fatal("the driver did not end by itself")
	}
	accepted(w, id)
	t.Logf("a driver's life is %v", life)
	n := points(t, 20)
	for i := range n {
		after := life * time.Duration(i) / time.Duration(n)
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			w := coldWorld(t, right)
			if i%2 == 1 {
				w.Warm()
			}
			id, alive := killDriver(w, func(began time.Time) bool { return time.Since(began) >= after })
			t.Logf("after %v, alive %v", after, alive)
			pickUp(w, i, id)
			accepted(w, id)
		})
	}
}

// TestDriverIsKilledAfterEachEvent takes each durable step as a point, on either side of which lies an effect.
func TestDriverIsKilledAfterEachEvent(t *testing.T) {
	w := newWorld(t)
	id := start(w, agent)
	awaitEnd(w, id)
	last := w.Last()
	if last < 20 {
		t.Fatalf("only %d events\n%s", last, w.Story())
	}
	for n := int64(1); n <= last; n++ {
		t.Run(fmt.Sprintf("%02d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, _ := killDriver(w, func(time.Time) bool { return w.Last() >= n })
			pickUp(w, int(n), id)
			accepted(w, id)
		})
	}
}

// TestEveryDriverIsKilled: each driver in turn lives a little longer than the one before; the Attempt gets to
// its end all the same, once.
func TestEveryDriverIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := killDriver(w, func(time.Time) bool { return w.Last() >= 2 })
	for n := 1; ; n++ {
		if n > 100 {
			t.Fatalf("no end\n%s", w.Story())
		}
		w.Sallyport("reconcile").Want(0)
		pid := w.Driver()
		if pid == 0 {
			break
		}
		for at := w.Last(); w.Last() < at+int64(n) && !world.Dead(pid); {
			time.Sleep(200 * time.Microsecond)
		}
		w.Kill(pid)
	}
	awaitEnd(w, id)
	accepted(w, id)
}

// TestSubmitterIsKilledAtAnyTime: the command line is killed while it submits. Either there is no Attempt, or
// it can be picked up.
func TestSubmitterIsKilledAtAnyTime(t *testing.T) {
	n := points(t, 8)
	for i := range n {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", agent)
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
			w.Sallyport("reconcile").Want(0)
			list := w.List()
			if len(list) == 0 {
				tidy(w)
				id := start(w, agent)
				awaitEnd(w, id)
				accepted(w, id)
				return
			}
			awaitEnd(w, list[0].Attempt)
			accepted(w, list[0].Attempt)
		})
	}
}
