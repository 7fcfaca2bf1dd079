package journaltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

var leaseTests = []test{
	{"held by another is a conflict that names the holder", func(t *testing.T, w *world) {
		att := w.create()
		w.acquire(att)
		before := w.head()
		_, err := w.Acquire(w.ctx(), att, w.holder(2), long, func(journal.Holder) bool { return false })
		w.wantCode(err, sallyport.CodeConflict)
		if h := w.holder(1); !strings.Contains(err.Error(), h.Host) || !strings.Contains(err.Error(), "pid 1") {
			t.Errorf("%q does not name %v", err, h)
		}
		if w.head() != before {
			t.Error("a lost Acquire left an event")
		}
	}},
	{"the same holder is another holder while its lease is live", func(t *testing.T, w *world) {
		att := w.create()
		w.acquire(att)
		_, err := w.Acquire(w.ctx(), att, w.holder(1), long, nil)
		w.wantCode(err, sallyport.CodeConflict)
	}},
	{"acquired and released are in the log under their fence", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		if err := w.Release(w.ctx(), l); err != nil {
			t.Fatal(err)
		}
		events := w.all(att)
		a, r := events[1], events[2]
		if a.Type != lifecycle.LeaseAcquired || r.Type != lifecycle.LeaseReleased || a.Fence != l.Fence || r.Fence != l.Fence {
			t.Errorf("%+v %+v", a, r)
		}
		if !strings.Contains(string(a.Data), w.holder(1).Host) {
			t.Errorf("the event does not name the holder: %s", a.Data)
		}
		w.check()
	}},
	{"an attempt that does not exist has no lease", func(t *testing.T, w *world) {
		_, err := w.Acquire(w.ctx(), sallyport.AttemptID(NewID(t, sallyport.AttemptPrefix)), w.holder(1), long, nil)
		w.wantCode(err, sallyport.CodeNotFound)
		att := w.create()
		if l := w.acquire(att); l.Fence < 1 {
			t.Errorf("fence %d", l.Fence)
		}
		w.check()
	}},
	{"the fence grows with each acquisition over all attempts, also after release", func(t *testing.T, w *world) {
		var last int64
		one, two := w.create(), w.create()
		for range 3 {
			for _, att := range []sallyport.AttemptID{one, two} {
				l := w.acquire(att)
				if l.Fence <= last {
					t.Fatalf("fence %d after %d", l.Fence, last)
				}
				last = l.Fence
				if err := w.Release(w.ctx(), l); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.check()
	}},
	{"an expired lease can be taken, and then the late holder is fenced", func(t *testing.T, w *world) {
		att := w.create()
		old := w.acquireFor(att, short)
		time.Sleep(2 * short)
		l, err := w.Acquire(w.ctx(), att, w.holder(2), long, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.refuse(sallyport.CodeFenced, &old, stage(att, sallyport.AttemptPreparing))
		_, err = w.Renew(w.ctx(), old, long)
		w.wantCode(err, sallyport.CodeFenced)
		if err := w.Release(w.ctx(), old); err != nil {
			t.Errorf("releasing what is no longer ours: %v", err)
		}
		w.append(&l, stage(att, sallyport.AttemptPreparing))
		w.check()
	}},
	{"a late holder that nobody has replaced goes on", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquireFor(att, short)
		time.Sleep(2 * short)
		w.append(&l, stage(att, sallyport.AttemptPreparing))
		if _, err := w.Renew(w.ctx(), l, long); err != nil {
			t.Error(err)
		}
	}},
	{"the lease of a proven dead holder can be taken", func(t *testing.T, w *world) {
		att := w.create()
		old := w.acquire(att)
		var asked journal.Holder
		l, err := w.Acquire(w.ctx(), att, w.holder(2), long, func(h journal.Holder) bool { asked = h; return true })
		if err != nil {
			t.Fatal(err)
		}
		if asked != old.Holder || l.Fence <= old.Fence {
			t.Errorf("asked about %v, fence %d after %d", asked, l.Fence, old.Fence)
		}
		w.refuse(sallyport.CodeFenced, &old, stage(att, sallyport.AttemptPreparing))
	}},
	{"a free lease is won by exactly one", func(t *testing.T, w *world) {
		att := w.create()
		old := w.acquire(att)
		var mu sync.Mutex
		var won []journal.Lease
		var wg sync.WaitGroup
		for i := range 12 {
			h := w.holder(100 + i)
			wg.Go(func() {
				// Only the first holder is dead: whoever wins stays.
				l, err := w.Acquire(w.ctx(), att, h, long, func(h journal.Holder) bool { return h == old.Holder })
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won = append(won, l)
				case sallyport.CodeOf(err) != sallyport.CodeConflict:
					t.Errorf("loser got %v", err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d winners: %v", len(won), won)
		}
		w.append(&won[0], stage(att, sallyport.AttemptPreparing))
		w.check()
	}},
	{"renewal extends and never shortens", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		longer, err := w.Renew(w.ctx(), l, 2*long)
		if err != nil || longer.Until <= l.Until || longer.Fence != l.Fence || longer.Holder != l.Holder {
			t.Fatalf("%+v, %v", longer, err)
		}
		same, err := w.Renew(w.ctx(), l, short)
		if err != nil || same.Until < longer.Until {
			t.Errorf("%+v, %v", same, err)
		}
		if got := w.attempt(att).Lease; got == nil || *got != same {
			t.Errorf("the projection shows %+v, want %+v", got, same)
		}
	}},
	{"release gives it back, once", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		for range 2 {
			if err := w.Release(w.ctx(), l); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.attempt(att).Lease; got != nil {
			t.Errorf("lease %+v after release", got)
		}
		w.refuse(sallyport.CodeFenced, &l, stage(att, sallyport.AttemptPreparing))
		_, err := w.Renew(w.ctx(), l, long)
		w.wantCode(err, sallyport.CodeFenced)
		if n := len(w.all(att)); n != 3 {
			t.Errorf("%d events, want created, acquired, released", n)
		}
		w.check()
	}},
	{"a made-up lease is fenced", func(t *testing.T, w *world) {
		att := w.create()
		w.refuse(sallyport.CodeFenced, &journal.Lease{Attempt: att}, stage(att, sallyport.AttemptPreparing))
		l := w.acquire(att)
		l.Fence++
		w.refuse(sallyport.CodeFenced, &l, stage(att, sallyport.AttemptPreparing))
	}},
	{"no time is no lease", func(t *testing.T, w *world) {
		att := w.create()
		_, err := w.Acquire(w.ctx(), att, w.holder(1), 0, nil)
		w.wantCode(err, sallyport.CodeInvalid)
		l := w.acquire(att)
		_, err = w.Renew(w.ctx(), l, -time.Second)
		w.wantCode(err, sallyport.CodeInvalid)
	}},
	{"of two drivers in turn no append of the old one follows one of the new", func(t *testing.T, w *world) {
		att := w.create()
		l := w.acquire(att)
		w.append(&l, stage(att, sallyport.AttemptPreparing))
		ctx, stop := context.WithCancel(w.ctx())
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() { // the driver that is about to be replaced
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := w.Append(context.Background(), &l, notice(att, fmt.Sprint(i))); err != nil {
					if sallyport.CodeOf(err) != sallyport.CodeFenced {
						t.Errorf("the late holder got %v", err)
					}
					return
				}
			}
		})
		next, err := w.Acquire(w.ctx(), att, w.holder(2), long, func(journal.Holder) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		w.append(&next, notice(att, "mine"))
		stop()
		wg.Wait()
		var fence int64
		for _, e := range w.all(att) {
			if e.Fence != 0 && e.Fence < fence {
				t.Fatalf("event %d under fence %d follows fence %d", e.Seq, e.Fence, fence)
			}
			fence = max(fence, e.Fence)
		}
		w.check()
	}},
}
