package sim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// truth is what really happened, kept apart from what anybody recorded. Laws go by it.
type truth struct {
	agents   map[sallyport.AttemptID]*agent
	answers  map[answer]bool // whether a check passes on a tree, really
	passed   map[answer]bool // on which trees checks ran in a sandbox of their own, and whether they passed once
	failures map[answer]bool // on which trees that they failed was remembered
	trees    map[sallyport.ObjectID]sallyport.ObjectID
	accepted map[sallyport.ObjectID]bool // commits
	signed   map[sallyport.Digest]sallyport.ObjectID
	until    map[sallyport.AttemptID]time.Duration // of the lease that was given last
	fences   map[sallyport.AttemptID]int64
	drivers  map[sallyport.AttemptID]*party // who has it; nil: given back
	fence    int64
	receipts map[string]int
	received int64 // the highest fence at the Publisher
}

// agent is what one Attempt's agent does.
type agent struct {
	n       int
	tree    sallyport.ObjectID
	exit    int
	changes bool
	finding sallyport.Severity
}

func newTruth() truth {
	return truth{agents: map[sallyport.AttemptID]*agent{}, answers: map[answer]bool{}, passed: map[answer]bool{}, failures: map[answer]bool{}, trees: map[sallyport.ObjectID]sallyport.ObjectID{}, accepted: map[sallyport.ObjectID]bool{},
		signed: map[sallyport.Digest]sallyport.ObjectID{}, until: map[sallyport.AttemptID]time.Duration{}, fences: map[sallyport.AttemptID]int64{}, drivers: map[sallyport.AttemptID]*party{}, receipts: map[string]int{}}
}

func (t *truth) agent(w *world, id sallyport.AttemptID) *agent {
	a := t.agents[id]
	if a == nil {
		w.ids++
		a = &agent{n: w.ids, tree: sallyport.ObjectID(digits('d', w.ids, 40)), changes: true}
		switch w.c.pick(16) {
		case 12:
			a.exit = 1
		case 13:
			a.changes = false
		case 14:
			a.finding = sallyport.SeverityWarn
		case 15:
			a.finding = sallyport.SeverityBlock
		}
		t.agents[id] = a
	}
	return a
}

// check runs one in a sandbox. Once in a while it does not answer twice alike.
func (t *truth) check(w *world, b *box) sallyport.CheckStatus {
	k := answer{b.tree, b.check}
	passes, known := t.answers[k]
	if !known {
		passes = w.c.pick(4) < 3
		t.answers[k] = passes
	} else if w.c.once(10) {
		passes = !passes
	}
	s := sallyport.CheckFailed
	if passes {
		s = sallyport.CheckPassed
	}
	if b.purpose == sallyport.PurposeValidate {
		t.passed[k] = t.passed[k] || passes
	}
	return s
}

// law is a sentence that holds. It is asked after every step; "" is yes.
type law struct {
	sentence string
	holds    func(*world, *happened) string
}

var laws = []law{
	{"never two live drivers: nobody takes a lease that another live process still has, and nothing is appended under a fence that is not the last one given out", oneDriver},
	{"no acceptance without a validation of that very tree", validated},
	{"nothing without our mark is touched", onlyOurs},
	{"a resource of an Attempt with a live lease is never destroyed by anybody else", livesOn},
	{"nothing is destroyed before the journal says that it is to go", announced},
	{"the allocation's intent is durable before its resource exists", intendedFirst},
	{"at most one open pull request per WorkOrder", onePull},
	{"what is published is an accepted, validated commit", headIsAccepted},
	{"a person's closed pull request stays closed, and no other is opened in its place", staysClosed},
	{"a person's commit is never overwritten", neverOverwritten},
	{"a nonce gives one receipt", oneReceipt},
	{"a Publisher begins nothing for a driver that a later one has replaced there", latestOnly},
	{"a credential that was sealed is recorded as gone only when it is", goneIsGone},
}

// atRest are asked once nothing goes wrong any more and reconcile has nothing left to do.
var atRest = []law{
	{"every allocation ends terminated or is reported", everythingEnds},
	{"every Attempt ends, and every publication is concluded", everyAttemptEnds},
	{"no token lives past its end, except one whose answer was lost before it was sealed", noToken},
	{"the journal's projections equal a replay", replayed},
}

func (w *world) violate(sentence, what string) {
	if w.law == "" {
		w.law, w.what = sentence, what
		w.say("AGAINST THE LAW: " + sentence + ": " + what)
	}
}

func (w *world) judge() {
	for _, l := range laws {
		if what := l.holds(w, &w.h); what != "" {
			w.violate(l.sentence, what)
			return
		}
	}
}

func (w *world) judgeRest() {
	for _, l := range atRest {
		if w.law != "" {
			return
		}
		if what := l.holds(w, &w.h); what != "" {
			w.violate(l.sentence, what)
		}
	}
}

func oneDriver(w *world, h *happened) string {
	t := &w.truth
	for _, e := range h.events {
		switch {
		case e.Type == lifecycle.LeaseAcquired:
			was := t.drivers[e.Attempt]
			if e.Fence <= t.fence {
				return fmt.Sprintf("fence %d after %d", e.Fence, t.fence)
			}
			if was != nil && !was.dead && w.now < t.until[e.Attempt] {
				return fmt.Sprintf("%s is driven by %d, and %d took its lease", e.Attempt, was.pid, h.by.pid)
			}
			t.fence, t.fences[e.Attempt], t.drivers[e.Attempt] = e.Fence, e.Fence, h.by
			t.until[e.Attempt] = w.now + leaseTTL
		case e.Fence != 0 && e.Fence != t.fences[e.Attempt]:
			return fmt.Sprintf("%s under fence %d, the last is %d", e.Type, e.Fence, t.fences[e.Attempt])
		case e.Fence == 0 && !journal.Unleased(e.Type):
			return string(e.Type) + " without a lease"
		case e.Type == lifecycle.LeaseReleased:
			t.drivers[e.Attempt] = nil
		case e.Fence != 0 && t.drivers[e.Attempt] != h.by:
			return fmt.Sprintf("%s by somebody who does not have the lease", e.Type)
		}
	}
	return ""
}

func validated(w *world, h *happened) string {
	for i := range h.events {
		e := &h.events[i]
		s := w.j.states[e.Attempt]
		switch e.Type {
		case lifecycle.AttemptSigned:
			w.truth.signed[s.Report.EvidenceDigest] = s.Report.Tree
			continue
		case lifecycle.AttemptDecided, lifecycle.AttemptApproved:
		default:
			continue
		}
		if s.Report.State != sallyport.AttemptAccepted {
			continue
		}
		if w.truth.signed[s.Report.EvidenceDigest] != s.Report.Tree || w.truth.trees[s.Report.Commit] != s.Report.Tree {
			return "evidence or commit of another tree"
		}
		for k := range w.order.Checks {
			a := answer{s.Report.Tree, k}
			passed, ran := w.truth.passed[a]
			if !ran {
				return fmt.Sprintf("check %d did not run on %s", k, s.Report.Tree)
			}
			if e.Type == lifecycle.AttemptDecided && !passed {
				return fmt.Sprintf("check %d never passed on %s", k, s.Report.Tree)
			}
			if e.Type == lifecycle.AttemptDecided && w.truth.failures[a] {
				return fmt.Sprintf("that check %d failed on %s was known", k, s.Report.Tree)
			}
		}
		w.truth.accepted[s.Report.Commit] = true
	}
	return ""
}

func onlyOurs(_ *world, h *happened) string {
	if b := h.destroyed; b != nil && (b.factory != ours || b.Allocation == "") {
		return "destroyed " + string(b.ID)
	}
	if h.closed != nil && !h.closed.ours {
		return fmt.Sprintf("closed pull request %d of %s", h.closed.Number, h.closed.Author)
	}
	return ""
}

// livesOn: a late holder may still carry out what it has announced; by then nobody works with that sandbox.
func livesOn(w *world, h *happened) string {
	b := h.destroyed
	if b == nil {
		return ""
	}
	d := w.truth.drivers[b.Attempt]
	if d == nil || d == h.destroyer || d.dead || w.now >= w.truth.until[b.Attempt] {
		return ""
	}
	if doomed(w, b) {
		return ""
	}
	return fmt.Sprintf("%s of %s, which %d drives, by %d", b.ID, b.Attempt, d.pid, h.destroyer.pid)
}

func doomed(w *world, b *box) bool { return marked(w.j.allocation(b.Allocation)) }

func announced(w *world, h *happened) string {
	if b := h.destroyed; b != nil && b.Allocation != "" && w.j.owner[b.Allocation] != "" && !doomed(w, b) {
		return fmt.Sprintf("%s, which is %s", b.ID, w.j.allocation(b.Allocation).State)
	}
	return ""
}

func intendedFirst(w *world, h *happened) string {
	if b := h.created; b != nil && w.j.owner[b.Allocation] == "" {
		return string(b.ID)
	}
	return ""
}

func onePull(w *world, _ *happened) string {
	n := 0
	for _, p := range w.forge.pulls {
		if p.ours && p.State == forge.Open {
			n++
		}
	}
	if n > 1 {
		return fmt.Sprintf("%d are open", n)
	}
	return ""
}

func headIsAccepted(w *world, h *happened) string {
	if h.pushed != nil && !w.truth.accepted[h.pushed.to] {
		return string(h.pushed.to)
	}
	return ""
}

// staysClosed goes by the last look before the intent: what a list does not show yet, or a person does after it, cannot be
// known.
func staysClosed(w *world, h *happened) string {
	if !h.opening {
		return ""
	}
	for _, pr := range h.last {
		if w.forge.pulls[pr.Number-1].byPerson {
			return fmt.Sprintf("%d was closed, and another one is to be opened", pr.Number)
		}
	}
	return ""
}

func neverOverwritten(_ *world, h *happened) string {
	if h.pushed != nil && h.pushed.foreign {
		return fmt.Sprintf("%s by %s", h.pushed.from, h.pushed.to)
	}
	return ""
}

func oneReceipt(w *world, h *happened) string {
	if h.receipt != "" {
		if w.truth.receipts[h.receipt]++; w.truth.receipts[h.receipt] > 1 {
			return h.receipt
		}
	}
	return ""
}

func latestOnly(w *world, h *happened) string {
	r := h.received
	if r == nil {
		return ""
	}
	if r.Fence < w.truth.received {
		return fmt.Sprintf("fence %d after %d", r.Fence, w.truth.received)
	}
	w.truth.received = r.Fence
	return ""
}

func goneIsGone(w *world, h *happened) string {
	if t := w.forge.tokens[h.gone]; h.gone != "" && t != nil && t.alive && t.sealed {
		return h.gone
	}
	return ""
}

// everythingEnds: what reconcile only goes on trying, or saying, has not ended.
func everythingEnds(w *world, _ *happened) string {
	var said string
	for _, l := range w.lines {
		if strings.HasPrefix(l, "report ") {
			said += l + "\n"
		}
	}
	for _, al := range w.j.allocations("") {
		if al.Open() && !strings.Contains(said, string(al.ID)) {
			return fmt.Sprintf("%s (%s) is %s for ever; reconcile says %q", al.ID, al.Purpose, al.State, w.lines)
		}
	}
	for _, b := range w.sub.boxes {
		if b.factory == ours && !strings.Contains(said, string(b.ID)) {
			return string(b.ID) + " is left"
		}
	}
	return ""
}

func everyAttemptEnds(w *world, _ *happened) string {
	for id, s := range w.j.states {
		if !s.Settled() {
			return fmt.Sprintf("%s is %s, publishing %v", id, s.Report.State, s.Publishing)
		}
	}
	return ""
}

func noToken(w *world, _ *happened) string {
	for mark, t := range w.forge.tokens {
		if t.alive && (t.sealed || w.opt.Calm) {
			return mark
		}
	}
	return ""
}

func replayed(w *world, _ *happened) string {
	again := map[sallyport.AttemptID]*lifecycle.State{}
	for _, e := range w.j.events {
		if e.Attempt == "" {
			continue
		}
		s := again[e.Attempt]
		if s == nil {
			s = &lifecycle.State{}
			again[e.Attempt] = s
		}
		if err := s.Apply(e); err != nil {
			return err.Error()
		}
	}
	for id, s := range again {
		if !reflect.DeepEqual(s, w.j.states[id]) {
			a, _ := json.Marshal(s)
			b, _ := json.Marshal(w.j.states[id])
			return fmt.Sprintf("replayed %s\nthere is %s", a, b)
		}
	}
	return ""
}
