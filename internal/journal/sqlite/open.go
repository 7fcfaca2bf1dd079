package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
)

const (
	// busyTimeout is how long one process waits for another's transaction. Transactions are a few
	// milliseconds of work and one sync; ten seconds is a disk in trouble.
	busyTimeout = 10 * time.Second
	// readers bounds the reader pool: `ps` beside a driver and a follower.
	readers = 4
)

// Options are what a test may set. The zero value is the real world.
type Options struct {
	Boot        string               // id of this boot; empty: the kernel's
	Clock       func() time.Duration // CLOCK_BOOTTIME, on which leases count; nil: the kernel's
	Now         func() time.Time     // wall clock of Event.At; nil: time.Now
	BusyTimeout time.Duration        // 0: ten seconds
}

// DB is a journal in one file. Safe for concurrent use.
type DB struct {
	path  string
	boot  string
	clock func() time.Duration
	now   func() time.Time

	writer *sql.DB // one connection, owned by the committer
	reader *sql.DB
	commit *committer

	closing sync.Once
	closed  error
}

var _ journal.Journal = (*DB)(nil)

// Open opens the journal at path, or makes it: the folder 0700, the file 0600. The caller closes it.
//
// CodeUnsupported: a newer schema, or a network file system. CodeCorrupt: damaged, or not a journal.
// CodeUnavailable: locked for longer than the busy timeout, or not writable. CodeExhausted: no space.
// CodeDenied: a folder that everybody can write in.
func Open(path string, o Options) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &sallyport.Error{Op: "open journal", Code: sallyport.CodeInvalid, Subject: path, Message: "expected a path", Err: err}
	}
	if err := o.fill(); err != nil {
		return nil, err
	}
	if err := prepareFile(abs); err != nil {
		return nil, err
	}
	db := &DB{path: abs, boot: o.Boot, clock: o.Clock, now: o.Now}
	if err := db.connect(o.BusyTimeout); err != nil {
		_ = db.Close() // err is the cause
		return nil, err
	}
	return db, nil
}

func (o *Options) fill() error {
	if o.Clock == nil {
		o.Clock = journal.BootTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = busyTimeout
	}
	if o.Boot != "" {
		return nil
	}
	boot, err := journal.BootID()
	o.Boot = boot
	return err
}

func (db *DB) connect(busy time.Duration) error {
	ctx := context.Background()
	w, err := sql.Open("sqlite", dsn(db.path, busy, "_txlock=immediate"))
	if err != nil {
		return wrap("open journal", db.path, err)
	}
	w.SetMaxOpenConns(1)
	db.writer = w
	c, err := db.firstConn(ctx, busy)
	if err != nil {
		return err
	}
	if err := db.start(ctx, c); err != nil {
		_ = c.Close() // err is the cause
		return err
	}
	r, err := sql.Open("sqlite", dsn(db.path, busy, "_pragma=query_only(1)"))
	if err != nil {
		return wrap("open journal", db.path, err)
	}
	r.SetMaxOpenConns(readers)
	r.SetMaxIdleConns(readers)
	db.reader = r
	return nil
}

func (db *DB) start(ctx context.Context, c *sql.Conn) (err error) {
	if err := migrate(ctx, c, db.path); err != nil {
		return err
	}
	if err := checkHead(ctx, c, db.path); err != nil {
		return err
	}
	db.commit, err = newCommitter(ctx, db, c)
	return err
}

// firstConn opens the writer and turns WAL on. SQLite does not always wait for the lock that this change
// needs, so two processes that make one file at once would see "locked": wait here instead.
func (db *DB) firstConn(ctx context.Context, busy time.Duration) (*sql.Conn, error) {
	for deadline := time.Now().Add(busy); ; time.Sleep(10 * time.Millisecond) {
		c, err := db.writer.Conn(ctx)
		if err == nil {
			if err = refuseForeign(ctx, c, db.path); err == nil {
				err = requireWAL(ctx, c, db.path)
			}
			if err == nil {
				return c, nil
			}
			c.Close()
		}
		err = wrap("open journal", db.path, err)
		if sallyport.CodeOf(err) != sallyport.CodeUnavailable || time.Now().After(deadline) {
			return nil, err
		}
	}
}

func requireWAL(ctx context.Context, c *sql.Conn, path string) error {
	var mode string
	if err := c.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return &sallyport.Error{Op: "open journal", Code: sallyport.CodeUnsupported, Subject: path, Message: fmt.Sprintf("the file system gives journal mode %q, WAL is needed", mode), Hint: "name a state folder on a local disk"}
	}
	return nil
}

// dsn names the file as a URI, so that '?', '#' and '%' in a path are part of it.
func dsn(path string, busy time.Duration, extra string) string {
	u := url.URL{Scheme: "file", Path: path}
	return fmt.Sprintf("%s?%s&_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)",
		u.String(), extra, busy.Milliseconds())
}

// Close waits for the appends that have begun; those still waiting get CodeUnavailable. Repeatable.
func (db *DB) Close() error {
	db.closing.Do(func() {
		var errs []error
		if db.commit != nil {
			errs = append(errs, db.commit.close())
		}
		if db.reader != nil {
			errs = append(errs, db.reader.Close())
		}
		if db.writer != nil {
			errs = append(errs, db.writer.Close())
		}
		db.closed = wrap("close journal", db.path, errors.Join(errs...))
	})
	return db.closed
}
