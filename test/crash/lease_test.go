package crash_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// TestManyAdoptAtOnce: of all who find the driver dead exactly one takes over.
func TestManyAdoptAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start(gated)
	w.awaitEvent(lifecycle.AllocationRunning, "")
	w.kill(w.driver())
	var all sync.WaitGroup
	for range 6 {
		c := w.command("reconcile")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := c.Wait(); err != nil {
				t.Errorf("reconcile: %v", err)
			}
		})
	}
	all.Wait()
	w.awaitEnd(id)
	if n := w.count(lifecycle.LeaseAcquired, "", id); n != 2 {
		t.Errorf("%d drivers, want the killed one and one more\n%s", n, w.story())
	}
	w.accepted(id)
}

// TestStoppedDriverIsReplaced: a driver that hangs loses its lease after its time and not before; when it goes
// on, what it appends and sends is refused. One lease is 30 seconds, so all points are tried at once.
func TestStoppedDriverIsReplaced(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]struct {
		event lifecycle.Type
		text  string
	}{
		"while the agent runs":  {lifecycle.AllocationRunning, ""},
		"while it collects":     {lifecycle.AttemptStage, `"collecting"`},
		"while a check runs":    {lifecycle.AllocationIntended, `"validate"`},
		"while it signs":        {lifecycle.AttemptStage, `"deciding"`},
		"while it publishes":    {lifecycle.PublicationIntended, ""},
		"before it does a step": {lifecycle.LeaseAcquired, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var id sallyport.AttemptID
			var old int
			// The machine may give the driver more time than a step: then another one is tried.
			for try := 0; ; try++ {
				w = newWorld(t)
				id = w.start(agent)
				if old = w.driver(); old != 0 && w.pauseAfter(old, p.event, p.text) {
					break
				}
				if try == 9 {
					t.Fatalf("ten drivers were faster\n%s", w.story())
				}
			}
			fence, until, holder := w.lease(id)
			if holder.PID != old {
				t.Fatalf("the lease is held by %v, the driver is %d", holder, old)
			}
			w.must(0, "reconcile")
			if n := w.count(lifecycle.LeaseAcquired, "", id); n != 1 {
				t.Fatalf("%d leases while the first one counts\n%s", n, w.story())
			}
			w.await("the lease's end", func() bool { return journal.BootTime() > until })
			w.must(0, "reconcile")
			w.await("the end", func() bool {
				rep := w.report(id)
				return rep.State.Ended() && w.count(lifecycle.PublicationDone, "", id) > 0
			})
			last := w.last()
			if err := syscall.Kill(old, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			w.await("the late driver's end", func() bool { return dead(old) })
			for _, e := range w.events() {
				if e.Seq > last && e.Fence == fence {
					t.Errorf("appended by the late driver: %+v", e)
				}
			}
			w.awaitEnd(id)
			w.accepted(id)
		})
	}
}

// pauseAfter lets a driver go on in small steps until an event is there, and stops it where it holds no lock:
// neither the journal's, in the middle of a transaction, nor that of an allocation's folder. Who meets such a
// lock waits for its holder, for a time that is bounded but long. False: the driver has ended before.
func (w *world) pauseAfter(pid int, event lifecycle.Type, text string) bool {
	w.t.Helper()
	there := false
	w.await(fmt.Sprintf("a stop after %s %s", event, text), func() bool {
		if syscall.Kill(pid, syscall.SIGSTOP) != nil {
			return true
		}
		w.await("the stop", func() bool { return dead(pid) || state(pid) == "T" })
		there = !dead(pid) && w.count(event, text) > 0 && !w.locked()
		if there || dead(pid) {
			return true
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
		return false // await sleeps for a millisecond: that is the step
	})
	return there
}

func (w *world) locked() bool {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.state, "journal.db")+"?_pragma=busy_timeout(100)&_txlock=immediate")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return true
	}
	_ = tx.Rollback()
	for _, n := range names(w.t, filepath.Join(w.state, "local", "allocations")) {
		f, err := os.Open(filepath.Join(w.state, "local", "allocations", n))
		if err != nil {
			continue
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		f.Close()
		if err != nil {
			return true
		}
	}
	return false
}
