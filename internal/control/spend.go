package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/spend"
)

// operatorPrices is where the host's operator keeps prices; with a ceiling no other file counts, since whoever sets a
// price sets the limit.
const operatorPrices = "/etc/sallyport/prices.yaml"

// prices is the operator's price file, checked; "": none.
func prices(ceiling *manifest.Operator) (string, error) {
	path := operatorPrices
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case err == unix.ENOENT:
		dir, derr := os.UserConfigDir()
		if ceiling != nil || derr != nil {
			return "", nil
		}
		path = filepath.Join(dir, "sallyport", "prices.yaml")
	case err != nil:
		return "", &sallyport.Error{Op: "read prices", Code: sallyport.CodeDenied, Subject: path, Message: "cannot be looked at", Err: err}
	case st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", &sallyport.Error{Op: "read prices", Code: sallyport.CodeDenied, Subject: path, Message: "expected a regular file that only root can write", Hint: "chown root:root and chmod 644 it"}
	}
	b, err := readOwn(path)
	if err != nil || b == nil {
		return "", err
	}
	_, err = spend.Parse(path, b)
	return string(b), err
}

// spender is the spend limit of an Attempt at its gateway. A reservation is durable before its request leaves, a settlement
// is appended after it; whatever a crash leaves without one counts in full.
type spender struct {
	d     *driver
	ctx   context.Context // of the driver: a sandbox that hangs up does not stop a record
	limit sallyport.SpendLimit
	book  spend.Book
	books *spend.Ledger
	name  string            // of this opening of the way out, in the ids of its reservations
	at    sallyport.Refusal // the endpoint, for refusals
	over  chan struct{}     // closed when the Attempt is to end

	reading sync.Mutex // one body is judged at a time: a sandbox's large ones cost at most one processor outside

	recording sync.RWMutex // held for reading around each late record
	shut      bool         // nothing more is recorded: it would change what is about to be signed

	mu      sync.Mutex
	n       int64
	ended   bool // nothing more is admitted
	met     bool // because the limit is
	failed  error
	refused map[spend.Reason]*sallyport.Refusal // with the count that is not on record yet
	open    sync.WaitGroup
}

// affordable refuses to begin where earlier Attempts have used everything up.
func (d *driver) affordable(ctx context.Context) error {
	if d.m.Spend == nil {
		return nil
	}
	spent, err := d.spent(ctx)
	if err != nil {
		return err
	}
	for _, u := range []struct {
		used, limit int64
		field       string
	}{{spent.MicroUSD, d.m.Spend.MicroUSD, "usd"}, {spent.Tokens, d.m.Spend.Tokens, "tokens"}} {
		if u.limit > 0 && u.used >= u.limit {
			return because("spend", "raise limits.spend."+u.field, "earlier attempts of this WorkOrder have used up its spend limit: %s of %s", showSpent(spent), screen.SpendLimit(d.m.Spend))
		}
	}
	return nil
}

// endpointOf is where the agent's model API is.
func endpointOf(m sallyport.Manifest) sallyport.Refusal {
	if e := m.Agent.Endpoint; e != nil {
		if host, port, protocol, err := gateway.Place(*e); err == nil {
			return sallyport.Refusal{Host: host, Port: port, Protocol: protocol}
		}
	}
	return sallyport.Refusal{Port: 443, Protocol: "https"}
}

// spent is what counts against the limit: all Attempts of this WorkOrder, this one too, and reservations in full.
func (d *driver) spent(ctx context.Context) (sum spend.Amount, err error) {
	all, err := d.c.journal.OfWorkOrder(ctx, d.m.WorkOrder)
	for _, a := range all {
		if a.Report.Manifest == d.digest {
			input, output, usd := a.Spend.All()
			sum = sum.Add(spend.Amount{MicroUSD: usd}).Add(spend.Amount{Tokens: input}).Add(spend.Amount{Tokens: output})
		}
	}
	return sum, err
}

// newSpender is nil without a limit.
func (d *driver) newSpender(ctx context.Context) (*spender, error) {
	if d.m.Spend == nil {
		return nil, nil
	}
	book := spend.Embedded()
	if text := d.m.Spend.Prices; text != "" {
		own, err := spend.Parse("prices.yaml", []byte(text))
		if err != nil {
			return nil, err
		}
		book = book.With(own)
	}
	spent, err := d.spent(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.spenders++
	name := fmt.Sprintf("%d-%d", d.lease.Fence, d.spenders)
	d.mu.Unlock()
	limit := spend.Limit{MicroUSD: d.m.Spend.MicroUSD, Tokens: d.m.Spend.Tokens}
	return &spender{d: d, ctx: ctx, limit: *d.m.Spend, book: book, books: spend.NewLedger(limit, spent), name: name, at: endpointOf(d.m), over: make(chan struct{}), refused: map[spend.Reason]*sallyport.Refusal{}}, nil
}

// overspent is closed when the limit asks for the Attempt's end; nil: never.
func (d *driver) overspent() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spender == nil {
		return nil
	}
	return d.spender.over
}

func (d *driver) isSpentOut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spentOut
}

// Meters implements gateway.Budget. The endpoint's own host is metered also where egress lists it and no price is about
// it: an operator's own upstream.
func (s *spender) Meters(host string) bool { return host == s.at.Host || s.book.Metered(host) }

// maxMetered bounds what a sandbox can have written into the journal: a request that the API refuses costs nothing and is two
// records all the same. An agent at work sends a few in a minute.
const maxMetered = 20_000

// Admit implements gateway.Budget. A host that no price is about is not metered.
func (s *spender) Admit(ctx context.Context, host, method, path string, body []byte) (gateway.Charge, error) {
	if !s.Meters(host) {
		return nil, nil
	}
	api, kind := s.book.Call(host, method, path)
	switch kind {
	case spend.Free:
		return nil, nil
	case spend.Unpriced:
		return nil, s.refuse(api, host, method, path, &spend.Refusal{Reason: spend.ReasonCall, Message: "under a spend limit: no price is known for this call of the API"})
	}
	s.reading.Lock()
	r, no := s.book.Bound(api, body)
	s.reading.Unlock()
	if no == nil && s.many() {
		no = &spend.Refusal{Reason: spend.ReasonMany, Message: fmt.Sprintf("under a spend limit: no more than %d requests of one Attempt are kept on record", maxMetered)}
	}
	if no == nil {
		var err error
		if no, err = s.reserve(ctx, r); err != nil {
			return nil, err
		}
	}
	if no != nil {
		return nil, s.refuse(api, host, method, path, no)
	}
	s.mu.Lock()
	s.n++
	id := fmt.Sprintf("%s-%d", s.name, s.n)
	ended, met := s.ended, s.met
	if !ended {
		s.open.Add(1)
	}
	s.mu.Unlock()
	if ended {
		s.books.Settle(r.Amount, spend.Amount{})
		if met {
			return nil, s.refuse(api, host, method, path, &spend.Refusal{Reason: spend.ReasonOver, Message: "nothing more is sent: the spend limit of " + screen.SpendLimit(&s.limit) + " is met"})
		}
		return nil, &sallyport.Error{Op: "spend", Code: sallyport.CodeUnavailable, Message: "the Attempt's way out has ended"}
	}
	// The commit point. A crash before it: nothing has left. After it: the request may have, and counts in full.
	if err := s.d.record(s.ctx, journal.Record{Type: lifecycle.AttemptReserved, Data: lifecycle.Reserved{ID: id, API: r.API, Model: screen.Fit(screen.Line(r.Model), 100),
		InputTokens: r.Input, OutputTokens: r.Output, MicroUSD: r.Amount.MicroUSD}}); err != nil {
		s.books.Settle(r.Amount, spend.Amount{})
		s.open.Done()
		return nil, err
	}
	return &charge{s: s, id: id, r: r, meter: r.Meter()}, nil
}

func (s *spender) many() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n >= maxMetered
}

// reserve waits for what is under way as long as that can make room.
func (s *spender) reserve(ctx context.Context, r spend.Reserved) (*spend.Refusal, error) {
	for {
		verdict, again := s.books.Reserve(r.Amount)
		switch verdict {
		case spend.Held:
			return nil, nil
		case spend.Wait:
			select {
			case <-again:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-s.ctx.Done():
				return nil, s.ctx.Err()
			}
		case spend.Closed:
			return &spend.Refusal{Reason: spend.ReasonClosed, Message: "an earlier request cost more than could be foreseen, so nothing more is sent under the spend limit of " + screen.SpendLimit(&s.limit)}, nil
		}
		settled, _ := s.books.Spent()
		return &spend.Refusal{Reason: spend.ReasonOver, Message: fmt.Sprintf("this request can cost up to %s, and %s of the spend limit of %s is used", showSpent(r.Amount), showSpent(settled), screen.SpendLimit(&s.limit))}, nil
	}
}

// answerGrace lets the refusal reach the agent before its way out is closed.
const answerGrace = 250 * time.Millisecond

// refuse answers in the API's own shape and puts the refusal on record, the first of each reason at once. What goes over
// the limit ends the Attempt, where policy does not say otherwise.
func (s *spender) refuse(api, host, method, path string, no *spend.Refusal) error {
	status, body := spend.Answer(api, no)
	s.mu.Lock()
	known := s.refused[no.Reason]
	first := known == nil
	if first {
		safe := func(t string) string { return screen.Fit(screen.Line(t), maxAsked) }
		at := s.at
		at.Host, at.Method, at.Path, at.Reason, at.Message = host, safe(method), safe(path), string(no.Reason), safe(no.Message)
		known = &at
		s.refused[no.Reason] = known
	} else {
		known.Count++
	}
	one := *known
	end := no.Spent() && s.limit.OnExceeded != sallyport.SpendRefuse && !s.ended
	s.ended, s.met = s.ended || end, s.met || end
	s.mu.Unlock()
	if end {
		s.d.mu.Lock()
		s.d.spentOut = true
		s.d.mu.Unlock()
		time.AfterFunc(answerGrace, func() { close(s.over) })
	}
	s.recording.RLock()
	defer s.recording.RUnlock()
	if first && !s.shut {
		one.Count = 1
		if err := s.d.record(s.ctx, journal.Record{Type: lifecycle.AttemptRefused, Data: lifecycle.Refused{Refusals: []sallyport.Refusal{one}}}); err != nil {
			return err
		}
	}
	return &gateway.Unaffordable{Reason: string(no.Reason), Message: no.Message, Status: status, Body: body}
}

// settleTimeout bounds how long the end of an Attempt waits for settlements. What is late counts in full.
const settleTimeout = 5 * time.Second

// close returns when every admitted request is settled on record, or will not be. The gateway is closed already.
func (s *spender) close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	settled := make(chan struct{})
	go func() { s.open.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-time.After(settleTimeout):
	}
	s.recording.Lock()
	s.shut = true
	s.recording.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var more []sallyport.Refusal
	for _, r := range s.refused {
		if r.Count > 0 {
			more = append(more, *r)
			r.Count = 0
		}
	}
	if len(more) == 0 {
		return s.failed
	}
	return errors.Join(s.failed, s.d.record(s.ctx, journal.Record{Type: lifecycle.AttemptRefused, Data: lifecycle.Refused{Refusals: more}}))
}

// charge is one admitted request.
type charge struct {
	s  *spender
	id string
	r  spend.Reserved

	mu    sync.Mutex // the transport may say Sent while the handler closes
	meter *spend.Meter
}

func (c *charge) Sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.Sent()
}

func (c *charge) Answer(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.Answer(status, h.Get("Content-Type"))
}

func (c *charge) Seen(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.meter.Write(p)
}

// Close settles. A settlement that cannot be recorded leaves the reservation, which counts in full.
func (c *charge) Close() {
	c.mu.Lock()
	settled := c.meter.Settle()
	c.mu.Unlock()
	defer c.s.open.Done()
	c.s.recording.RLock()
	defer c.s.recording.RUnlock()
	if c.s.shut {
		return
	}
	err := c.s.d.record(c.s.ctx, journal.Record{Type: lifecycle.AttemptSettled, Data: lifecycle.Settled{ID: c.id, How: string(settled.How),
		InputTokens: settled.Input, OutputTokens: settled.Output, MicroUSD: settled.Amount.MicroUSD}})
	used := settled.Amount
	if err != nil {
		used = c.r.Amount
	}
	above := c.s.books.Settle(c.r.Amount, used)
	if above && err == nil {
		err = c.s.d.notice(c.s.ctx, "a request to the model API cost %s, more than the %s that were foreseen (%s): nothing more is sent", showSpent(used), showSpent(c.r.Amount), settled.How)
	}
	if err != nil {
		c.s.mu.Lock()
		c.s.failed = errors.Join(c.s.failed, err)
		c.s.mu.Unlock()
	}
}

func showSpent(a spend.Amount) string {
	return screen.Spent(&sallyport.Spend{USD: float64(a.MicroUSD) / 1e6, Tokens: a.Tokens})
}

// spendOf is what the Attempt cost; nil where nobody metered it.
func spendOf(at journal.Attempt, m sallyport.Manifest) *evidence.Spend {
	if m.Spend == nil && opens(m) {
		return nil
	}
	input, output, usd := at.Spend.All()
	return &evidence.Spend{InputTokens: input, OutputTokens: output, MicroUSD: usd}
}

// spendUnknown says which part of the spend is the most that it can have been.
func spendUnknown(at journal.Attempt) []string {
	if at.Spend == nil || len(at.Spend.Open) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("what %d request(s) to the model API did cost: a driver was ended, and they are counted at the most that they can have cost", len(at.Spend.Open))}
}
