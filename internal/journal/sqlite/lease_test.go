package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
)

func TestALeaseEndsExactlyAtItsEnd(t *testing.T) {
	now := 100 * time.Second
	db := openAt(t, filepath.Join(t.TempDir(), "j.db"), Options{Boot: "boot-a", Clock: func() time.Duration { return now }})
	att := sallyport.AttemptID(journaltest.NewID(t, "att"))
	if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
		t.Fatal(err)
	}
	l, err := db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 1}, time.Minute, nil)
	if err != nil || l.Until != 160*time.Second || l.Holder.Boot != "boot-a" {
		t.Fatalf("%+v, %v", l, err)
	}
	now = 160*time.Second - 1
	_, err = db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 2}, time.Minute, nil)
	wantCode(t, err, sallyport.CodeConflict)
	now = 160 * time.Second
	if _, err = db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 2}, time.Minute, nil); err != nil {
		t.Error(err)
	}
}

func TestALeaseOfAnotherBootHasExpired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	clock := func() time.Duration { return time.Second } // the new boot's clock starts again
	db, err := Open(path, Options{Boot: "boot-a", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	att := sallyport.AttemptID(journaltest.NewID(t, "att"))
	if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
		t.Fatal(err)
	}
	old, err := db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 1}, 1000*time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = openAt(t, path, Options{Boot: "boot-b", Clock: clock})
	_, err = db.Acquire(t.Context(), att, old.Holder, time.Hour, nil)
	wantCode(t, err, sallyport.CodeInvalid) // a holder of another boot cannot be the one who asks
	l, err := db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 1}, time.Hour, nil)
	if err != nil || l.Fence <= old.Fence || l.Until != time.Second+time.Hour {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLeaseModel compares random histories of rival drivers with a model of a few lines.
func TestLeaseModel(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", runs))
		now, boot := time.Second, 0
		open := func() *DB {
			db, err := Open(path, Options{Boot: fmt.Sprint("boot-", boot), Clock: func() time.Duration { return now }})
			if err != nil {
				rt.Fatal(err)
			}
			return db
		}
		db := open()
		defer func() { db.Close(); os.Remove(path) }()
		att := sallyport.AttemptID(journaltest.NewID(t, "att"))
		if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
			rt.Fatal(err)
		}
		var (
			current *journal.Lease  // the model: who holds it, nil when given back or never taken
			given   []journal.Lease // all that were ever handed out
			fence   int64
		)
		code := func(what string, err error, want sallyport.Code) {
			if err == nil || sallyport.CodeOf(err) != want {
				rt.Fatalf("%s: %v, want %v", what, err, want)
			}
		}
		pick := func() (journal.Lease, bool, bool) {
			if len(given) == 0 {
				return journal.Lease{}, false, false
			}
			l := rapid.SampledFrom(given).Draw(rt, "lease")
			return l, true, current != nil && current.Fence == l.Fence
		}
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": func(rt *rapid.T) {
				killed := rapid.Bool().Draw(rt, "holder is dead")
				free := current == nil || killed || !current.Live(fmt.Sprint("boot-", boot), now)
				h := journal.Holder{Host: "h", PID: len(given) + 1}
				l, err := db.Acquire(t.Context(), att, h, time.Duration(rapid.IntRange(1, 10).Draw(rt, "ttl")), func(journal.Holder) bool { return killed })
				if !free {
					code("acquire", err, sallyport.CodeConflict)
					return
				}
				if err != nil || l.Fence <= fence {
					rt.Fatalf("free, but %v, fence %d after %d", err, l.Fence, fence)
				}
				fence, current = l.Fence, &l
				given = append(given, l)
			},
			"renew": func(rt *rapid.T) {
				l, any, ours := pick()
				if !any {
					return
				}
				ttl := time.Duration(rapid.IntRange(1, 10).Draw(rt, "ttl"))
				r, err := db.Renew(t.Context(), l, ttl)
				if !ours {
					code("renew", err, sallyport.CodeFenced)
					return
				}
				if err != nil || r.Until != max(current.Until, now+ttl) || r.Fence != l.Fence {
					rt.Fatalf("renewed to %+v, %v", r, err)
				}
				current = &r
			},
			"append": func(rt *rapid.T) {
				l, any, ours := pick()
				if !any {
					return
				}
				events, err := db.Append(t.Context(), &l, note(att, "x"))
				if !ours {
					code("append", err, sallyport.CodeFenced)
				} else if err == nil && events[0].Fence != l.Fence {
					rt.Fatalf("appended under fence %d", events[0].Fence)
				} else if err != nil {
					rt.Fatal(err)
				}
			},
			"release": func(rt *rapid.T) {
				l, any, ours := pick()
				if !any {
					return
				}
				if err := db.Release(t.Context(), l); err != nil {
					rt.Fatal(err)
				}
				if ours {
					current = nil
				}
			},
			"time passes": func(rt *rapid.T) { now += time.Duration(rapid.IntRange(1, 6).Draw(rt, "by")) },
			"reopen":      func(*rapid.T) { db.Close(); db = open() },
			"reboot":      func(*rapid.T) { db.Close(); boot++; now = time.Second; db = open() },
			"": func(rt *rapid.T) {
				a, err := db.Attempt(t.Context(), att)
				if err != nil {
					rt.Fatal(err)
				}
				if (a.Lease == nil) != (current == nil) || (a.Lease != nil && *a.Lease != *current) {
					rt.Fatalf("journal has %+v, model %+v", a.Lease, current)
				}
			},
		})
		if err := db.Check(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}
