package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publisher"
)

// The Publisher's processes. Each function repeats, step by step, the one of internal/publisher that steps.go names.

// ledger is the Publisher's without its file, which several processes share, with the one scope's lock.
type ledger struct {
	w       *world
	records []publisher.Record
	lock    *party // its holder; the kernel gives it back when that is gone
}

var scope = publisher.Scope{Target: "r", WorkOrder: workOrder}

func (l *ledger) state() *publisher.State {
	s := publisher.NewState(scope)
	for _, r := range l.records {
		s.Apply(r)
	}
	return s
}

// record is one durable record, if check has no objection.
func (l *ledger) record(p *party, check func(*publisher.State) error, r publisher.Record) error {
	p.step(string(r.Type))
	if check != nil {
		if err := check(l.state()); err != nil {
			return err
		}
	}
	r.Scope, r.Seq = scope, int64(len(l.records)+1)
	l.records = append(l.records, r)
	switch r.Type {
	case publisher.CredentialGone:
		l.w.h.gone = r.Credential.Mark
	case publisher.CredentialBound:
		l.w.forge.tokens[r.Credential.Mark].sealed = true
	case publisher.RequestReceived:
		l.w.h.received = r.Request
	case publisher.RequestDone:
		l.w.h.receipt = r.Nonce
	}
	return nil
}

// lease waits until no other Publisher works for this scope.
func (l *ledger) lease(p *party) {
	for l.lock != nil && !l.lock.dead && l.lock != p {
		p.sleep(100 * time.Millisecond)
	}
	l.lock = p
}

// work is one publication.
type work struct {
	w     *world
	p     *party
	a     acceptance
	state *publisher.State
	mark  string
	made  int64
	seen  bool                // a pull request was brought up to date
	last  []forge.PullRequest // what the last look showed
}

// publish does one request and gives the receipt.
func (w *world) publish(p *party, a acceptance) (string, error) {
	if w.now >= a.notAfter {
		return "", errDenied
	}
	w.ledger.lease(p)
	receipt, err := w.receive(p, a)
	if err == nil && receipt == "" {
		if receipt, err = w.publishUnder(p, a); err != nil {
			_ = w.ledger.record(p, nil, publisher.Record{Type: publisher.RequestRefused, Nonce: a.nonce, Why: &sallyport.Reason{Code: "x"}})
		}
	}
	w.ledger.lock = nil
	return receipt, err
}

func (w *world) receive(p *party, a acceptance) (string, error) {
	r := publisher.Received{Acceptance: a.digest, Attempt: a.attempt, Fence: a.fence, Branch: a.branch, Base: a.base, Origin: "o", Seq: a.seq, Hash: digest('9', int(a.seq))}
	s := w.ledger.state()
	admit := func(s *publisher.State) error {
		if w.opt.Broken == AdmitsAll {
			return nil
		}
		return s.Admit(a.nonce, r)
	}
	if err := admit(s); err != nil {
		return "", err
	}
	if receipt, ok := s.Receipts[a.nonce]; ok && w.opt.Broken != NewReceipts {
		return receipt, nil
	}
	if _, known := s.Requests[a.nonce]; known {
		return "", nil
	}
	return "", w.ledger.record(p, admit, publisher.Record{Type: publisher.RequestReceived, Nonce: a.nonce, Request: &r})
}

func (w *world) publishUnder(p *party, a acceptance) (string, error) {
	s := w.ledger.state()
	if err := w.sweep(p, s); err != nil {
		return "", err
	}
	mark, err := w.mint(p, a.nonce)
	if err != nil {
		return "", err
	}
	k := &work{w: w, p: p, a: a, state: s, mark: mark}
	err = k.do()
	if rerr := w.revoke(p, mark); err != nil {
		return "", errors.Join(err, rerr)
	}
	w.ids++
	receipt := "receipt of " + a.nonce + " " + digits('1', w.ids, 8)
	return receipt, w.ledger.record(p, nil, publisher.Record{Type: publisher.RequestDone, Nonce: a.nonce, Receipt: receipt, Commit: a.commit})
}

// tokenLife is how long a token lives that nobody revokes.
const tokenLife = time.Hour

func (w *world) mint(p *party, nonce string) (string, error) {
	row := publisher.CredentialRow{Mark: w.number("m"), Expires: (w.now + tokenLife).String()}
	_ = w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialIntended, Nonce: nonce, Credential: &row})
	p.step("mint")
	if err := w.forge.mint(row.Mark); err != nil {
		_ = w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialFailed, Nonce: nonce, Credential: &row})
		return "", err
	}
	bound := publisher.CredentialRow{Mark: row.Mark, Sealed: []byte(row.Mark), Expires: row.Expires}
	return row.Mark, w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialBound, Nonce: nonce, Credential: &bound})
}

func (w *world) revoke(p *party, mark string) error {
	row := publisher.CredentialRow{Mark: mark}
	if w.opt.Broken != NoRevoke {
		p.step("revoke")
		if err := w.forge.revoke(mark); err != nil {
			return errors.Join(err, w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialFailed, Credential: &row}))
		}
	}
	return w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialGone, Credential: &row})
}

// sweep ends what an earlier Publisher left.
func (w *world) sweep(p *party, s *publisher.State) error {
	if w.opt.Broken == NoSweep {
		return nil
	}
	var all []error
	for _, mark := range slices.Sorted(maps.Keys(s.Credentials)) {
		row := s.Credentials[mark]
		if over, err := time.ParseDuration(row.Expires); err == nil && w.now > over+5*time.Minute {
			if t := w.forge.tokens[mark]; t != nil {
				t.alive = false // by itself
			}
			all = append(all, w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialGone, Credential: &publisher.CredentialRow{Mark: mark}}))
			continue
		}
		switch {
		case row.Sealed != nil:
			all = append(all, w.revoke(p, mark))
		case w.forge.finds:
			p.step("revoke")
			err := w.forge.revoke(mark)
			if err == nil {
				err = w.ledger.record(p, nil, publisher.Record{Type: publisher.CredentialGone, Credential: &publisher.CredentialRow{Mark: mark}})
			}
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// sweepAll is `sallyport-publisher reconcile`.
func (w *world) sweepAll(p *party) {
	if len(w.ledger.state().Credentials) == 0 {
		return
	}
	w.ledger.lease(p)
	_ = w.sweep(p, w.ledger.state())
	w.ledger.lock = nil
}

func (k *work) record(r publisher.Record) error {
	r.Nonce = k.a.nonce
	return k.w.ledger.record(k.p, nil, r)
}

func (k *work) do() error {
	for _, step := range []func() error{k.pulls, k.push, k.attach, k.pull} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (k *work) find() ([]forge.PullRequest, error) {
	k.p.step("find")
	list, err := k.w.forge.find(k.mark)
	if err == nil {
		k.last = list
	}
	return list, err
}

func (k *work) pulls() error {
	list, err := k.find()
	if err != nil {
		return err
	}
	for _, row := range k.state.Gone(list) {
		if err := k.record(publisher.Record{Type: publisher.PullRequestGone, Pull: &row}); err != nil {
			return err
		}
	}
	if k.w.opt.Broken == Reopens {
		return nil
	}
	return k.state.Stopped(list)
}

func (k *work) push() error {
	k.p.step("tip")
	tip := k.w.forge.tip
	row, move, err := k.state.Move(k.a.branch, tip, k.a.commit, k.a.nonce)
	if err != nil {
		if k.w.opt.Broken != Overwrite {
			return err
		}
		row, move = publisher.BranchRow{Ref: k.a.branch, Commit: k.a.commit, Expect: tip}, true
	}
	if tip == "" && k.state.Branch != nil {
		if err := k.record(publisher.Record{Type: publisher.BranchGone, Branch: k.state.Branch}); err != nil {
			return err
		}
	}
	if move {
		if err := k.record(publisher.Record{Type: publisher.BranchIntended, Branch: &row}); err != nil {
			return err
		}
		k.p.step("push")
		if err := k.w.forge.push(k.mark, tip, k.a.commit); err != nil {
			return err
		}
	}
	bound := row
	return k.record(publisher.Record{Type: publisher.BranchBound, Branch: &bound})
}

// attach is not worth a publication.
func (k *work) attach() error {
	row := publisher.BranchRow{Ref: "refs/sallyport/evidence/" + string(k.a.commit), Commit: k.a.commit}
	if k.w.forge.attached {
		return k.record(publisher.Record{Type: publisher.EvidenceBound, Evidence: &row})
	}
	if err := k.record(publisher.Record{Type: publisher.EvidenceIntended, Evidence: &row}); err != nil {
		return err
	}
	k.p.step("attach")
	if k.w.forge.with(k.mark, 12, func() error { k.w.forge.attached = true; return nil }) != nil {
		return nil
	}
	return k.record(publisher.Record{Type: publisher.EvidenceBound, Evidence: &row})
}

func (k *work) pull() error {
	for range 5 {
		if settled, err := k.settle(); err != nil || settled {
			return err
		}
	}
	return errUnavailable
}

func (k *work) settle() (bool, error) {
	pr, err := k.theOne()
	if err != nil {
		return false, err
	}
	if pr.Number != k.made && k.ours(pr) {
		k.p.step("edit")
		if err := k.w.forge.with(k.mark, 12, func() error { return nil }); err != nil {
			return false, err
		}
	}
	row := publisher.PullRow{Head: "sallyport/fix", Base: "main", Number: pr.Number, Opened: pr.Number == k.made || k.ours(pr), Author: pr.Author}
	if err := k.record(publisher.Record{Type: publisher.PullRequestBound, Pull: &row}); err != nil {
		return false, err
	}
	k.p.step("get")
	seen, err := k.w.forge.get(k.mark, pr.Number)
	if err != nil {
		return false, err
	}
	k.seen = true
	list, err := k.openOnes()
	if err != nil {
		return false, err
	}
	if seen.State == forge.Open {
		list = with(list, seen)
	}
	if len(list) == 0 {
		return false, errDenied
	}
	one, extra := k.choose(list)
	return one.Number == pr.Number && len(extra) == 0, nil
}

func with(list []forge.PullRequest, pr forge.PullRequest) []forge.PullRequest {
	if slices.ContainsFunc(list, func(p forge.PullRequest) bool { return p.Number == pr.Number }) {
		return list
	}
	return append(list, pr)
}

func (k *work) identity() string {
	if k.w.forge.identity != "" {
		return k.w.forge.identity
	}
	for _, r := range k.state.Pulls {
		if r.Opened {
			return r.Author
		}
	}
	return ""
}

func (k *work) ours(pr forge.PullRequest) bool { return k.state.Ours(pr, k.identity(), k.made) }

func (k *work) choose(list []forge.PullRequest) (forge.PullRequest, []forge.PullRequest) {
	return k.state.Choose(list, k.identity(), k.made)
}

func (k *work) openOnes() ([]forge.PullRequest, error) {
	list, err := k.find()
	return openOf(list), err
}

func openOf(list []forge.PullRequest) []forge.PullRequest {
	return slices.DeleteFunc(slices.Clone(list), func(pr forge.PullRequest) bool { return pr.State != forge.Open })
}

func (k *work) theOne() (forge.PullRequest, error) {
	all, err := k.find()
	if err != nil {
		return forge.PullRequest{}, err
	}
	list := openOf(all)
	if k.w.opt.Broken == TwoPulls {
		list = nil
	}
	if len(list) == 0 && k.seen {
		return forge.PullRequest{}, errDenied
	}
	if len(list) == 0 {
		if err := k.state.Stopped(all); err != nil && k.w.opt.Broken != LooksOnce && k.w.opt.Broken != Reopens {
			return forge.PullRequest{}, err
		}
		row := publisher.PullRow{Head: "sallyport/fix", Base: "main"}
		if err := k.record(publisher.Record{Type: publisher.PullRequestIntended, Pull: &row}); err != nil {
			return forge.PullRequest{}, err
		}
		k.w.h.opening, k.w.h.last = true, k.last
		if list, err = k.create(); err != nil {
			return forge.PullRequest{}, err
		}
	}
	one, extra := k.choose(list)
	for _, pr := range extra {
		row := publisher.PullRow{Head: pr.Head, Base: pr.Base, Number: pr.Number, Author: pr.Author}
		if err := k.record(publisher.Record{Type: publisher.PullRequestClosed, Pull: &row}); err != nil {
			return forge.PullRequest{}, err
		}
		k.p.step("close")
		if err := k.w.forge.close(k.mark, pr.Number); err != nil {
			return forge.PullRequest{}, err
		}
	}
	return one, nil
}

func (k *work) create() ([]forge.PullRequest, error) {
	k.p.step("create a pull request")
	made, err := k.w.forge.create(k.mark)
	code := sallyport.CodeOf(err)
	if err != nil && code != sallyport.CodeConflict && code != sallyport.CodeUnknown {
		return nil, err
	}
	k.made = made.Number
	for until := k.w.now + 2*time.Second; ; {
		list, ferr := k.openOnes()
		if ferr != nil {
			return nil, errors.Join(ferr, err)
		}
		if made.Number != 0 {
			list = with(list, made)
		}
		switch {
		case len(list) > 0:
			return list, nil
		case k.w.now < until:
			k.p.sleep(200 * time.Millisecond)
		case code == sallyport.CodeConflict:
			return nil, errUnavailable
		default:
			return nil, err
		}
	}
}
