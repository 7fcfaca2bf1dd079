package control

import (
	"context"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/journal"
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
		stageBegan: time.Now(), cancelled: make(chan struct{}), wires: map[provider.Wire]struct{}{}}
	defer func() { _ = c.journal.Release(context.WithoutCancel(ctx), d.current()) }()
	defer d.releaseAll()
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
	return do(ctx, d, at)
}

// Check runs checks again, each in a fresh sandbox, on the very tree that was judged. An answer that differs
// from the recorded one is flaky. Nothing of the Attempt changes. name "": all.
func (c *Control) Check(ctx context.Context, id, name string) ([]sallyport.CheckResult, error) {
	var results []sallyport.CheckResult
	err := c.borrowed(ctx, id, func(ctx context.Context, d *driver, at journal.Attempt) error {
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
			if b, ok := before[k.Name]; ok && b.Status != r.Status {
				r.Message = "flaky: it was " + string(b.Status) + " before, and " + string(r.Status) + " now, on the same tree"
				r.Status = sallyport.CheckFlaky
				// Recorded, so that whoever approves or publishes later sees it.
				if err := d.notice(ctx, "check %q is flaky: %s on one run and not on another, of the same tree", k.Name, b.Status); err != nil {
					return err
				}
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
