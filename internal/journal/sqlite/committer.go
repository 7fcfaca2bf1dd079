package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
)

// maxBatch bounds one transaction: beyond a few hundred appends the sync is no longer what costs, and
// other processes wait for the lock.
const maxBatch = 256

// op is one append, lease change or the like. do runs on the committer's goroutine, and once more where the first time turns
// out to have been in vain: only what it did last counts.
type op struct {
	ctx  context.Context
	do   func(*draft) error
	err  error
	done chan struct{}
}

// committer owns the writing connection. It takes whatever waits, runs it in one transaction, and answers
// everybody after the one commit. While that syncs it drafts the next.
type committer struct {
	db    *DB
	conn  *sql.Conn
	stmts statements
	known *known // nil: nothing
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
func (m *committer) submit(ctx context.Context, do func(*draft) error) error {
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
	for t := m.newTx(); m.gather(t); t = m.transact(t) {
	}
}

// gather adds what waits to t, once there is anything. false: the end.
func (m *committer) gather(t *tx) bool {
	select {
	case <-m.stop:
		return false
	default:
	}
	for len(t.ops) == 0 {
		select {
		case <-m.stop:
			return false
		case o := <-m.ops:
			t.add(o)
		}
	}
	for len(t.ops) < maxBatch {
		select {
		case o := <-m.ops:
			t.add(o)
			continue
		default:
		}
		runtime.Gosched() // those who have just been answered often come again at once
		if len(m.ops) == 0 {
			break
		}
	}
	return true
}

// transact commits t, answers its ops, and returns the next one. The commit is the only commit point: killed before it, none of t
// is in the journal; after it, all of it is.
func (m *committer) transact(t *tx) *tx {
	next, err := m.commit(t)
	if err != nil {
		_, _ = m.stmts.rollback.Exec() // SQLite may have rolled back already
		m.known = nil
		t.fail(wrap("append", m.db.path, err))
	}
	for _, o := range t.ops {
		close(o.done)
	}
	return next
}

// commit returns the next transaction with what came in while this one was synced.
func (m *committer) commit(t *tx) (next *tx, err error) {
	if err = m.begin(t); err == nil {
		err = t.write()
	}
	next = m.newTx()
	if err != nil {
		return next, err
	}
	synced := make(chan error, 1)
	go func() { synced <- m.finish() }()
	for {
		waiting := m.ops
		if len(next.ops) == maxBatch {
			waiting = nil
		}
		select {
		case o := <-waiting:
			next.add(o)
		case err := <-synced:
			return next, err
		}
	}
}

// begin takes the write lock. Where somebody else has committed since the last time, or our own last commit failed, nothing that was
// known counts, and t is drafted anew.
func (m *committer) begin(t *tx) error {
	if _, err := m.stmts.begin.Exec(); err != nil {
		return err
	}
	var version int64
	if err := m.stmts.readVersion.QueryRow().Scan(&version); err != nil {
		return err
	}
	if m.known == nil || m.known.version != version || m.known.large() {
		m.known = &known{version: version, rows: newRows()}
		h := &m.known.head
		if err := m.stmts.readHead.QueryRow().Scan(&h.seq, &h.hash, &h.fence); err != nil {
			return err
		}
	}
	if t.known != m.known {
		t.redraft(m.known)
	}
	return t.broken
}

func (m *committer) finish() error {
	_, err := m.stmts.commit.Exec()
	return err
}

func (m *committer) close() error {
	m.once.Do(func() { close(m.stop) })
	<-m.stopped
	return errors.Join(m.stmts.close(), m.conn.Close())
}

// write is how every change reaches the file.
func (db *DB) write(ctx context.Context, do func(*draft) error) error {
	if db.commit == nil {
		return closedError()
	}
	return db.commit.submit(ctx, do)
}
