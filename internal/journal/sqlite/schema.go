package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport.dev/sallyport"
)

// migrations bring a file from version i to i+1. A step that was released is never edited; older files
// keep their tests.
var migrations = []string{
	`CREATE TABLE events (
		seq        INTEGER PRIMARY KEY,
		at         TEXT    NOT NULL,
		type       TEXT    NOT NULL,
		attempt    TEXT    NOT NULL,
		allocation TEXT    NOT NULL,
		fence      INTEGER NOT NULL,
		data       TEXT    NOT NULL,
		prev       TEXT    NOT NULL,
		hash       TEXT    NOT NULL
	) STRICT;
	CREATE INDEX events_attempt ON events (attempt, seq);
	CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
	CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

	-- One row: the end of the log, so that a log cut at its end is noticed, and the last fence given out.
	CREATE TABLE head (
		one   INTEGER PRIMARY KEY CHECK (one = 1),
		seq   INTEGER NOT NULL,
		hash  TEXT    NOT NULL,
		fence INTEGER NOT NULL
	) STRICT;
	INSERT INTO head VALUES (1, 0, '', 0);

	CREATE TABLE attempts (
		id         TEXT    PRIMARY KEY,
		created    INTEGER NOT NULL, -- seq of attempt.created
		work_order TEXT    NOT NULL,
		ended      INTEGER NOT NULL,
		state      TEXT    NOT NULL  -- JSON of lifecycle.State without its changes
	) STRICT, WITHOUT ROWID;
	-- JSON of Report.Changes, up to tens of thousands of paths. A table of its own, because SQLite writes a
	-- row as a whole and the state changes with every event.
	CREATE TABLE changes (
		attempt TEXT PRIMARY KEY,
		body    TEXT NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX attempts_created ON attempts (created);
	CREATE INDEX attempts_live ON attempts (created) WHERE ended = 0;
	CREATE INDEX attempts_work_order ON attempts (work_order, created);

	CREATE TABLE allocations (
		id       TEXT    PRIMARY KEY,
		intended INTEGER NOT NULL, -- seq of allocation.intended
		attempt  TEXT    NOT NULL,
		open     INTEGER NOT NULL,
		body     TEXT    NOT NULL  -- JSON of lifecycle.Allocation
	) STRICT, WITHOUT ROWID;
	CREATE INDEX allocations_attempt ON allocations (attempt, intended);
	CREATE INDEX allocations_open ON allocations (intended) WHERE open = 1;

	CREATE TABLE leases (
		attempt  TEXT    PRIMARY KEY,
		fence    INTEGER NOT NULL,
		holder   TEXT    NOT NULL, -- JSON of journal.Holder
		until_ns INTEGER NOT NULL, -- CLOCK_BOOTTIME of the holder's boot
		released INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`,
}

// migrate makes an empty file a journal, or an older journal a current one, in one transaction: killed
// before the commit, the file is as it was; after, it is complete.
func migrate(ctx context.Context, c *sql.Conn, path string) error {
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return wrap("open journal", path, err)
	}
	if err := migrateLocked(ctx, c, path); err != nil {
		_, _ = c.ExecContext(ctx, "ROLLBACK") // err is what the caller must see
		return err
	}
	_, err := c.ExecContext(ctx, "COMMIT")
	return wrap("open journal", path, err)
}

func migrateLocked(ctx context.Context, c *sql.Conn, path string) error {
	version, err := schemaVersion(ctx, c, path)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return &sallyport.Error{Op: "open journal", Code: sallyport.CodeUnsupported, Subject: path,
			Message: fmt.Sprintf("the journal has schema %d, this program knows %d", version, len(migrations)),
			Hint:    "use the newer sallyport that wrote it; nothing was changed"}
	}
	for ; version < len(migrations); version++ {
		if _, err := c.ExecContext(ctx, migrations[version]); err != nil {
			return wrap("open journal", path, err)
		}
		if _, err := c.ExecContext(ctx, "UPDATE schema_version SET version = ?", version+1); err != nil {
			return wrap("open journal", path, err)
		}
	}
	return nil
}

// refuseForeign looks before anything is written: turning WAL on changes a file.
func refuseForeign(ctx context.Context, c *sql.Conn, path string) error {
	tables, ours, err := countTables(ctx, c)
	if err != nil || ours > 0 || tables == 0 {
		return err
	}
	return &sallyport.Error{Op: "open journal", Code: sallyport.CodeCorrupt, Subject: path, Message: "expected a journal, found another SQLite database", Hint: "move the file away, or name another state folder"}
}

func countTables(ctx context.Context, c *sql.Conn) (tables, ours int, err error) {
	err = c.QueryRowContext(ctx, "SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END) FROM sqlite_schema").Scan(&tables, &ours)
	return tables, ours, err
}

// schemaVersion makes the version table in an empty file.
func schemaVersion(ctx context.Context, c *sql.Conn, path string) (int, error) {
	_, ours, err := countTables(ctx, c)
	if err == nil && ours == 0 {
		_, err = c.ExecContext(ctx, "CREATE TABLE schema_version (version INTEGER NOT NULL) STRICT; INSERT INTO schema_version VALUES (0)")
	}
	if err != nil {
		return 0, wrap("open journal", path, err)
	}
	var version, rows int
	if err := c.QueryRowContext(ctx, "SELECT coalesce(max(version), -1), count(*) FROM schema_version").Scan(&version, &rows); err != nil {
		return 0, wrap("open journal", path, err)
	}
	if rows != 1 || version < 0 {
		return 0, corrupt("open journal", path, "the schema version is missing or not unique")
	}
	return version, nil
}
