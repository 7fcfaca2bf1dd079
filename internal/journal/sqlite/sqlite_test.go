package sqlite

import (
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
)

func openAt(t testing.TB, path string, o Options) *DB {
	t.Helper()
	db, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSuite(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journal.Journal {
		return openAt(t, filepath.Join(t.TempDir(), "state", "journal.db"), Options{})
	})
}

// What Append promises rests on these settings of the connection that commits.
func TestTheWriterIsDurable(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "journal.db"), Options{})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "trusted_schema": "0"} {
		var got string
		err := db.write(t.Context(), func(*tx) error {
			return db.commit.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
}

func TestReadersCannotWrite(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "journal.db"), Options{})
	if _, err := db.reader.Exec("UPDATE head SET fence = 9"); err == nil {
		t.Error("the reader pool wrote")
	}
}
