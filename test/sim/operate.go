package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/reconcile"
)

// reconcile is Mission Control's: list first, read the journal after, carry out what the plan says.
func (w *world) reconcile(p *party) {
	world := w.look(p)
	var lines []string
	for _, a := range reconcile.Plan(world) {
		if err := w.act(p, a); err != nil {
			lines = append(lines, "could not "+a.String()+": "+err.Error())
		} else {
			lines = append(lines, a.Done())
		}
	}
	w.lines = lines
	for _, id := range slices.Clone(w.j.order) {
		if at := w.j.states[id]; at.Publishing && w.free(id) {
			_ = w.underLease(p, id, func(d *driver) error { return d.finishPublication() })
		}
	}
}

func (w *world) free(id sallyport.AttemptID) bool {
	if w.opt.Broken == AllFree {
		return true
	}
	return journal.Free(w.j.leases[id], boot, w.now, w.proven)
}

func (w *world) look(p *party) reconcile.World {
	p.step("list")
	var world reconcile.World
	list, err := w.sub.list()
	world.Listings = []reconcile.Listing{{Provider: "fake", Statuses: list, Err: err}}
	p.step("read the journal")
	named, seen := map[sallyport.AllocationID]bool{}, map[sallyport.AttemptID]bool{}
	for _, s := range list {
		named[s.Allocation], seen[s.Attempt] = true, true
	}
	for _, al := range w.j.allocations("") {
		if al.Open() || named[al.ID] {
			world.Allocations = append(world.Allocations, al)
			seen[al.Attempt] = true
		}
	}
	for _, id := range w.j.order {
		if s := w.j.states[id].Report.State; !s.Ended() || seen[id] {
			if w.opt.Broken == AllFree {
				s = sallyport.AttemptFailed
			}
			world.Attempts = append(world.Attempts, reconcile.Attempt{ID: id, State: s, Free: w.free(id)})
		}
	}
	return world
}

// underLease does one thing as an Attempt's holder.
func (w *world) underLease(p *party, id sallyport.AttemptID, do func(*driver) error) error {
	if w.j.states[id] == nil {
		return errNotFound
	}
	l, err := w.acquire(p, id)
	if err != nil {
		return err
	}
	err = do(&driver{w: w, p: p, id: id, lease: l, renewed: 1 << 62, busy: 20}) // nothing renews it
	w.release(p, l)
	return err
}

func (w *world) act(p *party, a reconcile.Action) error {
	switch a := a.(type) {
	case reconcile.Adopt:
		if w.opt.Broken != NobodyAdopts {
			w.startDriver(a.Attempt)
		}
	case reconcile.MarkOrphaned:
		return w.underLease(p, a.Attempt, func(d *driver) error {
			var records []journal.Record
			if w.j.allocation(a.Allocation).Resource == "" {
				records = append(records, journal.Record{Type: lifecycle.AllocationBound, Allocation: a.Allocation, Data: lifecycle.Bound{Resource: a.Resource}})
			}
			return d.record(append(records, journal.Record{Type: lifecycle.AllocationOrphaned, Allocation: a.Allocation, Data: a.Why})...)
		})
	case reconcile.Destroy:
		return w.destroyStray(p, a)
	case reconcile.Lookup:
		return w.lookup(p, a)
	}
	return nil
}

func (w *world) destroyStray(p *party, a reconcile.Destroy) error {
	if w.j.states[a.Attempt] == nil || w.opt.Broken == AllFree {
		p.step("destroy")
		return w.sub.destroy(p, a.Resource)
	}
	return w.underLease(p, a.Attempt, func(d *driver) error {
		al := w.j.allocation(a.Allocation)
		if al.ID != "" && !marked(al) && w.opt.Broken != Unmarked {
			return errConflict
		}
		if al.ID == "" || al.State == sallyport.SandboxTerminated {
			if err := d.step("destroy"); err != nil {
				return err
			}
			return w.sub.destroy(p, a.Resource)
		}
		if err := d.erase(a.Resource); err != nil {
			return err
		}
		return d.gone(al.ID)
	})
}

func marked(al lifecycle.Allocation) bool {
	switch al.State {
	case sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned, sallyport.SandboxTerminated:
		return true
	}
	return false
}

func (w *world) lookup(p *party, a reconcile.Lookup) error {
	if a.Resource == "" {
		if w.opt.Broken == NeverConcludes {
			return nil
		}
		return w.neverMade(p, a)
	}
	p.step("look up")
	if err := w.sub.lookup(a.Resource); sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	return w.underLease(p, a.Attempt, func(d *driver) error {
		var records []journal.Record
		if _, err := lifecycle.NextSandbox(w.j.allocation(a.Allocation).State, lifecycle.AllocationFailed); err == nil || w.opt.Broken == FailsTwice {
			records = append(records, journal.Record{Type: lifecycle.AllocationFailed, Allocation: a.Allocation, Data: sallyport.Reason{Code: "vanished"}})
		}
		return d.record(append(records, journal.Record{Type: lifecycle.AllocationTerminated, Allocation: a.Allocation, Data: sallyport.Reason{Code: "gone"}})...)
	})
}

func (w *world) neverMade(p *party, a reconcile.Lookup) error {
	return w.underLease(p, a.Attempt, func(d *driver) error {
		al := w.j.allocation(a.Allocation)
		if !d.attempt().Report.State.Ended() || al.State == sallyport.SandboxTerminated {
			return nil
		}
		return d.drop(al)
	})
}

// acceptance is Mission Control's signed word that goes with one intent.
type acceptance struct {
	nonce    string
	commit   sallyport.ObjectID
	attempt  sallyport.AttemptID
	fence    int64
	seq      int64
	notAfter time.Duration
	digest   sallyport.Digest
	branch   string
	base     string
}

func (w *world) publication(id sallyport.AttemptID, commit sallyport.ObjectID) lifecycle.Publication {
	if w.order.Publish == "pr" {
		return w.intendPull(commit)
	}
	var expect sallyport.ObjectID
	for _, other := range w.j.order {
		if s := w.j.states[other]; s.Published && other != id {
			expect = s.Report.Commit
		}
	}
	if w.disk.branch == "" {
		expect = ""
	}
	return lifecycle.Publication{Target: "branch", Branch: branchRef, Commit: commit, Expect: expect}
}

func (w *world) intendPull(commit sallyport.ObjectID) lifecycle.Publication {
	return lifecycle.Publication{Target: "pr", Branch: branchRef, Commit: commit, Repository: "r", Base: baseRef, Nonce: w.number("n")}
}

func (d *driver) finishPublication() error {
	at := d.attempt()
	if !at.Publishing {
		return nil
	}
	p := *at.Publication
	if p.Target == "pr" {
		return d.finishPull(at, p)
	}
	if err := d.step("publish"); err != nil {
		return err
	}
	if tip := d.w.disk.branch; tip != p.Commit && tip != p.Expect && d.w.opt.Broken != Overwrite {
		return d.record(journal.Record{Type: lifecycle.PublicationRefused, Data: sallyport.Reason{Code: lifecycle.RefusedBranch}})
	}
	d.w.h.pushed = &move{from: d.w.disk.branch, to: p.Commit, foreign: d.w.disk.branch != "" && !d.w.disk.mine[d.w.disk.branch]}
	d.w.disk.branch, d.w.disk.mine[p.Commit] = p.Commit, true
	return d.record(journal.Record{Type: lifecycle.PublicationDone, Data: p})
}

var errStale = errors.New("the acceptance has had its time")

func (d *driver) finishPull(at *lifecycle.State, p lifecycle.Publication) error {
	receipt, err := d.handOverFor(at, p)
	if errors.Is(err, errStale) {
		if err = d.newest(); err == nil {
			p = d.w.intendPull(p.Commit)
			if err := d.record(journal.Record{Type: lifecycle.PublicationIntended, Data: p}); err != nil {
				return err
			}
			receipt, err = d.handOverFor(at, p)
		}
	}
	if d.lost {
		return err // the next driver goes on
	}
	if err != nil {
		return d.record(journal.Record{Type: lifecycle.PublicationRefused, Data: sallyport.Reason{Code: lifecycle.RefusedPullRequest, Message: err.Error()}})
	}
	if err := d.step("the receipt is kept"); err != nil {
		return err
	}
	p.Receipt, p.URL = receipt, "u"
	return d.record(journal.Record{Type: lifecycle.PublicationDone, Data: p})
}

func (d *driver) newest() error {
	for i := len(d.w.j.order) - 1; i >= 0 && d.w.j.order[i] != d.id; i-- {
		if s := d.w.j.states[d.w.j.order[i]]; s.Published || s.Publishing {
			return errConflict
		}
	}
	return nil
}

func (d *driver) handOver(at *lifecycle.State, p lifecycle.Publication) error {
	_, err := d.handOverFor(at, p)
	return err
}

// handOverFor asks a Publisher, again where its answer was lost: the same acceptance gives the same receipt.
func (d *driver) handOverFor(at *lifecycle.State, p lifecycle.Publication) (receipt string, err error) {
	a, known := d.w.disk.acceptances[p.Nonce]
	if known && d.w.now >= a.notAfter {
		return "", errStale
	}
	if !known {
		if err := d.step("the acceptance is written"); err != nil {
			return "", err
		}
		d.w.ids++
		a = acceptance{nonce: p.Nonce, commit: p.Commit, attempt: d.id, fence: d.lease.Fence, seq: int64(len(d.w.j.events)), notAfter: d.w.now + time.Hour,
			digest: digest('a', d.w.ids), branch: p.Branch, base: strings.TrimPrefix(p.Base, "refs/heads/")}
		d.w.disk.acceptances[p.Nonce] = a
	}
	for try := 1; ; try++ {
		receipt, err = d.ask(a)
		if code := sallyport.CodeOf(err); err == nil || try == 3 || d.lost || code != sallyport.CodeUnknown && code != sallyport.CodeUnavailable {
			return receipt, err
		}
		if err := d.sleep(time.Duration(try) * time.Second); err != nil {
			return "", err
		}
	}
}

// ask has a Publisher, which is a process of its own, do one request. It goes on whoever waits for it.
func (d *driver) ask(a acceptance) (string, error) {
	if err := d.step("hand over"); err != nil {
		return "", err
	}
	var receipt string
	var answer error
	done := false
	delay := time.Duration(0)
	if d.w.slow && d.w.c.once(2) {
		delay = time.Duration(1+d.w.c.pick(40)) * time.Minute // it gets there when nobody waits for it any more
	}
	p := d.w.start("publisher", func(p *party) {
		if delay > 0 {
			p.sleep(delay)
		}
		receipt, answer = d.w.publish(p, a)
		done = true
	})
	lost := d.w.c.once(12) || delay > 0
	for until := d.w.now + 20*time.Minute; ; {
		if err := d.sleep(200 * time.Millisecond); err != nil {
			return "", err
		}
		switch {
		case lost && d.w.c.once(3), p.dead && !done, d.w.now > until:
			return "", errUnknown
		case done:
			return receipt, answer
		}
	}
}

// person is a command line that somebody types.
func (w *world) person(p *party) {
	p.sleep(time.Duration(1+w.c.pick(60)) * time.Second)
	if len(w.j.order) == 0 {
		return
	}
	id := w.j.order[len(w.j.order)-1-w.c.pick(len(w.j.order))]
	at := w.j.states[id]
	r := at.Report
	switch w.c.pick(11) {
	case 1:
		if r.State.Ended() {
			return
		}
		p.step("attempt.cancel-requested")
		_, _ = w.append(p, nil, journal.Record{Type: lifecycle.CancelRequested, Attempt: id, Data: lifecycle.Person{Who: "una"}})
		w.revive(id)
	case 2, 3, 4:
		p.step("attempt.approved")
		if _, err := w.append(p, nil, journal.Record{Type: lifecycle.AttemptApproved, Attempt: id, Data: lifecycle.Approval{Who: "una", Evidence: r.EvidenceDigest, Target: branchRef}}); err == nil {
			w.publishAgain(p, id)
		}
	case 5:
		p.step("attempt.rejected-by")
		_, _ = w.append(p, nil, journal.Record{Type: lifecycle.AttemptDisallowed, Attempt: id, Data: lifecycle.Approval{Who: "una", Evidence: r.EvidenceDigest, Target: branchRef}})
	case 6, 7:
		w.publishAgain(p, id)
	case 8, 9, 10:
		w.runAgain(p)
	}
}

// pushByPerson puts a commit of theirs on top of ours.
func (w *world) pushByPerson() {
	w.ids++
	c := sallyport.ObjectID(digits('7', w.ids, 40))
	w.forge.owner[c] = "person"
	if w.forge.tip != "" {
		w.forge.tip = c
	}
	if w.disk.branch != "" {
		w.disk.branch = c
	}
}

// publishAgain is `sallyport publish`, and the end of approve.
func (w *world) publishAgain(p *party, id sallyport.AttemptID) {
	at := w.j.states[id]
	if at.Published || at.Report.State != sallyport.AttemptAccepted || w.order.Publish == "none" {
		return
	}
	if !at.Publishing {
		p.step("publication.intended")
		if _, err := w.append(p, nil, journal.Record{Type: lifecycle.PublicationIntended, Attempt: id, Data: w.publication(id, at.Report.Commit)}); err != nil {
			return
		}
	}
	for id != "" {
		id = w.driveOne(p, id)
	}
}

// runAgain is another run of the same WorkOrder, once all before have ended.
func (w *world) runAgain(p *party) {
	last := w.j.states[w.j.order[len(w.j.order)-1]]
	if last.Settled() && len(w.j.order) < 4 {
		if id := w.create(p, "", last.Report.Number+1, baseTree); id != "" {
			w.startDriver(id)
		}
	}
}

func (w *world) revive(id sallyport.AttemptID) {
	at := w.j.states[id]
	if (!at.Report.State.Ended() || at.Publishing) && w.free(id) {
		w.startDriver(id)
	}
}

// strangers are what others have at the same provider, and what bears our mark and cannot be attributed.
func (s *substrate) strangers() {
	for i, f := range []string{theirs, theirs, ours} {
		b := &box{factory: f}
		b.ID = sallyport.ResourceID(fmt.Sprintf("fake:%s:stranger-%d", f, i))
		b.Alive = true
		if f == theirs {
			b.Allocation, b.Attempt = sallyport.AllocationID(fmt.Sprint("alc_theirs", i)), "att_theirs"
		}
		s.boxes = append(s.boxes, b)
	}
}
