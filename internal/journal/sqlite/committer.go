package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxBatch bounds one transaction: beyond a few hundred appends the sync is no longer what costs, and
// other processes wait for the lock.
const maxBatch = 256

// op is one append, lease change or the like. do runs in a savepoint on the committer's goroutine.
type op struct {
	ctx  context.Context
	do   func(*tx) error
	err  error
	done chan struct{}
}

// committer owns the writing connection. It takes whatever waits, runs it in one transaction, and answers
// everybody after the one commit.
type committer struct {
	db    *DB
	conn  *sql.Conn
	stmts statements
	ops   chan *op

	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

func newCommitter(ctx context.Context, db *DB, c *sql.Conn) (*committer, error) {
	st, err := prepare(ctx, c)
	if err != nil {
		return nil, wrap("open journal", db.path, err)
	}
	m := &committer{db: db, conn: c, stmts: st, ops: make(chan *op, maxBatch), stop: make(chan struct{}), stopped: make(chan struct{})}
	go m.run()
	return m, nil
}

// submit waits for do's transaction. If ctx ends before its turn has come nothing is done; once begun it is
// waited for, because giving up in the middle would leave the outcome unknown.
func (m *committer) submit(ctx context.Context, do func(*tx) error) error {
	o := &op{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case <-m.stop:
		return closedError()
	case <-ctx.Done():
		return wrap("append", m.db.path, ctx.Err())
	case m.ops <- o:
	}
	select {
	case <-o.done:
		return o.err
	case <-m.stopped:
	}
	select { // the last batch may have had it
	case <-o.done:
		return o.err
	default:
		return closedError()
	}
}

func (m *committer) run() {
	defer close(m.stopped)
	for {
		select {
		case <-m.stop:
			return
		case o := <-m.ops:
			m.transact(m.gather(o))
		}
	}
}

func (m *committer) gather(first *op) []*op {
	batch := []*op{first}
	for len(batch) < maxBatch {
		select {
		case o := <-m.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// transact runs a batch and answers it. The commit is the only commit point: killed before it, none of the
// batch is in the journal; after it, all of it is.
func (m *committer) transact(batch []*op) {
	defer func() {
		for _, o := range batch {
			close(o.done)
		}
	}()
	if err := m.begin(); err != nil {
		fail(batch, err)
		return
	}
	t, err := m.newTx()
	for i := 0; err == nil && i < len(batch); i++ {
		err = m.one(t, batch[i])
	}
	if err == nil {
		err = m.finish(t)
	}
	if err == nil {
		return
	}
	_, _ = m.conn.ExecContext(context.Background(), "ROLLBACK") // SQLite may have rolled back already
	fail(batch, wrap("append", m.db.path, err))
}

func (m *committer) begin() error {
	_, err := m.conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	return wrap("append", m.db.path, err)
}

// one runs o in a savepoint. An error of o's own goes to o; what is returned condemns the whole batch.
func (m *committer) one(t *tx, o *op) error {
	if err := o.ctx.Err(); err != nil {
		o.err = wrap("append", m.db.path, err)
		return nil
	}
	if err := t.exec(m.stmts.savepoint); err != nil {
		return err
	}
	head := t.head
	o.err = wrap("append", m.db.path, o.do(t))
	if o.err != nil {
		t.head = head
		if err := t.exec(m.stmts.rollback); err != nil {
			return errors.Join(o.err, err) // SQLite gave the transaction up: disk full, I/O error
		}
	}
	return t.exec(m.stmts.release)
}

func (m *committer) finish(t *tx) error {
	if err := t.saveHead(); err != nil {
		return err
	}
	_, err := m.conn.ExecContext(context.Background(), "COMMIT")
	return err
}

// fail answers all of a batch alike, also those that had been refused: they were judged against events
// that are now not there.
func fail(batch []*op, err error) {
	for _, o := range batch {
		o.err = err
	}
}

func (m *committer) close() error {
	m.once.Do(func() { close(m.stop) })
	<-m.stopped
	return errors.Join(m.stmts.close(), m.conn.Close())
}

// write is how every change reaches the file.
func (db *DB) write(ctx context.Context, do func(*tx) error) error {
	if db.commit == nil {
		return closedError()
	}
	return db.commit.submit(ctx, do)
}
