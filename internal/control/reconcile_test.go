package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/control"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/fake"
)

// TestReconcileSaysWhatHappened: of a sandbox that nobody has authority over, and whose provider fails first.
func TestReconcileSaysWhatHappened(t *testing.T) {
	for name, known := range map[string]bool{"in the journal": true, "unknown to the journal": false} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			var p *fake.Provider
			var factory sallyport.FactoryID
			c, err := control.Open(t.Context(), control.Config{State: filepath.Join(t.TempDir(), "state"),
				Providers: func(f sallyport.FactoryID, _ string) ([]provider.Provider, error) {
					factory = f
					p = fake.New(fake.Config{Factory: f})
					return []provider.Provider{p}, nil
				},
				Driver: func(sallyport.AttemptID, *os.File, []string) error { return errors.New("nobody is to be driven") }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			spec := stray(factory)
			rid, err := p.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if known {
				abandon(t, c, spec, lifecycle.Bound{Resource: rid})
			}
			lines := func(dry bool) string {
				t.Helper()
				all, err := c.Reconcile(t.Context(), dry)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Join(all, "\n")
			}
			if got := lines(true); !strings.Contains(got, "destroy "+string(rid)) {
				t.Errorf("dry run: %s", got)
			}
			p.Inject(fake.Fault{Method: "Destroy", Times: 5, Before: &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnavailable, Message: "the host is asleep"}})
			if got := lines(false); !strings.Contains(got, "could not destroy "+string(rid)) || !strings.Contains(got, "the host is asleep") || strings.Contains(got, "destroyed") {
				t.Errorf("while it cannot: %s", got)
			}
			p.Clear()
			if got := lines(false); !strings.Contains(got, "destroyed "+string(rid)) {
				t.Errorf("once it can: %s", got)
			}
			if got := lines(false); got != "" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func stray(f sallyport.FactoryID) provider.Spec {
	return provider.Spec{Factory: f, Allocation: sallyport.AllocationID(sallyport.FormatID(sallyport.AllocationPrefix, [16]byte{1})), Attempt: sallyport.AttemptID(sallyport.FormatID(sallyport.AttemptPrefix, [16]byte{2})),
		Purpose: sallyport.PurposeExecute, SecretSum: sallyport.Sum([]byte("secret")), Workspace: provider.Workspace{Path: "/repo", Layers: []string{"/base"}}, Home: "/home/agent",
		Command: provider.Command{Argv: []string{"true"}, Dir: "/repo"}, LeaseTTL: time.Minute,
		Limits: sallyport.Limits{Time: time.Minute, Memory: 1 << 30, PIDs: 100, Disk: 1 << 30, Output: 16 << 20}}
}

// TestReconcileEndsWhatIsNotThere: whatever an ended Attempt left of an Allocation of which the provider shows nothing.
func TestReconcileEndsWhatIsNotThere(t *testing.T) {
	failed, orphaned := sallyport.Reason{Code: "not-destroyed"}, sallyport.Reason{Code: "no-authority"}
	for name, left := range map[string][]any{"never made": nil, "ended from outside": {lifecycle.Bound{}}, "could not be destroyed, and is gone": {lifecycle.Bound{}, lifecycle.AllocationFailed, failed},
		"orphaned, and gone": {lifecycle.Bound{}, lifecycle.AllocationOrphaned, orphaned}, "never made, and torn down": {lifecycle.AllocationTeardown, failed}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			var p *fake.Provider
			var factory sallyport.FactoryID
			c, err := control.Open(t.Context(), control.Config{State: filepath.Join(t.TempDir(), "state"),
				Providers: func(f sallyport.FactoryID, _ string) ([]provider.Provider, error) {
					factory, p = f, fake.New(fake.Config{Factory: f})
					return []provider.Provider{p}, nil
				},
				Driver: func(sallyport.AttemptID, *os.File, []string) error { return errors.New("nobody is to be driven") }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			spec := stray(factory)
			for i := range left {
				if _, ok := left[i].(lifecycle.Bound); ok {
					left[i] = lifecycle.Bound{Resource: p.Resource(spec.Allocation)}
				}
			}
			abandon(t, c, spec, left...)
			for range 2 {
				if _, err := c.Reconcile(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			open, err := c.Journal().OpenAllocations(t.Context())
			if err != nil || len(open) > 0 {
				t.Errorf("%+v, %v", open, err)
			}
			if lines, err := c.Reconcile(t.Context(), false); err != nil || len(lines) > 0 {
				t.Errorf("it goes on saying %v, %v", lines, err)
			}
		})
	}
}

// abandon records an Attempt that has ended with its sandbox left, and what was said of that: what it is bound to, an event
// and its reason.
func abandon(t *testing.T, c *control.Control, s provider.Spec, left ...any) {
	t.Helper()
	j := c.Journal()
	holder, err := journal.SelfHolder()
	if err != nil {
		t.Fatal(err)
	}
	record := func(l *journal.Lease, typ lifecycle.Type, a sallyport.AllocationID, data any) {
		t.Helper()
		if _, err := j.Append(t.Context(), l, journal.Record{Type: typ, Attempt: s.Attempt, Allocation: a, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	record(nil, lifecycle.AttemptCreated, "", lifecycle.Created{WorkOrder: sallyport.WorkOrderID(sallyport.FormatID("wo_", [16]byte{3})), Name: "x", Number: 1, Manifest: sallyport.Sum(nil),
		Base: sallyport.ObjectID(strings.Repeat("1", 40)), Repository: "/repo", Submitter: "una", StartTree: sallyport.ObjectID(strings.Repeat("2", 40)), Separation: "none"})
	l, err := j.Acquire(t.Context(), s.Attempt, holder, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	record(&l, lifecycle.AttemptStage, "", lifecycle.Stage{State: sallyport.AttemptPreparing})
	record(&l, lifecycle.AllocationIntended, s.Allocation, lifecycle.Intended{Purpose: s.Purpose, Provider: "fake", Spec: sallyport.Sum(nil)})
	for i, x := range left {
		switch x := x.(type) {
		case lifecycle.Bound:
			record(&l, lifecycle.AllocationBound, s.Allocation, x)
		case lifecycle.Type:
			record(&l, x, s.Allocation, left[i+1])
		}
	}
	record(&l, lifecycle.AttemptFailed, "", sallyport.Reason{Code: "internal", Message: "for the test"})
	if err := j.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}
