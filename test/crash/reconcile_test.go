package crash_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// foreign starts a process that looks like a keeper of somebody else.
func foreign(t *testing.T, dir, allocation string) *exec.Cmd {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, allocation), []byte("while :; do sleep 0.2; done\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh")
	c.Args = []string{"sallyport-keeper", allocation, sallyport.FormatID(sallyport.FactoryPrefix, [16]byte{3})}
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	return c
}

// saved copies the journal as it is now and returns a function that puts it back.
func saved(w *world.World) (restore func()) {
	w.T.Helper()
	files := map[string][]byte{}
	for _, n := range []string{"journal.db", "journal.db-wal", "journal.db-shm"} {
		if b, err := os.ReadFile(filepath.Join(w.State, n)); err == nil {
			files[n] = b
		}
	}
	return func() {
		w.Forget()
		for _, n := range []string{"journal.db", "journal.db-wal", "journal.db-shm"} {
			p := filepath.Join(w.State, n)
			if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
				w.T.Fatal(err)
			}
			if b, ok := files[n]; ok && n != "journal.db-shm" {
				if err := os.WriteFile(p, b, 0o600); err != nil {
					w.T.Fatal(err)
				}
			}
		}
	}
}

// TestReconcileDestroysWhatNobodyKnows: a sandbox of this factory that the journal has lost is removed, what
// bears no mark of ours is left alone, and a dry run only speaks.
func TestReconcileDestroysWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, agent)
	awaitEnd(w, id)
	w.Forget()
	restore := saved(w)

	second := w.Start("second", slow)
	half(w, second)
	lost, keeper, first := w.Sandbox(sallyport.PurposeExecute)
	w.Kill(w.Driver())
	restore() // the intent of the second sandbox is gone, as after a restore from an old copy
	allocations := filepath.Join(w.State, "local", "allocations")
	empty := sallyport.FormatID(sallyport.AllocationPrefix, [16]byte{1}) // a crash right after the folder was made
	strange := filepath.Join(allocations, "not-ours")
	for _, d := range []string{strange, filepath.Join(allocations, empty)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	stranger := foreign(t, w.Dir, sallyport.FormatID(sallyport.AllocationPrefix, [16]byte{2}))

	dry := w.Sallyport("reconcile", "--dry-run").Want(0)
	if !strings.Contains(dry.Out, "destroy local:") || strings.Contains(dry.Out, "destroyed") || !strings.Contains(dry.Out, string(lost)) || !strings.Contains(dry.Out, empty) || strings.Contains(dry.Out, "not-ours") {
		t.Errorf("the dry run says\n%s", dry.Out)
	}
	if world.Dead(keeper) || world.Over(first) {
		t.Error("the dry run ended a process")
	}
	if left := names(t, allocations); !slices.Equal(left, slices.Sorted(slices.Values([]string{string(lost), empty, "not-ours"}))) {
		t.Errorf("after the dry run: %v", left)
	}
	w.Sallyport("reconcile").Want(0).Says("destroyed local:")
	if !world.Dead(keeper) || !world.Over(first) {
		t.Errorf("the lost sandbox still runs: keeper %d, first %d", keeper, first)
	}
	if left := names(t, allocations); !slices.Equal(left, []string{"not-ours"}) {
		t.Errorf("left: %v", left)
	}
	if world.Dead(stranger.Process.Pid) {
		t.Error("somebody else's process was ended")
	}
	if again := w.Sallyport("reconcile").Want(0); strings.TrimSpace(again.Out) != "nothing to do" {
		t.Errorf("it does not converge:\n%s", again.Out)
	}
	if err := os.Remove(strange); err != nil {
		t.Error(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestDryRunOfADeadDriver: nothing is adopted by looking.
func TestDryRunOfADeadDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, slow)
	half(w, id)
	w.Kill(w.Driver())
	last := w.Last()
	r := w.Sallyport("reconcile", "--dry-run").Want(0)
	if !strings.Contains(r.Out, string(id)) {
		t.Errorf("it does not say that it would adopt:\n%s", r.Out)
	}
	if pid := w.Driver(); pid != 0 || w.Last() != last {
		t.Errorf("it started driver %d, events %d → %d", pid, last, w.Last())
	}
	w.Sallyport("cancel", string(id)).Want(0)
	awaitEnd(w, id)
	cancelledWell(w, id, true)
}
