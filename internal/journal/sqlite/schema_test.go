package sqlite

import (
	"reflect"
	"testing"

	"sallyport.dev/sallyport/internal/journal"
)

// back makes a journal of today one of schema 1, as programs before the second step left it.
func back(t *testing.T, path string) {
	t.Helper()
	edit(t, path, `ALTER TABLE attempts RENAME TO attempts_2; DROP INDEX attempts_live; DROP INDEX attempts_work_order;
		CREATE TABLE attempts (id TEXT PRIMARY KEY, created INTEGER NOT NULL, work_order TEXT NOT NULL, ended INTEGER NOT NULL, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
		CREATE INDEX attempts_created ON attempts (created);
		CREATE INDEX attempts_live ON attempts (created) WHERE ended = 0;
		CREATE INDEX attempts_work_order ON attempts (work_order, created);
		INSERT INTO attempts SELECT * FROM attempts_2; DROP TABLE attempts_2; UPDATE schema_version SET version = 1`)
}

func TestAJournalOfSchema1(t *testing.T) {
	path := sample(t)
	look := func() []journal.Attempt {
		db := openAt(t, path, Options{})
		all, err := db.Attempts(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := look()
	back(t, path)
	if got := look(); len(got) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	db := openAt(t, path, Options{})
	att, l := driven(t, db)
	if _, err := db.Append(t.Context(), &l, note(att, "new")); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A driver of the program before goes on beside one that has brought the file to schema 2: its statements still do what they did.
func TestAWriterOfSchema1GoesOn(t *testing.T) {
	path := sample(t)
	edit(t, path, `INSERT INTO attempts (id, created, work_order, ended, state) SELECT id, created, work_order, 1, state FROM attempts WHERE true
		ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, state = excluded.state`)
	db := openAt(t, path, Options{})
	if all, err := db.Attempts(t.Context(), false); err != nil || len(all) != 0 {
		t.Errorf("%d attempts have not ended, want none (%v)", len(all), err)
	}
}
