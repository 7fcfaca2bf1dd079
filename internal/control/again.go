package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

// borrowed is a driver for work beside an ended Attempt (a rerun of a check, a shell): it holds the lease
// like any driver, so that nobody else works on it meanwhile.
func (c *Control) borrowed(ctx context.Context, id string, do func(ctx context.Context, d *driver, at journal.Attempt) error) error {
	at, m, store, err := c.imported(ctx, id)
	if err != nil {
		return err
	}
	if !at.Report.State.Ended() {
		return &sallyport.Error{Op: "look", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "it is live: " + string(at.Report.State), Hint: "wait for it"}
	}
	holder, err := journal.SelfHolder()
	if err != nil {
		return err
	}
	lease, err := c.journal.Acquire(ctx, at.Report.Attempt, holder, leaseTTL, journal.DeadOnThisHost)
	if err != nil {
		return err
	}
	ctx, fenced := context.WithCancelCause(ctx)
	defer fenced(nil)
	d := &driver{c: c, id: at.Report.Attempt, m: m, digest: at.Report.Manifest, store: store, lease: lease, fenced: fenced,
		stageBegan: time.Now(), cancelled: make(chan struct{}), wires: map[provider.Wire]struct{}{}, rerun: rerunOf(at.Logs)}
	defer func() { _ = c.journal.Release(context.WithoutCancel(ctx), d.current()) }()
	defer d.releaseAll()
	defer d.dropLayers()
	if d.provider, err = c.provider(m.Provider); err != nil {
		return err
	}
	if d.repo, err = change.Open(ctx, m.Repository); err != nil {
		return err
	}
	go d.keepLease(ctx)
	if err := d.tidy(ctx); err != nil {
		return err
	}
	return d.cleanError(do(ctx, d, at))
}

// rerunOf is what the names of a rerun's logs end in, so that none is overwritten that is recorded and may be
// signed. At the end of a name, where no check's own name stands, it cannot be taken for a first run's.
func rerunOf(logs []lifecycle.Log) string {
	for n := 1; ; n++ {
		end := "-again"
		if n > 1 {
			end = fmt.Sprintf("-again-%d", n)
		}
		if !slices.ContainsFunc(logs, func(l lifecycle.Log) bool { return strings.HasSuffix(l.Name, end) }) {
			return end
		}
	}
}

// Check runs checks again, each in a fresh sandbox, on the very tree that was judged. An answer that differs
// from the recorded one is flaky, from then on: it is recorded, what is accepted and not yet published goes
// back to a person, and the evidence is signed anew with it in. Answers that agree change nothing. name "": all.
func (c *Control) Check(ctx context.Context, id, name string) ([]sallyport.CheckResult, error) {
	var results []sallyport.CheckResult
	err := c.borrowed(ctx, id, func(ctx context.Context, d *driver, at journal.Attempt) (err error) {
		// What was found is signed, whatever becomes of the rest.
		defer func() { err = errors.Join(err, d.signAgain(context.WithoutCancel(ctx))) }()
		before := map[string]sallyport.CheckResult{}
		for _, r := range at.Report.Checks {
			before[r.Name] = r
		}
		found := false
		for _, k := range d.m.Checks {
			if name != "" && k.Name != name {
				continue
			}
			found = true
			r, err := d.judge(ctx, k, at.Imported)
			if err != nil {
				return err
			}
			if b, ok := before[k.Name]; ok && compare(b, &r, "before") {
				if r, err = d.remember(ctx, k, at.Imported, r); err != nil {
					return err
				}
				if err := d.flaky(ctx, r); err != nil {
					return err
				}
			}
			if r, err = d.cleanResult(r); err != nil {
				return err
			}
			results = append(results, r)
		}
		if !found {
			return &sallyport.Error{Op: "check", Code: sallyport.CodeNotFound, Subject: name, Message: "expected one of: " + checkNames(d.m.Checks)}
		}
		return nil
	})
	return results, err
}

// answer is all that a decision is made of, in words: two results with the same one agree.
func answer(r sallyport.CheckResult) string {
	s := string(r.Status)
	for _, c := range r.Controls {
		if !c.Held {
			s += ", its control " + c.Name + " not held"
		}
	}
	if r.BaseTests != "" {
		s += ", " + string(r.BaseTests) + " with the base's tests"
	}
	return s
}

// compare makes now flaky, and reports it, where it is another answer than before was. What could not be run is no
// answer.
func compare(before sallyport.CheckResult, now *sallyport.CheckResult, when string) bool {
	was, is := answer(before), answer(*now)
	if was == is || now.Status == sallyport.CheckError || before.Status == sallyport.CheckError {
		return false
	}
	now.Status, now.Message = sallyport.CheckFlaky, fmt.Sprintf("it was %s %s, and is %s now, on the same tree", was, when, is)
	return true
}

// flaky records that a check does not give the same answer twice. What can still be held back is, in the same
// transaction. A person may decide or publish meanwhile: what can be held back is then looked at anew.
func (d *driver) flaky(ctx context.Context, r sallyport.CheckResult) error {
	r.Controls = slices.Clone(r.Controls)
	for i := range r.Controls {
		// One that held before and does not now is not shown; nothing that was decided is undone without a person.
		r.Controls[i].Required = r.Controls[i].Required && r.Controls[i].Held
	}
	for {
		at, err := d.attempt(ctx)
		if err != nil {
			return err
		}
		err = d.flakyAt(ctx, at, r)
		if sallyport.CodeOf(err) != sallyport.CodeConflict {
			return err
		}
		if now, lookErr := d.attempt(ctx); lookErr != nil || now.Report.State == at.Report.State && now.Publishing == at.Publishing && now.Published == at.Published {
			return err
		}
	}
}

func (d *driver) flakyAt(ctx context.Context, at journal.Attempt, r sallyport.CheckResult) error {
	why := sallyport.Reason{Code: "check-flaky", Message: fmt.Sprintf("check %q does not give the same answer twice: %s", r.Name, r.Message),
		Hint: "look at the check; `sallyport approve` with --why takes the change all the same"}
	records := []journal.Record{{Type: lifecycle.AttemptCheck, Data: r}, {Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: why.Message}}}
	s := at.Report.State
	if s == sallyport.AttemptAwaitingApproval || s == sallyport.AttemptAccepted && !at.Published && !at.Publishing {
		if at.Report.Evidence != "" {
			if err := d.c.summarise(ctx, at.Report.Evidence, d.id, sallyport.DecisionAwaitingApproval); err != nil {
				return err
			}
		}
		records = append(records, journal.Record{Type: lifecycle.AttemptReopened, Data: why})
	}
	return d.record(ctx, records...)
}

// signAgain makes the evidence of an Attempt that awaits a person and whose facts changed after it was signed,
// now or before a crash.
func (d *driver) signAgain(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.State != sallyport.AttemptAwaitingApproval || at.Report.EvidenceDigest != "" {
		return err
	}
	_, err = d.sign(ctx, at, sallyport.DecisionAwaitingApproval, at.Report.Reason)
	return err
}

func checkNames(checks []sallyport.Check) string {
	var names []string
	for _, k := range checks {
		names = append(names, k.Name)
	}
	if len(names) == 0 {
		return "none, as no check is defined"
	}
	return strings.Join(names, ", ")
}
