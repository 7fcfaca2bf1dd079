package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// selectAttempt reads a projection with its last lease; the caller adds WHERE and ORDER.
const selectAttempt = `SELECT a.state, c.body, l.attempt, l.fence, l.holder, l.until_ns, l.Released
	FROM attempts a LEFT JOIN changes c ON c.attempt = a.id LEFT JOIN leases l ON l.attempt = a.id `

const (
	selectEvents = `SELECT seq, at, type, attempt, allocation, fence, data, prev, hash FROM events `
	selectAllocs = `SELECT body FROM allocations `
)

// Attempt implements journal.Journal.
func (db *DB) Attempt(ctx context.Context, id sallyport.AttemptID) (journal.Attempt, error) {
	all, err := db.attempts(ctx, `WHERE a.id = ?`, string(id))
	if err != nil {
		return journal.Attempt{}, err
	}
	if len(all) == 0 {
		return journal.Attempt{}, notFound(string(id))
	}
	return all[0], nil
}

// Attempts implements journal.Journal.
func (db *DB) Attempts(ctx context.Context, all bool) ([]journal.Attempt, error) {
	if all {
		return db.attempts(ctx, `ORDER BY a.created DESC`)
	}
	return db.attempts(ctx, `WHERE a.ended = 0 ORDER BY a.created DESC`)
}

// OfWorkOrder implements journal.Journal.
func (db *DB) OfWorkOrder(ctx context.Context, id sallyport.WorkOrderID) ([]journal.Attempt, error) {
	return db.attempts(ctx, `WHERE a.work_order = ? ORDER BY a.created`, string(id))
}

// Find implements journal.Journal.
func (db *DB) Find(ctx context.Context, prefix string) (journal.Attempt, error) {
	p := strings.TrimPrefix(prefix, sallyport.AttemptPrefix+"_")
	if p == "" {
		return journal.Attempt{}, &sallyport.Error{Op: "find attempt", Code: sallyport.CodeInvalid, Subject: prefix, Message: "expected the beginning of an attempt's id"}
	}
	from := sallyport.AttemptPrefix + "_" + p
	// A range and not LIKE: what a person types holds no wildcards. '~' sorts after all that an id has.
	all, err := db.attempts(ctx, `WHERE a.id >= ? AND a.id < ? ORDER BY a.created DESC LIMIT 6`, from, from+"~")
	switch {
	case err != nil:
		return journal.Attempt{}, err
	case len(all) == 0:
		return journal.Attempt{}, notFound(prefix)
	case len(all) > 1:
		return journal.Attempt{}, ambiguous(prefix, all)
	}
	return all[0], nil
}

func ambiguous(prefix string, all []journal.Attempt) error {
	var ids []string
	for _, a := range all[:min(len(all), 5)] {
		ids = append(ids, string(a.Report.Attempt))
	}
	more := ""
	if len(all) > 5 {
		more = ", …"
	}
	return &sallyport.Error{Op: "find attempt", Code: sallyport.CodeConflict, Subject: prefix, Message: "several attempts begin like this: " + strings.Join(ids, ", ") + more, Hint: "give more of the id"}
}

// Allocations implements journal.Journal, in the order of their intents.
func (db *DB) Allocations(ctx context.Context, id sallyport.AttemptID) ([]journal.Allocation, error) {
	return db.allocations(ctx, `WHERE attempt = ? ORDER BY intended`, string(id))
}

// OpenAllocations implements journal.Journal, in the order of their intents.
func (db *DB) OpenAllocations(ctx context.Context) ([]journal.Allocation, error) {
	return db.allocations(ctx, `WHERE open = 1 ORDER BY intended`)
}

// Events implements journal.Journal. A limit below one is CodeInvalid: it is neither "none" nor "all".
func (db *DB) Events(ctx context.Context, id sallyport.AttemptID, after int64, limit int) ([]lifecycle.Event, error) {
	if limit < 1 {
		return nil, &sallyport.Error{Op: "read events", Code: sallyport.CodeInvalid, Message: fmt.Sprintf("expected a positive limit, got %d", limit)}
	}
	if id == "" {
		return db.events(ctx, `WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	}
	return db.events(ctx, `WHERE attempt = ? AND seq > ? ORDER BY seq LIMIT ?`, string(id), after, limit)
}

// Head implements journal.Journal. An empty journal: 0 and no digest.
func (db *DB) Head(ctx context.Context) (int64, sallyport.Digest, error) {
	var h head
	err := db.reader.QueryRowContext(ctx, `SELECT seq, hash FROM head`).Scan(&h.seq, &h.hash)
	return h.seq, h.hash, wrap("read journal", db.path, err)
}

func (db *DB) attempts(ctx context.Context, where string, args ...any) ([]journal.Attempt, error) {
	return query(ctx, db, selectAttempt+where, args, func(row scanner) (journal.Attempt, error) {
		var (
			text            string
			changes         sql.NullString
			attempt, holder sql.NullString
			fence, until    sql.NullInt64
			released        sql.NullBool
		)
		if err := row.Scan(&text, &changes, &attempt, &fence, &holder, &until, &released); err != nil {
			return journal.Attempt{}, err
		}
		if !changes.Valid {
			return journal.Attempt{}, corrupt("read journal", db.path, "an attempt has no row of changes")
		}
		s, err := decodeState(db.path, text, changes.String)
		if err != nil || !attempt.Valid {
			return toAttempt(s, nil), err
		}
		l, err := newLeaseRow(attempt.String, fence.Int64, holder.String, until.Int64, released.Bool)
		return toAttempt(s, l), err
	})
}

func (db *DB) allocations(ctx context.Context, where string, args ...any) ([]journal.Allocation, error) {
	return query(ctx, db, selectAllocs+where, args, func(row scanner) (journal.Allocation, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return journal.Allocation{}, err
		}
		a, err := decodeAllocation(db.path, text)
		return journal.Allocation(a), err
	})
}

func (db *DB) events(ctx context.Context, where string, args ...any) ([]lifecycle.Event, error) {
	return query(ctx, db, selectEvents+where, args, scanEvent)
}

func scanEvent(row scanner) (lifecycle.Event, error) {
	var e lifecycle.Event
	var data string
	err := row.Scan(&e.Seq, &e.At, &e.Type, &e.Attempt, &e.Allocation, &e.Fence, &data, &e.Prev, &e.Hash)
	e.Data = []byte(data)
	return e, err
}

func query[T any](ctx context.Context, db *DB, q string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	rows, err := db.reader.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, wrap("read journal", db.path, err)
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, wrap("read journal", db.path, err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, wrap("read journal", db.path, err)
	}
	return out, nil
}
