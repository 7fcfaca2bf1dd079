package control

import (
	"path/filepath"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// What ended a session shows only later: the driver is not dead yet, or has not recorded yet that the command has ended.
func TestSessionWhoseEndShowsLater(t *testing.T) {
	for name, tt := range map[string]struct {
		later func(*testing.T, journal.Journal, journal.Lease) error
		over  bool
	}{
		"the driver has died": {func(t *testing.T, j journal.Journal, l journal.Lease) error {
			return j.Release(t.Context(), l)
		}, false},
		"the command has ended": {func(t *testing.T, j journal.Journal, l journal.Lease) error {
			_, err := j.Append(t.Context(), &l, journal.Record{Type: lifecycle.AttemptStage, Attempt: l.Attempt, Data: lifecycle.Stage{State: sallyport.AttemptCollecting}})
			return err
		}, true},
		"another driver is there": {func(t *testing.T, j journal.Journal, l journal.Lease) error {
			if err := j.Release(t.Context(), l); err != nil {
				return err
			}
			_, err := j.Acquire(t.Context(), l.Attempt, l.Holder, time.Hour, nil)
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			self, err := journal.SelfHolder()
			if err != nil {
				t.Fatal(err)
			}
			id := sallyport.AttemptID(journaltest.NewID(t, sallyport.AttemptPrefix))
			if _, err := j.Append(t.Context(), nil, journaltest.Created(id, "wo_over")); err != nil {
				t.Fatal(err)
			}
			l, err := j.Acquire(t.Context(), id, self, time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []sallyport.AttemptState{sallyport.AttemptPreparing, sallyport.AttemptRunning} {
				if _, err := j.Append(t.Context(), &l, journal.Record{Type: lifecycle.AttemptStage, Attempt: id, Data: lifecycle.Stage{State: s}}); err != nil {
					t.Fatal(err)
				}
			}
			later, began := make(chan error, 1), time.Now()
			time.AfterFunc(300*time.Millisecond, func() { later <- tt.later(t, j, l) })
			over, err := (&Control{journal: j}).commandOver(t.Context(), id, l.Fence)
			if err != nil || over != tt.over {
				t.Errorf("%v, %v", over, err)
			}
			if time.Since(began) < 300*time.Millisecond {
				t.Error("it did not wait")
			}
			if err := <-later; err != nil {
				t.Error(err)
			}
		})
	}
}
