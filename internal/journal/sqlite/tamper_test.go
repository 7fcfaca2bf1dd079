package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// sample has two Attempts, an allocation, and a lease that changed hands.
func sample(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h, err := journal.SelfHolder()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		att := sallyport.AttemptID(journaltest.NewID(t, sallyport.AttemptPrefix))
		if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			l, err := db.Acquire(t.Context(), att, h, time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			alc := sallyport.AllocationID(journaltest.NewID(t, sallyport.AllocationPrefix))
			_, err = db.Append(t.Context(), &l,
				journal.Record{Type: lifecycle.AttemptStage, Attempt: att, Data: lifecycle.Stage{State: sallyport.AttemptPreparing}},
				journal.Record{Type: lifecycle.AllocationIntended, Attempt: att, Allocation: alc, Data: lifecycle.Intended{Purpose: sallyport.PurposeExecute, Provider: "fake"}},
				note(att, "hello"))
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Release(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

func edit(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, time.Second, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{"DROP TRIGGER IF EXISTS events_no_update", "DROP TRIGGER IF EXISTS events_no_delete"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	r, err := db.Exec(statement)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("%q changed nothing", statement)
	}
}

func TestCheckFindsTampering(t *testing.T) {
	tests := []struct{ name, statement, says string }{
		{"an edited payload", `UPDATE events SET data = replace(data, 'hello', 'HELLO') WHERE seq = 5`, "event 5"},
		{"an edited type", `UPDATE events SET type = 'attempt.layers' WHERE seq = 5`, "event 5"},
		{"an edited time", `UPDATE events SET at = '2020-01-01T00:00:00.000000000Z' WHERE seq = 3`, "event 3"},
		{"an edited fence", `UPDATE events SET fence = fence + 1 WHERE seq = 4`, "event 4"},
		{"an edited attempt", `UPDATE events SET attempt = (SELECT max(id) FROM attempts) WHERE seq = 4`, "event 4"},
		{"an edited allocation", `UPDATE events SET allocation = '' WHERE seq = 4`, "event 4"},
		{"a payload with blanks is still its payload; no JSON is not", `UPDATE events SET data = data || 'x' WHERE seq = 4`, "event 4"},
		{"an edited hash", `UPDATE events SET hash = 'sha256:' || hex(zeroblob(32)) WHERE seq = 4`, "event 4"},
		{"an event removed from the middle", `DELETE FROM events WHERE seq = 7`, "event 8 follows event 6"},
		{"the first event removed", `DELETE FROM events WHERE seq = 1`, "event 2 follows event 0"},
		{"two events swapped", `UPDATE events SET seq = CASE seq WHEN 4 THEN -5 WHEN 5 THEN -4 END WHERE seq IN (4, 5)`, "event -5"},
		{"an edited state", `UPDATE attempts SET state = replace(state, 'preparing', 'deciding')`, "the projection of attempt"},
		{"an edited change", `UPDATE changes SET body = '[{"path":"x"}]'`, "the projection of attempt"},
		{"removed changes", `DELETE FROM changes`, "the projection of attempt"},
		{"a hidden attempt", `UPDATE attempts SET ended = 1`, "the projection of attempt"},
		{"a removed attempt", `DELETE FROM attempts WHERE id = (SELECT max(id) FROM attempts)`, "2 attempts in the log, 1"},
		{"an invented attempt", `INSERT INTO attempts SELECT id || 'x', created, work_order, ended, state FROM attempts LIMIT 1`, "no event"},
		{"a hidden allocation", `UPDATE allocations SET open = 0`, "the projection of allocation"},
		{"a removed allocation", `DELETE FROM allocations WHERE id = (SELECT max(id) FROM allocations)`, "4 allocations in the log, 3"},
		{"an edited allocation row", `UPDATE allocations SET body = replace(body, 'fake', 'real')`, "the projection of allocation"},
		{"a lease that comes alive again", `UPDATE leases SET released = 0`, "the lease of attempt"},
		{"a removed lease", `DELETE FROM leases WHERE attempt = (SELECT max(attempt) FROM leases)`, "2 leases in the log, 1"},
		{"a fence counter turned back", `UPDATE head SET fence = fence - 1`, "fence"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := sample(t)
			edit(t, path, tt.statement)
			db := openAt(t, path, Options{})
			err := db.Check(t.Context())
			if sallyport.CodeOf(err) != sallyport.CodeCorrupt || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Check says %v, want corrupt and %q", err, tt.says)
			}
		})
	}
}

// A writer who rewrites hashes as well is caught as soon as what the events say together is not possible.
func TestCheckReplaysWhatIsRehashed(t *testing.T) {
	tests := []struct{ name, statement, says string }{
		{"a driver's event without a lease", `UPDATE events SET fence = 0 WHERE type = 'attempt.stage' AND seq = 3`, "without a lease"},
		{"an event under a lost fence", `UPDATE events SET fence = 1 WHERE seq = 8`, "not the current one"},
		{"a fence given out twice", `UPDATE events SET fence = 1 WHERE seq = 7`, "given out after"},
		{"an impossible stage", `UPDATE events SET data = replace(data, 'preparing', 'validating') WHERE seq = 3`, "does not follow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := sample(t)
			edit(t, path, tt.statement)
			rehash(t, path)
			db := openAt(t, path, Options{})
			err := db.Check(t.Context())
			if sallyport.CodeOf(err) != sallyport.CodeCorrupt || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Check says %v, want corrupt and %q", err, tt.says)
			}
		})
	}
}

func rehash(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, time.Second, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(selectEvents + `ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	var events []lifecycle.Event
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	rows.Close()
	var prev sallyport.Digest
	for _, e := range events {
		e.Prev = prev
		if prev, err = hashOf(e); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(`UPDATE events SET prev = ?, hash = ? WHERE seq = ?`, string(e.Prev), string(prev), e.Seq); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(`UPDATE head SET hash = ?`, string(prev)); err != nil {
		t.Fatal(err)
	}
}

func TestACutLogIsNotOpened(t *testing.T) {
	for name, statement := range map[string]string{
		"the last event removed": `DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)`,
		"all events removed":     `DELETE FROM events`,
		"the last hash edited":   `UPDATE events SET hash = 'sha256:0' WHERE seq = (SELECT max(seq) FROM events)`,
	} {
		t.Run(name, func(t *testing.T) {
			path := sample(t)
			edit(t, path, statement)
			_, err := Open(path, Options{})
			wantCode(t, err, sallyport.CodeCorrupt)
		})
	}
}

func TestTheLogIsAppendOnly(t *testing.T) {
	path := sample(t)
	db, err := sql.Open("sqlite", dsn(path, time.Second, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{`UPDATE events SET at = at WHERE seq = 1`, `DELETE FROM events WHERE seq = 1`} {
		if _, err := db.Exec(q); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", q, err)
		}
	}
}

func wantCode(t testing.TB, err error, code sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Fatalf("error %v (code %v), want code %v", err, sallyport.CodeOf(err), code)
	}
}

func TestAnAttemptWithoutItsChangesIsNotShown(t *testing.T) {
	path := sample(t)
	edit(t, path, `DELETE FROM changes`)
	db := openAt(t, path, Options{})
	_, err := db.Attempts(t.Context(), true)
	wantCode(t, err, sallyport.CodeCorrupt)
}
