package world

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Event is a row of the journal.
type Event struct {
	Seq        int64
	Type       lifecycle.Type
	Attempt    sallyport.AttemptID
	Allocation sallyport.AllocationID
	Fence      int64
	Data       string // JSON
}

// Await polls until ok, for at most a minute and a half: long enough for a machine that is busy with everything else.
func (w *World) Await(what string, ok func() bool) {
	w.T.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.T.Fatalf("waited in vain: %s\n%s", what, w.Story())
		}
	}
}

// AwaitEvent waits for an event whose data holds the text.
func (w *World) AwaitEvent(t lifecycle.Type, text string) {
	w.T.Helper()
	w.Await(fmt.Sprintf("event %s with %q", t, text), func() bool { return w.Count(t, text) > 0 })
}

// Count is how many events of a type hold the text, of all Attempts or of those given.
func (w *World) Count(t lifecycle.Type, text string, of ...sallyport.AttemptID) int {
	n := 0
	for _, e := range w.Events() {
		if e.Type == t && strings.Contains(e.Data, text) && (len(of) == 0 || slices.Contains(of, e.Attempt)) {
			n++
		}
	}
	return n
}

// CountOf is how many events of a type an Allocation has.
func (w *World) CountOf(t lifecycle.Type, a sallyport.AllocationID) int {
	n := 0
	for _, e := range w.Events() {
		if e.Type == t && e.Allocation == a {
			n++
		}
	}
	return n
}

// Last is the number of the last event; 0 while there is none.
func (w *World) Last() int64 {
	var n int64
	if db := w.journal(); db != nil {
		_ = db.QueryRow("SELECT coalesce(max(seq), 0) FROM events").Scan(&n)
	}
	return n
}

// Events are all of the journal so far; none while it cannot be read.
func (w *World) Events() []Event {
	w.T.Helper()
	db := w.journal()
	if db == nil {
		return nil
	}
	rows, err := db.Query("SELECT seq, type, attempt, allocation, fence, data FROM events ORDER BY seq")
	if err != nil {
		return nil
	}
	defer rows.Close()
	var all []Event
	for rows.Next() {
		var e Event
		w.Must(rows.Scan(&e.Seq, &e.Type, &e.Attempt, &e.Allocation, &e.Fence, &e.Data))
		all = append(all, e)
	}
	return all
}

// Created is the first Attempt there is.
func (w *World) Created() sallyport.AttemptID {
	w.T.Helper()
	for _, e := range w.Events() {
		if e.Type == lifecycle.AttemptCreated {
			return e.Attempt
		}
	}
	w.T.Fatalf("no attempt\n%s", w.Story())
	return ""
}

// Lease is who may drive an Attempt, and until when on this boot's clock.
func (w *World) Lease(id sallyport.AttemptID) (fence int64, until time.Duration, holder journal.Holder) {
	w.T.Helper()
	var text string
	var ns int64
	db := w.journal()
	if db == nil {
		return 0, 0, holder
	}
	w.Must(db.QueryRow("SELECT fence, until_ns, holder FROM leases WHERE attempt = ?", string(id)).Scan(&fence, &ns, &text))
	w.Must(json.Unmarshal([]byte(text), &holder))
	return fence, time.Duration(ns), holder
}

// Story is what a failed test shows: the journal, and what still runs.
func (w *World) Story() string {
	var b strings.Builder
	for _, e := range w.Events() {
		d := e.Data
		if len(d) > 300 {
			d = d[:300] + "…"
		}
		fmt.Fprintf(&b, "%3d fence %d %s %s %s\n", e.Seq, e.Fence, e.Type, e.Allocation, d)
	}
	for _, p := range w.Processes() {
		fmt.Fprintf(&b, "process %d: %q\n", p.PID, p.Args)
	}
	return b.String()
}

// journal reads beside the writers; nil while there is none.
func (w *World) journal() *sql.DB {
	if w.db == nil {
		path := filepath.Join(w.State, "journal.db")
		if _, err := os.Stat(path); err != nil {
			return nil
		}
		db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
		w.Must(err)
		w.db = db
	}
	return w.db
}

// Rest returns once no driver runs, and closes our own reader: only then is the journal's file a test's to take. A driver has
// things to note after it has answered.
func (w *World) Rest() {
	w.T.Helper()
	w.Await("the end of the driver", func() bool { return w.Driver() == 0 })
	w.Forget()
}

// Writable opens the journal for a test that tampers with it; the caller closes it.
func (w *World) Writable() *sql.DB {
	w.T.Helper()
	w.Forget()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.State, "journal.db")+"?_pragma=busy_timeout(5000)")
	w.Must(err)
	return db
}

// Forget closes our own reader of the journal, before a test puts another file in its place.
func (w *World) Forget() {
	if w.db != nil {
		w.db.Close()
		w.db = nil
	}
}
