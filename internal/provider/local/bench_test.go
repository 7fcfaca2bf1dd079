package local

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
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

func (l *live) keeper() process.ID {
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

// BenchmarkStart is the way from a Spec to the command's first byte, and where its time goes. With bwrap on
// this machine, bubblewrap's bare start of /bin/true is measured in the same run.
func BenchmarkStart(bm *testing.B) {
	b := newBench(bm)
	var create, connect, start, first, destroy time.Duration
	bm.ResetTimer()
	for bm.Loop() {
		spec, auth := b.spec("echo", "x")
		spec.Workspace.Collect = false
		ctx := context.Background()
		t0 := time.Now()
		id, err := b.Create(ctx, spec)
		if err != nil {
			bm.Fatal(err)
		}
		t1 := time.Now()
		w, err := b.Connect(ctx, id, auth)
		if err != nil {
			bm.Fatal(err)
		}
		t2 := time.Now()
		if err := w.Start(ctx); err != nil {
			bm.Fatal(err)
		}
		t3 := time.Now()
		var out bytes.Buffer
		if _, err := w.Output(ctx, 0, &out); err != nil || out.String() != "x\n" {
			bm.Fatalf("%v %q", err, out.String())
		}
		t4 := time.Now()
		bm.StopTimer()
		w.Close()
		if err := b.Destroy(ctx, id); err != nil {
			bm.Fatal(err)
		}
		bm.StartTimer()
		create += t1.Sub(t0)
		connect += t2.Sub(t1)
		start += t3.Sub(t2)
		first += t4.Sub(t3)
		destroy += time.Since(t4)
	}
	report := func(d time.Duration, name string) {
		bm.ReportMetric(float64(d.Microseconds())/1000/float64(bm.N), name)
	}
	report(create, "create-ms")
	report(connect, "connect-ms")
	report(start, "start-ms")
	report(first, "output-ms")
	report(destroy, "destroy-ms")
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
