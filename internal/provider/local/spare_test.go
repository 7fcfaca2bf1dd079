package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/runner"
)

// The contract's, so that drivers find it.
var _ provider.Warmer = (*Provider)(nil)

// spares are the keepers of this factory that wait for an Allocation.
func (b *bench) spares() (found []process.ID) {
	b.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	want := strings.Join([]string{keeperName, runner.Unnamed, string(b.cfg.Factory), ""}, "\x00")
	for _, f := range files {
		if c, err := os.ReadFile(f); err == nil && string(c) == want {
			var pid int
			for _, d := range filepath.Base(filepath.Dir(f)) {
				pid = 10*pid + int(d-'0')
			}
			if id, err := process.Of(pid); err == nil {
				found = append(found, id)
			}
		}
	}
	return found
}

func (b *bench) warm() process.ID {
	b.t.Helper()
	if err := b.Warm(b.ctx()); err != nil {
		b.t.Fatalf("Warm: %v", err)
	}
	s := b.spares()
	if len(s) != 1 {
		b.t.Fatalf("expected one spare, got %v", s)
	}
	return s[0]
}

// A spare is no sandbox: nothing lists it, and it holds no ids; the next Create uses it up, and it is then found
// by the Allocation's id alone.
func TestSpareIsUsedOnce(t *testing.T) {
	b := newBench(t)
	spare := b.warm()
	if again := b.warm(); again != spare {
		t.Errorf("a second Warm made another: %v, %v", spare, again)
	}
	if all, err := b.List(b.ctx()); err != nil || len(all) > 0 {
		t.Errorf("List: %+v, %v", all, err)
	}
	if ids, err := os.ReadDir(filepath.Join(b.cfg.Folder, "ids")); err != nil || len(ids) > 0 {
		t.Errorf("ids: %v, %v", ids, err)
	}
	l := b.make(b.spec("echo", "x"))
	if l.keeper() != spare {
		t.Errorf("the keeper is %v, not the spare %v", l.keeper(), spare)
	}
	if found := strays(l.spec.Allocation); len(found) != 2 {
		t.Errorf("keeper and runner bear the id: %v", found)
	}
	if left := b.spares(); len(left) > 0 {
		t.Errorf("a spare is left: %v", left)
	}
	if err := l.Start(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if out, e := l.all(); out != "x\n" || e.Cause != "exit" {
		t.Errorf("%q %+v", out, e)
	}
	other := b.start(b.spec("echo", "y"))
	if other.keeper() == spare {
		t.Error("one keeper for two sandboxes")
	}
	if out, _ := other.all(); out != "y\n" {
		t.Errorf("%q", out)
	}
}

// Whatever becomes of a spare, the Create that would have used it makes its sandbox.
func TestSpareThatIsGone(t *testing.T) {
	b := newBench(t)
	spare := b.warm()
	if err := spare.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the spare is dead", func() bool { return !spare.Alive() })
	l := b.start(b.spec("echo", "x"))
	if out, e := l.all(); out != "x\n" || e.Cause != "exit" {
		t.Errorf("%q %+v", out, e)
	}
	if next := b.warm(); next == spare {
		t.Error("a dead spare counts as ready")
	}
	b.spare.close()
	b.spare = nil
	soon(t, "a spare that was let go ends", func() bool { return len(b.spares()) == 0 })
}

// The same where its end comes to light only once it has been taken.
func TestSpareThatEndsWhileItIsTaken(t *testing.T) {
	b := newBench(t)
	spare := b.warm()
	if err := spare.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the spare is dead", func() bool { return len(b.spares()) == 0 })
	up := make(chan struct{}) // as if it were starting: nothing is known of it
	b.spare.up = up
	ids := b.spare.ids
	time.AfterFunc(50*time.Millisecond, func() { close(up) })
	l := b.start(b.spec("echo", "x"))
	if out, e := l.all(); out != "x\n" || e.Cause != "exit" {
		t.Errorf("%q %+v", out, e)
	}
	if has, found, err := b.ids.of(l.spec.Allocation); os.Geteuid() == 0 && (err != nil || !found || has != ids) {
		t.Errorf("it has the ids %+v, %v; the spare had %+v", has, err, ids)
	}
}

// A spare's ids that another Allocation has claimed meanwhile are not used.
func TestSpareWhoseIDsAreTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: an ordinary user has only one id")
	}
	b := newBench(t)
	spare := b.warm()
	const other = sallyport.AllocationID("alc_1111111111111111111111111z")
	if won, err := b.ids.claim(b.spare.ids, other); err != nil || !won {
		t.Fatal(won, err)
	}
	l := b.start(b.spec("echo", "x"))
	if l.keeper() == spare {
		t.Error("two allocations share their ids")
	}
	if out, _ := l.all(); out != "x\n" {
		t.Errorf("%q", out)
	}
	soon(t, "the spare ends", func() bool { return !spare.Alive() })
	if err := b.ids.release(other); err != nil {
		t.Fatal(err)
	}
}

// A stopped spare does nothing with what it was given: the caller stops waiting and ends it, and what is left is found
// and removed.
func TestSpareThatDoesNotAnswer(t *testing.T) {
	b := newBench(t)
	spare := b.warm()
	if err := unix.Kill(spare.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	spec, _ := b.spec("echo", "x")
	began := time.Now()
	if _, err := b.Create(b.shortCtx(), spec); sallyport.CodeOf(err) != sallyport.CodeUnknown {
		t.Errorf("Create: %v", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("Create took %v", d)
	}
	if exists(b.folder(spec.Allocation), "keeper.json") {
		t.Error("a keeper that never answered has the allocation's folder")
	}
	if err := b.Destroy(b.ctx(), b.resource(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
	soon(t, "the spare ends", func() bool { return !spare.Alive() })
	if left := b.traces(spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Who comes to a folder finds the keeper that was given it, though whoever gave it is dead and it has not come to that
// yet: two keepers never meet there.
func TestPlaceIsLockedUntilItsKeeperIsKnown(t *testing.T) {
	b := newBench(t)
	waits := b.warm()
	spec, _ := b.spec("echo", "x")
	dir := b.folder(spec.Allocation)
	lock, err := claimFolder(b.ctx(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.spareFor(spec.Allocation)
	if err != nil {
		t.Fatal(err)
	}
	if !s.ids.own {
		if err := os.Chown(dir, s.ids.hostKeeper, s.ids.hostKeeper); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "keeper.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := unix.Kill(waits.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := b.settle(b.ctx(), s, spec.Allocation, keeper.Place{Lock: lock, Log: log}); err != nil {
		t.Fatal(err)
	}
	// All that the end of a process closes.
	lock.Close()
	s.close()
	ctx, cancel := context.WithTimeout(b.ctx(), 100*time.Millisecond)
	defer cancel()
	if lock, err = lockFolder(ctx, dir); err == nil {
		t.Error("the folder is not locked, and its keeper is not known there")
		lock.Close()
	}
	if err := unix.Kill(waits.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if lock, err = lockFolder(b.ctx(), dir); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if self, err := readSelf(dir); err != nil || self.ID != waits {
		t.Errorf("known there is %+v, %v", self, err)
	}
	soon(t, "the keeper ends with whoever gave it the place", func() bool { return !waits.Alive() })
	if err := b.Destroy(b.ctx(), b.resource(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
}

// What was about to be started and never was holds none of the sandbox's namespaces.
func TestStopBeforeStartLeavesNoThread(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: only root can look into a keeper")
	}
	b := newBench(t)
	l := b.make(b.spec("echo", "x"))
	if err := l.Stop(b.ctx(), "not wanted"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/mnt", l.keeper().PID))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, n := range threads {
		ns, err := os.Readlink(n)
		if err == nil {
			seen[ns]++
		}
	}
	if len(seen) != 1 {
		t.Errorf("the keeper's threads are in the mount namespaces %v", seen)
	}
}
