package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

const selectLease = `SELECT attempt, fence, holder, until_ns, released FROM leases WHERE attempt = ?`

// encodeState splits a State into its row's state and changes. The changes of a big import are not read,
// nor written again, with every later event: a State that a transaction loaded has none (nil), and as the
// fold never makes them nil, nil means that they are as they were. changes is then empty.
func encodeState(s lifecycle.State) (state, changes string, err error) {
	if s.Report.Changes != nil {
		b, err := json.Marshal(s.Report.Changes)
		if err != nil {
			return "", "", err
		}
		changes = string(b)
	}
	s.Report.Changes = nil
	if s.Imported != nil {
		im := *s.Imported
		im.Changes = nil
		s.Imported = &im
	}
	b, err := json.Marshal(s)
	return string(b), changes, err
}

// decodeState is the inverse; changes may be left empty.
func decodeState(path, state, changes string) (lifecycle.State, error) {
	var s lifecycle.State
	err := json.Unmarshal([]byte(state), &s)
	if err == nil && changes != "" {
		err = json.Unmarshal([]byte(changes), &s.Report.Changes)
	}
	if err != nil {
		return s, corrupt("read journal", path, "the projection of an attempt is not readable: "+err.Error())
	}
	if s.Imported != nil {
		s.Imported.Changes = s.Report.Changes
	}
	return s, nil
}

func decodeAllocation(path, text string) (lifecycle.Allocation, error) {
	var a lifecycle.Allocation
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, corrupt("read journal", path, "the projection of an allocation is not readable: "+err.Error())
	}
	return a, nil
}

type scanner interface{ Scan(...any) error }

// scanLease: no row is nil.
func scanLease(row scanner) (*journal.Held, error) {
	var (
		attempt, holder string
		fence, until    int64
		released        bool
	)
	err := row.Scan(&attempt, &fence, &holder, &until, &released)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newLeaseRow(attempt, fence, holder, until, released)
}

func newLeaseRow(attempt string, fence int64, holder string, until int64, released bool) (*journal.Held, error) {
	r := journal.Held{Lease: journal.Lease{Attempt: sallyport.AttemptID(attempt), Fence: fence, Until: time.Duration(until)}, Released: released}
	if err := json.Unmarshal([]byte(holder), &r.Holder); err != nil {
		return nil, corrupt("read journal", attempt, "the holder of a lease is not readable: "+err.Error())
	}
	return &r, nil
}

// toAttempt is the projection that callers see.
func toAttempt(s lifecycle.State, l *journal.Held) journal.Attempt {
	a := journal.Attempt{
		Report: s.Report, Submitter: s.Submitter, StartTree: s.StartTree, Feedback: s.Feedback,
		CancelRequested: s.CancelRequested, CancelBy: s.CancelBy, Logs: s.Logs, Egress: s.Egress, EgressOpen: s.EgressOpen, Spend: s.Spend,
		Imported: s.Imported, Publication: s.Publication, Publishing: s.Publishing, Published: s.Published,
	}
	if l != nil && !l.Released {
		a.Lease = &l.Lease
	}
	return a
}
