package sqlite

import (
	"fmt"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// draft is what one op would do to the journal, in memory: it sees what the ops before it in the transaction have done, and
// changes nothing. One that is allowed as a whole is kept; one that is refused is dropped and leaves nothing to undo.
type draft struct {
	tx     *tx
	head   head
	events []lifecycle.Event
	rows
}

// append folds and chains.
func (d *draft) append(events []lifecycle.Event) ([]lifecycle.Event, error) {
	out := make([]lifecycle.Event, 0, len(events))
	for _, e := range events {
		e.Seq, e.Prev = d.head.seq+1, d.head.hash
		if err := d.fold(e); err != nil {
			return nil, err
		}
		h, err := chainHash(e)
		if err != nil {
			return nil, err
		}
		e.Hash = h
		d.head.seq, d.head.hash = e.Seq, e.Hash
		out = append(out, e)
	}
	for _, r := range d.attempts { // here and not when it is written: what cannot be encoded is refused alone
		if err := r.encode(); err != nil {
			return nil, err
		}
	}
	d.events = append(d.events, out...)
	return out, nil
}

func (d *draft) fold(e lifecycle.Event) error {
	if e.Attempt == "" {
		return nil // a key or a checkpoint of the whole journal
	}
	r, err := d.attempt(e.Attempt)
	if err != nil {
		return err
	}
	if !r.state.Exists() && e.Type != lifecycle.AttemptCreated {
		return notFound(string(e.Attempt))
	}
	if lifecycle.OfAllocation(e.Type) {
		return d.foldAllocation(r.state, e)
	}
	if d.attempts[e.Attempt] == nil {
		r = r.next()
		d.attempts[e.Attempt] = r
	}
	if e.Type == lifecycle.AttemptCreated {
		r.created = e.Seq
	}
	return r.state.Apply(e)
}

// foldAllocation gives the fold the one Allocation that e is about. Nothing else of the Attempt changes.
func (d *draft) foldAllocation(s lifecycle.State, e lifecycle.Event) error {
	r, err := d.allocation(e.Allocation)
	if err != nil {
		return err
	}
	s.Allocations = map[sallyport.AllocationID]lifecycle.Allocation{}
	if r.ID != "" {
		s.Allocations[r.ID] = r.Allocation
	}
	if r.ID != "" && r.Attempt != e.Attempt {
		return &sallyport.Error{Op: "append", Code: sallyport.CodeConflict, Subject: string(e.Allocation), Message: fmt.Sprintf("%s is not allowed: the allocation is of %s", e.Type, r.Attempt), Hint: "an allocation id never serves twice: make a new one"}
	}
	if err := s.Apply(e); err != nil {
		return err
	}
	next := &allocationRow{Allocation: s.Allocations[e.Allocation], intended: r.intended}
	if e.Type == lifecycle.AllocationIntended {
		next.intended = e.Seq
	}
	d.allocations[e.Allocation] = next
	return nil
}

// current refuses a lease that is not the Attempt's present one.
func (d *draft) current(l journal.Lease) error {
	now, err := d.lease(l.Attempt)
	if err != nil {
		return err
	}
	return journal.Current(l, now)
}

func (d *draft) attempt(id sallyport.AttemptID) (*attemptRow, error) {
	if r := d.attempts[id]; r != nil {
		return r, nil
	}
	return d.tx.attempt(id)
}

func (d *draft) allocation(id sallyport.AllocationID) (*allocationRow, error) {
	if r := d.allocations[id]; r != nil {
		return r, nil
	}
	return d.tx.allocation(id)
}

// lease is the last lease of an Attempt, nil where there never was one. It is not to be changed: hold a new one.
func (d *draft) lease(id sallyport.AttemptID) (*journal.Held, error) {
	if l := d.leases[id]; l != nil {
		return l, nil
	}
	return d.tx.lease(id)
}

func (d *draft) hold(l journal.Held) { d.leases[l.Attempt] = &l }
