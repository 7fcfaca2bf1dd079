package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// checkHead is the part of Check that costs nothing: the log ends where the head says.
func checkHead(ctx context.Context, c *sql.Conn, path string) error {
	var seq, last int64
	var hash, lastHash string
	err := c.QueryRowContext(ctx, `SELECT h.seq, h.hash, coalesce(e.seq, 0), coalesce(e.hash, '') FROM head h
		LEFT JOIN events e ON e.seq = (SELECT max(seq) FROM events)`).Scan(&seq, &hash, &last, &lastHash)
	if err != nil {
		return wrap("open journal", path, err)
	}
	if seq != last || hash != lastHash {
		return corrupt("open journal", path, fmt.Sprintf("the log ends at event %d, its head says %d", last, seq))
	}
	return nil
}

// Check implements journal.Journal, on one snapshot: SQLite's own check, the chain, the fences, and a
// replay against the projections. It can tell that rows were lost, added or edited, not that somebody
// rewrote the whole file consistently: that is what signed checkpoints are for.
func (db *DB) Check(ctx context.Context) error {
	t, err := db.reader.BeginTx(ctx, nil)
	if err != nil {
		return wrap("check journal", db.path, err)
	}
	defer t.Rollback()
	return wrap("check journal", db.path, (&checker{tx: t, ctx: ctx, path: db.path}).run())
}

type checker struct {
	tx   *sql.Tx
	ctx  context.Context
	path string

	head   head
	states map[sallyport.AttemptID]*lifecycle.State
	seqs   map[string]int64 // created and intended
	leases map[sallyport.AttemptID]heldFence
}

// heldFence is what the log says of a lease: until when it counts is not in the log.
type heldFence struct {
	fence    int64
	released bool
}

func (c *checker) run() error {
	c.states = map[sallyport.AttemptID]*lifecycle.State{}
	c.seqs = map[string]int64{}
	c.leases = map[sallyport.AttemptID]heldFence{}
	for _, step := range []func() error{c.integrity, c.chain, c.checkHead, c.attempts, c.allocations, c.checkLeases} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fault(format string, args ...any) error {
	return corrupt("check journal", c.path, fmt.Sprintf(format, args...))
}

func (c *checker) integrity() error {
	var answer string
	if err := c.tx.QueryRowContext(c.ctx, "PRAGMA integrity_check(1)").Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		return c.fault("SQLite finds: %s", answer)
	}
	return nil
}

// chain walks every event, oldest first.
func (c *checker) chain() error {
	return c.each(selectEvents+`ORDER BY seq`, func(row scanner) error {
		e, err := scanEvent(row)
		if err != nil {
			return err
		}
		if err := c.link(e); err != nil {
			return err
		}
		if err := c.fence(e); err != nil {
			return err
		}
		return c.replay(e)
	})
}

func (c *checker) link(e lifecycle.Event) error {
	if e.Seq != c.head.seq+1 {
		return c.fault("event %d follows event %d: events are missing", e.Seq, c.head.seq)
	}
	if e.Prev != c.head.hash {
		return c.fault("event %d does not continue the chain: its prev is not the hash of event %d", e.Seq, c.head.seq)
	}
	if !json.Valid(e.Data) {
		return c.fault("event %d was changed: its data is no JSON", e.Seq)
	}
	h, err := hashOf(e)
	if err != nil {
		return c.fault("event %d has no canonical form: %v", e.Seq, err)
	}
	if h != e.Hash {
		return c.fault("event %d (%s) was changed: its bytes do not have its hash", e.Seq, e.Type)
	}
	if _, err := time.Parse(time.RFC3339Nano, e.At); err != nil {
		return c.fault("event %d has no readable time", e.Seq)
	}
	c.head.seq, c.head.hash = e.Seq, e.Hash
	return nil
}

// fence: they only grow, over all Attempts, and nobody appended under one that was lost.
func (c *checker) fence(e lifecycle.Event) error {
	now := c.leases[e.Attempt]
	switch {
	case e.Type == lifecycle.LeaseAcquired:
		if e.Fence <= c.head.fence {
			return c.fault("event %d: fence %d was given out after %d", e.Seq, e.Fence, c.head.fence)
		}
		c.head.fence = e.Fence
		c.leases[e.Attempt] = heldFence{fence: e.Fence}
	case e.Fence == 0:
		if !journal.Unleased(e.Type) {
			return c.fault("event %d (%s) was appended without a lease", e.Seq, e.Type)
		}
	case e.Fence != now.fence || now.released:
		return c.fault("event %d (%s) was appended under fence %d, which was not the current one", e.Seq, e.Type, e.Fence)
	case e.Type == lifecycle.LeaseReleased:
		c.leases[e.Attempt] = heldFence{fence: e.Fence, released: true}
	}
	return nil
}

func (c *checker) replay(e lifecycle.Event) error {
	if e.Attempt == "" {
		return nil
	}
	s := c.states[e.Attempt]
	if s == nil {
		s = &lifecycle.State{}
		c.states[e.Attempt] = s
	}
	if err := s.Apply(e); err != nil {
		return c.fault("event %d does not follow from those before it: %v", e.Seq, err)
	}
	switch e.Type {
	case lifecycle.AttemptCreated:
		c.seqs[string(e.Attempt)] = e.Seq
	case lifecycle.AllocationIntended:
		c.seqs[string(e.Allocation)] = e.Seq
	}
	return nil
}

func (c *checker) checkHead() error {
	var h head
	if err := c.tx.QueryRowContext(c.ctx, "SELECT seq, hash, fence FROM head").Scan(&h.seq, &h.hash, &h.fence); err != nil {
		return err
	}
	if h != c.head {
		return c.fault("the log ends at event %d (fence %d), its head says %d (fence %d)", c.head.seq, c.head.fence, h.seq, h.fence)
	}
	return nil
}

func (c *checker) attempts() error {
	n := 0
	err := c.each(`SELECT id, created, work_order, ended, state, coalesce(body, '') FROM attempts LEFT JOIN changes ON attempt = id`, func(row scanner) error {
		var id, order, state, changes string
		var created int64
		var ended bool
		if err := row.Scan(&id, &created, &order, &ended, &state, &changes); err != nil {
			return err
		}
		n++
		s := c.states[sallyport.AttemptID(id)]
		if s == nil {
			return c.fault("attempt %s has a projection and no event", id)
		}
		wantState, wantChanges, err := encodeState(*s)
		if err != nil {
			return err
		}
		if state != wantState || changes != wantChanges || created != c.seqs[id] || order != string(s.Report.WorkOrder) || ended != s.Settled() {
			return c.fault("the projection of attempt %s is not what its events say", id)
		}
		return nil
	})
	if err == nil && n != len(c.states) {
		return c.fault("%d attempts in the log, %d in the projection", len(c.states), n)
	}
	return err
}

func (c *checker) allocations() error {
	want := map[string]lifecycle.Allocation{}
	for _, s := range c.states {
		for id, a := range s.Allocations {
			want[string(id)] = a
		}
	}
	n := 0
	err := c.each(`SELECT id, intended, attempt, open, body FROM allocations`, func(row scanner) error {
		var id, attempt, text string
		var intended int64
		var open bool
		if err := row.Scan(&id, &intended, &attempt, &open, &text); err != nil {
			return err
		}
		n++
		a := want[id]
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if text != string(b) || intended != c.seqs[id] || attempt != string(a.Attempt) || open != a.Open() {
			return c.fault("the projection of allocation %s is not what its events say", id)
		}
		return nil
	})
	if err == nil && n != len(want) {
		return c.fault("%d allocations in the log, %d in the projection", len(want), n)
	}
	return err
}

func (c *checker) checkLeases() error {
	n := 0
	err := c.each(`SELECT attempt, fence, released FROM leases`, func(row scanner) error {
		var id string
		var l heldFence
		if err := row.Scan(&id, &l.fence, &l.released); err != nil {
			return err
		}
		n++
		if c.leases[sallyport.AttemptID(id)] != l {
			return c.fault("the lease of attempt %s is not what its events say", id)
		}
		return nil
	})
	if err == nil && n != len(c.leases) {
		return c.fault("%d leases in the log, %d in the table", len(c.leases), n)
	}
	return err
}

func (c *checker) each(q string, do func(scanner) error) error {
	rows, err := c.tx.QueryContext(c.ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
