package sqlite

import (
	"context"
	"fmt"

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
	err := db.write(ctx, func(t *tx) (err error) {
		if lease != nil {
			if err := t.current(*lease); err != nil {
				return err
			}
		}
		out, err = t.append(events)
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

// current refuses a lease that is not the Attempt's present one.
func (t *tx) current(l journal.Lease) error {
	now, err := t.lease(l.Attempt)
	if err != nil {
		return err
	}
	return journal.Current(l, now)
}

// append folds, chains and projects.
func (t *tx) append(events []lifecycle.Event) ([]lifecycle.Event, error) {
	w := working{tx: t, attempts: map[sallyport.AttemptID]*loaded{}}
	out := make([]lifecycle.Event, 0, len(events))
	for _, e := range events {
		if err := w.fold(e); err != nil {
			return nil, err
		}
		e, err := t.chain(e)
		if err != nil {
			return nil, err
		}
		w.placed(e)
		out = append(out, e)
	}
	return out, w.save()
}

// working is the set of projections that one append touches.
type working struct {
	*tx
	attempts map[sallyport.AttemptID]*loaded
}

type loaded struct {
	state    lifecycle.State
	created  int64
	intended map[sallyport.AllocationID]int64
	dirty    bool // the attempt's own row
}

func (w *working) load(id sallyport.AttemptID) (*loaded, error) {
	if l, ok := w.attempts[id]; ok {
		return l, nil
	}
	created, s, err := w.attempt(id)
	if err != nil {
		return nil, err
	}
	s.Allocations = map[sallyport.AllocationID]lifecycle.Allocation{}
	l := &loaded{state: s, created: created, intended: map[sallyport.AllocationID]int64{}}
	w.attempts[id] = l
	return l, nil
}

func (w *working) fold(e lifecycle.Event) error {
	if e.Attempt == "" {
		return nil // a key or a checkpoint of the whole journal
	}
	l, err := w.load(e.Attempt)
	if err != nil {
		return err
	}
	if !l.state.Exists() && e.Type != lifecycle.AttemptCreated {
		return notFound(string(e.Attempt))
	}
	if lifecycle.OfAllocation(e.Type) {
		if err := w.loadAllocation(l, e); err != nil {
			return err
		}
	} else {
		l.dirty = true
	}
	return l.state.Apply(e)
}

func (w *working) loadAllocation(l *loaded, e lifecycle.Event) error {
	if _, ok := l.intended[e.Allocation]; ok {
		return nil
	}
	intended, a, err := w.allocation(e.Allocation)
	if err != nil {
		return err
	}
	if a.ID != "" && a.Attempt != e.Attempt {
		return &sallyport.Error{Op: "append", Code: sallyport.CodeConflict, Subject: string(e.Allocation), Message: fmt.Sprintf("%s is not allowed: the allocation is of %s", e.Type, a.Attempt), Hint: "an allocation id never serves twice: make a new one"}
	}
	if a.ID != "" {
		l.state.Allocations[a.ID] = a
	}
	l.intended[e.Allocation] = intended
	return nil
}

// placed remembers the seq by which listings are ordered.
func (w *working) placed(e lifecycle.Event) {
	switch e.Type {
	case lifecycle.AttemptCreated:
		w.attempts[e.Attempt].created = e.Seq
	case lifecycle.AllocationIntended:
		w.attempts[e.Attempt].intended[e.Allocation] = e.Seq
	}
}

func (w *working) save() error {
	for _, l := range w.attempts {
		if l.dirty {
			if err := w.saveAttempt(l.created, l.state); err != nil {
				return err
			}
		}
		for id, a := range l.state.Allocations {
			if err := w.saveAllocation(l.intended[id], a); err != nil {
				return err
			}
		}
	}
	return nil
}

func notFound(id string) error {
	return &sallyport.Error{Op: "find attempt", Code: sallyport.CodeNotFound, Subject: id, Message: "the journal has no such attempt", Hint: "sallyport ps -a lists all"}
}
