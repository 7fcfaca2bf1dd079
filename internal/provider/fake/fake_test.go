package fake_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/fake"
	"sallyport.dev/sallyport/internal/provider/providertest"
)

// acts plays the suite's acts as functions.
var acts = map[string]fake.Program{
	providertest.ActExit: func(_ context.Context, io fake.IO) (int, string) {
		n, _ := strconv.Atoi(io.Args[1])
		return n, ""
	},
	providertest.ActSignal: func(_ context.Context, io fake.IO) (int, string) { return -1, "SIG" + io.Args[1] },
	providertest.ActPrint: func(_ context.Context, io fake.IO) (int, string) {
		n, _ := strconv.Atoi(io.Args[1])
		io.Out.Write(providertest.Numbers(n))
		return 0, ""
	},
	providertest.ActDrip: func(ctx context.Context, io fake.IO) (int, string) {
		n, _ := strconv.Atoi(io.Args[1])
		for i := 1; i <= n && ctx.Err() == nil; i++ {
			fmt.Fprintln(io.Out, i)
			time.Sleep(10 * time.Millisecond)
		}
		return 0, ""
	},
	providertest.ActWait: func(ctx context.Context, io fake.IO) (int, string) {
		fmt.Fprintln(io.Out, "ready")
		<-ctx.Done()
		return 0, ""
	},
	providertest.ActSleep: func(ctx context.Context, _ fake.IO) (int, string) {
		<-ctx.Done()
		return 0, ""
	},
	providertest.ActMark: func(_ context.Context, io fake.IO) (int, string) {
		fmt.Fprint(io.Out, io.Tree.Append("ran.txt", "ran\n"))
		return 0, ""
	},
	providertest.ActEdit: func(_ context.Context, io fake.IO) (int, string) {
		io.Tree.File("added/new.txt", false, "new\n")
		io.Tree.File("edit.txt", false, "edited\n")
		io.Tree.Delete("gone.txt")
		io.Tree.File("mode.sh", true, providertest.Base()["mode.sh"])
		io.Tree.Link("link", "added/new.txt")
		return 0, ""
	},
	providertest.ActLinger: func(ctx context.Context, io fake.IO) (int, string) {
		linger(io)
		select {} // heeds nothing
	},
	providertest.ActOrphans: func(ctx context.Context, io fake.IO) (int, string) { linger(io); return 0, "" },
	providertest.ActEnv: func(_ context.Context, io fake.IO) (int, string) {
		for _, k := range slices.Sorted(maps.Keys(io.Env)) {
			fmt.Fprintf(io.Out, "%s=%s\n", k, io.Env[k])
		}
		return 0, ""
	},
	providertest.ActTerminal: func(_ context.Context, io fake.IO) (int, string) {
		fmt.Fprint(io.Out, "ready\r\n")
		lines := bufio.NewScanner(io.In)
		for lines.Scan() && lines.Text() != "end" {
			fmt.Fprintf(io.Out, "got %s\r\n", lines.Text())
		}
		c, r := io.Size()
		fmt.Fprintf(io.Out, "%d %d\r\n", r, c)
		return 0, ""
	},
}

// linger leaves goroutines that write until the test ends.
func linger(io fake.IO) {
	go func() {
		for {
			io.Tree.Append("ticks", "tick\n")
			if _, err := fmt.Fprintln(io.Out, "alive"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	fmt.Fprintln(io.Out, "ready")
}

func open(t *testing.T) (*fake.Provider, providertest.NewSpec) {
	newID := func(prefix string) string {
		s, err := id.New(prefix)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	factory := sallyport.FactoryID(newID(sallyport.FactoryPrefix))
	p := fake.New(fake.Config{Factory: factory, Programs: acts})
	return p, func(act ...string) (provider.Spec, provider.Auth) {
		argv := act
		if act[0] == providertest.ActMissing {
			argv = []string{providertest.MissingProgram}
		}
		return provider.Spec{Factory: factory, Allocation: sallyport.AllocationID(newID(sallyport.AllocationPrefix)), Attempt: sallyport.AttemptID(newID(sallyport.AttemptPrefix)),
			SecretSum: sallyport.Sum([]byte("secret")), Workspace: provider.Workspace{Path: "/work/repo", Layers: []string{"/base"}, Collect: true}, Home: "/home/agent",
			Command: provider.Command{Argv: argv, Dir: "/work/repo", Env: map[string]string{"PATH": "/bin"}},
			Limits:  sallyport.Limits{Time: time.Minute, Memory: 1 << 30, PIDs: 100, Disk: 1 << 30, Output: 16 << 20}, LeaseTTL: time.Minute}, provider.Auth{Secret: "secret", Fence: 1}
	}
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) (provider.Provider, providertest.NewSpec) { return open(t) })
}

func wantCode(t *testing.T, err error, code sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Errorf("%v (%v), expected %v", err, sallyport.CodeOf(err), code)
	}
}

var lost = &sallyport.Error{Op: "test", Code: sallyport.CodeUnknown, Message: "the answer was lost"}

func listed(t *testing.T, p *fake.Provider) int {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestFaults(t *testing.T) {
	ctx := t.Context()
	t.Run("Create happened, its answer was lost", func(t *testing.T) {
		p, newSpec := open(t)
		spec, _ := newSpec(providertest.ActExit, "0")
		p.Inject(fake.Fault{Method: "Create", After: lost})
		_, err := p.Create(ctx, spec)
		wantCode(t, err, sallyport.CodeUnknown)
		if listed(t, p) != 1 {
			t.Error("it did not happen")
		}
		if rid, err := p.Create(ctx, spec); err != nil || rid != p.Resource(spec.Allocation) {
			t.Errorf("again: %v %v", rid, err)
		}
	})
	t.Run("Create failed and nothing happened", func(t *testing.T) {
		p, newSpec := open(t)
		spec, _ := newSpec(providertest.ActExit, "0")
		p.Inject(fake.Fault{Method: "Create", Before: lost, Times: 2})
		for range 2 {
			_, err := p.Create(ctx, spec)
			wantCode(t, err, sallyport.CodeUnknown)
		}
		if listed(t, p) != 0 {
			t.Error("it happened")
		}
		if _, err := p.Create(ctx, spec); err != nil {
			t.Errorf("the fault is not used up: %v", err)
		}
	})
	t.Run("Create happens late, even after Destroy", func(t *testing.T) {
		p, newSpec := open(t)
		spec, _ := newSpec(providertest.ActExit, "0")
		p.Inject(fake.Fault{Method: "Create", Late: true})
		_, err := p.Create(ctx, spec)
		wantCode(t, err, sallyport.CodeUnknown)
		if err := p.Destroy(ctx, p.Resource(spec.Allocation)); err != nil || listed(t, p) != 0 {
			t.Errorf("Destroy before it: %v", err)
		}
		if p.Release() != 1 || listed(t, p) != 1 {
			t.Error("it did not come late")
		}
	})
	t.Run("Destroy errs though it happened, and though it did not", func(t *testing.T) {
		p, newSpec := open(t)
		spec, _ := newSpec(providertest.ActExit, "0")
		rid, err := p.Create(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Inject(fake.Fault{Method: "Destroy", Before: lost})
		p.Inject(fake.Fault{Method: "Destroy", After: lost})
		for _, left := range []int{1, 0} {
			wantCode(t, p.Destroy(ctx, rid), sallyport.CodeUnknown)
			if listed(t, p) != left {
				t.Errorf("%d listed, expected %d", listed(t, p), left)
			}
		}
		if err := p.Destroy(ctx, rid); err != nil {
			t.Error(err)
		}
	})
	t.Run("a stalled call ends with its caller, and the deed is not done", func(t *testing.T) {
		p, newSpec := open(t)
		spec, _ := newSpec(providertest.ActExit, "0")
		p.Inject(fake.Fault{Method: "Create", Delay: time.Hour})
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := p.Create(short, spec)
		wantCode(t, err, sallyport.CodeUnknown)
		if listed(t, p) != 0 {
			t.Error("it happened")
		}
	})
	t.Run("a fault for one allocation spares the others", func(t *testing.T) {
		p, newSpec := open(t)
		hit, _ := newSpec(providertest.ActExit, "0")
		spared, _ := newSpec(providertest.ActExit, "0")
		p.Inject(fake.Fault{Method: "Create", Allocation: hit.Allocation, Before: lost})
		if _, err := p.Create(ctx, spared); err != nil {
			t.Error(err)
		}
		_, err := p.Create(ctx, hit)
		wantCode(t, err, sallyport.CodeUnknown)
		want := []fake.Call{{Method: "Create", Allocation: spared.Allocation}, {Method: "Create", Allocation: hit.Allocation}}
		if got := p.Calls(); !slices.Equal(got, want) {
			t.Errorf("calls %v", got)
		}
	})
}

func TestListLies(t *testing.T) {
	p, newSpec := open(t)
	spec, _ := newSpec(providertest.ActExit, "0")
	rid, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	p.Omit(spec.Allocation)
	if listed(t, p) != 0 {
		t.Error("List shows what it was to omit")
	}
	if _, err := p.Lookup(t.Context(), rid); err != nil {
		t.Errorf("Lookup: %v", err)
	}
	ghost, _ := newSpec(providertest.ActExit, "0")
	p.Ghost(provider.Status{ID: p.Resource(ghost.Allocation), Allocation: ghost.Allocation, Alive: true})
	if listed(t, p) != 1 {
		t.Error("List does not show the ghost")
	}
	_, err = p.Lookup(t.Context(), p.Resource(ghost.Allocation))
	wantCode(t, err, sallyport.CodeNotFound)
	p.Clear()
	if listed(t, p) != 1 {
		t.Error("after Clear List should tell the truth")
	}
	half, _ := newSpec(providertest.ActExit, "0")
	if err := p.HalfMake(half); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Lookup(t.Context(), p.Resource(half.Allocation)); err != nil || !st.HalfMade {
		t.Errorf("%+v %v", st, err)
	}
	if _, err := p.Create(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Lookup(t.Context(), p.Resource(half.Allocation)); err != nil || st.HalfMade {
		t.Errorf("made again: %+v %v", st, err)
	}
}

func TestVanishAndCut(t *testing.T) {
	p, newSpec := open(t)
	spec, auth := newSpec(providertest.ActPrint, "20000")
	rid, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Connect(t.Context(), rid, auth)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.CutWires(spec.Allocation)
	_, err = w.Wait(t.Context())
	wantCode(t, err, sallyport.CodeUnavailable)
	if w, err = p.Connect(t.Context(), rid, auth); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := w.Output(t.Context(), 0, &out); err != nil || !bytes.Equal(out.Bytes(), providertest.Numbers(20000)) {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	p.Vanish(spec.Allocation)
	_, err = w.Output(t.Context(), int64(out.Len()), io.Discard)
	if err == nil {
		// The cut may come a moment later than Vanish returns.
		time.Sleep(100 * time.Millisecond)
		_, err = w.Layers(t.Context())
	}
	wantCode(t, err, sallyport.CodeUnavailable)
	_, err = p.Connect(t.Context(), rid, auth)
	wantCode(t, err, sallyport.CodeNotFound)
}
