package journaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

var appendTests = []test{
	{"records become events in order with consecutive numbers and a chain", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		w.append(&l, stage(att, sallyport.AttemptPreparing), notice(att, "one"), notice(att, "two"))
		events := w.all("")
		var prev sallyport.Digest
		for i, e := range events {
			if e.Seq != int64(i+1) || e.Prev != prev || e.Hash.Check() != nil {
				t.Errorf("event %d: seq %d, prev %q, hash %q", i+1, e.Seq, e.Prev, e.Hash)
			}
			prev = e.Hash
		}
		if n := len(events); n != 5 || events[3].Type != lifecycle.AttemptNotice || !strings.Contains(string(events[4].Data), "two") {
			t.Errorf("%d events: %+v", n, events)
		}
		seq, hash, err := w.Head(w.ctx())
		if err != nil || seq != 5 || hash != prev {
			t.Errorf("head %d %s %v", seq, hash, err)
		}
		w.check()
	}},
	{"what is returned is what is read back", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		got := w.append(&l, stage(att, sallyport.AttemptPreparing), notice(att, "a\u2028b \"<&>\" \x00 é 😀"))
		all := w.all(att)
		for i, e := range all[len(all)-2:] {
			a, b := asJSON(t, got[i]), asJSON(t, e)
			if a != b {
				t.Errorf("returned %s\nread %s", a, b)
			}
		}
		if n := w.attempt(att).Report.Notices; n[len(n)-1] != "a\u2028b \"<&>\" \x00 é 😀" {
			t.Errorf("the text came back as %q", n)
		}
		w.check()
	}},
	{"projections are those of the fold", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		w.append(&l, stage(att, sallyport.AttemptPreparing), failed(att))
		s, err := lifecycle.Fold(w.all(att))
		if err != nil {
			t.Fatal(err)
		}
		a := w.attempt(att)
		if asJSON(t, s.Report) != asJSON(t, a.Report) {
			t.Errorf("fold %s\nprojection %s", asJSON(t, s.Report), asJSON(t, a.Report))
		}
		if a.Submitter != "Ann <ann@example.org>" || a.Feedback != "the checks failed" || a.StartTree != s.StartTree {
			t.Errorf("%+v", a)
		}
	}},
	{"several records are all or nothing", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		w.refuse(sallyport.CodeConflict, &l, stage(att, sallyport.AttemptPreparing), notice(att, "x"), stage(att, sallyport.AttemptValidating))
		if s := w.attempt(att).Report.State; s != sallyport.AttemptQueued {
			t.Errorf("state %s after a refused append", s)
		}
		w.append(&l, stage(att, sallyport.AttemptPreparing))
		w.check()
	}},
	{"an illegal event is a conflict that names event and state", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		err := w.refuse(sallyport.CodeConflict, &l, stage(att, sallyport.AttemptRunning))
		for _, word := range []string{"attempt.stage", "running", "queued"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not name %s", err, word)
			}
		}
	}},
	{"an attempt is created once", func(t *testing.T, w *world) {
		att := w.create()
		w.refuse(sallyport.CodeConflict, nil, Created(att, "wo_x"))
	}},
	{"an attempt that does not exist is not found", func(t *testing.T, w *world) {
		att := sallyport.AttemptID(NewID(t, sallyport.AttemptPrefix))
		w.refuse(sallyport.CodeNotFound, nil, cancel(att, "ann"))
	}},
	{"an id that is none is invalid", func(t *testing.T, w *world) {
		w.refuse(sallyport.CodeInvalid, nil, Created("../../etc", "wo_x"))
	}},
	{"without a lease only what a person or a creator may append is taken", func(t *testing.T, w *world) {
		att := w.create()
		w.append(nil, cancel(att, "bob"))
		w.append(nil, journal.Record{Type: lifecycle.Checkpoint, Data: json.RawMessage(`{"signed":true}`)})
		w.append(nil, journal.Record{Type: lifecycle.KeyRotated, Attempt: att, Data: map[string]string{"key": "k"}})
		for _, rec := range []journal.Record{stage(att, sallyport.AttemptPreparing), notice(att, "x"), failed(att), intend(att, sallyport.AllocationID(NewID(t, sallyport.AllocationPrefix)))} {
			w.refuse(sallyport.CodeFenced, nil, rec)
		}
		if a := w.attempt(att); !a.CancelRequested || a.CancelBy != "bob" {
			t.Errorf("%+v", a)
		}
		w.check()
	}},
	{"nobody appends lease events but the store", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		w.refuse(sallyport.CodeInvalid, &l, journal.Record{Type: lifecycle.LeaseAcquired, Attempt: att, Data: lifecycle.LeaseChange{Holder: "me"}})
	}},
	{"a lease serves for its own attempt only", func(t *testing.T, w *world) {
		one, two := w.create(), w.create()
		l := w.acquire(one)
		w.refuse(sallyport.CodeInvalid, &l, stage(two, sallyport.AttemptPreparing))
		next := sallyport.AttemptID(NewID(t, sallyport.AttemptPrefix))
		events := w.append(&l, stage(one, sallyport.AttemptPreparing), Created(next, "wo_next"))
		if events[0].Fence != l.Fence || events[1].Fence != 0 {
			t.Errorf("fences %d and %d, want %d and 0", events[0].Fence, events[1].Fence, l.Fence)
		}
		w.check()
	}},
	{"unknown event, unknown key, payload that cannot be kept", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		for _, rec := range []journal.Record{
			{Type: "attempt.sang", Attempt: att},
			{Type: lifecycle.AttemptNotice, Attempt: att, Data: map[string]string{"text": "a", "tekst": "b"}},
			{Type: lifecycle.AttemptNotice, Attempt: att},
			{Type: lifecycle.Checkpoint, Data: map[string]int64{"n": 1<<53 + 1}},
			{Type: lifecycle.Checkpoint, Data: json.RawMessage("{\"a\":\"\xff\"}")},
			{Type: lifecycle.Checkpoint, Data: func() {}},
			{Type: lifecycle.CancelRequested, Data: lifecycle.Person{Who: "ann"}},
			{Type: lifecycle.AllocationReady, Attempt: att},
		} {
			w.refuse(sallyport.CodeInvalid, &l, rec)
		}
	}},
	{"no record is no event", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		if got := w.append(&l); len(got) != 0 {
			t.Errorf("events %v", got)
		}
		if err := w.Release(w.ctx(), l); err != nil {
			t.Fatal(err)
		}
		w.refuse(sallyport.CodeFenced, &l)
	}},
	{"an allocation id never serves twice", func(t *testing.T, w *world) {
		one, two := w.create(), w.create()
		l1, l2 := w.acquire(one), w.acquire(two)
		alc := sallyport.AllocationID(NewID(t, sallyport.AllocationPrefix))
		w.append(&l1, stage(one, sallyport.AttemptPreparing), intend(one, alc))
		w.append(&l2, stage(two, sallyport.AttemptPreparing))
		w.refuse(sallyport.CodeConflict, &l1, intend(one, alc))
		w.refuse(sallyport.CodeConflict, &l2, intend(two, alc))
		w.refuse(sallyport.CodeConflict, &l2, allocation(lifecycle.AllocationFailed, two, alc, sallyport.Reason{Code: "x"}))
	}},
	{"a context that has ended appends nothing", func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(w.ctx())
		cancel()
		_, err := w.Append(ctx, nil, Created(sallyport.AttemptID(NewID(t, sallyport.AttemptPrefix)), "wo_x"))
		w.wantCode(err, sallyport.CodeUnavailable)
		if w.head() != 0 {
			t.Error("an event was appended")
		}
	}},
	{"a closed journal says so", func(t *testing.T, w *world) {
		att := w.create()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := w.Append(context.Background(), nil, cancel(att, "x"))
		w.wantCode(err, sallyport.CodeUnavailable)
		_, err = w.Attempt(context.Background(), att)
		w.wantCode(err, sallyport.CodeUnavailable)
		if err := w.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	}},
	{"appenders in parallel lose nothing, and a refused one takes nothing with it", func(t *testing.T, w *world) {
		const workers, each = 16, 12
		var wg sync.WaitGroup
		for n := range workers {
			att := w.create()
			l := w.acquire(att)
			w.append(&l, stage(att, sallyport.AttemptPreparing))
			wg.Go(func() {
				for i := range each {
					if _, err := w.Append(w.ctx(), &l, notice(att, fmt.Sprintf("%d-%d", n, i))); err != nil {
						t.Errorf("worker %d: %v", n, err)
					}
					if _, err := w.Append(w.ctx(), &l, notice(att, "lost"), stage(att, sallyport.AttemptInspecting)); sallyport.CodeOf(err) != sallyport.CodeConflict {
						t.Errorf("worker %d: an illegal append gave %v", n, err)
					}
				}
				r := w.attempt(att).Report
				if got := len(r.Notices); got != each+1 { // one from Created
					t.Errorf("worker %d: %d notices, want %d", n, got, each+1)
				}
			})
		}
		wg.Wait()
		if got, want := w.head(), int64(workers*(3+each)); got != want {
			t.Errorf("head %d, want %d", got, want)
		}
		w.check()
	}},
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
