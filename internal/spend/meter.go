package spend

import "strings"

// maxAnswer bounds the copy of an answer without a stream, and of one event of a stream: the last event of the Responses API
// holds the whole answer again.
const maxAnswer = 4 << 20

// slack is what an API may have made and sent after the last byte that was seen, in tokens.
const slack = 1024

// How says what a settlement rests on.
type How string

// The ways.
const (
	HowUsage   How = "usage"    // the API's own count
	HowCut     How = "cut"      // the answer broke off; by what was seen of it
	HowFull    How = "full"     // nothing says it: the whole reservation
	HowUnsent  How = "unsent"   // it did not leave
	HowRefused How = "refused"  // the API said no, which costs nothing
	HowAbove   How = "unpriced" // the API counted something that no price is known for
)

// Settled is what one request did cost, as far as that can be known.
type Settled struct {
	How    How
	Input  int64 // tokens, from a cache or not
	Output int64 // tokens
	Amount Amount
}

// usage is what an answer says of itself.
type usage struct {
	known, final         bool // the numbers below were there; and they are the last word
	ended                bool // the stream came to its end
	input, cached        int64
	written5m, written1h int64
	writes               bool  // written5m and written1h were told apart from input
	output               int64 //
	seen                 int64 // bytes of the answer that were made by the model
	unpriced             bool
}

// Meter reads one answer as it passes. It keeps a bounded copy and never delays. Not for concurrent use.
type Meter struct {
	r      Reserved
	sent   bool
	status int
	events bool
	body   []byte
	lost   bool // more than the copy holds
	stream eventReader
	u      usage
}

// Meter begins to read the answer to the reserved request.
func (r Reserved) Meter() *Meter { return &Meter{r: r} }

// Sent says that bytes of the request may have left.
func (m *Meter) Sent() { m.sent = true }

// Answer says that an answer has begun.
func (m *Meter) Answer(status int, contentType string) {
	m.sent, m.status = true, status
	kind, _, _ := strings.Cut(contentType, ";")
	m.events = strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
	m.stream.event = func(kind string, data []byte) { dialects[m.r.API].event(kind, data, &m.u) }
}

// Write takes the answer's next bytes. It never fails.
func (m *Meter) Write(p []byte) (int, error) {
	switch {
	case m.status/100 != 2:
	case m.events:
		m.stream.write(p)
	case len(m.body)+len(p) > maxAnswer:
		m.body, m.lost = nil, true
	case !m.lost:
		m.body = append(m.body, p...)
	}
	return len(p), nil
}

// Settle is the outcome; the answer has ended, or will not go on.
func (m *Meter) Settle() Settled {
	switch {
	case !m.sent:
		return Settled{How: HowUnsent}
	case m.status/100 == 4, m.status == 503, m.status == 529: // as documented: what is refused is not charged for
		return Settled{How: HowRefused}
	case m.status/100 != 2:
		return m.full()
	case m.events:
		return m.settleStream()
	}
	if !m.lost {
		dialects[m.r.API].usage(m.body, &m.u)
	}
	if !m.u.known {
		return m.full()
	}
	return m.byUsage(HowUsage, m.u.output)
}

func (m *Meter) settleStream() Settled {
	m.u.seen += m.stream.rest()
	output := max(m.u.output, min(m.r.Output, plus(m.u.seen, slack)))
	if m.r.hidden { // it may have thought for as long as it could before anything was seen
		output = max(m.u.output, m.r.Output)
	}
	switch {
	case m.u.known && m.u.final:
		return m.byUsage(HowUsage, m.u.output)
	case m.u.ended: // and says nothing of its cost
		return m.full()
	case m.u.known:
		return m.byUsage(HowCut, output)
	}
	return Settled{How: HowCut, Input: m.r.Input, Output: output,
		Amount: Amount{MicroUSD: plus(cost(m.r.Input, m.r.inputPrice), cost(output, m.r.outputPrice)), Tokens: plus(m.r.Input, output)}}
}

func (m *Meter) full() Settled {
	return Settled{How: HowFull, Input: m.r.Input, Output: m.r.Output, Amount: m.r.Amount}
}

// byUsage prices what the API counted. What is beyond the table is at least what was reserved, and one more, so that it is
// seen to be above.
func (m *Meter) byUsage(how How, output int64) Settled {
	u := m.u
	total := plus(plus(u.input, u.cached), plus(u.written5m, u.written1h))
	s := Settled{How: how, Input: total, Output: output}
	p := m.r.row.Price
	if m.r.row.Long != nil && total > m.r.row.LongAbove {
		p = *m.r.row.Long
	}
	fresh := p.Input
	if !u.writes {
		fresh = max(fresh, p.CacheWrite) // it may have been written to a cache, nobody says
	}
	usd := plus(cost(u.input, fresh), cost(u.cached, p.CacheRead))
	usd = plus(usd, plus(cost(u.written5m, p.CacheWrite), cost(u.written1h, p.CacheWrite1h)))
	s.Amount = Amount{MicroUSD: plus(usd, cost(output, p.Output)), Tokens: plus(total, output)}
	if u.unpriced {
		s.How = HowAbove
		s.Amount.MicroUSD = plus(max(s.Amount.MicroUSD, m.r.Amount.MicroUSD), 1)
	}
	return s
}
