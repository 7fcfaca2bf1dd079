package gateway

import (
	"net"
	"sync"
	"time"
)

// Kind is what became of one request.
type Kind string

// The kinds.
const (
	Forwarded Kind = "forwarded" // an answer came back, whatever its status
	Refused   Kind = "refused"   // our rule said no; nothing left, or the answer was cut
	Failed    Kind = "failed"    // the upstream could not be used
	Local     Kind = "local"     // answered here: HEAD /
)

// Event is one request as the trusted side saw it. Method and Target come from the sandbox: bounded and
// printable, still not to be believed. It never holds a header, a body or a credential.
type Event struct {
	Kind    Kind          `json:"kind"`
	Method  string        `json:"method"`
	Target  string        `json:"target"`
	Status  int           `json:"status"` // sent to the agent; 0: the connection was cut
	Reason  string        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	Up      int64         `json:"bytes_up"`
	Down    int64         `json:"bytes_down"`
	Took    time.Duration `json:"took_ns"`

	model bool // to the agent's endpoint
	// Whose it is: the connection, or how to find out. Looked up for a new refusal only.
	client net.Conn
	asker  func() string
}

// Counters sum up a Server's life. Bytes are of bodies: Up to the upstream, Down to the agent.
type Counters struct {
	Requests  int64     `json:"requests"` // all, refused ones included
	Refused   int64     `json:"refused"`
	Failed    int64     `json:"failed"`
	BytesUp   int64     `json:"bytes_up"`
	BytesDown int64     `json:"bytes_down"`
	Refusals  []Refusal `json:"refusals"` // at most 64 different ones, in order of appearance
	Failure   string    `json:"failure"`  // the last failed request's reason, for the operator: it names hosts
}

// Refusal is one reason with what was asked, and how often.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Method  string `json:"method"`
	Target  string `json:"target"`
	Count   int64  `json:"count"`
}

// meter keeps Counters and tells the observer. An agent can make refusals without end, so the observer hears
// of each different one once; the counts are in Counters.
type meter struct {
	observe func(Event)

	mu       sync.Mutex
	counters Counters
}

func (m *meter) record(e Event) {
	e.Method, e.Target = printable(e.Method, 16), printable(e.Target, 200)
	e.client, e.asker = nil, nil // whoever observes may keep it
	if m.add(e) && m.observe != nil {
		m.observe(e)
	}
}

// add reports whether the observer should hear of e.
func (m *meter) add(e Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.counters
	c.Requests++
	c.BytesUp += e.Up
	c.BytesDown += e.Down
	switch e.Kind {
	case Failed:
		c.Failed++
		c.Failure = e.Message
	case Refused:
		c.Refused++
		return c.refuse(e)
	}
	return true
}

// refuse reports whether this refusal is a new one that is remembered.
func (c *Counters) refuse(e Event) bool {
	for i := range c.Refusals {
		if r := &c.Refusals[i]; r.Reason == e.Reason && r.Method == e.Method && r.Target == e.Target {
			r.Count++
			return false
		}
	}
	if len(c.Refusals) >= maxRefusals {
		return false
	}
	c.Refusals = append(c.Refusals, Refusal{Reason: e.Reason, Message: e.Message, Method: e.Method, Target: e.Target, Count: 1})
	return true
}

func (m *meter) snapshot() Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counters
	c.Refusals = append([]Refusal{}, c.Refusals...)
	return c
}

// printable keeps printable ASCII and at most n bytes: a journal and a terminal will show it.
func printable(s string, n int) string {
	b := []byte(s[:min(len(s), n)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
