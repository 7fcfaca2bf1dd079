package sqlite

import (
	"context"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Append implements journal.Journal. With a lease and no records it only asks whether the lease still
// counts (journal.Current).
func (db *DB) Append(ctx context.Context, lease *journal.Lease, records ...journal.Record) ([]lifecycle.Event, error) {
	events := make([]lifecycle.Event, len(records))
	for i, rec := range records { // canonical form before the lock: it is the slow part
		e, err := db.event(lease, rec)
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	var out []lifecycle.Event
	err := db.write(ctx, func(d *draft) (err error) {
		if lease != nil {
			if err := d.current(*lease); err != nil {
				return err
			}
		}
		out, err = d.append(events)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// event checks a record's outside and gives it all but its place in the chain.
func (db *DB) event(lease *journal.Lease, rec journal.Record) (lifecycle.Event, error) {
	e := lifecycle.Event{At: at(db.now()), Type: rec.Type, Attempt: rec.Attempt, Allocation: rec.Allocation}
	if err := journal.Authority(lease, rec); err != nil {
		return e, err
	}
	if lease != nil && lease.Attempt == rec.Attempt {
		e.Fence = lease.Fence
	}
	data, err := canonical(rec)
	e.Data = data
	return e, err
}

func notFound(id string) error {
	return &sallyport.Error{Op: "find attempt", Code: sallyport.CodeNotFound, Subject: id, Message: "the journal has no such attempt", Hint: "sallyport ps -a lists all"}
}
