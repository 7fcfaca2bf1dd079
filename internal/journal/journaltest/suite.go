package journaltest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Run holds a store to the contract. open gives an empty journal for one subtest and sees to its end; leases
// in it count on this machine's boot and clock.
func Run(t *testing.T, open func(*testing.T) journal.Journal) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Append", appendTests}, {"Lease", leaseTests}, {"Read", readTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) { tt.run(t, &world{T: t, Journal: open(t)}) })
			}
		})
	}
}

type test struct {
	name string
	run  func(*testing.T, *world)
}

// long outlasts any test; short is over before the next line can look.
const (
	long  = time.Hour
	short = 20 * time.Millisecond
)

// world is a journal with the verbs that tests need.
type world struct {
	*testing.T
	journal.Journal
}

func (w *world) ctx() context.Context { return w.T.Context() }

// NewID is a fresh id; it cannot fail where the kernel has randomness.
func NewID(t testing.TB, prefix string) string {
	t.Helper()
	s, err := id.New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Created is the record that begins an Attempt of a WorkOrder.
func Created(att sallyport.AttemptID, wo sallyport.WorkOrderID) journal.Record {
	return journal.Record{Type: lifecycle.AttemptCreated, Attempt: att, Data: lifecycle.Created{
		WorkOrder: wo, Name: "fix", Number: 1, Manifest: sallyport.Sum([]byte("manifest")), Repository: "/srv/code",
		Base: sallyport.ObjectID(strings.Repeat("a", 40)), StartTree: sallyport.ObjectID(strings.Repeat("b", 40)),
		Submitter: "Ann <ann@example.org>", Feedback: "the checks failed", Separation: "none", Notices: []string{"source: worktree"},
	}}
}

func (w *world) create() sallyport.AttemptID {
	w.Helper()
	return w.createFor(sallyport.WorkOrderID(NewID(w, sallyport.WorkOrderPrefix)))
}

func (w *world) createFor(wo sallyport.WorkOrderID) sallyport.AttemptID {
	w.Helper()
	att := sallyport.AttemptID(NewID(w, sallyport.AttemptPrefix))
	w.append(nil, Created(att, wo))
	return att
}

func (w *world) append(l *journal.Lease, records ...journal.Record) []lifecycle.Event {
	w.Helper()
	events, err := w.Append(w.ctx(), l, records...)
	if err != nil {
		w.Fatal(err)
	}
	return events
}

func (w *world) refuse(code sallyport.Code, l *journal.Lease, records ...journal.Record) error {
	w.Helper()
	before := w.head()
	events, err := w.Append(w.ctx(), l, records...)
	w.wantCode(err, code)
	if events != nil {
		w.Errorf("events %v with an error", events)
	}
	if after := w.head(); after != before {
		w.Errorf("a refused append moved the head from %d to %d", before, after)
	}
	return err
}

func (w *world) wantCode(err error, code sallyport.Code) {
	w.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		w.Fatalf("error %v (code %v), want code %v", err, sallyport.CodeOf(err), code)
	}
}

func (w *world) holder(pid int) journal.Holder {
	w.Helper()
	h, err := journal.SelfHolder()
	if err != nil {
		w.Fatal(err)
	}
	h.PID = pid
	return h
}

func (w *world) acquire(att sallyport.AttemptID) journal.Lease { return w.acquireFor(att, long) }

func (w *world) acquireFor(att sallyport.AttemptID, ttl time.Duration) journal.Lease {
	w.Helper()
	l, err := w.Acquire(w.ctx(), att, w.holder(1), ttl, nil)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) head() int64 {
	w.Helper()
	seq, _, err := w.Head(w.ctx())
	if err != nil {
		w.Fatal(err)
	}
	return seq
}

func (w *world) attempt(att sallyport.AttemptID) journal.Attempt {
	w.Helper()
	a, err := w.Attempt(w.ctx(), att)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func (w *world) all(att sallyport.AttemptID) []lifecycle.Event {
	w.Helper()
	events, err := w.Events(w.ctx(), att, 0, 10_000)
	if err != nil {
		w.Fatal(err)
	}
	return events
}

func (w *world) check() {
	w.Helper()
	if err := w.Check(w.ctx()); err != nil {
		w.Fatal(err)
	}
}

func stage(att sallyport.AttemptID, s sallyport.AttemptState) journal.Record {
	return journal.Record{Type: lifecycle.AttemptStage, Attempt: att, Data: lifecycle.Stage{State: s, Seconds: 0.25}}
}

func notice(att sallyport.AttemptID, text string) journal.Record {
	return journal.Record{Type: lifecycle.AttemptNotice, Attempt: att, Data: lifecycle.Notice{Text: text}}
}

func cancel(att sallyport.AttemptID, who string) journal.Record {
	return journal.Record{Type: lifecycle.CancelRequested, Attempt: att, Data: lifecycle.Person{Who: who}}
}

func failed(att sallyport.AttemptID) journal.Record {
	return journal.Record{Type: lifecycle.AttemptFailed, Attempt: att, Data: sallyport.Reason{Code: "agent-failed", Message: "it <failed> & more"}}
}

func allocation(typ lifecycle.Type, att sallyport.AttemptID, alc sallyport.AllocationID, data any) journal.Record {
	return journal.Record{Type: typ, Attempt: att, Allocation: alc, Data: data}
}

func intend(att sallyport.AttemptID, alc sallyport.AllocationID) journal.Record {
	return allocation(lifecycle.AllocationIntended, att, alc, lifecycle.Intended{Purpose: sallyport.PurposeValidate, Provider: "fake", Spec: sallyport.Sum(nil), Label: "test"})
}

func ids(attempts []journal.Attempt) []sallyport.AttemptID {
	var out []sallyport.AttemptID
	for _, a := range attempts {
		out = append(out, a.Report.Attempt)
	}
	return out
}

func (w *world) wantIDs(got []journal.Attempt, err error, want ...sallyport.AttemptID) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	if !slices.Equal(ids(got), want) {
		w.Errorf("attempts %v, want %v", ids(got), want)
	}
}
