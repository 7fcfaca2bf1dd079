package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
)

// live is a sandbox of one test.
type live struct {
	b    *bench
	spec provider.Spec
	auth provider.Auth
	id   sallyport.ResourceID
	provider.Wire
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

// start makes spec's sandbox and starts its command; it is destroyed at the test's end.
func (b *bench) start(spec provider.Spec, auth provider.Auth) *live {
	b.t.Helper()
	l := b.make(spec, auth)
	if err := l.Start(b.ctx()); err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	return l
}

func (b *bench) make(spec provider.Spec, auth provider.Auth) *live {
	b.t.Helper()
	id, err := b.Create(b.ctx(), spec)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(b.folder(spec.Allocation), "keeper.log"))
		b.t.Fatalf("Create: %v (%s)", err, log)
	}
	l := &live{b: b, spec: spec, auth: auth, id: id}
	b.t.Cleanup(func() { l.destroy() })
	l.reconnect()
	return l
}

func (l *live) reconnect() {
	l.b.t.Helper()
	w, err := l.b.Connect(l.b.ctx(), l.id, l.auth)
	if err != nil {
		l.b.t.Fatalf("Connect: %v", err)
	}
	l.Wire = w
	l.b.t.Cleanup(func() { w.Close() })
}

func (l *live) destroy() {
	l.b.t.Helper()
	if err := l.b.Destroy(l.b.ctx(), l.id); err != nil {
		l.b.t.Errorf("Destroy: %v", err)
	}
}

// all is the command's whole output, and its end.
func (l *live) all() (string, provider.Exit) {
	l.b.t.Helper()
	var out bytes.Buffer
	if _, err := l.Output(l.b.ctx(), 0, &out); err != nil {
		l.b.t.Fatalf("Output: %v", err)
	}
	e, err := l.Wait(l.b.ctx())
	if err != nil {
		l.b.t.Fatalf("Wait: %v", err)
	}
	return out.String(), e
}

// until returns once the output holds word.
func (l *live) until(word string) {
	l.b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(l.b.ctx(), 30*time.Millisecond)
		var out bytes.Buffer
		_, err := l.Output(ctx, 0, &out)
		cancel()
		if strings.Contains(out.String(), word) {
			return
		}
		if err == nil {
			l.b.t.Fatalf("the command ended without saying %q: %s", word, out.String())
		}
	}
	l.b.t.Fatalf("the command never said %q", word)
}

// shell runs a script to its end in a sandbox of its own.
func (b *bench) shell(script string, change ...func(*provider.Spec)) (string, provider.Exit) {
	b.t.Helper()
	spec, auth := b.spec("sh", "-c", script)
	for _, c := range change {
		c(&spec)
	}
	l := b.start(spec, auth)
	defer l.destroy()
	return l.all()
}

func (l *live) keeper() process.ID { return l.self().ID }

func (l *live) self() keeper.Self {
	l.b.t.Helper()
	self, err := readSelf(l.b.folder(l.spec.Allocation))
	if err != nil {
		l.b.t.Fatal(err)
	}
	return self
}

// bearing are the processes of this machine whose arguments hold word.
func bearing(t testing.TB, word string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(word)) {
			pids = append(pids, filepath.Base(filepath.Dir(f))+" "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return pids
}

// soon fails unless ok becomes true.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// BenchmarkStart and BenchmarkStartWarm are the way from a Spec to the command's first byte, and where its time goes: medians, since a
// busy machine spoils means. With bwrap on this machine, bubblewrap's bare start of /bin/true is measured in the
// same run.
func BenchmarkStart(bm *testing.B) { benchmarkStart(bm, false) }

// BenchmarkStartWarm has a spare ready each time.
func BenchmarkStartWarm(bm *testing.B) { benchmarkStart(bm, true) }

func benchmarkStart(bm *testing.B, warm bool) {
	b := newBench(bm)
	phases := map[string][]time.Duration{}
	bm.ResetTimer()
	for bm.Loop() {
		spec, auth := b.spec("echo", "x")
		if warm {
			bm.StopTimer()
			must(bm, b.Warm(context.Background()))
			bm.StartTimer()
		}
		last := time.Now()
		began := last
		lap := func(phase string, err error) {
			if err != nil {
				bm.Fatalf("%s: %v", phase, err)
			}
			now := time.Now()
			phases[phase] = append(phases[phase], now.Sub(last))
			last = now
		}
		ctx := context.Background()
		id, err := b.Create(ctx, spec)
		lap("create", err)
		w, err := b.Connect(ctx, id, auth)
		lap("connect", err)
		lap("start", w.Start(ctx))
		out, cancel := context.WithCancel(ctx)
		seen := &firstByte{cancel: cancel}
		_, err = w.Output(out, 0, seen)
		cancel()
		if !seen.came {
			bm.Fatalf("no output: %v", err)
		}
		lap("output", nil)
		phases["all"] = append(phases["all"], last.Sub(began))
		bm.StopTimer()
		w.Close()
		last = time.Now()
		lap("destroy", b.Destroy(ctx, id))
		bm.StartTimer()
	}
	report(bm, phases)
}

// firstByte ends an Output once something came.
type firstByte struct {
	came   bool
	cancel func()
}

func (f *firstByte) Write(p []byte) (int, error) {
	f.came = true
	f.cancel()
	return len(p), nil
}

func report(bm *testing.B, phases map[string][]time.Duration) {
	for name, ds := range phases {
		slices.Sort(ds)
		bm.ReportMetric(float64(ds[len(ds)/2].Microseconds())/1000, name+"-ms")
	}
}

// BenchmarkCreateParts is what Create does before it starts the keeper; the rest of Create is the keeper, the
// sandbox and the probes.
func BenchmarkCreateParts(bm *testing.B) {
	b := newBench(bm)
	phases := map[string][]time.Duration{}
	dir := bm.TempDir()
	for bm.Loop() {
		spec, _ := b.spec("true")
		last := time.Now()
		lap := func(phase string, err error) {
			if err != nil {
				bm.Fatalf("%s: %v", phase, err)
			}
			phases[phase] = append(phases[phase], time.Since(last))
			last = time.Now()
		}
		ids := b.ids.pick()
		_, err := b.ids.claim(ids, spec.Allocation)
		lap("ids", err)
		if !ids.own {
			user, err := idmap(b.cfg.Runner, os.Geteuid(), os.Getegid(), ids.hostAgent)
			lap("idmap", err)
			user.Close()
		}
		plan := &planner{spec: spec, ids: ids, dir: filepath.Join(dir, string(spec.Allocation)), users: newUsers(b.cfg.Runner, ids), runner: b.cfg.Runner}
		lap("plan", plan.build(b.cfg.Runner))
		plan.closeFiles()
		plan.users.close()
		last = time.Now()
		g, err := b.group(spec)
		lap("cgroup", err)
		g.close()
		lap("record", durable(filepath.Join(dir, "record")))
		bm.StopTimer()
		if made, err := detect().Open(string(b.cfg.Factory), string(spec.Allocation)); err == nil {
			cmd := exec.Command("sleep", "60")
			must(bm, cmd.Start())
			entry, err := made.Entry()
			must(bm, err)
			last = time.Now()
			lap("enter", entry.MoveProcess(cmd.Process.Pid))
			entry.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		must(bm, b.dropGroup(context.Background(), spec.Allocation))
		must(bm, b.ids.release(spec.Allocation))
		bm.StartTimer()
	}
	report(bm, phases)
}

// durable is one record as the keeper makes it: file and folder synced.
func durable(path string) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteString("{}")
	d, derr := os.Open(filepath.Dir(path))
	err = errors.Join(err, derr, f.Sync(), f.Close(), os.Rename(path+".tmp", path))
	if derr == nil {
		err = errors.Join(err, d.Sync(), d.Close())
	}
	return err
}

// BenchmarkBubblewrap is the yardstick for BenchmarkStart: as many namespaces, no overlay, no limits, no
// probes, no wire.
func BenchmarkBubblewrap(bm *testing.B) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		bm.Skip("missing capability: bubblewrap is not installed")
	}
	for bm.Loop() {
		out, err := exec.Command(path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "/bin/true").CombinedOutput()
		if err != nil {
			bm.Fatalf("%v %s", err, out)
		}
	}
}

// shortCtx is a caller that soon stops waiting.
func (b *bench) shortCtx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	b.t.Cleanup(cancel)
	return ctx
}
