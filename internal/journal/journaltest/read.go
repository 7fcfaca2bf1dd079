package journaltest

import (
	"fmt"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

var readTests = []test{
	{"an empty journal", func(t *testing.T, w *world) {
		seq, hash, err := w.Head(w.ctx())
		if err != nil || seq != 0 || hash != "" {
			t.Errorf("head %d %q %v", seq, hash, err)
		}
		got, err := w.Attempts(w.ctx(), true)
		w.wantIDs(got, err)
		open, err := w.OpenAllocations(w.ctx())
		if err != nil || len(open) != 0 {
			t.Errorf("%v %v", open, err)
		}
		w.check()
	}},
	{"an attempt that does not exist is not found", func(t *testing.T, w *world) {
		_, err := w.Attempt(w.ctx(), sallyport.AttemptID(NewID(t, sallyport.AttemptPrefix)))
		w.wantCode(err, sallyport.CodeNotFound)
	}},
	{"attempts are listed newest first; the ended ones only on request", func(t *testing.T, w *world) {
		one, two, three := w.create(), w.create(), w.create()
		l := w.acquire(two)
		w.append(&l, failed(two))
		all, err := w.Attempts(w.ctx(), true)
		w.wantIDs(all, err, three, two, one)
		live, err := w.Attempts(w.ctx(), false)
		w.wantIDs(live, err, three, one)
		if all[1].Lease == nil || all[0].Lease != nil {
			t.Errorf("leases %v %v", all[1].Lease, all[0].Lease)
		}
	}},
	{"attempts of a work order are listed oldest first", func(t *testing.T, w *world) {
		wo := sallyport.WorkOrderID(NewID(t, sallyport.WorkOrderPrefix))
		one := w.createFor(wo)
		w.create()
		two := w.createFor(wo)
		got, err := w.OfWorkOrder(w.ctx(), wo)
		w.wantIDs(got, err, one, two)
		got, err = w.OfWorkOrder(w.ctx(), "wo_none")
		w.wantIDs(got, err)
	}},
	{"find takes an id or a unique prefix, with or without att_", func(t *testing.T, w *world) {
		a := sallyport.AttemptID("att_01234567890123456789abcdeg")
		b := sallyport.AttemptID("att_01234567890123456789abcdf0")
		w.append(nil, Created(a, "wo_1"), Created(b, "wo_1"))
		for prefix, want := range map[string]sallyport.AttemptID{
			string(a): a, string(b): b, "01234567890123456789abcdeg": a, "01234567890123456789abcdf": b, "att_01234567890123456789abcde": a,
		} {
			got, err := w.Find(w.ctx(), prefix)
			if err != nil || got.Report.Attempt != want {
				t.Errorf("Find(%q) = %s, %v", prefix, got.Report.Attempt, err)
			}
		}
		_, err := w.Find(w.ctx(), "01234")
		w.wantCode(err, sallyport.CodeConflict)
		if !strings.Contains(err.Error(), string(a)) || !strings.Contains(err.Error(), string(b)) {
			t.Errorf("%q does not name both", err)
		}
		for _, none := range []string{"zzz", "att_zzz", "%", "_", "0123_", string(a) + "0", "att_' OR 1=1 --"} {
			_, err := w.Find(w.ctx(), none)
			w.wantCode(err, sallyport.CodeNotFound)
		}
		for _, empty := range []string{"", "att_"} {
			_, err := w.Find(w.ctx(), empty)
			w.wantCode(err, sallyport.CodeInvalid)
		}
	}},
	{"allocations show what their events say; open means not terminated", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		one, two := sallyport.AllocationID(NewID(t, sallyport.AllocationPrefix)), sallyport.AllocationID(NewID(t, sallyport.AllocationPrefix))
		w.append(&l, stage(att, sallyport.AttemptPreparing), intend(att, one), allocation(lifecycle.AllocationBound, att, one, lifecycle.Bound{Resource: "boot:1"}), intend(att, two))
		want := journal.Allocation{ID: one, Attempt: att, Purpose: sallyport.PurposeValidate, Label: "test", Provider: "fake", Spec: sallyport.Sum(nil), Resource: "boot:1", State: sallyport.SandboxProvisioning}
		got, err := w.Allocations(w.ctx(), att)
		if err != nil || len(got) != 2 || got[0] != want || got[1].ID != two {
			t.Fatalf("%+v, %v", got, err)
		}
		reason := sallyport.Reason{Code: "memory", Message: "out of memory"}
		w.append(&l, allocation(lifecycle.AllocationReady, att, one, nil), allocation(lifecycle.AllocationFailed, att, one, reason))
		open, err := w.OpenAllocations(w.ctx())
		if err != nil || len(open) != 2 || open[0].State != sallyport.SandboxFailed || open[0].Reason != reason {
			t.Fatalf("%+v, %v", open, err)
		}
		w.append(&l, allocation(lifecycle.AllocationTerminated, att, one, sallyport.Reason{Code: "gone"}))
		open, err = w.OpenAllocations(w.ctx())
		if err != nil || len(open) != 1 || open[0].ID != two {
			t.Errorf("%+v, %v", open, err)
		}
		got, err = w.Allocations(w.ctx(), att)
		if err != nil || len(got) != 2 || got[0].State != sallyport.SandboxTerminated {
			t.Errorf("%+v, %v", got, err)
		}
		w.append(&l, allocation(lifecycle.AllocationOrphaned, att, one, sallyport.Reason{Code: "late"}))
		open, err = w.OpenAllocations(w.ctx())
		if err != nil || len(open) != 2 {
			t.Errorf("a resource that turned up late is not open again: %+v, %v", open, err)
		}
		w.check()
	}},
	{"events after a number, at most so many, oldest first, of one attempt or of all", func(t *testing.T, w *world) {
		one, two := w.create(), w.create()
		l := w.acquire(one)
		w.append(&l, stage(one, sallyport.AttemptPreparing), notice(one, "x"))
		seqs := func(id sallyport.AttemptID, after int64, limit int) (out []int64) {
			events, err := w.Events(w.ctx(), id, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				out = append(out, e.Seq)
			}
			return out
		}
		for _, tt := range []struct {
			id    sallyport.AttemptID
			after int64
			limit int
			want  string
		}{{"", 0, 99, "[1 2 3 4 5]"}, {"", 2, 2, "[3 4]"}, {one, 0, 99, "[1 3 4 5]"}, {one, 3, 1, "[4]"}, {two, 2, 9, "[]"}, {"", 5, 9, "[]"}, {"att_none", 0, 9, "[]"}} {
			if got := fmt.Sprint(seqs(tt.id, tt.after, tt.limit)); got != tt.want {
				t.Errorf("events of %q after %d, limit %d: %s, want %s", tt.id, tt.after, tt.limit, got, tt.want)
			}
		}
		_, err := w.Events(w.ctx(), "", 0, 0)
		w.wantCode(err, sallyport.CodeInvalid)
	}},
	{"a whole life, from creation to a published branch", func(t *testing.T, w *world) {
		att, l := wholeLife(t, w)
		a := w.attempt(att)
		if a.Report.State != sallyport.AttemptAccepted || !a.Published || a.Report.Branch != "sallyport/fix" || a.Publication == nil {
			t.Errorf("%+v", a)
		}
		if a.Imported == nil || len(a.Imported.Changes) != 1 || len(a.Report.Changes) != 1 || a.Imported.Left["ignored"] != 3 {
			t.Errorf("imported %+v", a.Imported)
		}
		s, err := lifecycle.Fold(w.all(att))
		if err != nil {
			t.Fatal(err)
		}
		if asJSON(t, s.Imported) != asJSON(t, a.Imported) || asJSON(t, s.Report) != asJSON(t, a.Report) {
			t.Error("the projection is not the fold")
		}
		if strings.Contains(asJSON(t, a.Report), "null") {
			t.Errorf("null in %s", asJSON(t, a.Report))
		}
		if err := w.Release(w.ctx(), l); err != nil {
			t.Fatal(err)
		}
		w.check()
	}},
}

func wholeLife(t *testing.T, w *world) (sallyport.AttemptID, journal.Lease) {
	att := w.create()
	l := w.acquire(att)
	tree, commit := sallyport.ObjectID(strings.Repeat("c", 40)), sallyport.ObjectID(strings.Repeat("d", 40))
	evidence := sallyport.Sum([]byte("evidence"))
	rec := func(typ lifecycle.Type, data any) journal.Record {
		return journal.Record{Type: typ, Attempt: att, Data: data}
	}
	w.append(&l, stage(att, sallyport.AttemptPreparing), stage(att, sallyport.AttemptRunning), stage(att, sallyport.AttemptCollecting),
		rec(lifecycle.AttemptBundle, lifecycle.Bundle{Digest: sallyport.Sum([]byte("b")), Bytes: 1 << 40}))
	w.append(&l, stage(att, sallyport.AttemptInspecting),
		rec(lifecycle.AttemptImported, lifecycle.Imported{Tree: tree, Changes: []sallyport.Change{{Path: "a", Status: sallyport.ChangeAdded}}, Left: map[string]int{"ignored": 3}}),
		rec(lifecycle.AttemptFindings, lifecycle.Findings{}), stage(att, sallyport.AttemptValidating),
		rec(lifecycle.AttemptCheck, sallyport.CheckResult{Name: "test", Status: sallyport.CheckPassed, Seconds: 1.0 / 3}))
	w.append(&l, stage(att, sallyport.AttemptDeciding), rec(lifecycle.AttemptSigned, lifecycle.Signed{Path: "/e", Digest: evidence, Commit: commit}),
		rec(lifecycle.AttemptDecided, lifecycle.Decided{Decision: sallyport.DecisionAwaitingApproval}))
	pub := lifecycle.Publication{Target: "branch", Branch: "refs/heads/sallyport/fix", Commit: commit}
	w.append(nil, rec(lifecycle.AttemptApproved, lifecycle.Approval{Who: "bob", Evidence: evidence, Target: "branch"}))
	w.append(nil, rec(lifecycle.PublicationIntended, pub))
	w.append(nil, rec(lifecycle.PublicationDone, pub))
	return att, l
}
