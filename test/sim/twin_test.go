package sim

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/fake"
)

// TestJournalIsTheStore has every call of some histories made on a real store as well: it says yes and no to the same, in the
// same code, gives the same fences, and ends with the same events and Attempts.
func TestJournalIsTheStore(t *testing.T) {
	for s := range uint64(12) {
		var now time.Duration
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Boot: boot, Clock: func() time.Duration { return now }})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		told := func(c call) {
			calls++
			now = c.now
			var err error
			switch c.what {
			case "append":
				_, err = db.Append(t.Context(), c.lease, c.records...)
			case "acquire":
				var l journal.Lease
				l, err = db.Acquire(t.Context(), c.id, c.holder, leaseTTL, func(journal.Holder) bool { return c.dead })
				if err == nil && l != c.got {
					t.Fatalf("seed %d: the store gives %+v, the model %+v", s, l, c.got)
				}
			case "renew":
				var l journal.Lease
				l, err = db.Renew(t.Context(), *c.lease, leaseTTL)
				if err == nil && l != c.got {
					t.Fatalf("seed %d: the store renews to %+v, the model to %+v", s, l, c.got)
				}
			case "release":
				err = db.Release(t.Context(), *c.lease)
			}
			if sallyport.CodeOf(err) != sallyport.CodeOf(c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("seed %d: %s: the store says %v, the model %v", s, c.what, err, c.err)
			}
		}
		r := Run(fresh(s), Options{journal: told})
		if r.Law != "" {
			t.Fatal(r.Law, r.What)
		}
		events, err := db.Events(t.Context(), "", 0, 10_000)
		if err != nil || len(events) != len(r.Events) || calls < 10 {
			t.Fatalf("seed %d: %d events and %d, %d calls, %v", s, len(events), len(r.Events), calls, err)
		}
		for i, e := range events {
			m := r.Events[i]
			if e.Seq != m.Seq || e.Type != m.Type || e.Attempt != m.Attempt || e.Allocation != m.Allocation || e.Fence != m.Fence {
				t.Fatalf("seed %d: %+v and %+v", s, e, m)
			}
		}
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		db.Close()
	}
}

// TestProviderIsTheFake has every call of some histories made on internal/provider/fake as well, with the same faults.
func TestProviderIsTheFake(t *testing.T) {
	f := sallyport.FactoryID(sallyport.FormatID("fac", [16]byte{1}))
	for s := range uint64(300) {
		p := fake.New(fake.Config{Factory: f})
		n := 0
		Run(fresh(s), Options{provider: func(c deed) {
			n++
			inject := func() {
				switch c.fault {
				case before:
					p.Inject(fake.Fault{Method: c.method, Before: errUnavailable})
				case after:
					p.Inject(fake.Fault{Method: c.method, After: errUnknown})
				}
			}
			var err error
			switch c.method {
			case "Create":
				inject()
				_, err = p.Create(t.Context(), specOf(f, c.allocation))
			case "Lookup":
				inject()
				_, err = p.Lookup(t.Context(), p.Resource(c.allocation))
			case "Destroy":
				inject()
				err = p.Destroy(t.Context(), p.Resource(c.allocation))
			case "Vanish":
				p.Vanish(c.allocation)
			case "List":
				for _, a := range c.hidden {
					p.Omit(a)
				}
				inject()
				var list []provider.Status
				list, err = p.List(t.Context())
				p.Clear()
				var got []sallyport.AllocationID
				for _, st := range list {
					got = append(got, st.Allocation)
				}
				slices.Sort(got)
				slices.Sort(c.listed)
				if err == nil && !slices.Equal(got, c.listed) {
					t.Fatalf("seed %d: the fake lists %v, the model %v", s, got, c.listed)
				}
			}
			if sallyport.CodeOf(err) != sallyport.CodeOf(c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("seed %d, call %d: %s of %s with fault %d: the fake says %v, the model %v", s, n, c.method, c.allocation, c.fault, err, c.err)
			}
		}})
	}
}

func specOf(f sallyport.FactoryID, a sallyport.AllocationID) provider.Spec {
	return provider.Spec{Factory: f, Allocation: a, Attempt: sallyport.AttemptID(sallyport.FormatID(sallyport.AttemptPrefix, [16]byte{2})),
		Purpose: sallyport.PurposeExecute, SecretSum: sallyport.Sum([]byte("secret")), Workspace: provider.Workspace{Path: "/repo", Layers: []string{"/base"}}, Home: "/home/agent",
		Command: provider.Command{Argv: []string{"true"}, Dir: "/repo"}, LeaseTTL: time.Minute,
		Limits: sallyport.Limits{Time: time.Minute, Memory: 1 << 30, PIDs: 100, Disk: 1 << 30, Output: 16 << 20}}
}
