package crash_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/test/world"
)

// TestMachineRestarts: a restart is imitated. Every process of the world is ended, and what is written of them
// names another boot, with the pid and start time of a bystander. The Attempt ends with a reason and what was
// written so far; the bystander stays.
func TestMachineRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := start(w, slow)
	half(w, id)
	allocation, keeperPID, _ := w.Sandbox(sallyport.PurposeExecute)
	w.Kill(w.Driver())
	w.Kill(keeperPID)
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	self, err := process.Of(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	const boot = "00000000-1111-2222-3333-444444444444"
	before := process.ID{PID: self.PID, StartTime: self.StartTime, Boot: boot}
	path := filepath.Join(w.State, "local", "allocations", string(allocation), keeper.FileSelf)
	b, err := json.Marshal(keeper.Self{ID: before, Sandboxes: []process.ID{before}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, holder := w.Lease(id)
	holder.Boot, holder.PID, holder.StartTime = boot, self.PID, self.StartTime
	rewriteHolder(w, id, holder)

	w.Sallyport("reconcile").Want(0)
	awaitEnd(w, id)
	failedWell(w, id, true)
	if world.Dead(self.PID) {
		t.Error("a bystander was ended")
	}
}

// rewriteHolder changes who has the lease.
func rewriteHolder(w *world.World, id sallyport.AttemptID, h journal.Holder) {
	w.T.Helper()
	b, err := json.Marshal(h)
	if err != nil {
		w.T.Fatal(err)
	}
	db := w.Writable()
	defer db.Close()
	if _, err := db.Exec(`UPDATE leases SET holder = ?, until_ns = until_ns + 3600000000000 WHERE attempt = ?`, string(b), string(id)); err != nil {
		w.T.Fatal(err)
	}
}
