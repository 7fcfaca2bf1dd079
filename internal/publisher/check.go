package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/screen"
)

// Report is what a check of a target found, base branch by base branch.
type Report struct {
	target Target
	bases  []string
	found  []forge.Inspection
	grant  forge.Grant
}

// Check tests a target before it is needed: it can be reached, the credential can be had and revoked, and the forge says that
// it may do what it must and not more. It changes nothing but making and ending a credential.
func (p *Publisher) Check(ctx context.Context, t Target) (r Report, err error) {
	r.target = t
	d, err := p.options.Driver(t)
	if err != nil {
		return r, err
	}
	scope := Scope{Target: t.Repository}
	release, err := p.lease(ctx, scope)
	if err != nil {
		return r, err
	}
	defer release()
	var mark string
	if mark, r.grant, err = p.mint(ctx, scope, "", d); err != nil {
		return r, err
	}
	if mark != "" {
		defer func() { err = errors.Join(err, p.revoke(ctx, scope, d, mark, r.grant)) }()
	}
	for _, b := range t.Bases {
		found, err := d.Inspect(ctx, r.grant, b)
		if err != nil {
			return r, err
		}
		r.bases, r.found = append(r.bases, b), append(r.found, found)
	}
	_, err = forge.Tip(ctx, d.Remote(r.grant), "refs/heads/"+t.Bases[0])
	return r, err
}

func (r Report) stops(f forge.Finding) bool {
	return f.Blocking && !slices.Contains(r.target.Allow, f.Code)
}

// Blocked says that nothing would be published.
func (r Report) Blocked() bool {
	return slices.ContainsFunc(r.found, func(i forge.Inspection) bool { return slices.ContainsFunc(i.Findings, r.stops) })
}

// Lines are the report for a person.
func (r Report) Lines() []string {
	var out []string
	if r.grant.Class != "" {
		life := "does not end by itself"
		if !r.grant.Expires.IsZero() {
			life = "until " + r.grant.Expires.UTC().Format(time.RFC3339)
		}
		out = append(out, fmt.Sprintf("credential  %s %v, %s", r.grant.Class, r.grant.Scope, life))
	}
	for i, found := range r.found {
		out = append(out, fmt.Sprintf("base %s  at %s", r.bases[i], found.Base.Short()))
		for _, f := range found.Findings {
			word := "note"
			switch {
			case r.stops(f):
				word = "STOPS"
			case f.Blocking:
				word = "allowed"
			}
			out = append(out, fmt.Sprintf("  %-8s %s: %s", word, f.Code, screen.Line(f.Message)))
		}
	}
	return out
}

// Reconcile revokes every credential that a publication left behind, and checks the chain of the ledger. What is gone, and
// what still is there until when, is in the lines.
func (p *Publisher) Reconcile(ctx context.Context) ([]string, error) {
	if err := p.ledger.Check(ctx); err != nil {
		return nil, err
	}
	all, err := p.ledger.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	var errs []error
	for _, s := range all {
		i := slices.IndexFunc(p.config.Targets, func(t Target) bool { return t.Repository == s.Scope.Target })
		if i < 0 {
			errs = append(errs, &sallyport.Error{Op: "reconcile", Code: sallyport.CodeNotFound, Subject: s.Scope.Target, Message: "it is no target any more: its credential can be revoked by hand only"})
			continue
		}
		release, err := p.lease(ctx, s.Scope)
		if err == nil {
			var more []string
			more, err = p.reconcileScope(ctx, p.config.Targets[i], s.Scope)
			lines = append(lines, more...)
			release()
		}
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

func (p *Publisher) reconcileScope(ctx context.Context, t Target, scope Scope) (lines []string, err error) {
	before, err := p.ledger.State(ctx, scope) // again: whoever had the lease may have ended it
	if err != nil {
		return nil, err
	}
	d, err := p.options.Driver(t)
	if err != nil {
		return nil, err
	}
	lost, err := p.sweep(ctx, before, d)
	after, serr := p.ledger.State(ctx, scope)
	for mark := range before.Credentials {
		if row, still := after.Credentials[mark]; !still {
			lines = append(lines, "ended "+mark+" of "+scope.Target)
		} else if serr == nil {
			lines = append(lines, "still there: "+mark+" of "+scope.Target+": "+life(row.Expires))
		}
	}
	for _, mark := range lost {
		err = errors.Join(err, &sallyport.Error{Op: "unseal a credential", Code: sallyport.CodeCorrupt, Subject: mark, Message: "it cannot be revoked by this Publisher; " + life(before.Credentials[mark].Expires)})
	}
	slices.Sort(lines)
	return lines, errors.Join(err, serr)
}
