package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// together has the calls made in this order in one transaction, and returns their errors.
func together(t *testing.T, db *DB, calls ...func() error) []error {
	t.Helper()
	var wg sync.WaitGroup
	begun, wait := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	wg.Go(func() {
		_ = db.write(context.Background(), func(*draft) error { once(); <-wait; return nil }) // only holds the committer up
	})
	<-begun
	errs := make([]error, len(calls))
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
		for len(db.commit.ops) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	close(wait)
	wg.Wait()
	return errs
}

func driven(t *testing.T, db *DB) (sallyport.AttemptID, journal.Lease) {
	t.Helper()
	att := sallyport.AttemptID(journaltest.NewID(t, sallyport.AttemptPrefix))
	if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
		t.Fatal(err)
	}
	l, err := db.Acquire(t.Context(), att, journal.Holder{Host: "h", PID: 1}, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	return att, l
}

func intend(att sallyport.AttemptID, alc sallyport.AllocationID) journal.Record {
	return journal.Record{Type: lifecycle.AllocationIntended, Attempt: att, Allocation: alc, Data: lifecycle.Intended{Purpose: sallyport.PurposeExecute, Provider: "fake"}}
}

func move(att sallyport.AttemptID, to sallyport.AttemptState, seconds float64) journal.Record {
	return journal.Record{Type: lifecycle.AttemptStage, Attempt: att, Data: lifecycle.Stage{State: to, Seconds: seconds}}
}

// TestOneBatch: each call sees those before it in the same transaction, and is refused alone and as a whole.
func TestOneBatch(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "j.db"), Options{})
	one, l1 := driven(t, db)
	two, l2 := driven(t, db)
	alc := sallyport.AllocationID(journaltest.NewID(t, sallyport.AllocationPrefix))
	put := func(l journal.Lease, records ...journal.Record) func() error {
		return func() error { _, err := db.Append(t.Context(), &l, records...); return err }
	}
	var renewed journal.Lease
	before, _, _ := db.Head(t.Context())
	errs := together(t, db,
		put(l1, move(one, sallyport.AttemptPreparing, 0), intend(one, alc)),
		put(l2, move(two, sallyport.AttemptPreparing, 0), intend(two, alc)),   // the allocation of one: all of it is refused
		put(l2, note(two, "lost"), move(two, sallyport.AttemptInspecting, 0)), // not allowed from queued
		put(l1, move(one, sallyport.AttemptRunning, 1), note(one, "kept")),
		put(l2, move(two, sallyport.AttemptPreparing, 0)), // still queued, whatever was refused above
		func() (err error) { renewed, err = db.Renew(t.Context(), l1, 2*time.Hour); return err },
		func() error { return db.Release(t.Context(), l2) },
		put(l2, note(two, "late")),
	)
	refused := map[int]sallyport.Code{1: sallyport.CodeConflict, 2: sallyport.CodeConflict, 7: sallyport.CodeFenced}
	for i, err := range errs {
		if want, no := refused[i]; (err != nil) != no || no && sallyport.CodeOf(err) != want {
			t.Errorf("call %d: %v, want refused %v, %v", i, err, no, want)
		}
	}
	if seq, _, err := db.Head(t.Context()); err != nil || seq != before+6 {
		t.Errorf("%d events, want 6 (%v)", seq-before, err)
	}
	a, err := db.Attempt(t.Context(), one)
	if err != nil || a.Report.State != sallyport.AttemptRunning || a.Lease == nil || *a.Lease != renewed || !slices.Contains(a.Report.Notices, "kept") {
		t.Errorf("%+v, lease %+v, %v", a.Report, a.Lease, err)
	}
	b, err := db.Attempt(t.Context(), two)
	if err != nil || b.Report.State != sallyport.AttemptPreparing || b.Lease != nil || slices.Contains(b.Report.Notices, "lost") {
		t.Errorf("%+v, lease %+v, %v", b.Report, b.Lease, err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAnotherProcessBetweenTwoBatches: what was remembered of the file does not count once somebody else has committed.
func TestAnotherProcessBetweenTwoBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	ours, theirs := openAt(t, path, Options{}), openAt(t, path, Options{})
	att, l := driven(t, ours)
	alc := sallyport.AllocationID(journaltest.NewID(t, sallyport.AllocationPrefix))
	do := func(_ []lifecycle.Event, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(ours.Append(t.Context(), &l, move(att, sallyport.AttemptPreparing, 0), intend(att, alc)))
	do(theirs.Append(t.Context(), nil, journal.Record{Type: lifecycle.CancelRequested, Attempt: att, Data: lifecycle.Person{Who: "a person"}}))
	do(theirs.Append(t.Context(), &l, journal.Record{Type: lifecycle.AllocationBound, Attempt: att, Allocation: alc, Data: lifecycle.Bound{Resource: "boot:1"}}))
	do(ours.Append(t.Context(), &l, note(att, "ours"), journal.Record{Type: lifecycle.AllocationReady, Attempt: att, Allocation: alc}))
	a, err := ours.Attempt(t.Context(), att)
	if err != nil || !a.CancelRequested || !slices.Contains(a.Report.Notices, "ours") {
		t.Errorf("%+v, %v", a, err)
	}
	// A renewal leaves no event: it is the one change that the end of the log does not tell.
	longer, err := theirs.Renew(t.Context(), l, 3*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ours.Renew(t.Context(), l, time.Hour); err != nil || r.Until < longer.Until {
		t.Errorf("shortened from %v to %v (%v)", longer.Until, r.Until, err)
	}
	if err := theirs.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	_, err = ours.Append(t.Context(), &l, note(att, "late"))
	wantCode(t, err, sallyport.CodeFenced)
	if err := ours.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A transaction is drafted before it begins: if somebody else commits in between, it is drafted anew, refusals included.
func TestAnotherProcessBetweenDraftAndLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	ours, theirs := openAt(t, path, Options{}), openAt(t, path, Options{})
	att, l := driven(t, ours)
	early, err := ours.event(&l, note(att, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	drafts := 0
	errs := together(t, ours,
		func() error {
			return ours.write(t.Context(), func(d *draft) error {
				if drafts++; drafts == 1 {
					if _, err := theirs.Append(t.Context(), &l, move(att, sallyport.AttemptPreparing, 0), note(att, "theirs")); err != nil {
						return err
					}
				}
				_, err := d.append([]lifecycle.Event{early})
				return err
			})
		},
		func() error {
			_, err := ours.Append(t.Context(), &l, move(att, sallyport.AttemptRunning, 0))
			return err
		}) // from queued it would be refused
	if errs[0] != nil || errs[1] != nil || drafts != 2 {
		t.Errorf("%v, drafted %d times", errs, drafts)
	}
	a, err := ours.Attempt(t.Context(), att)
	if err != nil || a.Report.State != sallyport.AttemptRunning || !slices.Contains(a.Report.Notices, "ours") || !slices.Contains(a.Report.Notices, "theirs") {
		t.Errorf("%+v, %v", a.Report, err)
	}
	if err := ours.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// What the events of an Attempt say together has to have a JSON form; of one that has none the others hear nothing.
func TestWhatCannotBeEncodedIsRefusedAlone(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "j.db"), Options{})
	one, l1 := driven(t, db)
	two, l2 := driven(t, db)
	endless := []journal.Record{move(one, sallyport.AttemptPreparing, 0)}
	for range 2 {
		endless = append(endless, move(one, sallyport.AttemptRunning, 1.7e308), move(one, sallyport.AttemptPreparing, 1.7e308))
	}
	errs := together(t, db,
		func() error { _, err := db.Append(t.Context(), &l1, endless...); return err },
		func() error { _, err := db.Append(t.Context(), &l2, note(two, "kept")); return err })
	wantCode(t, errs[0], sallyport.CodeInvalid)
	if errs[1] != nil {
		t.Error(errs[1])
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// An error with which SQLite may have ended the transaction is everybody's: what came after it would be committed without what
// came before. Any other is its op's own.
func TestAnErrorThatEndsTheTransactionIsEverybodys(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "j.db"), Options{})
	att, l := driven(t, db)
	other, err := sql.Open("sqlite", dsn(filepath.Join(t.TempDir(), "other.db"), 0, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, statement := range []string{`CREATE TABLE x (y UNIQUE)`, `INSERT INTO x VALUES (1)`} {
		if _, err := other.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	_, unique := other.Exec(`INSERT INTO x VALUES (1)`)
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, busy := other.Exec(`BEGIN IMMEDIATE`)
	for _, tt := range []struct {
		err  error
		ends bool
	}{{unique, false}, {busy, true}} {
		var d *driver.Error
		if !errors.As(tt.err, &d) {
			t.Fatalf("%v is not SQLite's", tt.err)
		}
		before, _, _ := db.Head(t.Context())
		errs := together(t, db,
			func() error { _, err := db.Append(t.Context(), &l, note(att, "before")); return err },
			func() error { return db.write(t.Context(), func(*draft) error { return tt.err }) },
			func() error { _, err := db.Append(t.Context(), &l, note(att, "after")); return err })
		after, _, err := db.Head(t.Context())
		if err != nil || errs[1] == nil || (errs[0] != nil) != tt.ends || (errs[2] != nil) != tt.ends || (after == before) != tt.ends {
			t.Errorf("%v: %v, %d events; want ends %v (%v)", tt.err, errs, after-before, tt.ends, err)
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
