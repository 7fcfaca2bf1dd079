package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/provider/providertest"
)

// marker is an argument that no other process of this machine has.
func marker() string { return fmt.Sprintf("86400.%09d", time.Now().UnixNano()%1e9) }

func TestKeeperKilledInMidRun(t *testing.T) {
	b, mark := newBench(t), marker()
	l := b.start(b.spec("sh", "-c", "echo work > w.txt; (setsid sleep "+mark+" &); echo out; trap '' TERM; sleep "+mark))
	l.until("out")
	if len(bearing(t, mark)) < 2 {
		t.Fatalf("the marked processes are not there: %v", bearing(t, mark))
	}
	if err := unix.Kill(l.keeper().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	soon(t, "every process of the sandbox is dead", func() bool { return len(bearing(t, mark)) == 0 })
	if st, err := b.Lookup(b.ctx(), l.id); err != nil || !st.Alive || st.HalfMade {
		t.Errorf("Lookup: %+v, %v", st, err)
	}
	_, err := l.Wait(b.ctx())
	if sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("Wait on the old wire: %v", err)
	}
	for range 2 { // the second keeper is killed too: what it recorded stays
		l.reconnect()
		out, e := l.all()
		if !e.Started || e.Cause != "lost" || e.Code != -1 || out != "out\n" {
			t.Errorf("end %+v, output %q", e, out)
		}
		if err := l.Start(b.ctx()); err != nil {
			t.Errorf("Start: %v", err)
		}
		if got := l.collected(); !slices.Equal(got, []string{`file w.txt 100644 "work\n"`}) {
			t.Errorf("changes %v", got)
		}
		if again, err := b.Create(b.ctx(), l.spec); err != nil || again != l.id {
			t.Errorf("Create again: %v, %v", again, err)
		}
		if err := unix.Kill(l.keeper().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
	}
}

func (l *live) collected() []string {
	l.b.t.Helper()
	var stream strings.Builder
	if err := l.Collect(l.b.ctx(), &stream); err != nil {
		log, _ := os.ReadFile(filepath.Join(l.b.folder(l.spec.Allocation), "keeper.log"))
		l.b.t.Fatalf("Collect: %v (%s)", err, log)
	}
	lines, err := providertest.Read([]byte(stream.String()))
	if err != nil {
		l.b.t.Fatal(err)
	}
	return lines
}

func TestKeeperKilledBeforeStart(t *testing.T) {
	b := newBench(t)
	l := b.make(b.spec("sh", "-c", "echo ran >> ran.txt; cat ran.txt"))
	if err := unix.Kill(l.keeper().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
	if _, err := b.Create(b.ctx(), l.spec); err != nil {
		t.Fatal(err)
	}
	l.reconnect()
	if err := l.Start(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if out, e := l.all(); out != "ran\n" || e.Cause != "exit" {
		t.Errorf("%q %+v", out, e)
	}
}

// A stop that was acknowledged is the sandbox's end, whoever keeps it.
func TestStopBeforeStartOutlivesTheKeeper(t *testing.T) {
	b := newBench(t)
	l := b.make(b.spec("true"))
	if err := l.Stop(b.ctx(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(l.keeper().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
	if _, err := b.Create(b.ctx(), l.spec); err != nil {
		t.Fatal(err)
	}
	l.reconnect()
	if _, e := l.all(); e.Cause != "stopped" || e.Started {
		t.Errorf("%+v", e)
	}
}

func TestFenceOutlivesTheKeeper(t *testing.T) {
	b := newBench(t)
	l := b.make(b.spec("true"))
	old := l.auth
	l.auth.Fence = 9
	l.reconnect()
	if err := unix.Kill(l.keeper().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
	if _, err := b.Connect(b.ctx(), l.id, old); sallyport.CodeOf(err) != sallyport.CodeFenced {
		t.Errorf("Connect with an old fence: %v", err)
	}
	l.reconnect()
}

func TestHoldEndsTheKeeperAndKeepsTheWork(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("sh", "-c", "echo work > w.txt; echo ready; sleep 1000")
	spec.LeaseTTL, spec.Hold = 700*time.Millisecond, 300*time.Millisecond
	l := b.start(spec, auth)
	soon(t, "the keeper ends", func() bool { return !l.keeper().Alive() })
	l.reconnect()
	if _, e := l.all(); e.Cause != "lease" || !e.Started {
		t.Errorf("%+v", e)
	}
	if got := l.collected(); !slices.Equal(got, []string{`file w.txt 100644 "work\n"`}) {
		t.Errorf("changes %v", got)
	}
}

// A machine that dies before the spec is on the disk may leave an empty one: the sandbox is made again. Where a command was
// started that cannot be, and the folder is not touched.
func TestSpecLostWithTheMachine(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("echo", "made")
	dir := b.folder(spec.Allocation)
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, fileSpec), nil, 0o600))
	if st, err := b.Lookup(b.ctx(), b.resource(spec.Allocation)); err != nil || !st.HalfMade {
		t.Errorf("Lookup: %+v, %v", st, err)
	}
	l := b.start(spec, auth)
	if out, e := l.all(); out != "made\n" || e.Code != 0 {
		t.Errorf("%q, %+v", out, e)
	}
	must(t, os.WriteFile(filepath.Join(dir, fileSpec), nil, 0o600))
	if _, err := b.Create(b.ctx(), spec); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Errorf("Create again: %v", err)
	}
	l.destroy()
}

// A spec that cannot be written leaves no folder behind.
func TestSpecThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	spec, _ := b.spec("true")
	dir := b.folder(spec.Allocation)
	must(t, os.MkdirAll(filepath.Join(dir, fileSpec), 0o700)) // nothing can be renamed to a folder
	if _, err := b.Create(b.ctx(), spec); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("Create: %v", err)
	}
	if left := b.traces(spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Create is killed at many moments; whatever it left is found, can be made again and can be removed.
func TestCreateKilledAtAnyMoment(t *testing.T) { createKilled(t, false) }

// The same where the keeper was there before its Allocation.
func TestWarmCreateKilledAtAnyMoment(t *testing.T) { createKilled(t, true) }

func createKilled(t *testing.T, warm bool) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.make(b.spec("true")).destroy() // what limits hold is proved here: a killed one's trial would be listed as well
	found, half := 0, 0
	for i := range 24 {
		spec, auth := b.spec("sh", "-c", "echo ran >> ran.txt; cat ran.txt")
		job, err := json.Marshal(childJob{b.cfg, spec, warm})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childEnv+"=1")
		cmd.Stdin = strings.NewReader(string(job))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// From the moment that its folder is there, a little later each time.
		began := time.Now()
		for !exists(b.folder(spec.Allocation), "") && time.Since(began) < 20*time.Second {
			time.Sleep(50 * time.Microsecond)
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		all, err := b.List(b.ctx())
		if err != nil || len(all) > 1 {
			t.Fatalf("List: %+v, %v", all, err)
		}
		found += len(all)
		if len(all) == 1 && all[0].HalfMade {
			half++
		}
		id := b.resource(spec.Allocation)
		if i%2 == 0 {
			if again, err := b.Create(b.ctx(), spec); err != nil || again != id {
				t.Fatalf("killed after %d ms, Create again: %v, %v", 2*i, again, err)
			}
			l := &live{b: b, spec: spec, auth: auth, id: id}
			l.reconnect()
			if err := l.Start(b.ctx()); err != nil {
				t.Fatal(err)
			}
			if out, e := l.all(); out != "ran\n" || e.Code != 0 {
				t.Fatalf("killed after %d ms, then: %q %+v", 2*i, out, e)
			}
			if n := len(bearing(t, string(spec.Allocation))); n != 1 {
				t.Errorf("killed after %d ms: %d keepers and runners for an ended command", 2*i, n)
			}
		}
		if err := b.Destroy(b.ctx(), id); err != nil {
			t.Fatalf("killed after %d ms, Destroy: %v", 2*i, err)
		}
		time.Sleep(20 * time.Millisecond)
		if left := b.traces(spec.Allocation); len(left) > 0 {
			t.Fatalf("killed after %d ms, left: %v", 2*i, left)
		}
		soon(t, "no spare of the killed process is left", func() bool { return len(b.spares()) == 0 })
	}
	t.Logf("%d of 24 were listed, %d of them half-made", found, half)
	if found == 0 || half == 0 {
		t.Error("no kill hit Create: the test proves nothing")
	}
}

// traces is all that this machine shows of an allocation.
func (b *bench) traces(a sallyport.AllocationID) (found []string) {
	b.t.Helper()
	found = bearing(b.t, string(a))
	for _, f := range []string{"/proc/self/mountinfo", "/proc/1/mountinfo"} {
		if m, err := os.ReadFile(f); err == nil && strings.Contains(string(m), string(a)) {
			found = append(found, f)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", b.cfg.Folder} {
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if strings.Contains(p, string(a)) {
				found = append(found, p)
			}
			if target, err := os.Readlink(p); err == nil && target == string(a) {
				found = append(found, p)
			}
			return nil
		})
	}
	return found
}

func TestNothingIsLeft(t *testing.T) {
	b := newBench(t)
	before := hostMounts(t)
	l := b.start(b.spec("sh", "-c", "(setsid sleep 1000 &); echo ready; sleep 1000"))
	l.until("ready")
	if len(b.traces(l.spec.Allocation)) < 3 {
		t.Fatalf("a running sandbox shows only %v: the search finds too little", b.traces(l.spec.Allocation))
	}
	if got := hostMounts(t); got != before {
		t.Errorf("a running sandbox changes the host's mounts:\n%s", got)
	}
	l.destroy()
	if left := b.traces(l.spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := hostMounts(t); got != before {
		t.Errorf("the host's mounts changed:\n%s", got)
	}
}

func hostMounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keeper.json outlives its process: another boot, or another process under the same pid, is never taken for it.
func TestForeignProcessUnderTheKeepersPID(t *testing.T) {
	b := newBench(t)
	for name, lie := range map[string]func(*keeper.Self){
		"reused pid":   func(s *keeper.Self) { s.StartTime++ },
		"another boot": func(s *keeper.Self) { s.Boot = "00000000-0000-0000-0000-000000000000" },
	} {
		t.Run(name, func(t *testing.T) {
			l := b.start(b.spec("sh", "-c", "echo work > w.txt; echo done"))
			l.all()
			if err := l.keeper().Kill(); err != nil {
				t.Fatal(err)
			}
			soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
			other := exec.Command("sleep", marker())
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
			now, err := process.Of(other.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			self := keeper.Self{ID: now}
			lie(&self)
			j, err := json.Marshal(self)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(b.folder(l.spec.Allocation), keeper.FileSelf), j, 0o600); err != nil {
				t.Fatal(err)
			}
			l.reconnect() // by a keeper of its own: the foreign one is not asked
			if out, e := l.all(); out != "done\n" || e.Cause != "exit" {
				t.Errorf("%q %+v", out, e)
			}
			if got := l.collected(); !slices.Equal(got, []string{`file w.txt 100644 "work\n"`}) {
				t.Errorf("changes %v", got)
			}
			if err := os.WriteFile(filepath.Join(b.folder(l.spec.Allocation), keeper.FileSelf), j, 0o600); err != nil {
				t.Fatal(err)
			}
			l.destroy()
			if !now.Alive() {
				t.Error("a foreign process was killed")
			}
			if left := b.traces(l.spec.Allocation); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A keeper stands beside hostile code: what it says that it and its sandboxes are is no reason to end a process that does not
// bear the Allocation's id, nor to wait for it.
func TestKeeperThatNamesAnother(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("sh", "-c", "echo done"))
	l.all()
	l.Close()
	if err := l.keeper().Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
	other := exec.Command("sleep", marker())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	now, err := process.Of(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(keeper.Self{ID: now, Sandboxes: []process.ID{now}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.folder(l.spec.Allocation), keeper.FileSelf), j, 0o600); err != nil {
		t.Fatal(err)
	}
	l.destroy()
	if !now.Alive() {
		t.Error("a foreign process was killed")
	}
	if left := b.traces(l.spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// PID 1 of a sandbox that ends has no arguments any more while processes of its namespace still run: neither Destroy nor a
// keeper that takes over may take it for gone. Dead ones that nobody has taken note of are no reason to wait.
func TestNamespaceThatIsStillEnding(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to put a process into a sandbox's pid namespace from outside")
	}
	b := newBench(t)
	for _, what := range []string{"destroy", "connect"} {
		t.Run(what, func(t *testing.T) {
			l := b.start(b.spec("sh", "-c", "echo work > w.txt; echo ready; sleep 1000"))
			l.until("ready")
			first := l.self().Sandboxes[0]
			held := intoNamespace(t, first.PID)
			thaw := freeze(t, held.Process.Pid)
			l.Close()
			if err := l.keeper().Kill(); err != nil {
				t.Fatal(err)
			}
			soon(t, "the keeper is dead", func() bool { return !l.keeper().Alive() })
			soon(t, "PID 1 has no arguments any more", func() bool {
				args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", first.PID))
				return err == nil && len(args) == 0
			})
			ctx, cancel := context.WithTimeout(b.ctx(), 300*time.Millisecond)
			defer cancel()
			var err error
			if what == "destroy" {
				err = b.Destroy(ctx, l.id)
			} else {
				_, err = b.Connect(ctx, l.id, l.auth)
			}
			if err == nil || ctx.Err() == nil {
				t.Errorf("%s does not wait for the namespace's end: %v", what, err)
			}
			if _, err := os.Stat(b.folder(l.spec.Allocation)); err != nil {
				t.Error(err)
			}
			thaw() // killed long ago: it dies now, and we do not ask
			if what == "connect" {
				l.reconnect()
				if got := l.collected(); !slices.Equal(got, []string{`file w.txt 100644 "work\n"`}) {
					t.Errorf("changes %v", got)
				}
			}
			l.destroy()
			if !first.Alive() {
				t.Error("PID 1 is gone before anybody asked for its last process: the test shows less than it says")
			}
			_ = held.Wait()
			soon(t, "PID 1 is gone", func() bool { return !first.Alive() })
		})
	}
}

// intoNamespace starts a process in the pid namespace of pid as a child of ours, whose end we have to ask for.
func intoNamespace(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with us, as its children would be born there
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWPID)
			unix.Close(fd)
		}
		if err == nil {
			err = cmd.Start()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return cmd
}

// freeze holds a process where not even SIGKILL moves it, until thaw.
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	const freezer = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(filepath.Join(freezer, "cgroup.procs")); err != nil {
		t.Skip("needs the freezer of cgroup v1")
	}
	dir, err := os.MkdirTemp(freezer, "sallyport-test-")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		write("freezer.state", "THAWED")
		soon(t, "the freezer is empty", func() bool { return os.Remove(dir) == nil })
	})
	write("cgroup.procs", strconv.Itoa(pid))
	write("freezer.state", "FROZEN")
	soon(t, "it is frozen", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
		return err == nil && strings.TrimSpace(string(b)) == "FROZEN"
	})
	return func() { write("freezer.state", "THAWED") }
}

// Another Mission Control over the same folder finds and serves what the first one made.
func TestAnotherProviderOverTheSameFolder(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("sh", "-c", "echo ready; sleep 1000"))
	l.until("ready")
	p, err := Open(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.List(b.ctx())
	if err != nil || len(all) != 1 || all[0].ID != l.id || all[0].Attempt != l.spec.Attempt {
		t.Fatalf("List: %+v, %v", all, err)
	}
	if id, err := p.Create(b.ctx(), l.spec); err != nil || id != l.id {
		t.Errorf("Create: %v, %v", id, err)
	}
	w, err := p.Connect(b.ctx(), l.id, provider.Auth{Secret: l.auth.Secret, Fence: l.auth.Fence + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Stop(b.ctx(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := p.Destroy(b.ctx(), l.id); err != nil {
		t.Fatal(err)
	}
}

// Two allocations never share ids, whatever is drawn and freed in between.
func TestIDSlots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: an ordinary user has only one id")
	}
	i := newIdentities(t.TempDir())
	ids := []sallyport.AllocationID{"alc_1111111111111111111111111z", "alc_2111111111111111111111111z", "alc_3111111111111111111111111z"}
	got := map[sallyport.AllocationID]mapping{}
	for n, a := range ids {
		m := rootMapping(n) // neighbours
		if won, err := i.claim(m, a); err != nil || !won {
			t.Fatalf("a free slot: %v, %v", won, err)
		}
		for _, other := range got {
			if other.hostAgent == m.hostAgent || other.hostKeeper == m.hostAgent || other.hostAgent == m.hostKeeper {
				t.Errorf("shared ids: %+v %+v", other, m)
			}
			if won, err := i.claim(other, a); won || err != nil {
				t.Errorf("a slot of another allocation: %v, %v", won, err)
			}
		}
		got[a] = m
	}
	if err := i.release(ids[0]); err != nil {
		t.Fatal(err)
	}
	if m, found, err := i.of(ids[2]); err != nil || !found || m != got[ids[2]] {
		t.Errorf("it holds %+v, %v, %v; it claimed %+v", m, found, err, got[ids[2]])
	}
	if m, found, err := i.of(ids[0]); err != nil || found {
		t.Errorf("released, it holds %+v, %v", m, err)
	}
	if a, b := i.pick(), i.pick(); a == b {
		t.Errorf("drawn twice: %+v", a)
	}
	for _, a := range ids {
		if err := i.release(a); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(i.folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A keeper whose folder was removed under it can be found by nobody: it ends by itself, and its sandbox too.
func TestKeeperWithoutFolderEnds(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("sh", "-c", "sleep 100")
	w := b.running(spec, auth)
	w.Close()
	self, err := readSelf(b.folder(spec.Allocation))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.folder(spec.Allocation)); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	if err := removeFolder(b.folder(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); self.Alive() || len(strays(spec.Allocation)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it still runs")
		}
	}
	if err := b.Destroy(t.Context(), b.resource(spec.Allocation)); err != nil {
		t.Error(err)
	}
}

// A Create that is ended while it makes the cgroup, level by level, leaves the factory's folder and nothing in it.
func TestDestroyPrunesTheFactorysCgroups(t *testing.T) {
	b := newBench(t)
	if len(detect().Controllers) == 0 {
		t.Skipf("missing capability: cgroups that can be written: %v", detect().Problems)
	}
	spec, _ := b.spec("true")
	if err := os.Mkdir(b.folder(spec.Allocation), 0o700); err != nil {
		t.Fatal(err)
	}
	begin := func() {
		t.Helper()
		for _, parent := range detect().Controllers {
			if err := os.MkdirAll(filepath.Join(parent, "sallyport", string(b.cfg.Factory)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin()
	other := b.make(b.spec("true"))
	if err := b.Destroy(b.ctx(), b.resource(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
	if len(b.groups()) == 0 {
		t.Error("the folder of a group that is in use was removed")
	}
	other.destroy()
	begin()
	if err := b.Destroy(b.ctx(), b.resource(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
	if left := b.groups(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
