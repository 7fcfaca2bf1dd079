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
	"sallyport.dev/sallyport/test/world"
)

// TestManyAdoptAtOnce: of all who find the driver dead exactly one takes over.
func TestManyAdoptAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, gated)
	w.AwaitEvent(lifecycle.AllocationRunning, "")
	w.Kill(w.Driver())
	var all sync.WaitGroup
	for range 6 {
		c := w.Verb("reconcile")
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
	awaitEnd(w, id)
	if n := w.Count(lifecycle.LeaseAcquired, "", id); n != 2 {
		t.Errorf("%d drivers, want the killed one and one more\n%s", n, w.Story())
	}
	accepted(w, id)
}

// TestOtherPIDNamespace: seen from another pid namespace no driver has a pid, and none is judged dead for that.
func TestOtherPIDNamespace(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can make a pid namespace and mount its /proc")
	}
	w := newWorld(t)
	id := start(w, slow)
	half(w, id)
	driver := w.Driver()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	// It stays a moment: a driver that was started there would end with it.
	r := w.CommandWith("", attr, "", "sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && "$0" reconcile && sleep 2`, w.Program()).Want(0)
	if n := w.Count(lifecycle.LeaseAcquired, "", id); n != 1 || world.Dead(driver) {
		t.Errorf("%d drivers, the first one (%d) dead: %v\n%s%s", n, driver, world.Dead(driver), r.Out, w.Story())
	}
	w.Sallyport("cancel", string(id)).Want(0)
	awaitEnd(w, id)
	cancelledWell(w, id, true)
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
			var w *world.World
			var id sallyport.AttemptID
			var old int
			// The machine may give the driver more time than a step: then another one is tried.
			for try := 0; ; try++ {
				w = newWorld(t)
				id = start(w, agent)
				if old = w.Driver(); old != 0 && pauseAfter(w, old, p.event, p.text) {
					break
				}
				if try == 9 {
					t.Fatalf("ten drivers were faster\n%s", w.Story())
				}
			}
			fence, until, holder := w.Lease(id)
			if holder.PID != old {
				t.Fatalf("the lease is held by %v, the driver is %d", holder, old)
			}
			w.Sallyport("reconcile").Want(0)
			if n := w.Count(lifecycle.LeaseAcquired, "", id); n != 1 {
				t.Fatalf("%d leases while the first one counts\n%s", n, w.Story())
			}
			w.Await("the lease's end", func() bool { return journal.BootTime() > until })
			w.Sallyport("reconcile").Want(0)
			w.Await("the end", func() bool {
				rep := w.Show(id)
				return rep.State.Ended() && w.Count(lifecycle.PublicationDone, "", id) > 0
			})
			last := w.Last()
			if err := syscall.Kill(old, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			w.Await("the late driver's end", func() bool { return world.Dead(old) })
			for _, e := range w.Events() {
				if e.Seq > last && e.Fence == fence {
					t.Errorf("appended by the late driver: %+v", e)
				}
			}
			awaitEnd(w, id)
			accepted(w, id)
		})
	}
}

// pauseAfter lets a driver go on in small steps until an event is there, and stops it where it holds no lock:
// neither the journal's, in the middle of a transaction, nor that of an allocation's folder. Who meets such a
// lock waits for its holder, for a time that is bounded but long. False: the driver has ended before.
func pauseAfter(w *world.World, pid int, event lifecycle.Type, text string) bool {
	w.T.Helper()
	there := false
	w.Await(fmt.Sprintf("a stop after %s %s", event, text), func() bool {
		if syscall.Kill(pid, syscall.SIGSTOP) != nil {
			return true
		}
		w.Await("the stop", func() bool { return world.Dead(pid) || world.StateOf(pid) == "T" })
		there = !world.Dead(pid) && w.Count(event, text) > 0 && !locked(w)
		if there || world.Dead(pid) {
			return true
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
		return false // await sleeps for a millisecond: that is the step
	})
	return there
}

func locked(w *world.World) bool {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.State, "journal.db")+"?_pragma=busy_timeout(100)&_txlock=immediate")
	if err != nil {
		w.T.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return true
	}
	_ = tx.Rollback()
	for _, n := range names(w.T, filepath.Join(w.State, "local", "allocations")) {
		f, err := os.Open(filepath.Join(w.State, "local", "allocations", n))
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
