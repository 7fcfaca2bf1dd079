package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/credential"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
)

// The clocks of driving. The journal's lease is short, so that a dead driver's work is soon free; a
// sandbox's is long, so that a person has time to come back before the agent is stopped.
const (
	leaseTTL    = 30 * time.Second
	leaseEvery  = 8 * time.Second
	sandboxTTL  = 15 * time.Minute
	sandboxHold = 24 * time.Hour
	cancelPoll  = 200 * time.Millisecond
	tidyTimeout = 2 * time.Minute
)

// driver does the work of one Attempt while it holds the lease.
type driver struct {
	c        *Control
	id       sallyport.AttemptID
	m        sallyport.Manifest
	digest   sallyport.Digest // of m
	provider provider.Provider
	repo     *change.Repo
	store    *change.Store

	stageBegan time.Time
	cancelled  chan struct{} // closed once a person asked
	fenced     context.CancelCauseFunc

	layers    sync.Mutex // one maker of overlay layers at a time
	baseLocks sync.Map   // by check: one run on the base at a time, *sync.Mutex

	setups    setups
	redaction redaction
	rerun     string // what the names of logs end in; "" at an Attempt's first run of its checks

	mu       sync.Mutex
	lease    journal.Lease
	wires    map[provider.Wire]struct{} // renewed with the lease
	releases []func()                   // checkouts in use
	gateway  *gateway.Server            // nil: no way out is open
	refusals *refusals                  // of gateway
	spender  *spender                   // of gateway; nil: no spend limit
	spenders int                        // so many there were
	spentOut bool                       // its spend limit was met, and policy says that this is the Attempt's end
	stopBase func()                     // nil: no check runs on the base
	// credentials are live while the agent runs; nil: none are.
	credentials *credential.Set
}

// Drive takes the lease of an Attempt and does what is left to do: from the start, or from wherever an
// earlier driver was ended. It returns when the Attempt and its automatic retries have ended. CodeConflict:
// another driver is alive; CodeFenced: the lease was lost.
func (c *Control) Drive(ctx context.Context, id sallyport.AttemptID) error {
	for id != "" {
		next, err := c.driveOne(ctx, id)
		if err != nil {
			return err
		}
		id = next
	}
	return nil
}

func (c *Control) driveOne(ctx context.Context, id sallyport.AttemptID) (sallyport.AttemptID, error) {
	at, err := c.journal.Attempt(ctx, id)
	if err != nil {
		return "", err
	}
	if at.Report.State.Ended() && !at.Publishing {
		return "", nil
	}
	holder, err := journal.SelfHolder()
	if err != nil {
		return "", err
	}
	lease, err := c.journal.Acquire(ctx, id, holder, leaseTTL, journal.DeadOnThisHost)
	if err != nil {
		return "", err
	}
	ctx, fenced := context.WithCancelCause(ctx)
	defer fenced(nil)
	d := &driver{c: c, id: id, lease: lease, fenced: fenced, stageBegan: time.Now(), cancelled: make(chan struct{}), wires: map[provider.Wire]struct{}{}}
	defer d.releaseAll()
	defer func() { _ = c.journal.Release(context.WithoutCancel(ctx), d.current()) }()
	defer d.stopBaseChecks() // before the lease is given back
	go d.keepLease(ctx)
	if at.Publishing {
		return "", d.publish(ctx) // accepted by a driver that was ended before the branch moved
	}
	go d.watchCancel(ctx)
	return d.run(ctx)
}

// publish finishes an intended publication, under the lease: of two who find it open, one does it.
func (d *driver) publish(ctx context.Context) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	if err := d.c.summariseAccepted(ctx, d.id); err != nil {
		return err
	}
	l := d.current()
	return d.c.finishPublication(ctx, &l, d.repo, d.store, d.id)
}

func (d *driver) releaseAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.releases {
		f()
	}
	if d.gateway != nil {
		d.gateway.Close()
	}
}

// run does the steps and turns an error into the Attempt's end.
func (d *driver) run(ctx context.Context) (sallyport.AttemptID, error) {
	err := d.open(ctx)
	if err == nil {
		err = d.steps(ctx)
	}
	if err == nil {
		return d.again(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		return "", cause // fenced, or told to stop: somebody else goes on
	}
	if sallyport.CodeOf(err) == sallyport.CodeFenced {
		return "", err
	}
	return "", d.fail(ctx, err)
}

// steps are the life of an Attempt (docs/ARCHITECTURE.md §3). Each looks in the journal for what is already
// done, so a later driver goes through them as the first one did.
func (d *driver) steps(ctx context.Context) error {
	if err := d.tidy(ctx); err != nil {
		return err
	}
	if err := d.tidyTokens(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{d.execute, d.importChange, d.inspect, d.validate, d.conclude} {
		at, err := d.attempt(ctx)
		if err != nil {
			return err
		}
		if at.Report.State.Ended() {
			return nil
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open reads what was frozen.
func (d *driver) open(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	d.digest = at.Report.Manifest
	if d.m, err = d.c.manifest(d.digest); err != nil {
		return err
	}
	if d.provider, err = d.c.provider(d.m.Provider); err != nil {
		return err
	}
	if d.repo, err = change.Open(ctx, d.m.Repository); err != nil {
		return err
	}
	d.store, err = d.c.store(ctx, d.repo)
	return err
}

func (c *Control) manifest(digest sallyport.Digest) (sallyport.Manifest, error) {
	b, err := os.ReadFile(c.manifestPath(digest))
	if err != nil {
		return sallyport.Manifest{}, &sallyport.Error{Op: "read manifest", Code: sallyport.CodeCorrupt, Subject: string(digest), Err: err}
	}
	return manifest.Thaw(b, digest)
}

func (c *Control) provider(name string) (provider.Provider, error) {
	p, ok := c.providers[name]
	if !ok {
		return nil, &sallyport.Error{Op: "choose provider", Code: sallyport.CodeUnsupported, Subject: name, Message: "not available on this host"}
	}
	return p, nil
}

func (d *driver) attempt(ctx context.Context) (journal.Attempt, error) {
	return d.c.journal.Attempt(ctx, d.id)
}

func (d *driver) current() journal.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// record appends under the lease, with known secrets redacted.
func (d *driver) record(ctx context.Context, records ...journal.Record) error {
	r, err := d.redactor()
	if err != nil {
		return err
	}
	for i := range records {
		records[i].Attempt = d.id
	}
	l := d.current()
	return d.c.append(ctx, &l, r, records)
}

// stage enters the Attempt's next state; entering the present one again is nothing.
func (d *driver) stage(ctx context.Context, s sallyport.AttemptState) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.State == s {
		return err
	}
	seconds := time.Since(d.stageBegan).Seconds()
	d.stageBegan = time.Now()
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptStage, Data: lifecycle.Stage{State: s, Seconds: seconds}})
}

func (d *driver) notice(ctx context.Context, format string, args ...any) error {
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: fmt.Sprintf(format, args...)}})
}

// keepLease renews the journal's lease, and only then the sandboxes', never beyond what it was just given.
func (d *driver) keepLease(ctx context.Context) {
	t := time.NewTicker(leaseEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		l, err := d.c.journal.Renew(ctx, d.current(), leaseTTL)
		if sallyport.CodeOf(err) == sallyport.CodeFenced {
			d.fenced(err)
			return
		}
		if err != nil {
			continue // the journal is busy or full: the lease runs out by itself
		}
		d.mu.Lock()
		d.lease = l
		var ws []provider.Wire
		for w := range d.wires {
			ws = append(ws, w)
		}
		d.mu.Unlock()
		for _, w := range ws {
			rctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			_ = w.Renew(rctx, sandboxTTL)
			cancel()
		}
	}
}

// watchCancel notices a person's cancel, which is a record and needs no connection to us.
func (d *driver) watchCancel(ctx context.Context) {
	for {
		if at, err := d.attempt(ctx); err == nil && at.CancelRequested {
			close(d.cancelled)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(cancelPoll):
		}
	}
}

func (d *driver) isCancelled() bool {
	select {
	case <-d.cancelled:
		return true
	default:
		return false
	}
}

// errCancelled ends the steps after a person's cancel.
var errCancelled = errors.New("cancelled")

// fail ends the Attempt with a reason a person can act on, after its sandboxes are gone.
func (d *driver) fail(ctx context.Context, cause error) error {
	d.stopBaseChecks()
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	d.endCredentials(ctx)
	if err := d.destroyAll(ctx); err != nil {
		cause = errors.Join(cause, err)
	}
	if err := d.revokeTokens(ctx); err != nil {
		d.tellUnrevoked(ctx, err)
	}
	d.dropLayers()
	if err := d.tellRedacted(ctx); err != nil {
		return err
	}
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if errors.Is(cause, errCancelled) {
		return d.record(ctx, journal.Record{Type: lifecycle.AttemptCancelled, Data: sallyport.Reason{Code: "cancelled", Message: d.cancelledBy(ctx, at), Hint: cancelHint(at)}})
	}
	why := reasonOf(cause)
	if why.Hint == "" {
		why.Hint = fmt.Sprintf("`sallyport retry %s` tries again; `sallyport doctor` shows what this host lacks", screen.Short(d.id))
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptFailed, Data: why})
}

// cancelledBy says who cancelled, and why where they said so: it may have been the command line, which could start no driver.
func (d *driver) cancelledBy(ctx context.Context, at journal.Attempt) string {
	said := "cancelled by " + at.CancelBy
	why := ""
	_ = d.c.each(ctx, d.id, lifecycle.CancelRequested, func(e lifecycle.Event) error {
		var p lifecycle.Person
		if json.Unmarshal(e.Data, &p) == nil && why == "" {
			why = p.Why
		}
		return nil
	})
	if why != "" {
		said += ": " + why
	}
	return said
}

// cancelHint says how to go on, where there is something to go on from.
func cancelHint(at journal.Attempt) string {
	if len(at.Report.Changes) == 0 {
		return ""
	}
	return "`sallyport retry " + screen.Short(at.Report.Attempt) + "` goes on from what was collected"
}

// reasonOf is an error as a person's reason.
func reasonOf(err error) sallyport.Reason {
	var r reasoned
	if errors.As(err, &r) {
		return r.reason
	}
	code := map[sallyport.Code]string{sallyport.CodeUnsupported: "layer-not-held", sallyport.CodeDenied: "denied", sallyport.CodeExhausted: "limit",
		sallyport.CodeConflict: "conflict", sallyport.CodeNotFound: "not-found", sallyport.CodeCorrupt: "corrupt", sallyport.CodeUnavailable: "unavailable", sallyport.CodeInvalid: "invalid"}[sallyport.CodeOf(err)]
	if code == "" {
		code = "internal"
	}
	return sallyport.Reason{Code: code, Message: err.Error(), Hint: sallyport.HintOf(err)}
}

// reasoned is an error that already is a person's reason.
type reasoned struct{ reason sallyport.Reason }

func (r reasoned) Error() string { return r.reason.Message }

func because(code, hint, format string, args ...any) error {
	return reasoned{sallyport.Reason{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}}
}
