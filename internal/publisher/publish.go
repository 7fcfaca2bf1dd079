package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	if err := p.sweep(ctx, s, d); err != nil && sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		return nil, err // two credentials at once are never there
	}
	mark, g, err := p.mint(ctx, o, d)
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
	out, err := w.do(ctx)
	if mark != "" {
		rerr := p.revoke(ctx, o.scope(), d, mark, g)
		switch {
		case rerr == nil:
			used.Revoked = evidence.Time(p.options.Now())
		case err == nil: // the change is published; whoever comes next tries again
			out.notes = append(out.notes, "the credential could not be revoked yet; it is tried again, and it ends by itself at "+used.Expires)
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
	return envelope, p.record(ctx, o.scope(), nil, Record{Type: RequestDone, Nonce: o.accepted().Nonce, Receipt: string(envelope), Commit: o.commit()})
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
	moved      string // that the base has, a sentence; "": it has not
}

func (w *work) do(ctx context.Context) (done, error) {
	for _, step := range []func(context.Context) error{w.inspect, w.history, w.pulls, w.push, w.attach, w.pull} {
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
	tip, err := w.p.fetch(ctx, w.o, w.remote)
	if err != nil {
		return err
	}
	base := w.o.handed.Base
	if tip == base {
		return nil
	}
	within, err := w.p.contains(ctx, w.o, tip, base)
	if err != nil {
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
	w.out.notes = append(w.out.notes, w.moved)
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
	for _, pr := range list {
		byUs := slices.ContainsFunc(w.state.Closed, func(r PullRow) bool { return r.Number == pr.Number })
		switch {
		case pr.State == forge.Merged:
			return no("pull request", "%s is merged: this work order is done there", pr.URL)
		case pr.State == forge.Closed && !byUs && !open(list):
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "pull request", Message: pr.URL + " was closed by a person",
				Hint: "reopen it there, then publish again; or run the task under another name"}
		}
	}
	return nil
}

func open(list []forge.PullRequest) bool {
	return slices.ContainsFunc(list, func(pr forge.PullRequest) bool { return pr.State == forge.Open })
}

// push moves the branch from what we wrote there, or from nothing.
func (w *work) push(ctx context.Context) error {
	ref := w.o.accepted().Target.Branch
	tip, err := forge.Tip(ctx, w.remote, ref)
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	commit := w.o.commit()
	if tip != "" && tip != commit && !slices.Contains(w.state.Pushed, tip) {
		return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: w.o.head(), Message: fmt.Sprintf("the branch is at %s, which this Publisher did not put there", tip),
			Hint: "somebody has worked on it: it is never overwritten. Merge or move that work, then publish again"}
	}
	row := BranchRow{Ref: ref, Commit: commit, Expect: tip}
	if tip == commit { // an earlier try has done it
		row.Expect = ""
		if w.state.Pushing != nil {
			row.Expect = w.state.Pushing.Expect
		}
	} else {
		if err := w.p.record(ctx, w.o.scope(), nil, Record{Type: BranchIntended, Nonce: w.o.accepted().Nonce, Branch: &row}); err != nil {
			return err
		}
		if err := w.p.effect("push", func() error { return w.p.send(ctx, w.o, w.remote, tip) }); err != nil {
			return err
		}
	}
	w.out.replaced = row.Expect
	return w.p.record(ctx, w.o.scope(), nil, Record{Type: BranchBound, Nonce: w.o.accepted().Nonce, Branch: &row})
}

// attach is not worth a publication: what was published is right without it.
func (w *work) attach(ctx context.Context) error {
	err := w.p.effect("attach", func() error { return w.p.attach(ctx, w.o, w.remote) })
	if err != nil {
		w.out.notes = append(w.out.notes, "the evidence could not be attached: "+publication.Refuse(err).Message)
	}
	return nil
}

// How long and how often a forge that has taken a push is asked whether it knows of it.
const (
	seenTimeout = 20 * time.Second
	seenPause   = 200 * time.Millisecond
)

// pull has exactly one open pull request, of this commit and with its text.
func (w *work) pull(ctx context.Context) error {
	if !w.d.Describe().PullRequests {
		if c := w.d.Describe().Compare; c != nil && c(w.o.head(), w.o.base()) != "" {
			w.out.notes = append(w.out.notes, "open a pull request at "+c(w.o.head(), w.o.base()))
		}
		return nil
	}
	text := w.text()
	pr, err := w.theOne(ctx, text)
	if err != nil {
		return err
	}
	if !w.out.opened && pr.Text != text {
		if err := w.p.effect("edit", func() error { return w.d.Edit(ctx, w.g, pr.Number, text) }); err != nil {
			return err
		}
	}
	row := PullRow{Head: w.o.head(), Base: w.o.base(), Number: pr.Number, URL: pr.URL, Opened: w.out.opened}
	if err := w.p.record(ctx, w.o.scope(), nil, Record{Type: PullRequestBound, Nonce: w.o.accepted().Nonce, Pull: &row}); err != nil {
		return err
	}
	return w.seen(ctx, pr.Number)
}

// seen waits until the forge's own page shows the commit that was pushed: what it merges is what it shows.
func (w *work) seen(ctx context.Context, number int64) error {
	for until := time.Now().Add(seenTimeout); ; {
		pr, err := w.d.Get(ctx, w.g, number)
		if err == nil && pr.Tip == w.o.commit() {
			w.out.pull = &pr
			return nil
		}
		if err == nil && pr.State != forge.Open {
			return no("pull request", "%s was closed while it was being published", pr.URL)
		}
		if time.Now().After(until) || ctx.Err() != nil {
			if err == nil {
				err = &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Subject: pr.URL, Message: fmt.Sprintf("the forge shows commit %s, expected %s", pr.Tip, w.o.commit()), Hint: "publish again"}
			}
			return err
		}
		time.Sleep(seenPause)
	}
}

// theOne finds the open pull request, or opens it. A forge's own check for a second one is not atomic, so there may be two
// for a moment: the older stays.
func (w *work) theOne(ctx context.Context, text forge.Text) (forge.PullRequest, error) {
	list, err := w.openOnes(ctx)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if len(list) == 0 {
		row := PullRow{Head: w.o.head(), Base: w.o.base()}
		if err := w.p.record(ctx, w.o.scope(), nil, Record{Type: PullRequestIntended, Nonce: w.o.accepted().Nonce, Pull: &row}); err != nil {
			return forge.PullRequest{}, err
		}
		if list, err = w.create(ctx, text); err != nil {
			return forge.PullRequest{}, err
		}
	}
	for _, extra := range list[1:] {
		if err := w.closeExtra(ctx, list[0], extra); err != nil {
			return forge.PullRequest{}, err
		}
	}
	return list[0], nil
}

func (w *work) openOnes(ctx context.Context) ([]forge.PullRequest, error) {
	list, err := w.d.Find(ctx, w.g, w.o.head(), w.o.base())
	return slices.DeleteFunc(list, func(pr forge.PullRequest) bool { return pr.State != forge.Open }), err
}

// create opens one, and lists what is open then: a lost answer and a race are both settled by looking. A list may lag.
func (w *work) create(ctx context.Context, text forge.Text) ([]forge.PullRequest, error) {
	var made forge.PullRequest
	err := w.p.effect("create", func() (err error) {
		made, err = w.d.Create(ctx, w.g, forge.NewPullRequest{Head: w.o.head(), Base: w.o.base(), Text: text, Draft: *w.o.target.Draft && w.d.Describe().Drafts, Labels: w.o.target.Labels})
		return err
	})
	code := sallyport.CodeOf(err)
	if err != nil && code != sallyport.CodeConflict && code != sallyport.CodeUnknown {
		return nil, err
	}
	w.out.opened = err == nil
	for try := 1; ; try++ {
		list, ferr := w.openOnes(ctx)
		if ferr != nil {
			return nil, errors.Join(err, ferr)
		}
		if made.Number != 0 && !slices.ContainsFunc(list, func(pr forge.PullRequest) bool { return pr.Number == made.Number }) {
			list = append(list, made) // a list that lags
		}
		if len(list) > 0 {
			return list, nil
		}
		if try == 10 || ctx.Err() != nil {
			return nil, err // not known, and not to be seen: the next try looks first again
		}
		time.Sleep(seenPause)
	}
}

func (w *work) closeExtra(ctx context.Context, stays, extra forge.PullRequest) error {
	row := PullRow{Head: extra.Head, Base: extra.Base, Number: extra.Number, URL: extra.URL, Why: "a second one beside " + stays.URL}
	if err := w.p.record(ctx, w.o.scope(), nil, Record{Type: PullRequestClosed, Nonce: w.o.accepted().Nonce, Pull: &row}); err != nil {
		return err
	}
	return w.p.effect("close", func() error {
		return w.d.Close(ctx, w.g, extra.Number, "Opened at the same moment as "+stays.URL+", which stays.")
	})
}

// text is title and body, from what was verified.
func (w *work) text() forge.Text {
	a := w.o.accepted()
	changes := make([]sallyport.Change, 0, len(w.o.handed.Changes))
	for _, c := range w.o.handed.Changes {
		changes = append(changes, sallyport.Change{Path: c.Path, Status: sallyport.ChangeStatus(c.Status)})
	}
	title, body := pulltext.Render(pulltext.Options{Predicate: w.o.evidence.Statement.Predicate, Evidence: a.Evidence, Task: a.Task, Changes: changes, Separation: w.separation,
		BaseMoved: w.moved, Issue: w.o.target.Issue, KeyID: w.o.evidence.Key.ID,
		VerifyCommand: "sallyport verify --pr ADDRESS-OF-THIS-PAGE --key KEYS", Approvals: w.o.approvals})
	return forge.Text{Title: title, Body: body}
}
