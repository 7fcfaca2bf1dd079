package control

import (
	"context"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Cancel asks for the end of a live Attempt. It is a record: it works with a dead driver, which is then
// replaced by one that only collects and tears down. Ended already: CodeConflict.
func (c *Control) Cancel(ctx context.Context, id, who, why string) error {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return err
	}
	if at.Report.State.Ended() {
		return &sallyport.Error{Op: "cancel", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "it has ended: " + string(at.Report.State)}
	}
	if !at.CancelRequested {
		m, err := c.manifest(at.Report.Manifest)
		if err != nil {
			return err
		}
		if err := c.record(ctx, nil, m, journal.Record{Type: lifecycle.CancelRequested, Attempt: at.Report.Attempt, Data: lifecycle.Person{Who: who, Why: why}}); err != nil {
			return err
		}
	}
	return c.revive(ctx, at)
}

// Approve records a person's word for an Attempt that awaits it, bound to evidence and target, and publishes.
func (c *Control) Approve(ctx context.Context, id, who, why string) (journal.Attempt, error) {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return at, err
	}
	// What is looked at here is what is approved: a fact that comes in between changes the evidence.
	for _, k := range at.Report.Checks {
		if k.Status == sallyport.CheckFlaky && why == "" {
			return at, &sallyport.Error{Op: "approve", Code: sallyport.CodeDenied, Subject: string(at.Report.Attempt),
				Message: "check " + k.Name + " is flaky: " + k.Message, Hint: "say with --why what makes the change right all the same"}
		}
	}
	if at, err = c.judgedBy(ctx, at, lifecycle.AttemptApproved, who, why); err != nil {
		return at, err
	}
	return c.Publish(ctx, string(at.Report.Attempt))
}

// Reject records a person's no.
func (c *Control) Reject(ctx context.Context, id, who, why string) (journal.Attempt, error) {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return at, err
	}
	return c.judgedBy(ctx, at, lifecycle.AttemptDisallowed, who, why)
}

// verbs are what a person calls the events of their word.
var verbs = map[lifecycle.Type]string{lifecycle.AttemptApproved: "approve", lifecycle.AttemptDisallowed: "reject"}

func (c *Control) judgedBy(ctx context.Context, at journal.Attempt, event lifecycle.Type, who, why string) (journal.Attempt, error) {
	// The journal would say no as well, in its own words.
	if _, err := lifecycle.NextAttempt(at.Report.State, event, ""); err != nil {
		return at, &sallyport.Error{Op: verbs[event], Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "it is " + string(at.Report.State), Hint: sallyport.HintOf(err)}
	}
	if event == lifecycle.AttemptApproved && at.Report.EvidenceDigest == "" {
		return at, &sallyport.Error{Op: verbs[event], Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "a fact came after its evidence, and what has both is not signed yet",
			Hint: "`sallyport reconcile` signs it; look at the attempt again, then approve"}
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil {
		return at, err
	}
	if event == lifecycle.AttemptDisallowed && at.Report.Evidence != "" {
		if err := c.summarise(ctx, at.Report.Evidence, at.Report.Attempt, sallyport.DecisionRejected); err != nil {
			return at, err
		}
	}
	records := []journal.Record{{Type: event, Attempt: at.Report.Attempt, Data: lifecycle.Approval{Who: who, Why: why, Evidence: at.Report.EvidenceDigest, Target: branchOf(m)}}}
	if event == lifecycle.AttemptApproved && m.Publish.To != "none" {
		repo, err := change.Open(ctx, m.Repository)
		if err != nil {
			return at, err
		}
		p, err := c.publication(ctx, repo, m, at.Report.Attempt, at.Report.Commit)
		if err != nil {
			return at, err
		}
		// One transaction, as where no person is asked: there is no moment at which it is accepted and nobody would publish it.
		records = append(records, journal.Record{Type: lifecycle.PublicationIntended, Attempt: at.Report.Attempt, Data: p})
	}
	if err := c.record(ctx, nil, m, records...); err != nil {
		return at, err
	}
	if at, err = c.journal.Attempt(ctx, at.Report.Attempt); err != nil || event != lifecycle.AttemptApproved {
		return at, err
	}
	return at, c.summarise(ctx, at.Report.Evidence, at.Report.Attempt, sallyport.DecisionAccepted)
}

// Publish moves the WorkOrder's branch to an accepted Attempt's commit. Done already: nothing. Not accepted:
// CodeDenied.
func (c *Control) Publish(ctx context.Context, id string) (journal.Attempt, error) {
	at, err := c.Attempt(ctx, id)
	if err != nil || at.Published {
		return at, err
	}
	if at.Report.State != sallyport.AttemptAccepted {
		return at, &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: string(at.Report.Attempt), Message: "only an accepted Attempt is published; this one is " + string(at.Report.State),
			Hint: "`sallyport approve` accepts one that awaits approval"}
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil || m.Publish.To == "none" {
		return at, err
	}
	repo, err := change.Open(ctx, m.Repository)
	if err != nil {
		return at, err
	}
	store, err := c.store(ctx, repo)
	if err != nil {
		return at, err
	}
	if !at.Publishing {
		p, err := c.publication(ctx, repo, m, at.Report.Attempt, at.Report.Commit)
		if err != nil {
			return at, err
		}
		if err := c.record(ctx, nil, m, journal.Record{Type: lifecycle.PublicationIntended, Attempt: at.Report.Attempt, Data: p}); err != nil {
			return at, err
		}
	}
	if m.Publish.To == "pr" { // under a lease, whose fence the Publisher is told
		err = c.Drive(ctx, at.Report.Attempt)
	} else {
		err = c.finishPublication(ctx, nil, repo, store, at.Report.Attempt)
	}
	if err != nil {
		return at, err
	}
	return c.journal.Attempt(ctx, at.Report.Attempt)
}
