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
	begin, commit, rollback    *sql.Stmt
	readVersion                *sql.Stmt
	readHead, writeHead        *sql.Stmt
	insertEvent                *sql.Stmt
	readAttempt, insertAttempt *sql.Stmt
	writeState, writeEnded     *sql.Stmt
	writeChanges               *sql.Stmt
	readAllocation, writeAlloc *sql.Stmt
	readLease, writeLease      *sql.Stmt
	all                        []*sql.Stmt
}

func prepare(ctx context.Context, c *sql.Conn) (statements, error) {
	var s statements
	for _, q := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},
		{&s.readVersion, `PRAGMA data_version`},
		{&s.readHead, `SELECT seq, hash, fence FROM head`},
		{&s.writeHead, `UPDATE head SET seq = ?, hash = ?, fence = ?`},
		{&s.insertEvent, `INSERT INTO events (seq, at, type, attempt, allocation, fence, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.readAttempt, `SELECT created, ended, state FROM attempts WHERE id = ?`},
		{&s.insertAttempt, `INSERT INTO attempts (id, created, work_order, ended, state) VALUES (?, ?, ?, ?, ?)`},
		{&s.writeState, `UPDATE attempts SET state = ? WHERE created = ?`}, // apart from ended, which is in an index
		{&s.writeEnded, `UPDATE attempts SET ended = ? WHERE created = ?`},
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

// tx is one transaction: its ops, and what the drafts that were kept say together, each row once, to be written at its end. It
// can be drafted before it has begun, on what is known: committer.begin tells whether that held.
type tx struct {
	db      *DB
	stmts   *statements
	ops     []*op
	known   *known // nil: nothing can be drafted yet
	written head   // the file's
	events  []lifecycle.Event
	changed rows
	broken  error // condemns all ops
}

func (m *committer) newTx() *tx {
	t := &tx{db: m.db, stmts: &m.stmts}
	t.rest(m.known)
	return t
}

// rest drops all drafts and has the next ones rest on k.
func (t *tx) rest(k *known) {
	t.known, t.events, t.changed, t.broken = k, nil, newRows(), nil
	if k != nil {
		t.written = k.head
	}
}

func (t *tx) redraft(k *known) {
	t.rest(k)
	for _, o := range t.ops {
		t.draft(o)
	}
}

func (t *tx) add(o *op) {
	t.ops = append(t.ops, o)
	if t.known != nil {
		t.draft(o)
	}
}

// draft has o drafted, and keeps it if o is content.
func (t *tx) draft(o *op) {
	err := o.ctx.Err()
	if err == nil {
		d := &draft{tx: t, head: t.known.head, rows: newRows()}
		if err = o.do(d); err == nil {
			t.keep(d)
		}
	}
	o.err = wrap("append", t.db.path, err)
	if endsTransaction(err) {
		t.broken = err
	}
}

// keep takes over what a draft says.
func (t *tx) keep(d *draft) {
	t.known.head = d.head
	t.known.take(d.rows)
	t.changed.take(d.rows)
	t.events = append(t.events, d.events...)
}

// fail answers all ops alike, also those that had been refused: they were judged against events that are now not there.
func (t *tx) fail(err error) {
	for _, o := range t.ops {
		o.err = err
	}
}

// write puts it all into the file. An error condemns the transaction.
func (t *tx) write() error {
	for _, e := range t.events {
		if err := t.exec(t.stmts.insertEvent, e.Seq, e.At, string(e.Type), string(e.Attempt), string(e.Allocation), e.Fence, string(e.Data), string(e.Prev), string(e.Hash)); err != nil {
			return err
		}
	}
	for id, r := range t.changed.attempts {
		if err := t.writeAttempt(id, r); err != nil {
			return err
		}
	}
	for id, r := range t.changed.allocations {
		text, err := r.text()
		if err != nil {
			return err
		}
		if err := t.exec(t.stmts.writeAlloc, string(id), r.intended, string(r.Attempt), r.Open(), text); err != nil {
			return err
		}
	}
	for id, l := range t.changed.leases {
		h, err := json.Marshal(l.Holder)
		if err != nil {
			return err
		}
		if err := t.exec(t.stmts.writeLease, string(id), l.Fence, string(h), int64(l.Until), l.Released); err != nil {
			return err
		}
	}
	h := t.known.head
	if h == t.written {
		return nil
	}
	return t.exec(t.stmts.writeHead, h.seq, string(h.hash), h.fence)
}

func (t *tx) writeAttempt(id sallyport.AttemptID, r *attemptRow) error {
	if r.changes != "" {
		if err := t.exec(t.stmts.writeChanges, string(id), r.changes); err != nil {
			return err
		}
		r.changes = "" // the file has them now
	}
	was, ended := r.stored, r.state.Settled()
	r.stored = stored{true, ended}
	if !was.exists {
		return t.exec(t.stmts.insertAttempt, string(id), r.created, string(r.state.Report.WorkOrder), ended, r.text)
	}
	if ended != was.ended {
		if err := t.exec(t.stmts.writeEnded, ended, r.created); err != nil {
			return err
		}
	}
	return t.exec(t.stmts.writeState, r.text, r.created)
}

func (t *tx) exec(st *sql.Stmt, args ...any) error {
	_, err := st.Exec(args...)
	return err
}

func (t *tx) attempt(id sallyport.AttemptID) (*attemptRow, error) {
	if r := t.known.attempts[id]; r != nil {
		return r, nil
	}
	r := &attemptRow{stored: stored{exists: true}}
	switch err := t.stmts.readAttempt.QueryRow(string(id)).Scan(&r.created, &r.stored.ended, &r.text); {
	case errors.Is(err, sql.ErrNoRows):
		return &attemptRow{}, nil
	case err != nil:
		return nil, err
	}
	var err error
	if r.state, err = decodeState(t.db.path, r.text, ""); err != nil {
		return nil, err
	}
	t.known.attempts[id] = r
	return r, nil
}

func (t *tx) allocation(id sallyport.AllocationID) (*allocationRow, error) {
	if r := t.known.allocations[id]; r != nil {
		return r, nil
	}
	r := &allocationRow{}
	var text string
	switch err := t.stmts.readAllocation.QueryRow(string(id)).Scan(&r.intended, &text); {
	case errors.Is(err, sql.ErrNoRows):
		return r, nil
	case err != nil:
		return nil, err
	}
	var err error
	if r.Allocation, err = decodeAllocation(t.db.path, text); err != nil {
		return nil, err
	}
	t.known.allocations[id] = r
	return r, nil
}

func (t *tx) lease(id sallyport.AttemptID) (*journal.Held, error) {
	if l, ok := t.known.leases[id]; ok {
		return l, nil
	}
	l, err := scanLease(t.stmts.readLease.QueryRow(string(id)))
	if err == nil {
		t.known.leases[id] = l
	}
	return l, err
}
