// Package crash_test kills every kind of process of Sallyport at every point of an Attempt's life and judges
// what is left: by the real binaries, a real kernel and a real repository. What single rooms promise is tested
// there; here stands only what holds when some part of the whole is suddenly gone.
package crash_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

var programs string // the folder of the three binaries

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sallyport-crash-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "sallyport.dev/sallyport/cmd/...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
			return 1
		}
		// Most of a test is waiting for a disk or a lease, so more of them than processors go at once.
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
			_ = flag.Set("test.parallel", "4")
		}
		return m.Run()
	}())
}

// patience bounds every wait for an event: long enough for a machine that is busy with everything else.
const patience = 90 * time.Second

// world is one state folder, one repository and nobody else's.
type world struct {
	t                      *testing.T
	dir, state, repo, name string
	db                     *sql.DB
}

const policy = `version: 1
checks:
  - {name: test, run: %s, timeout: 1m}
publish: {to: branch, approve: on-finding}
`

// newWorld's repository has one check, "sh test.sh", that fails on the base and passes on the change of agent.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, "sh test.sh", "grep -q right value\n")
}

func newWorldWith(t *testing.T, check, test string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, state: filepath.Join(dir, "state"), repo: filepath.Join(dir, "repo"), name: "job"}
	t.Cleanup(w.close)
	for _, d := range []string{w.repo, w.home()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"sallyport.yaml": fmt.Sprintf(policy, check), "value": "wrong\n", "test.sh": test} {
		if err := os.WriteFile(filepath.Join(w.repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b := proof.Load(); b != nil {
		if err := os.MkdirAll(filepath.Dir(w.proof()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.proof(), *b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Tester")
	w.git("config", "user.email", "tester@example.invalid")
	w.git("add", "-A")
	w.git("commit", "-qm", "base")
	return w
}

// proof is what the trials of limits found, which hold for a boot: worlds hand it on, so that not each of them
// tries again. A cold world does.
var proof atomic.Pointer[[]byte]

func (w *world) proof() string { return filepath.Join(w.state, "local", "proof.json") }

func (w *world) cold() *world {
	if err := os.Remove(w.proof()); err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return w
}

func (w *world) home() string { return filepath.Join(w.dir, "home") }

// close leaves nothing behind, also after a test that failed half-way: cancel, wait, and then by exact pid.
func (w *world) close() {
	if w.db != nil {
		w.db.Close()
	}
	if b, err := os.ReadFile(w.proof()); err == nil {
		proof.Store(&b)
	}
	for _, p := range w.processes() {
		if p.driver() {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	}
	if w.t.Failed() {
		w.t.Logf("drivers said:\n%s", w.driverLogs())
	}
	if doc, err := w.list(); err == nil {
		for _, r := range doc {
			if !r.State.Ended() {
				w.sallyport("cancel", string(r.Attempt))
				w.sallyport("wait", string(r.Attempt))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(w.state, "journal.db")); err == nil {
		w.sallyport("reconcile")
	}
	for _, p := range w.processes() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	_ = os.RemoveAll(w.dir)
}

func (w *world) driverLogs() string {
	var b strings.Builder
	logs, _ := filepath.Glob(filepath.Join(w.state, "attempts", "*", "driver.log"))
	for _, l := range logs {
		text, _ := os.ReadFile(l)
		b.Write(text)
	}
	return b.String()
}

func (w *world) environ() []string {
	return []string{"HOME=" + w.home(), "XDG_CONFIG_HOME=" + filepath.Join(w.home(), ".config"), "PATH=/usr/local/bin:/usr/bin:/bin",
		"SALLYPORT_STATE=" + w.state, "LANG=C.UTF-8", "TERM=xterm-256color"}
}

// command is one invocation from within the repository, in a process group of its own.
func (w *world) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(programs, "sallyport"), args...)
	c.Dir, c.Env = w.repo, w.environ()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

type result struct {
	out, err string
	code     int
}

func (w *world) sallyport(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := w.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() })
	defer stop()
	return result{code: exitCode(c.Wait()), out: out.String(), err: errs.String()}
}

func exitCode(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	if err != nil {
		return -2
	}
	return 0
}

// must is for calls that are expected to end with code.
func (w *world) must(code int, args ...string) result {
	w.t.Helper()
	r := w.sallyport(args...)
	if r.code != code {
		w.t.Fatalf("sallyport %v: exit %d, want %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	return r
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.repo
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs script detached and returns its Attempt.
func (w *world) start(script string) sallyport.AttemptID {
	w.t.Helper()
	r := w.must(0, append([]string{"run", "-d", "--name", w.name, "-m", "make it right", "--"}, "sh", "-c", script)...)
	return sallyport.AttemptID(strings.TrimSpace(r.out))
}

func (w *world) list() ([]sallyport.Report, error) {
	if _, err := os.Stat(filepath.Join(w.state, "journal.db")); err != nil {
		return nil, err
	}
	var doc struct {
		Attempts []sallyport.Report `json:"attempts"`
	}
	r := w.sallyport("ps", "-a", "--json")
	return doc.Attempts, json.Unmarshal([]byte(r.out), &doc)
}

// wait follows id to its end and returns the report. It adopts by itself.
func (w *world) wait(id sallyport.AttemptID) (sallyport.Report, int) {
	w.t.Helper()
	r := w.sallyport("wait", "--json", string(id))
	var rep sallyport.Report
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil {
		w.t.Fatalf("wait %s: exit %d, %v\n%s%s", id, r.code, err, r.out, r.err)
	}
	return rep, r.code
}

// await polls until ok.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain: %s\n%s", what, w.story())
		}
	}
}

// --- the journal, read beside its writers ---

func (w *world) journal() *sql.DB {
	if w.db == nil {
		path := filepath.Join(w.state, "journal.db")
		if _, err := os.Stat(path); err != nil {
			return nil
		}
		db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
		if err != nil {
			w.t.Fatal(err)
		}
		w.db = db
	}
	return w.db
}

// last is the number of the last event; 0 while there is no journal.
func (w *world) last() int64 {
	var n int64
	if db := w.journal(); db != nil {
		_ = db.QueryRow("SELECT coalesce(max(seq), 0) FROM events").Scan(&n)
	}
	return n
}

type event struct {
	Seq        int64
	Type       lifecycle.Type
	Attempt    sallyport.AttemptID
	Allocation sallyport.AllocationID
	Fence      int64
	Data       string
}

func (w *world) events() []event {
	db := w.journal()
	if db == nil {
		return nil
	}
	rows, err := db.Query("SELECT seq, type, attempt, allocation, fence, data FROM events ORDER BY seq")
	if err != nil {
		return nil
	}
	defer rows.Close()
	var all []event
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.Seq, &e.Type, &e.Attempt, &e.Allocation, &e.Fence, &e.Data); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (w *world) count(t lifecycle.Type, text string, of ...sallyport.AttemptID) int {
	n := 0
	for _, e := range w.events() {
		if e.Type == t && strings.Contains(e.Data, text) && (len(of) == 0 || slices.Contains(of, e.Attempt)) {
			n++
		}
	}
	return n
}

func (w *world) awaitEvent(t lifecycle.Type, text string) {
	w.t.Helper()
	w.await(fmt.Sprintf("event %s with %q", t, text), func() bool { return w.count(t, text) > 0 })
}

// story is what a failed test shows.
func (w *world) story() string {
	var b strings.Builder
	for _, e := range w.events() {
		d := e.Data
		if len(d) > 300 {
			d = d[:300] + "…"
		}
		fmt.Fprintf(&b, "%3d fence %d %s %s %s\n", e.Seq, e.Fence, e.Type, e.Allocation, d)
	}
	for _, p := range w.processes() {
		fmt.Fprintf(&b, "process %d: %q\n", p.pid, p.args)
	}
	return b.String()
}

// --- processes, by what their arguments say, ended by exact pid only ---

type proc struct {
	pid  int
	args []string
}

func (p proc) driver() bool { return len(p.args) == 3 && p.args[1] == "drive" }

// processes are all that bear this world's mark: drivers by their state folder, keepers and first processes of
// sandboxes by an allocation or factory of ours.
func (w *world) processes() []proc {
	marks := w.marks()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	var all []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(b) == 0 {
			continue
		}
		p := proc{pid, strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")}
		switch {
		case p.driver():
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err == nil && bytes.Contains(env, []byte("SALLYPORT_STATE="+w.state+"\x00")) {
				all = append(all, p)
			}
		case len(p.args) > 1 && strings.HasPrefix(p.args[0], "sallyport-") && (marks[p.args[1]] || len(p.args) > 2 && marks[p.args[2]]):
			all = append(all, p)
		}
	}
	return all
}

func (w *world) factory() string {
	var f struct {
		Factory string `json:"factory"`
	}
	b, err := os.ReadFile(filepath.Join(w.state, "factory.json"))
	if err == nil {
		_ = json.Unmarshal(b, &f)
	}
	return f.Factory
}

func (w *world) marks() map[string]bool {
	m := map[string]bool{}
	if f := w.factory(); f != "" {
		m[f] = true
	}
	entries, _ := os.ReadDir(filepath.Join(w.state, "local", "allocations"))
	for _, e := range entries {
		m[e.Name()] = true
	}
	for _, e := range w.events() {
		if e.Allocation != "" {
			m[string(e.Allocation)] = true
		}
	}
	return m
}

// driver is the pid of this world's driver; 0: none.
func (w *world) driver() int {
	for _, p := range w.processes() {
		if p.driver() {
			return p.pid
		}
	}
	return 0
}

// kill ends exactly this process and returns once it is dead.
func (w *world) kill(pid int) {
	w.t.Helper()
	if pid <= 0 {
		w.t.Fatalf("no such process\n%s", w.story())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		w.t.Fatal(err)
	}
	w.await(fmt.Sprintf("the death of %d", pid), func() bool { return dead(pid) })
}

// dead: gone, or a zombie that its parent has not yet reaped.
func dead(pid int) bool {
	s := state(pid)
	return s == "" || s == "Z" || s == "X"
}

// state is the kernel's letter for what pid does; empty: it is gone.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

// sandbox finds the keeper and the first process of the youngest open allocation with this purpose.
func (w *world) sandbox(purpose sallyport.Purpose) (allocation sallyport.AllocationID, keeper, runner int) {
	for _, e := range slices.Backward(w.events()) {
		if e.Type == lifecycle.AllocationIntended && strings.Contains(e.Data, fmt.Sprintf("%q", purpose)) {
			allocation = e.Allocation
			break
		}
	}
	for _, p := range w.processes() {
		if p.args[1] != string(allocation) {
			continue
		}
		switch p.args[0] {
		case "sallyport-keeper":
			keeper = p.pid
		case "sallyport-runner":
			runner = p.pid
		}
	}
	return allocation, keeper, runner
}

// --- the judge ---

// agent is the usual agent: it says something, marks that it ran and makes the change.
const agent = `echo hello from the agent; echo ran >> ran; echo right > value`

// awaitEnd waits, without any Sallyport process of ours helping, until nothing is left to do for id.
func (w *world) awaitEnd(id sallyport.AttemptID) {
	w.t.Helper()
	w.await("the end of "+string(id), func() bool {
		ended, publishing := false, false
		for _, e := range w.events() {
			if e.Attempt != id {
				continue
			}
			switch e.Type {
			case lifecycle.AttemptDecided, lifecycle.AttemptFailed, lifecycle.AttemptCancelled:
				ended = true
			case lifecycle.PublicationIntended:
				publishing = true
			case lifecycle.PublicationDone, lifecycle.PublicationRefused:
				publishing = false
			}
		}
		return ended && !publishing && w.driver() == 0
	})
}

// accepted judges an Attempt of agent that was hurt and has to be none the worse.
func (w *world) accepted(id sallyport.AttemptID) {
	w.t.Helper()
	rep, code := w.wait(id)
	if code != 0 || rep.State != sallyport.AttemptAccepted {
		w.t.Errorf("%s: exit %d, %s: %+v\n%s", id, code, rep.State, rep.Reason, w.story())
		return
	}
	if refs := w.git("for-each-ref", "--format=%(refname)", "refs/heads/sallyport/"); refs != "refs/heads/sallyport/"+w.name {
		w.t.Errorf("branches %q, want exactly one", refs)
		return
	}
	branch := "refs/heads/sallyport/" + w.name
	if n := w.git("rev-list", "--count", "main.."+branch); n != "1" {
		w.t.Errorf("%s commits on the branch, want 1", n)
	}
	if got := w.git("show", branch+":ran"); got != "ran" {
		w.t.Errorf("the agent ran other than once: %q", got)
	}
	if got := w.git("show", branch+":value"); got != "right" {
		w.t.Errorf("the branch has %q", got)
	}
	if log := w.must(0, "logs", string(id)); strings.Count(log.out+log.err, "hello from the agent") != 1 {
		w.t.Errorf("the log: %q", log.out+log.err)
	}
	if n := w.count(lifecycle.AllocationIntended, `"execute"`, id); n != 1 {
		w.t.Errorf("%d sandboxes for the agent, want 1\n%s", n, w.story())
	}
	if n := w.count(lifecycle.PublicationDone, "", id); n != 1 {
		w.t.Errorf("%d publications\n%s", n, w.story())
	}
	if len(rep.Checks) != 1 || rep.Checks[0].Status != sallyport.CheckPassed || rep.Checks[0].BaseStatus != sallyport.CheckFailed {
		w.t.Errorf("checks %+v", rep.Checks)
	}
	w.tidy()
}

// tidy judges what is left in the world once everything has ended: nothing.
func (w *world) tidy() {
	w.t.Helper()
	w.await("the last process's end", func() bool { return len(w.processes()) == 0 })
	if r := w.sallyport("fsck"); r.code != 0 || strings.Contains(r.out, "FAULT") || strings.Contains(r.out, "to reconcile") {
		w.t.Errorf("fsck: exit %d\n%s%s\n%s", r.code, r.out, r.err, w.story())
	}
	for _, d := range []string{"allocations", "ids"} {
		entries, err := os.ReadDir(filepath.Join(w.state, "local", d))
		if err != nil || len(entries) > 0 {
			w.t.Errorf("left in local/%s: %v %v\n%s", d, entries, err, w.story())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.state, "local", "trial-*")); len(left) > 0 {
		w.t.Errorf("trials left: %v", left)
	}
	if left := w.cgroups(); len(left) > 0 {
		w.t.Errorf("cgroups left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(w.dir)) {
		w.t.Errorf("mounts left under %s (%v)", w.dir, err)
	}
	w.swept()
	if s := w.git("status", "--porcelain"); s != "" {
		w.t.Errorf("the user's checkout was touched: %s", s)
	}
}

// swept: a collection of garbage that is old enough leaves no half-written file anywhere.
func (w *world) swept() {
	w.t.Helper()
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, d := range []string{"quarantine", "attempts", "manifests", "base-checks", "repos"} {
		_ = filepath.WalkDir(filepath.Join(w.state, d), func(p string, _ fs.DirEntry, err error) error {
			if err == nil && halfWritten(p) {
				_ = os.Chtimes(p, old, old)
			}
			return nil
		})
	}
	w.must(0, "gc")
	for _, root := range []string{w.state, filepath.Join(w.repo, ".git")} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && halfWritten(p) {
				w.t.Errorf("half-written and left: %s", p)
			}
			return nil
		})
	}
}

// halfWritten: temporary names of ours (x.tmp, and .x12345 beside x) and of git (x.lock, tmp_pack_…).
func halfWritten(path string) bool {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "tmp_"):
		return !strings.Contains(path, "/state/repos/") // git's own, in a checkout that is evicted as a whole
	case strings.HasSuffix(name, ".tmp"):
		return true
	case strings.HasSuffix(name, ".lock"):
		return !strings.HasPrefix(name, "wo_") && !strings.Contains(path, "/repos/") || strings.HasSuffix(name, "index.lock")
	case strings.HasPrefix(name, ".") && strings.ContainsAny(name, "0123456789") && strings.Contains(name, ".json"):
		return true
	}
	return false
}

// cgroups are the groups that bear this factory's id, on every hierarchy.
func (w *world) cgroups() []string {
	f := w.factory()
	var left []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == f {
			left = append(left, p)
			return fs.SkipDir
		}
		return nil
	})
	return left
}

// holderOf is the process that an event lease.acquired names.
func (w *world) lease(id sallyport.AttemptID) (fence int64, until time.Duration, holder journal.Holder) {
	var text string
	var ns int64
	db := w.journal()
	if db == nil {
		return 0, 0, holder
	}
	_ = db.QueryRow("SELECT fence, until_ns, holder FROM leases WHERE attempt = ?", string(id)).Scan(&fence, &ns, &text)
	_ = json.Unmarshal([]byte(text), &holder)
	return fence, time.Duration(ns), holder
}
