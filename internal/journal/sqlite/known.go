package sqlite

import (
	"encoding/json"
	"maps"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// maxKnown bounds what is remembered of the file.
const maxKnown = 512

// known is what the committer remembers of the file from one transaction to the next: the end of the log, and rows that it
// has read or written. It holds while version is the file's, which every transaction asks first: then nobody else has
// committed. Rows are never changed once they are here, only replaced.
type known struct {
	version int64 // PRAGMA data_version
	head    head
	rows
}

func (k *known) large() bool { return len(k.attempts)+len(k.allocations)+len(k.leases) > maxKnown }

// rows of the projections and the leases, by their keys.
type rows struct {
	attempts    map[sallyport.AttemptID]*attemptRow
	allocations map[sallyport.AllocationID]*allocationRow
	leases      map[sallyport.AttemptID]*journal.Held // nil: there never was one
}

func newRows() rows {
	return rows{map[sallyport.AttemptID]*attemptRow{}, map[sallyport.AllocationID]*allocationRow{}, map[sallyport.AttemptID]*journal.Held{}}
}

func (r rows) take(newer rows) {
	maps.Copy(r.attempts, newer.attempts)
	maps.Copy(r.allocations, newer.allocations)
	maps.Copy(r.leases, newer.leases)
}

// attemptRow is an Attempt's row. The zero one is of an Attempt that does not exist.
type attemptRow struct {
	created int64
	// state is without its Allocations. Its changes, which can be very many, are nil unless the last event made them anew; as the
	// fold never makes them nil, nil means that they are as they were.
	state   lifecycle.State
	text    string // JSON of state without changes
	changes string // JSON of the changes; empty: as the file has them
	stored  stored
}

// stored is what the file has of an Attempt, which decides how its row is written.
type stored struct{ exists, ended bool }

// next is a copy to fold into.
func (r *attemptRow) next() *attemptRow {
	return &attemptRow{created: r.created, state: r.state.Clone(), changes: r.changes, stored: r.stored}
}

func (r *attemptRow) encode() error {
	text, changes, err := encodeState(r.state)
	if err != nil {
		return &sallyport.Error{Op: "append", Code: sallyport.CodeInvalid, Subject: string(r.state.Report.Attempt), Message: "what the attempt's events say together is no JSON value", Err: err}
	}
	r.text = text
	if changes != "" {
		r.changes = changes
	}
	r.state = withoutChanges(r.state)
	return nil
}

// allocationRow is an Allocation's row. The zero one is of an Allocation that was never intended.
type allocationRow struct {
	lifecycle.Allocation
	intended int64
}

func (r *allocationRow) text() (string, error) {
	b, err := json.Marshal(r.Allocation)
	return string(b), err
}
