// Package guest_test runs the shipped programs, and the kernel-facing rooms' own tests, on a kernel other than
// the developer's: Linux 6.1 of Debian 12 with pure cgroup v2 and Landlock ABI 2, as an ordinary user: with a
// delegated subtree and no service manager (TestGuest), and logged in under systemd (TestSystemd). The guest is
// tools/guest.
package guest_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/testkit"
	"sallyport.dev/sallyport/tools/guest"
	"sallyport.dev/sallyport/tools/guest/talk"
)

// Emulated, programs take twenty times as long as on the host; on a loaded host, a multiple of that.
const (
	wholeTest   = 8 * time.Minute // after the base is there; then the emulator is ended
	attemptMost = 3 * time.Minute
	roomMost    = 2 * time.Minute
)

func TestGuest(t *testing.T) {
	base := guest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), wholeTest)
	defer cancel()
	local := programs(ctx, t)
	start := time.Now()
	m, err := guest.Boot(ctx, base, t.TempDir(), guest.Config{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		t.Logf("the emulator took %.1f s of cpu in %.1f s", m.Close().Seconds(), time.Since(start).Seconds())
	}()
	t.Logf("kernel %s took commands after %.1f s", base.Release, time.Since(start).Seconds())
	s := session{ctx: ctx, machine: m}
	s.root(t, layOut)

	t.Run("kernel", s.testKernel)
	t.Run("doctor", s.testDoctor)
	t.Run("run", s.testRun)
	t.Run("cgroup tests", s.testCgroupRoom)
	t.Run("contain tests", s.testContainRoom)
}

// programs is what the guest has at /usr/local: what is shipped, and two rooms' tests.
func programs(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	for _, args := range [][]string{
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "sallyport.dev/sallyport/cmd/..."},
		{"test", "-c", "-trimpath", "-o", bin + "cgroup.test", "sallyport.dev/sallyport/internal/contain/cgroup"},
		{"test", "-c", "-trimpath", "-o", bin + "contain.test", "sallyport.dev/sallyport/internal/contain"},
	} {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	// A test finds its testdata from its working directory.
	if err := os.CopyFS(filepath.Join(dir, "share", "testdata"), os.DirFS("../../internal/contain/cgroup/testdata")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testKernel makes sure that the guest is what the other tests are for.
func (s session) testKernel(t *testing.T) {
	if got := s.root(t, "uname -r"); !strings.HasPrefix(got, "6.1.") {
		t.Skipf("missing: Linux 6.1 (Debian 12's kernel); apt offers %s", got)
	}
	// landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)
	if got := s.root(t, `perl -e 'print syscall(444, 0, 0, 1)'`); got != "2" {
		t.Errorf("Landlock ABI %s, want 2", got)
	}
	if got := s.root(t, "stat -f -c %T /sys/fs/cgroup; cat /proc/1/cgroup; cat "+delegated+"/cgroup.controllers"); got != "cgroup2fs\n0::/\ncpu memory pids\n" {
		t.Errorf("not pure cgroup v2 with delegated controllers: %q", got)
	}
	if got := s.root(t, "ls /sys/class/net"); got != "lo\n" {
		t.Errorf("network devices: %q", got)
	}
	if a := s.user(t, leaf, "id -u; grep Cap /proc/self/status; cat /proc/self/cgroup", 20*time.Second); !strings.HasPrefix(string(a.Stdout), "1001\n") ||
		strings.Contains(strings.ReplaceAll(string(a.Stdout), "CapBnd", ""), "CapEff:\t00000f") || !strings.HasSuffix(string(a.Stdout), "/app.slice/terminal.scope\n") {
		t.Errorf("not an ordinary user in its leaf: %s", a.Stdout)
	}
}

// room runs a test binary and reports its failures as ours; byNature are the tests that cannot run there.
func (s session) room(t *testing.T, uid uint32, cgroup, command string, byNature ...string) {
	t.Helper()
	before := s.belongings(t)
	a := s.run(t, "cd /usr/local/share && "+command, uid, "/", cgroup, roomMost)
	if a.Exit != 0 || !regexp.MustCompile(`(?m)^PASS$`).Match(a.Stdout) || !strings.Contains(string(a.Stdout), "--- PASS") {
		t.Errorf("exit %d, signal %d, after %v:\n%s%s", a.Exit, a.Signal, a.Took, a.Stdout, a.Stderr)
	}
	testkit.Skips(t, string(a.Stdout), byNature...)
	t.Logf("%v", a.Took)
	s.nothingLeft(t, before)
}

func (s session) testCgroupRoom(t *testing.T) {
	const onV1 = "TestKillSparesVisitors" // threads move alone only there
	t.Run("root", func(t *testing.T) { s.room(t, 0, "", "cgroup.test -test.v", onV1) })
	t.Run("user", func(t *testing.T) {
		s.room(t, guest.UID, leaf, "cgroup.test -test.v", onV1,
			"TestLeafTakesWhatWasStarted", "TestLeafLeavesOthersAlone", // the top is not this user's
			"TestEntryFromConfinedThread", "TestUnprivilegedKeeper", "TestUserWithoutDelegation", "TestUserWithDelegation", "TestAnothersFolderHoldsNothingOfOurs") // they need root, to be two users
	})
	t.Run("user by hand", func(t *testing.T) {
		s.room(t, guest.UID, byHandLeaf, "cgroup.test -test.v -test.run 'TestReportsHeld|TestPIDsLimit'")
	})
}

// testContainRoom runs what matters on an old Landlock: that the layers' probes hold, and that real programs work
// behind them, both as started by root and by a user. TestProbesFail takes minutes here and none of its rows is
// about this kernel.
func (s session) testContainRoom(t *testing.T) {
	s.room(t, 0, "", "contain.test -test.v -test.run 'TestLandlockHandlesAll|TestOthersKeepTheirPower|TestForeignCallsNeverPass|TestStartFromOutside|TestProbesHold|TestPrograms/user/(bash|git)$'")
}

// doctorSays is the part of `doctor --json` that is looked at.
type doctorSays struct {
	OK     bool                    `json:"ok"`
	Layers []sallyport.LayerReport `json:"layers"`
}

func (s session) testDoctor(t *testing.T) {
	before := s.belongings(t)
	a := s.user(t, leaf, "sallyport doctor --json", attemptMost)
	var d doctorSays
	if err := json.Unmarshal(a.Stdout, &d); err != nil || a.Exit != 0 || !d.OK {
		t.Fatalf("exit %d, %v\n%s%s", a.Exit, err, a.Stdout, a.Stderr)
	}
	t.Logf("%v", a.Took)
	held(t, d.Layers)
	s.nothingLeft(t, before)
}

// held: what an ordinary user must get in a delegated subtree.
func held(t *testing.T, layers []sallyport.LayerReport) {
	t.Helper()
	for _, want := range []sallyport.Layer{sallyport.LayerWorktree, sallyport.LayerProcess, sallyport.LayerFilesystem, sallyport.LayerSyscalls, sallyport.LayerNetwork, sallyport.LayerCredentials} {
		if l := find(layers, want); l.Status != sallyport.LayerHeld {
			t.Errorf("layer %s: %s: %s", want, l.Status, l.Proof)
		}
	}
	for want, file := range map[sallyport.Layer]string{sallyport.LayerMemory: "memory.max=", sallyport.LayerPIDs: "pids.max=", sallyport.LayerCPU: "cpu.max="} {
		if l := find(layers, want); l.Status != sallyport.LayerHeld || !strings.Contains(l.Proof, "cgroup v2 ") || !strings.Contains(l.Proof, file) {
			t.Errorf("layer %s: %s: %s", want, l.Status, l.Proof)
		}
	}
}

// find is the report on one layer; the zero one does not hold.
func find(layers []sallyport.LayerReport, want sallyport.Layer) sallyport.LayerReport {
	for _, l := range layers {
		if l.Layer == want {
			return l
		}
	}
	return sallyport.LayerReport{}
}

// repository is a fresh one with a check that fails on the base, and limits that a hog meets soon.
const repository = `set -e
rm -rf "$HOME/repo"; git init -q -b main "$HOME/repo"; cd "$HOME/repo"
git config user.name Developer; git config user.email dev@example.test
cat > sallyport.yaml <<'END'
version: 1
limits: {time: 2m, memory: 96MiB, pids: 48, cpus: 0.75}
checks:
  - {name: test, run: sh test.sh, timeout: 1m}
END
printf 'grep -q better text\n' > test.sh
echo good > text
git add .; git commit -qm first
`

// outcome is the part of `run --json` that is looked at.
type outcome struct {
	State    string `json:"state"`
	Decision string `json:"decision"`
	Reason   struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"reason"`
	Agent struct {
		Exit  int    `json:"exit"`
		Ended string `json:"ended"`
		By    string `json:"by"`
	} `json:"agent"`
	Branch string                  `json:"branch"`
	Commit string                  `json:"commit"`
	Layers []sallyport.LayerReport `json:"layers"`
	Checks []struct {
		Name       string `json:"name"`
		Status     string `json:"status"`
		BaseStatus string `json:"base_status"`
	} `json:"checks"`
	Timings map[string]float64 `json:"timings"`
}

// attempt runs one, wanting an exit code, from a leaf of the delegated subtree.
func (s session) attempt(t *testing.T, cgroup, name, agent string, exit int) outcome {
	t.Helper()
	a := s.user(t, cgroup, repository+"exec sallyport run --json --name "+name+" -- sh -c '"+agent+"'", attemptMost)
	var o outcome
	if err := json.Unmarshal(a.Stdout, &o); err != nil || a.Exit != exit {
		t.Fatalf("exit %d, want %d (signal %d, %v)\n%s%s", a.Exit, exit, a.Signal, err, a.Stdout, a.Stderr)
	}
	t.Logf("%v; %v", a.Took, o.Timings)
	return o
}

func (s session) testRun(t *testing.T) {
	before := s.belongings(t)
	t.Run("accepted", s.testAccepted)
	t.Run("hogs", s.testHogs)
	s.nothingLeft(t, before)
}

// watch waits until an Attempt's command runs, known by a number of seconds that it sleeps, and says in which
// cgroup, with which limits, as who; then how often a fork was refused there, which must be so many times.
const watch = `for i in $(seq 500); do
	for p in $(pgrep -x -f "sleep $1"); do
		g=$(cut -d: -f3 /proc/$p/cgroup); d=/sys/fs/cgroup$g
		[ "$(cut -d" " -f2 $d/pids.events)" -ge "$2" ] || continue 2
		echo "$g"; cat $d/memory.max $d/memory.swap.max $d/pids.max $d/cpu.max; awk '/^Uid/ {print $2}' /proc/$p/status
		echo "refused $(cut -d' ' -f2 $d/pids.events)"
		exit 0
	done
	sleep 0.2
done; exit 1`

// observe starts a watcher beside an Attempt. Its result is a function that waits for it, at any time again.
func (s session) observe(t *testing.T, seconds, refused string) func() string {
	seen := make(chan string, 1)
	go func() {
		a, err := s.machine.Run(s.ctx, talk.Command{Argv: []string{"/bin/sh", "-c", watch, "watch", seconds, refused}, Env: environment(0), Dir: "/", Timeout: attemptMost})
		if err != nil || a.Exit != 0 {
			t.Errorf("the watcher: exit %d, %v %s", a.Exit, err, a.Stderr)
		}
		seen <- string(a.Stdout)
	}()
	wait := sync.OnceValue(func() string { return <-seen })
	t.Cleanup(func() { wait() }) // nobody reports to a test that has ended
	return wait
}

func (s session) testAccepted(t *testing.T) {
	seen := s.observe(t, "12.25", "0") // long enough to be read by a busy emulator
	o := s.attempt(t, leaf, "better", "sleep 12.25; echo better > text", 0)
	held(t, o.Layers)
	if o.State != "accepted" || o.Decision != "accepted" || o.Branch != "sallyport/better" || o.Agent.By != "keeper" || len(o.Checks) != 1 || o.Checks[0].Status != "passed" || o.Checks[0].BaseStatus != "failed" {
		t.Errorf("%+v", o)
	}
	// What the kernel itself says while the command runs, read by somebody else.
	want := regexp.MustCompile(`^` + regexp.QuoteMeta(strings.TrimPrefix(delegated, cgroups)) + `/sallyport/fac_[a-z0-9]+/alc_[a-z0-9]+\n` +
		strconv.Itoa(96<<20) + "\n0\n48\n75000 100000\n1001\nrefused 0\n$")
	if got := seen(); !want.MatchString(got) {
		t.Errorf("the command ran so: %q\nwant %s", got, want)
	}
	a := s.user(t, leaf, "cd repo; git rev-parse sallyport/better; git show sallyport/better:text; git status --porcelain; cat text; git symbolic-ref HEAD", 20*time.Second)
	if got := string(a.Stdout); got != o.Commit+"\nbetter\ngood\nrefs/heads/main\n" {
		t.Errorf("the repository afterwards: %q", got)
	}
}

// A fork bomb and a memory hog in one. The bomb never ends but by a fork that is refused; no command but built-in
// ones comes between the two, since none could be started. The bomb must run into the process limit and into nothing else, the hog
// ends the Attempt, and whatever the bomb has made dies with it.
func (s session) testHogs(t *testing.T) {
	seen := s.observe(t, "61.5", "1")
	o := s.attempt(t, leaf, "hogs", "(while :; do sleep 61.5 & done); i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; exec tail /dev/zero", 30)
	if o.State != "failed" || o.Agent.Ended != "memory" || o.Agent.By != "keeper" || o.Branch != "" {
		t.Errorf("%+v", o)
	}
	if got := seen(); !regexp.MustCompile(`refused [1-9]`).MatchString(got) {
		t.Errorf("no fork was refused: %q", got)
	}
	if a := s.user(t, leaf, "git -C repo for-each-ref refs/heads/sallyport/hogs", 20*time.Second); len(a.Stdout) > 0 {
		t.Errorf("a branch: %s", a.Stdout)
	}
}
