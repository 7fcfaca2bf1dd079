package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// statements are prepared once on the committer's connection.
type statements struct {
	savepoint, rollback, release *sql.Stmt
	readHead, writeHead          *sql.Stmt
	insertEvent                  *sql.Stmt
	readAttempt, writeAttempt    *sql.Stmt
	writeChanges                 *sql.Stmt
	readAllocation, writeAlloc   *sql.Stmt
	readLease, writeLease        *sql.Stmt
	all                          []*sql.Stmt
}

func prepare(ctx context.Context, c *sql.Conn) (statements, error) {
	var s statements
	for _, q := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.savepoint, `SAVEPOINT one`},
		{&s.rollback, `ROLLBACK TO one`},
		{&s.release, `RELEASE one`},
		{&s.readHead, `SELECT seq, hash, fence FROM head`},
		{&s.writeHead, `UPDATE head SET seq = ?, hash = ?, fence = ?`},
		{&s.insertEvent, `INSERT INTO events (seq, at, type, attempt, allocation, fence, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.readAttempt, `SELECT created, state FROM attempts WHERE id = ?`},
		{&s.writeAttempt, `INSERT INTO attempts (id, created, work_order, ended, state) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, state = excluded.state`},
		{&s.writeChanges, `INSERT INTO changes (attempt, body) VALUES (?, ?) ON CONFLICT (attempt) DO UPDATE SET body = excluded.body`},
		{&s.readAllocation, `SELECT intended, body FROM allocations WHERE id = ?`},
		{&s.writeAlloc, `INSERT INTO allocations (id, intended, attempt, open, body) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET open = excluded.open, body = excluded.body`},
		{&s.readLease, selectLease},
		{&s.writeLease, `INSERT INTO leases (attempt, fence, holder, until_ns, released) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (attempt) DO UPDATE SET fence = excluded.fence, holder = excluded.holder, until_ns = excluded.until_ns, released = excluded.released`},
	} {
		st, err := c.PrepareContext(ctx, q.sql)
		if err != nil {
			return s, errors.Join(err, s.close())
		}
		*q.to = st
		s.all = append(s.all, st)
	}
	return s, nil
}

func (s statements) close() error {
	var errs []error
	for _, st := range s.all {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// head is the end of the log and the last fence.
type head struct {
	seq   int64
	hash  sallyport.Digest
	fence int64
}

// tx is the committer's open transaction.
type tx struct {
	db    *DB
	stmts *statements
	head  head
	saved head
}

func (m *committer) newTx() (*tx, error) {
	t := &tx{db: m.db, stmts: &m.stmts}
	err := m.stmts.readHead.QueryRow().Scan(&t.head.seq, &t.head.hash, &t.head.fence)
	t.saved = t.head
	return t, err
}

func (t *tx) exec(st *sql.Stmt, args ...any) error {
	_, err := st.Exec(args...)
	return err
}

func (t *tx) saveHead() error {
	if t.head == t.saved {
		return nil
	}
	return t.exec(t.stmts.writeHead, t.head.seq, string(t.head.hash), t.head.fence)
}

// chain gives e its place in the log and inserts it.
func (t *tx) chain(e lifecycle.Event) (lifecycle.Event, error) {
	e.Seq, e.Prev = t.head.seq+1, t.head.hash
	h, err := hashOf(e)
	if err != nil {
		return e, err
	}
	e.Hash = h
	if err := t.exec(t.stmts.insertEvent, e.Seq, e.At, string(e.Type), string(e.Attempt), string(e.Allocation), e.Fence, string(e.Data), string(e.Prev), string(e.Hash)); err != nil {
		return e, err
	}
	t.head.seq, t.head.hash = e.Seq, e.Hash
	return e, nil
}

// attempt loads a projection without its Allocations and changes; the zero State where there is none.
func (t *tx) attempt(id sallyport.AttemptID) (created int64, s lifecycle.State, err error) {
	var text string
	switch err := t.stmts.readAttempt.QueryRow(string(id)).Scan(&created, &text); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, s, nil
	case err != nil:
		return 0, s, err
	}
	s, err = decodeState(t.db.path, text, "")
	return created, s, err
}

func (t *tx) saveAttempt(created int64, s lifecycle.State) error {
	state, changes, err := encodeState(s)
	if err != nil {
		return err
	}
	r := s.Report
	if changes != "" {
		if err := t.exec(t.stmts.writeChanges, string(r.Attempt), changes); err != nil {
			return err
		}
	}
	return t.exec(t.stmts.writeAttempt, string(r.Attempt), created, string(r.WorkOrder), s.Settled(), state)
}

func (t *tx) allocation(id sallyport.AllocationID) (intended int64, a lifecycle.Allocation, err error) {
	var text string
	switch err := t.stmts.readAllocation.QueryRow(string(id)).Scan(&intended, &text); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, a, nil
	case err != nil:
		return 0, a, err
	}
	a, err = decodeAllocation(t.db.path, text)
	return intended, a, err
}

func (t *tx) saveAllocation(intended int64, a lifecycle.Allocation) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return t.exec(t.stmts.writeAlloc, string(a.ID), intended, string(a.Attempt), a.Open(), string(text))
}

// lease is the last lease of an Attempt, nil where there never was one.
func (t *tx) lease(id sallyport.AttemptID) (*journal.Held, error) {
	return scanLease(t.stmts.readLease.QueryRow(string(id)))
}

func (t *tx) saveLease(r journal.Held) error {
	h, err := json.Marshal(r.Holder)
	if err != nil {
		return err
	}
	return t.exec(t.stmts.writeLease, string(r.Attempt), r.Fence, string(h), int64(r.Until), r.Released)
}
