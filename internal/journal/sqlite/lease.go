package sqlite

import (
	"context"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Acquire implements journal.Journal. h must be of this boot (empty: filled in); a holder that acquires
// again while its lease is live gets CodeConflict like any other, because two drivers in one process are
// two drivers. dead is called outside of any transaction and may be slow.
func (db *DB) Acquire(ctx context.Context, id sallyport.AttemptID, h journal.Holder, ttl time.Duration, dead func(journal.Holder) bool) (journal.Lease, error) {
	if h.Boot == "" {
		h.Boot = db.boot
	}
	if ttl <= 0 || h.Boot != db.boot {
		return journal.Lease{}, &sallyport.Error{Op: "acquire lease", Code: sallyport.CodeInvalid, Subject: string(id), Message: "expected a positive duration and a holder of this boot"}
	}
	for {
		seen, err := scanLease(db.reader.QueryRowContext(ctx, selectLease, string(id)))
		if err != nil {
			return journal.Lease{}, wrap("acquire lease", db.path, err)
		}
		if !journal.Free(seen, db.boot, db.clock(), dead) {
			return journal.Lease{}, held(*seen)
		}
		l, won, err := db.swap(ctx, id, h, ttl, seen)
		if err != nil || won {
			return l, err
		}
	}
}

func held(r journal.Held) error {
	return &sallyport.Error{Op: "acquire lease", Code: sallyport.CodeConflict, Subject: string(r.Attempt), Message: "another process drives the attempt: " + r.Holder.String(), Hint: "attach to it, or cancel it"}
}

// swap takes the lease if it is still as it was seen. lease.acquired is in the log under the new fence in
// the same transaction.
func (db *DB) swap(ctx context.Context, id sallyport.AttemptID, h journal.Holder, ttl time.Duration, seen *journal.Held) (l journal.Lease, won bool, err error) {
	data, err := canonical(journal.Record{Type: lifecycle.LeaseAcquired, Data: lifecycle.LeaseChange{Holder: h.String()}})
	if err != nil {
		return l, false, err
	}
	err = db.write(ctx, func(t *tx) error {
		won = false
		now, err := t.lease(id)
		if err != nil {
			return err
		}
		if !journal.Same(now, seen) {
			return nil
		}
		t.head.fence++
		l = journal.Lease{Attempt: id, Holder: h, Fence: t.head.fence, Until: db.clock() + ttl}
		if _, err := t.append([]lifecycle.Event{{At: at(db.now()), Type: lifecycle.LeaseAcquired, Attempt: id, Fence: l.Fence, Data: data}}); err != nil {
			return err
		}
		won = true
		return t.saveLease(journal.Held{Lease: l})
	})
	if err != nil {
		return journal.Lease{}, false, err
	}
	return l, won, nil
}

// Renew implements journal.Journal. It never shortens. Late is not lost: as long as nobody else has
// acquired the lease it can be renewed.
func (db *DB) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if ttl <= 0 {
		return journal.Lease{}, &sallyport.Error{Op: "renew lease", Code: sallyport.CodeInvalid, Subject: string(l.Attempt), Message: "expected a positive duration"}
	}
	var out journal.Lease
	err := db.write(ctx, func(t *tx) error {
		if err := t.current(l); err != nil {
			return err
		}
		r, err := t.lease(l.Attempt)
		if err != nil {
			return err
		}
		longer := r.Renewed(db.clock(), ttl)
		out = longer.Lease
		return t.saveLease(longer)
	})
	if err != nil {
		return journal.Lease{}, err
	}
	return out, nil
}

// Release implements journal.Journal. The fence is not given back.
func (db *DB) Release(ctx context.Context, l journal.Lease) error {
	data, err := canonical(journal.Record{Type: lifecycle.LeaseReleased, Data: lifecycle.LeaseChange{Holder: l.Holder.String()}})
	if err != nil {
		return err
	}
	return db.write(ctx, func(t *tx) error {
		r, err := t.lease(l.Attempt)
		if err != nil || r == nil || r.Released || r.Fence != l.Fence {
			return err
		}
		if _, err := t.append([]lifecycle.Event{{At: at(db.now()), Type: lifecycle.LeaseReleased, Attempt: l.Attempt, Fence: l.Fence, Data: data}}); err != nil {
			return err
		}
		r.Released = true
		return t.saveLease(*r)
	})
}
