package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
	"sallyport.dev/sallyport/internal/pulltext"
)

// done is what the receipt says beside the acceptance.
type done struct {
	replaced sallyport.ObjectID
	pull     *forge.PullRequest
	opened   bool
	notes    []string
}

// publish has the credential only between mint and revoke, and everything else around them.
func (p *Publisher) publish(ctx context.Context, o *order, separation string) ([]byte, error) {
	d, err := p.options.Driver(o.target)
	if err != nil {
		return nil, err
	}
	s, err := p.ledger.State(ctx, o.scope())
	if err != nil {
		return nil, err
	}
	lost, err := p.sweep(ctx, s, d)
	if err != nil {
		return nil, err // two credentials at once are never there
	}
	mark, g, err := p.mint(ctx, o.scope(), o.accepted().Nonce, d)
	if err != nil {
		return nil, err
	}
	used := evidence.CredentialUsed{Class: g.Class, Scope: g.Scope, Identity: g.Identity}
	if mark != "" {
		used.From = evidence.Time(p.options.Now())
	}
	if !g.Expires.IsZero() {
		used.Expires = evidence.Time(g.Expires)
	}
	w := &work{p: p, o: o, d: d, g: g, remote: d.Remote(g), state: s, separation: separation}
	for _, m := range lost {
		w.note("an earlier credential, %s, cannot be ended by this Publisher as it is configured: revoke it at the forge by hand", m)
	}
	out, err := w.do(ctx)
	if mark != "" {
		rerr := p.revoke(ctx, o.scope(), d, mark, g)
		switch {
		case rerr == nil:
			used.Revoked = evidence.Time(p.options.Now())
		case err == nil: // the change is published; whoever comes next tries again
			out.notes = append(out.notes, "the credential could not be revoked yet; it is tried again, and "+life(used.Expires))
		default:
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.receipt(ctx, o, d, out, used, separation)
}

// receipt signs what was done, durably.
func (p *Publisher) receipt(ctx context.Context, o *order, d forge.Driver, out done, used evidence.CredentialUsed, separation string) ([]byte, error) {
	signer, err := p.ring.Signer()
	if err != nil {
		return nil, err
	}
	r := evidence.Published{Kind: d.Describe().Kind, Replaced: out.replaced, Credential: used, Separation: separation, Notes: out.notes, Finished: evidence.Time(p.options.Now())}
	if out.pull != nil {
		r.PullRequest = &evidence.PullRequest{Number: out.pull.Number, URL: out.pull.URL, Draft: out.pull.Draft, Opened: out.opened}
	}
	envelope, _, err := evidence.SealPublication(ctx, signer, evidence.NewPublication(o.acceptance, o.digest, r))
	if err != nil {
		return nil, err
	}
	err = p.record(ctx, o.scope(), nil, Record{Type: RequestDone, Nonce: o.accepted().Nonce, Receipt: string(envelope), Commit: o.commit()})
	return envelope, err
}

// work is one publication with a credential in hand.
type work struct {
	p      *Publisher
	o      *order
	d      forge.Driver
	g      forge.Grant
	remote forge.Remote
	state  *State
	out    done

	separation string
	moved      string // how the base has moved on; "": it has not
	made       int64  // the number of the pull request that this work has opened
}

func (w *work) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(w.out.notes, s) {
		w.out.notes = append(w.out.notes, s)
	}
}

// record appends a record of this request.
func (w *work) record(ctx context.Context, r Record) error {
	r.Nonce = w.o.accepted().Nonce
	return w.p.record(ctx, w.o.scope(), nil, r)
}

func (w *work) do(ctx context.Context) (done, error) {
	for _, step := range []func(context.Context) error{w.inspect, w.history, w.pulls, w.push, w.attach, w.attest, w.pull} {
		if err := step(ctx); err != nil {
			return w.out, err
		}
	}
	return w.out, nil
}

// inspect refuses a target that is not as the operator wants it.
func (w *work) inspect(ctx context.Context) error {
	found, err := w.d.Inspect(ctx, w.g, w.o.base())
	if err != nil {
		return err
	}
	for _, f := range found.Findings {
		if f.Blocking && !slices.Contains(w.o.target.Allow, f.Code) {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: f.Code, Message: f.Message,
				Hint: "`sallyport-publisher check` shows all of it; `allow: [" + f.Code + "]` at the target accepts this one"}
		}
	}
	return nil
}

// history makes sure that the change is upon what the base branch has or had.
func (w *work) history(ctx context.Context) error {
	base := w.o.handed.Base
	tip, within, err := w.p.fetch(ctx, w.o, w.remote, base)
	if err != nil || tip == base {
		return err
	}
	if !within {
		return no("base", "commit %s is not in the history of %s at the forge, which is at %s", base, w.o.base(), tip)
	}
	if w.o.target.BaseMoved == "refuse" {
		return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: "base", Message: fmt.Sprintf("%s has moved on from %s to %s since this was validated", w.o.base(), base.Short(), tip.Short()),
			Hint: "run it again on the new base, or set base-moved: publish at the target"}
	}
	w.moved = fmt.Sprintf("%s has moved on since this was validated: from %s to %s", w.o.base(), base, tip)
	w.note("%s", w.moved)
	return nil
}

// pulls stops where a person has said no, or has merged.
func (w *work) pulls(ctx context.Context) error {
	if !w.d.Describe().PullRequests {
		return nil
	}
	list, err := w.d.Find(ctx, w.g, w.o.head(), w.o.base())
	if err != nil {
		return err
	}
	if err := w.gone(ctx, list); err != nil {
		return err
	}
	return w.state.Stopped(list)
}

// gone records those of ours that somebody has closed or merged.
func (w *work) gone(ctx context.Context, list []forge.PullRequest) error {
	for _, row := range w.state.Gone(list) {
		if err := w.record(ctx, Record{Type: PullRequestGone, Pull: &row}); err != nil {
			return err
		}
	}
	return nil
}

// push moves the branch from what we wrote there, or from nothing.
func (w *work) push(ctx context.Context) error {
	ref := w.o.accepted().Target.Branch
	tip, err := forge.Tip(ctx, w.remote, ref)
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	row, move, err := w.state.Move(ref, tip, w.o.commit(), w.o.accepted().Nonce)
	if err != nil {
		return err
	}
	if tip == "" && w.state.Branch != nil {
		if err := w.record(ctx, Record{Type: BranchGone, Branch: w.state.Branch}); err != nil {
			return err
		}
	}
	if move {
		if err := w.record(ctx, Record{Type: BranchIntended, Branch: &row}); err != nil {
			return err
		}
		if err := w.p.effect("push", func() error { return w.p.send(ctx, w.o, w.remote, tip) }); err != nil {
			return err
		}
	}
	w.out.replaced = row.Expect
	return w.record(ctx, Record{Type: BranchBound, Branch: &row})
}

// attach is not worth a publication: what was published is right without it, and a forge need not take such a ref.
func (w *work) attach(ctx context.Context) error {
	if !*w.o.target.Attach {
		return nil
	}
	if err := w.attachEvidence(ctx); err != nil {
		w.note("the evidence could not be attached: %s", publication.Refuse(err).Message)
	}
	return nil
}

// attachEvidence puts acceptance and evidence under a ref that is named by the commit of the change. The same acceptance
// gives the same commit: after a crash it is there, or it is pushed again.
func (w *work) attachEvidence(ctx context.Context) error {
	release, err := w.p.useMirror(ctx, w.o)
	if err != nil {
		return err
	}
	defer release()
	dir, row, err := w.p.attachment(ctx, w.o, w.remote)
	if err != nil {
		return err
	}
	if row.Expect != row.Commit {
		if row.Expect != "" && !slices.Contains(w.state.Attached, row.Expect) {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: row.Ref, Message: fmt.Sprintf("%s is at %s, which this Publisher did not put there", row.Ref, row.Expect)}
		}
		if err := w.record(ctx, Record{Type: EvidenceIntended, Evidence: &row}); err != nil {
			return err
		}
		if err := w.p.effect("attach", func() error { return forge.PushRef(ctx, dir, w.remote, row.Commit, row.Expect, row.Ref) }); err != nil {
			return err
		}
	}
	return w.record(ctx, Record{Type: EvidenceBound, Evidence: &row})
}

// text is title and body, from what was verified.
func (w *work) text() forge.Text {
	a := w.o.accepted()
	changes := make([]sallyport.Change, 0, len(w.o.handed.Changes))
	for _, c := range w.o.handed.Changes {
		changes = append(changes, sallyport.Change{Path: c.Path, Status: sallyport.ChangeStatus(c.Status)})
	}
	verify := "sallyport verify --pr ADDRESS-OF-THIS-PAGE --key KEYS"
	if !*w.o.target.Attach {
		verify = "sallyport verify FILE-OF-THE-EVIDENCE --commit " + string(w.o.commit()) + " --key KEYS"
	}
	title, body := pulltext.Render(pulltext.Options{Predicate: w.o.evidence.Statement.Predicate, Evidence: a.Evidence, Task: a.Task, Changes: changes, Separation: w.separation,
		BaseMoved: w.moved, Issue: w.o.target.Issue, KeyID: w.o.evidence.Key.ID,
		VerifyCommand: verify, Approvals: w.o.approvals})
	return forge.Text{Title: title, Body: body}
}
