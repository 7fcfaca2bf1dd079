package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
)

// The tests below use the cgroups of this machine. The test binary runs itself again in several roles; every
// hog is bounded, so that a limit which does not hold fails the test and not the machine.

const roleEnv = "CGROUP_TEST_ROLE"

func TestMain(m *testing.M) {
	role, ok := map[string]func(){"memory": hogMemory, "forks": hogForks, "cpu": hogCPU, "keeper": keeper, "create": createAsUser, "top": beginAtTop}[os.Getenv(roleEnv)]
	if ok {
		role()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hogMemory touches 256 MiB and ends well if it is let.
func hogMemory() {
	for range 64 {
		b := make([]byte, 4<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	fmt.Println("got all")
}

var kept [][]byte

// hogForks starts up to 64 sleepers and says how many it got.
func hogForks() {
	n := 0
	for range 64 {
		cmd := exec.Command("/bin/sleep", "20")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a daemon of its own, as a hostile one would
		if cmd.Start() == nil {
			n++
		}
	}
	fmt.Println("started", n)
}

// hogCPU burns for half a second of wall time and says how much cpu it got for that, in ms. What it took to
// start does not count: on an emulated machine that is more.
func hogCPU() {
	start := usedCPU()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
	}
	fmt.Println("cpu", (usedCPU()-start)/1e6)
}

func usedCPU() int64 {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return ru.Utime.Nano() + ru.Stime.Nano()
}

var testLimits = sallyport.Limits{Memory: 48 << 20, PIDs: 24, CPU: 0.25}

// allCPU are the same limits for tests that are about another one, and would only take longer.
var allCPU = sallyport.Limits{Memory: testLimits.Memory, PIDs: testLimits.PIDs}

// live is a group on this machine, removed afterwards with proof.
func live(t testing.TB, l sallyport.Limits) (*Group, []sallyport.LayerReport) {
	t.Helper()
	h := Detect()
	if len(h.Controllers) == 0 {
		t.Skipf("no controller can be written here: %v", h.Problems)
	}
	g, reports, err := h.Create("fac_test", "alc_"+strconv.Itoa(os.Getpid())+"_"+strconv.FormatInt(time.Now().UnixNano(), 36), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, g) })
	return g, reports
}

func destroy(t testing.TB, g *Group) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Destroy(ctx); err != nil {
		t.Error(err)
	}
	for _, p := range g.parts {
		if _, err := os.Lstat(p.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", p.dir, err)
		}
	}
}

// enter starts this binary in a role inside the group, from a thread that is thrown away, and returns its
// output and how it ended.
func enter(t testing.TB, e Entry, role string, prepare func() error) (string, syscall.WaitStatus) {
	t.Helper()
	exe := publicSelf(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var pid int
	contain.Spend(func() {
		if prepare != nil {
			if err = prepare(); err != nil {
				return
			}
		}
		pid, err = e.Start(exe, []string{role}, &syscall.ProcAttr{Dir: "/", Env: []string{roleEnv + "=" + role}, Files: []uintptr{0, w.Fd(), 2}})
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	ws, err := wait(pid)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 200)
	unix.SetNonblock(int(r.Fd()), true) // daemons may still hold the other end
	n, _ := unix.Read(int(r.Fd()), out)
	return string(out[:max(n, 0)]), ws
}

// publicSelf is a copy of the test binary that every user may execute.
func publicSelf(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cgroup-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "self")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

func entryOf(t testing.TB, g *Group) Entry {
	t.Helper()
	e, err := g.Entry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func needs(t *testing.T, g *Group, controller string) {
	if _, ok := g.find(controller); !ok {
		t.Skipf("controller %s cannot be written here", controller)
	}
}

func TestReportsHeld(t *testing.T) {
	g, reports := live(t, testLimits)
	for _, r := range reports {
		t.Logf("%s %s: %s [weaker: %s]", r.Layer, r.Status, r.Proof, r.Weaker)
		if _, ok := g.find(string(r.Layer)); ok && (r.Status != sallyport.LayerHeld || r.Grade != sallyport.GradeObservation) {
			t.Errorf("%+v", r)
		}
	}
	// Again, with other limits, lower and higher: the same group, the new numbers.
	for _, m := range []int64{32 << 20, 96 << 20} {
		l := testLimits
		l.Memory, l.CPU = m, 0
		_, again, err := Detect().Create(g.Factory, g.Allocation, l)
		if err != nil {
			t.Fatal(err)
		}
		if again[0].Status != sallyport.LayerNotRequired {
			t.Errorf("no cpu limit asked: %+v", again[0])
		}
		if _, ok := g.find(memory); ok && !strings.Contains(again[1].Proof, strconv.FormatInt(m, 10)) {
			t.Errorf("limit not changed to %d: %s", m, again[1].Proof)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	g, _ := live(t, allCPU)
	needs(t, g, memory)
	out, ws := enter(t, entryOf(t, g), "memory", nil)
	if !ws.Signaled() || ws.Signal() != syscall.SIGKILL || strings.Contains(out, "got all") {
		t.Fatalf("the hog ended with %v and said %q", ws, out)
	}
	s, err := g.Stats()
	if err != nil || s.OOMKills < 1 || s.MemoryPeak < 32<<20 || s.MemoryPeak > testLimits.Memory+1<<20 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestPIDsLimit(t *testing.T) {
	g, _ := live(t, allCPU)
	needs(t, g, pids)
	out, ws := enter(t, entryOf(t, g), "forks", nil)
	var n int
	if _, err := fmt.Sscanf(out, "started %d", &n); err != nil || !ws.Exited() {
		t.Fatalf("%q %v %v", out, ws, err)
	}
	if n < 1 || n >= int(testLimits.PIDs) {
		t.Errorf("%d forks with a limit of %d", n, testLimits.PIDs)
	}
	if s, err := g.Stats(); err != nil || s.PIDsRefused < 1 {
		t.Errorf("%+v %v", s, err)
	}
	// The daemons are children of nobody here, and still die.
	if g.Empty() {
		t.Fatal("the daemons left the group")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Kill(ctx); err != nil || !g.Empty() {
		t.Errorf("%v, empty %v", err, g.Empty())
	}
}

func TestCPULimit(t *testing.T) {
	g, _ := live(t, testLimits)
	needs(t, g, cpu)
	out, _ := enter(t, entryOf(t, g), "cpu", nil)
	var ms int
	if _, err := fmt.Sscanf(out, "cpu %d", &ms); err != nil {
		t.Fatalf("%q %v", out, err)
	}
	// 0.25 cpus for 0.5 s are 125 ms, and at most one period's quota more at each end.
	if ms > 230 {
		t.Errorf("%d ms of cpu in half a second with a quarter of a cpu", ms)
	}
	if p, ok := g.find(cpu); ok && p.v2 || slices.ContainsFunc(g.parts, func(p part) bool { return slices.Contains(p.use, cpuacct) }) {
		if s, err := g.Stats(); err != nil || s.CPUMicros < int64(ms)*900 {
			t.Errorf("%+v %v, the process says %d ms", s, err, ms)
		}
	}
}

// The thread that starts a command is confined first; it needs no more than the descriptors.
func TestEntryFromConfinedThread(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, or a user namespace")
	}
	p, err := contain.Prepare(contain.Confinement{UID: 1000, GID: 1000, ChangeIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() *Group{
		"own":     func() *Group { g, _ := live(t, allCPU); return g },
		"unified": func() *Group { return unified(t) },
	} {
		t.Run(name, func(t *testing.T) {
			g := make()
			e := entryOf(t, g)
			out, ws := enter(t, e, "forks", p.Apply)
			if !ws.Exited() || !strings.HasPrefix(out, "started ") || out == "started 0\n" {
				t.Fatalf("%q %v", out, ws)
			}
			if g.Empty() {
				t.Fatal("what the command started is not in the group")
			}
			var said []string
			pids, ok := e.Processes()
			for _, pid := range pids {
				said = append(said, strconv.Itoa(pid))
			}
			last := g.parts[len(g.parts)-1]
			if listed := words(readFile(filepath.Join(last.dir, "cgroup.procs"))); !ok || len(listed) == 0 || !slices.Equal(said, listed) {
				t.Errorf("the entry names %v, the kernel %v", said, listed)
			}
			for _, part := range g.parts {
				for _, pid := range words(readFile(filepath.Join(part.dir, "cgroup.procs"))) {
					if pid == strconv.Itoa(os.Getpid()) && part.v2 {
						t.Error("the starter itself is in the group")
					}
				}
			}
			destroy(t, g)
		})
	}
	// The process itself never moved.
	for _, line := range strings.Split(readFile("/proc/self/cgroup"), "\n") {
		if strings.Contains(line, "fac_test") {
			t.Errorf("this process was moved: %s", line)
		}
	}
}

// unified is a group on a v2 hierarchy, be it one that Detect uses or the one of a hybrid host, which has no
// controllers: birth, kill and the list of members are v2's own.
func unified(t *testing.T) *Group {
	t.Helper()
	p, ok := unifiedPlace()
	if !ok {
		t.Skip("no v2 hierarchy is mounted")
	}
	g := &Group{Factory: "fac_test", Allocation: "alc_u" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	g.parts = []part{{place: p, dir: p.dirOf(g.Factory, g.Allocation)}}
	if err := p.makeDir(g.parts[0].dir); err != nil {
		t.Skipf("the v2 hierarchy cannot be written: %v", err)
	}
	t.Cleanup(func() { destroy(t, g) })
	return g
}

func unifiedPlace() (place, bool) {
	for _, p := range Detect().places {
		if p.v2 {
			return p, true
		}
	}
	for _, h := range parseLayout(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup")) {
		if h.v2 {
			return place{hierarchy: h, parent: h.mount}, true
		}
	}
	return place{}, false
}

// On v2 the first instruction already runs inside: what a short command sees of itself is the group.
func TestHeldStart(t *testing.T) {
	g := unified(t)
	e := entryOf(t, g)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var pid int
	contain.Spend(func() {
		pid, err = e.Start("/bin/cat", []string{"cat", "/proc/self/cgroup", "/proc/self/status"}, &syscall.ProcAttr{Files: []uintptr{0, w.Fd(), 2}})
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if ws, err := wait(pid); err != nil || ws.ExitStatus() != 0 {
		t.Fatalf("%v %v", ws, err)
	}
	if !strings.Contains(out.String(), "0::"+g.parts[0].path(g.parts[0].dir)+"\n") {
		t.Errorf("the command ran elsewhere: %s", out.String())
	}
	if !strings.Contains(out.String(), "TracerPid:\t0\n") {
		t.Error("the command is still traced")
	}
	// A program that is not there: the error of exec, and nobody left behind.
	contain.Spend(func() { _, err = e.Start("/nonexistent", []string{"x"}, nil) })
	if !errors.Is(err, unix.ENOENT) || !g.Empty() {
		t.Errorf("%v, empty %v", err, g.Empty())
	}
}

// keeper is an unprivileged process that got the descriptors from the trusted side.
func keeper() {
	var files []*os.File
	for fd := 3; fd < 64; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && slices.Contains(os.Args[1:], strconv.Itoa(fd)) {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "entry"))
		}
	}
	e, err := EntryFromFiles(files)
	if err != nil {
		fmt.Println(err)
		return
	}
	contain.Spend(func() {
		exe, _ := os.Executable()
		pid, err := e.Start(exe, []string{"memory"}, &syscall.ProcAttr{Env: []string{roleEnv + "=memory"}, Files: []uintptr{0, 1, 2}})
		if err != nil {
			fmt.Println(err)
			return
		}
		ws, err := wait(pid)
		fmt.Println("signal", int(ws.Signal()), err)
	})
}

func TestUnprivilegedKeeper(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	g, _ := live(t, allCPU)
	needs(t, g, memory)
	e := entryOf(t, g)
	cmd := exec.Command(publicSelf(t), descriptors(len(e.Files()))...)
	cmd.ExtraFiles = e.Files()
	cmd.Env = []string{roleEnv + "=keeper"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 231001, Gid: 231001}}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "signal 9 <nil>\n" {
		t.Fatalf("%v: %s", err, out)
	}
	if s, err := g.Stats(); err != nil || s.OOMKills < 1 {
		t.Errorf("%+v %v", s, err)
	}
}

func descriptors(n int) (args []string) {
	for i := range n {
		args = append(args, strconv.Itoa(3+i))
	}
	return args
}

func TestEntryFromFilesRefuses(t *testing.T) {
	if e, err := EntryFromFiles(nil); err != nil || !e.IsZero() {
		t.Errorf("%v %v", e, err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := EntryFromFiles([]*os.File{f}); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a device passed: %v", err)
	}
	g, _ := live(t, testLimits)
	e := entryOf(t, g)
	if again, err := EntryFromFiles(e.Files()); err != nil || len(again.procs) != len(e.procs) || len(again.threads) != len(e.threads) {
		t.Errorf("not the same: %v %v", again, err)
	}
	if len(e.threads) > 0 {
		if _, err := EntryFromFiles(e.Files()[1:]); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("an incomplete set passed: %v", err)
		}
	}
}

func TestOpenListDestroy(t *testing.T) {
	g, _ := live(t, testLimits)
	h := Detect()
	names, err := h.List(g.Factory)
	if err != nil || !slices.Contains(names, g.Allocation) {
		t.Errorf("%v %v", names, err)
	}
	// Half-made: one hierarchy only. It is listed, opened, destroyed.
	if len(g.parts) > 1 {
		if err := unix.Rmdir(g.parts[0].dir); err != nil {
			t.Fatal(err)
		}
	}
	half, err := h.Open(g.Factory, g.Allocation)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.parts) > 1 && len(half.parts) != len(g.parts)-1 {
		t.Errorf("%d of %d parts", len(half.parts), len(g.parts))
	}
	destroy(t, half)
	destroy(t, half) // again: nil
	if _, err := h.Open(g.Factory, g.Allocation); sallyport.CodeOf(err) != sallyport.CodeNotFound {
		t.Errorf("after Destroy: %v", err)
	}
	if _, err := g.Stats(); sallyport.CodeOf(err) != sallyport.CodeNotFound {
		t.Errorf("counters of nothing: %v", err)
	}
	if names, err := h.List(g.Factory); err != nil || slices.Contains(names, g.Allocation) {
		t.Errorf("%v %v", names, err)
	}
	if _, err := h.Open(g.Factory, "../"+g.Factory); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a path passed as an id: %v", err)
	}
}

// A process that has only a thread in the group must survive Kill.
func TestKillSparesVisitors(t *testing.T) {
	g, _ := live(t, testLimits)
	e := entryOf(t, g)
	if len(e.threads) == 0 {
		t.Skip("threads move alone only on v1")
	}
	inside, done := make(chan error), make(chan bool)
	go contain.Spend(func() {
		inside <- e.MoveThread(0)
		<-done
	})
	if err := <-inside; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Kill(ctx); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("a group with a visitor: %v", err)
	}
	close(done) // and this process is still here
}

// createAsUser prints what a user gets.
func createAsUser() {
	h := Detect()
	limits := allCPU
	limits.CPU = 1
	g, reports, err := h.Create("fac_user", "alc_1", limits)
	out := userResult{Nil: g == nil, Reports: reports, Problems: h.Problems}
	if err != nil {
		out.Err = err.Error()
	}
	if g != nil {
		e, err := g.Entry()
		if err != nil {
			out.Err = err.Error()
		} else {
			contain.Spend(func() {
				exe, _ := os.Executable()
				var pid int
				if pid, err = e.Start(exe, []string{"memory"}, &syscall.ProcAttr{Env: []string{roleEnv + "=memory"}, Files: []uintptr{0, 2, 2}}); err == nil {
					ws, _ := wait(pid)
					out.Signal = int(ws.Signal())
				} else {
					out.Err = err.Error()
				}
			})
		}
		out.Stats, _ = g.Stats()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.Destroy(ctx); err != nil {
			out.Err = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

type userResult struct {
	Nil      bool
	Err      string
	Reports  []sallyport.LayerReport
	Problems map[string]string
	Signal   int
	Stats    Stats
}

// asUser creates a group as user 1000, born in a cgroup; "": in this process's.
func asUser(t *testing.T, leaf string) userResult {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	cmd := exec.Command(publicSelf(t), "create")
	cmd.Dir = "/"
	cmd.Env = []string{roleEnv + "=create"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if leaf != "" {
		dir, err := os.Open(leaf)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var r userResult
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func TestUserWithoutDelegation(t *testing.T) {
	r := asUser(t, "")
	if !r.Nil || r.Err != "" || len(r.Reports) != 3 {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Reports {
		t.Logf("%s %s: %s; fix: %s", l.Layer, l.Status, l.Proof, l.Fix)
		if l.Status != sallyport.LayerNotHeld || l.Fix == "" || !strings.Contains(l.Proof, "/") {
			t.Errorf("%+v", l)
		}
	}
}

// An administrator has given user 1000 a folder in each hierarchy that has controllers, as the fix says. On v2
// the user is moreover started inside of what it was given: from elsewhere it could not move there.
func TestUserWithDelegation(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to delegate")
	}
	leaf := ""
	for _, p := range Detect().places {
		dir := filepath.Join(p.mount, ours+"-1000")
		if p.v2 {
			if err := p.giveControllers(p.mount); err != nil {
				t.Fatal(err)
			}
			leaf = filepath.Join(dir, "session")
		}
		give(t, dir)
	}
	if leaf != "" {
		give(t, leaf)
	}
	r := asUser(t, leaf)
	if r.Nil || r.Err != "" {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Reports {
		if l.Status != sallyport.LayerHeld {
			t.Errorf("%+v", l)
		}
	}
	if r.Signal != 9 || r.Stats.OOMKills < 1 {
		t.Errorf("the limit was not enforced: %+v", r)
	}
}

// give makes a cgroup of user 1000. On v2 its limits stay root's: they bound what was given.
func give(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("%s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	names := []string{"."}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.subtree_control")); err == nil {
		names = append(names, "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
	} else {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			names = append(names, f.Name())
		}
	}
	for _, n := range names {
		if err := os.Chown(filepath.Join(dir, n), 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkDetect(b *testing.B) {
	for b.Loop() {
		Detect()
	}
}

func BenchmarkCreateDestroy(b *testing.B) {
	h := Detect()
	i := 0
	for b.Loop() {
		i++
		g, _, err := h.Create("fac_bench", "alc_"+strconv.Itoa(i), testLimits)
		if err != nil || g == nil {
			b.Skip("no controller can be written here")
		}
		if err := g.Destroy(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// What was begun is removed, whichever level it had come to; what is in use is not.
func TestPrune(t *testing.T) {
	h := Detect()
	if len(h.places) == 0 {
		t.Skipf("no controller can be written here: %v", h.Problems)
	}
	factory := "fac_prune" + strconv.Itoa(os.Getpid())
	left := func() (found []string) {
		for _, p := range h.places {
			if _, err := os.Lstat(filepath.Join(p.parent, ours, factory)); err == nil {
				found = append(found, p.parent)
			}
		}
		return found
	}
	for _, p := range h.places {
		if err := os.MkdirAll(filepath.Join(p.parent, ours, factory), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := h.Create(factory, "alc_used", allCPU)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Look().Prune(factory), Look().Prune(factory)); err != nil || len(left()) != len(h.places) {
		t.Errorf("%v, of %d places there are %v", err, len(h.places), left())
	}
	// Emptied behind its back, as by a Destroy that was ended half-way.
	for _, p := range g.parts {
		if err := unix.Rmdir(p.dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := Look().Prune(factory); err != nil || len(left()) > 0 {
		t.Errorf("%v, left %v", err, left())
	}
	if err := Look().Prune("../" + factory); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a path passed as an id: %v", err)
	}
}

// Whoever was to make the factory's folder may have been ended as well: its own way there is removed all the same,
// and never more than that.
func TestPruneOfWhatIsNotThere(t *testing.T) {
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, ours), 0o755); err != nil {
		t.Fatal(err)
	}
	p := place{parent: parent}
	for range 2 {
		p.prune(filepath.Join(parent, ours, "fac_x"))
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
	}
}

// Those that make groups meanwhile get them, with their limits.
func TestPruneBesideCreate(t *testing.T) {
	h := Detect()
	if len(h.places) == 0 {
		t.Skipf("no controller can be written here: %v", h.Problems)
	}
	factory := "fac_race" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() { _ = h.Prune(factory) })
	stop := make(chan struct{})
	var pruners sync.WaitGroup
	defer pruners.Wait()
	defer close(stop)
	pruners.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = h.Prune(factory)
			}
		}
	})
	for i := range 50 {
		g, reports, err := h.Create(factory, "alc_"+strconv.Itoa(i), allCPU)
		if err != nil || g == nil {
			t.Fatalf("round %d: %v %+v", i, err, reports)
		}
		if len(g.parts) != len(h.places) {
			t.Errorf("round %d: %+v", i, reports)
		}
		destroy(t, g)
	}
}
