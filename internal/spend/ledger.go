package spend

import "sync"

// Limit is what may be spent in all. 0: that unit is not limited.
type Limit struct {
	MicroUSD int64
	Tokens   int64
}

// holds reports whether a is within l.
func (l Limit) holds(a Amount) bool {
	return (l.MicroUSD <= 0 || a.MicroUSD <= l.MicroUSD) && (l.Tokens <= 0 || a.Tokens <= l.Tokens)
}

// Verdict is a Ledger's answer.
type Verdict int

// The verdicts.
const (
	Over   Verdict = iota // it does not fit, whatever becomes of what is under way
	Wait                  // it would fit if what is under way came out cheaper
	Closed                // something cost more than was foreseen, so nothing is foreseen any more
	Held                  // reserved
)

// Ledger keeps what was spent and what is reserved under one Limit. Safe for concurrent use.
//
// At every moment: spent + reserved is within the limit, as long as nothing has settled above its reservation. The
// first that does is counted as it is, and closes the ledger.
type Ledger struct {
	limit Limit

	mu      sync.Mutex
	spent   Amount
	held    Amount
	closed  bool
	changed chan struct{} // closed at the next settlement
}

// NewLedger begins with what was spent before; reservations that nobody settled belong to it in full.
func NewLedger(limit Limit, spent Amount) *Ledger {
	return &Ledger{limit: limit, spent: spent, changed: make(chan struct{})}
}

// Reserve takes a from what is left. After Wait the channel is closed when it is worth asking again; with any other verdict
// it is nil.
func (l *Ledger) Reserve(a Amount) (Verdict, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return Closed, nil
	case !l.limit.holds(l.spent.Add(a)):
		return Over, nil
	case !l.limit.holds(l.spent.Add(l.held).Add(a)):
		return Wait, l.changed
	}
	l.held = l.held.Add(a)
	return Held, nil
}

// Settle replaces a reservation by what was used, once for each Held. It reports whether that was more than reserved,
// which closes the ledger.
func (l *Ledger) Settle(reserved, used Amount) (above bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.MicroUSD -= reserved.MicroUSD
	l.held.Tokens -= reserved.Tokens
	l.spent = l.spent.Add(used)
	above = used.MicroUSD > reserved.MicroUSD || used.Tokens > reserved.Tokens
	l.closed = l.closed || above
	close(l.changed)
	l.changed = make(chan struct{})
	return above
}

// Spent is what was settled, and what is reserved beside it.
func (l *Ledger) Spent() (settled, reserved Amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent, l.held
}
