package sim

import (
	"encoding/json"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// memory is the journal without its file: what may be appended is asked of the rooms that the store asks as well. A state
// that was given out is never changed again.
type memory struct {
	now    *time.Duration
	events []lifecycle.Event
	states map[sallyport.AttemptID]*lifecycle.State
	order  []sallyport.AttemptID // oldest first
	intent []sallyport.AllocationID
	owner  map[sallyport.AllocationID]sallyport.AttemptID
	leases map[sallyport.AttemptID]*journal.Held
	fence  int64
	broken Broken
	// told hears of every call and its outcome. nil: nobody does.
	told func(call)
}

// call is one call of a journal and what came of it.
type call struct {
	now     time.Duration
	what    string // append, acquire, renew, release
	lease   *journal.Lease
	records []journal.Record
	id      sallyport.AttemptID
	holder  journal.Holder
	dead    bool // what is known of the present holder
	err     error
	events  []lifecycle.Event
	got     journal.Lease
}

const (
	boot = "boot"
	then = "2026-01-01T00:00:00.000000000Z" // no decision goes by an event's time
)

func newMemory(now *time.Duration, broken Broken) *memory {
	return &memory{now: now, broken: broken, states: map[sallyport.AttemptID]*lifecycle.State{}, owner: map[sallyport.AllocationID]sallyport.AttemptID{}, leases: map[sallyport.AttemptID]*journal.Held{}}
}

// Append does as journal.Journal says.
func (m *memory) Append(lease *journal.Lease, records ...journal.Record) (out []lifecycle.Event, err error) {
	if m.told != nil {
		defer func() {
			m.told(call{now: *m.now, what: "append", lease: lease, records: records, err: err, events: out})
		}()
	}
	events := make([]lifecycle.Event, len(records))
	for i, rec := range records {
		if err := journal.Authority(lease, rec); err != nil {
			return nil, err
		}
		data, err := json.Marshal(rec.Data)
		if err != nil {
			return nil, err
		}
		events[i] = lifecycle.Event{At: then, Type: rec.Type, Attempt: rec.Attempt, Allocation: rec.Allocation, Data: data}
		if lease != nil && lease.Attempt == rec.Attempt {
			events[i].Fence = lease.Fence
		}
	}
	if lease != nil && m.broken != NoFence {
		if err := journal.Current(*lease, m.leases[lease.Attempt]); err != nil {
			return nil, err
		}
	}
	return m.append(events)
}

// append folds all events or none.
func (m *memory) append(events []lifecycle.Event) ([]lifecycle.Event, error) {
	var touched [2]*lifecycle.State // one append is about one Attempt, or about a new one beside it
	n := 0
	for i := range events {
		e := &events[i]
		if e.Attempt == "" {
			continue
		}
		j := slices.IndexFunc(touched[:n], func(s *lifecycle.State) bool { return s.Report.Attempt == e.Attempt })
		if j < 0 {
			s := lifecycle.State{}
			if was := m.states[e.Attempt]; was != nil {
				s = was.Clone()
			} else if e.Type != lifecycle.AttemptCreated {
				return nil, errNotFound
			}
			j, n = n, n+1
			touched[j] = &s
		}
		if owner, known := m.owner[e.Allocation]; e.Allocation != "" && known && owner != e.Attempt {
			return nil, errConflict
		}
		if err := touched[j].Apply(*e); err != nil {
			return nil, err
		}
	}
	for i := range events {
		events[i].Seq = int64(len(m.events) + i + 1)
	}
	m.keep(events, touched[:n])
	return events, nil
}

func (m *memory) keep(events []lifecycle.Event, states []*lifecycle.State) {
	m.events = append(m.events, events...)
	if m.broken == LostProjection && events[0].Type == lifecycle.AttemptAgent {
		return
	}
	for _, s := range states {
		m.states[s.Report.Attempt] = s
	}
	for i := range events {
		switch e := &events[i]; e.Type {
		case lifecycle.AttemptCreated:
			m.order = append(m.order, e.Attempt)
		case lifecycle.AllocationIntended:
			m.owner[e.Allocation] = e.Attempt
			m.intent = append(m.intent, e.Allocation)
		}
	}
}

// Look is the first half of an acquisition: the lease as it is, and whether it may be taken.
func (m *memory) Look(id sallyport.AttemptID, h journal.Holder, dead func(journal.Holder) bool) (*journal.Held, error) {
	seen := m.leases[id]
	if m.broken == NoLease || journal.Free(seen, boot, *m.now, dead) {
		return seen, nil
	}
	if m.told != nil {
		m.told(call{now: *m.now, what: "acquire", id: id, holder: h, dead: dead(seen.Holder), err: errConflict})
	}
	return nil, errConflict
}

// Swap is the second: it is taken if it is still as it was seen.
func (m *memory) Swap(id sallyport.AttemptID, h journal.Holder, ttl time.Duration, seen *journal.Held, dead func(journal.Holder) bool) (l journal.Lease, won bool, err error) {
	now := m.leases[id]
	if !journal.Same(now, seen) {
		return l, false, nil
	}
	if m.told != nil {
		isDead := now != nil && dead(now.Holder)
		defer func() { m.told(call{now: *m.now, what: "acquire", id: id, holder: h, dead: isDead, got: l, err: err}) }()
	}
	l = journal.Lease{Attempt: id, Holder: h, Fence: m.fence + 1, Until: *m.now + ttl}
	if err := m.lease(lifecycle.LeaseAcquired, l); err != nil {
		return journal.Lease{}, false, err
	}
	m.fence++
	m.leases[id] = &journal.Held{Lease: l}
	return l, true, nil
}

func (m *memory) lease(on lifecycle.Type, l journal.Lease) error {
	_, err := m.append([]lifecycle.Event{{At: then, Type: on, Attempt: l.Attempt, Fence: l.Fence, Data: json.RawMessage(`{"holder":"x"}`)}})
	return err
}

// Renew does as journal.Journal says.
func (m *memory) Renew(l journal.Lease, ttl time.Duration) (out journal.Lease, err error) {
	if m.told != nil {
		defer func() { m.told(call{now: *m.now, what: "renew", lease: &l, err: err, got: out}) }()
	}
	if err := journal.Current(l, m.leases[l.Attempt]); err != nil {
		return out, err
	}
	longer := m.leases[l.Attempt].Renewed(*m.now, ttl)
	m.leases[l.Attempt] = &longer
	return longer.Lease, nil
}

// Release does as journal.Journal says.
func (m *memory) Release(l journal.Lease) (err error) {
	if m.told != nil {
		defer func() { m.told(call{now: *m.now, what: "release", lease: &l, err: err}) }()
	}
	if journal.Current(l, m.leases[l.Attempt]) != nil {
		return nil
	}
	if err := m.lease(lifecycle.LeaseReleased, l); err != nil {
		return err
	}
	given := *m.leases[l.Attempt]
	given.Released = true
	m.leases[l.Attempt] = &given
	return nil
}

// allocation is one by its id; the zero one where there is none.
func (m *memory) allocation(a sallyport.AllocationID) lifecycle.Allocation {
	if s := m.states[m.owner[a]]; s != nil {
		return s.Allocations[a]
	}
	return lifecycle.Allocation{}
}

// allocations are those of an Attempt in the order of their intents, or all.
func (m *memory) allocations(id sallyport.AttemptID) (list []lifecycle.Allocation) {
	for _, a := range m.intent {
		if id == "" || m.owner[a] == id {
			list = append(list, m.allocation(a))
		}
	}
	return list
}
