package sim

import (
	"iter"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/publisher"
)

const factory = "fac_sim"

// Options say what one history is like.
type Options struct {
	Broken Broken // a rule that is broken on purpose; "": none
	// Calm: nothing goes wrong and nobody but the drivers acts, as in a real run of the main job.
	Calm bool
	// Order is what is asked for; nil: drawn.
	Order *Order
	// Trace: Result has a line for each step.
	Trace bool

	journal  func(call)
	provider func(deed)
}

// Order is a WorkOrder and what becomes of it.
type Order struct {
	Checks   int    // 1 or 2
	Publish  string // branch, pr, none
	Approve  string // always, on-finding, never
	Attempts int    // 1 or 2
	AtBest   sallyport.Decision
}

// Result is how a history went.
type Result struct {
	Steps   int
	Law     string // the sentence that does not hold; "": all do
	What    string // what was seen
	Choices []byte
	Trace   []string
	Events  []lifecycle.Event
	Taken   []string // the names of all steps, where Trace is set
	Ends    map[sallyport.AttemptState]int
}

// happened is what one step did. Laws look at it.
type happened struct {
	by        *party
	events    []lifecycle.Event
	created   *box
	destroyed *box
	destroyer *party
	pushed    *move
	opening   bool                // one is about to be opened
	last      []forge.PullRequest // that was seen last before that
	closed    *pull
	gone      string // the mark of a credential that was recorded as gone
	received  *publisher.Received
	receipt   string // the nonce that a receipt was made for
}

// world is one history.
type world struct {
	opt     Options
	c       *chooser
	now     time.Duration
	steps   int
	j       *memory
	sub     *substrate
	forge   *remote
	ledger  *ledger
	disk    disk
	order   Order
	parties []*party
	pids    int
	ids     int
	late    []func()
	h       happened
	truth   truth
	law     string
	what    string
	trace   []string
	taken   []string
	slow    bool     // requests to Publishers take their time
	rough   int      // the less, the more goes wrong
	lines   []string // of the last reconciliation
	remote  bool     // Mission Controls cannot prove each other's holders dead
}

// disk is the state folder of Mission Control, beside the journal.
type disk struct {
	frozen      map[sallyport.AllocationID]box
	remembered  map[answer]sallyport.CheckStatus // of base and tree
	acceptances map[string]acceptance            // by nonce
	branch      sallyport.ObjectID               // of the repository
	mine        map[sallyport.ObjectID]bool      // what we wrote to it
}

type answer struct {
	tree  sallyport.ObjectID
	check int
}

// party is one process. It yields before each of its steps.
type party struct {
	w      *world
	pid    int
	name   string
	at     string // its next step
	until  time.Duration
	paused bool
	dead   bool
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

type killed struct{}

// start has a process live; its first step comes when it is chosen.
func (w *world) start(name string, life func(*party)) *party {
	w.pids++
	p := &party{w: w, pid: w.pids, name: name}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if p.dead {
				_ = recover() // killed, from where step found out
			}
		}()
		p.yield = yield
		life(p)
	})
	w.parties = append(w.parties, p)
	return p
}

// step lets everybody else go first; what comes after it is one durable write or one effect.
func (p *party) step(what string) {
	p.at = what
	if !p.yield(struct{}{}) {
		panic(killed{})
	}
}

// sleep is a step that does nothing, after some time.
func (p *party) sleep(d time.Duration) {
	p.until = p.w.now + d
	p.step("sleep")
}

// kill ends a process where it stands.
func (p *party) kill() {
	p.dead = true
	p.stop()
}

func (w *world) resume(p *party) {
	p.paused = false
	w.h = happened{by: p}
	if w.opt.Trace && p.at != "sleep" && p.at != "" {
		w.trace = append(w.trace, w.now.String()+" "+p.name+": "+p.at)
		w.taken = append(w.taken, p.name+": "+p.at)
	}
	if _, more := p.next(); !more {
		p.dead = true
	}
	w.judge()
}

func (w *world) holder(p *party) journal.Holder {
	return journal.Holder{Host: "h", Boot: boot, PID: p.pid, StartTime: 1, PIDSpace: 1}
}

// proven is what a process can know of another's death.
func (w *world) proven(h journal.Holder) bool { return !w.remote && w.isDead(h) }

func (w *world) isDead(h journal.Holder) bool {
	return !slices.ContainsFunc(w.parties, func(p *party) bool { return p.pid == h.PID && !p.dead })
}

// Run lives one history through.
func Run(c *chooser, opt Options) Result {
	w := newWorld(c, opt)
	defer func() {
		for _, p := range w.parties {
			p.kill()
		}
	}()
	if opt.Calm {
		c.calmed = true
	}
	w.begin()
	w.chaos()
	w.rest()
	r := Result{Steps: w.steps, Law: w.law, What: w.what, Choices: c.made, Trace: w.trace, Taken: w.taken, Events: w.j.events, Ends: map[sallyport.AttemptState]int{}}
	for _, s := range w.j.states {
		r.Ends[s.Report.State]++
	}
	return r
}

func newWorld(c *chooser, opt Options) *world {
	w := &world{opt: opt, c: c, now: time.Hour, truth: newTruth()}
	w.j = newMemory(&w.now, opt.Broken)
	w.j.told = opt.journal
	w.sub = &substrate{w: w, told: opt.provider}
	w.forge = &remote{w: w, tokens: map[string]*token{}, owner: map[sallyport.ObjectID]string{}}
	w.ledger = &ledger{w: w}
	w.disk = disk{frozen: map[sallyport.AllocationID]box{}, remembered: map[answer]sallyport.CheckStatus{}, acceptances: map[string]acceptance{}, mine: map[sallyport.ObjectID]bool{}}
	return w
}

// begin is a submitted WorkOrder in a world that is not ours alone.
func (w *world) begin() {
	if w.opt.Order != nil {
		w.order = *w.opt.Order
	} else {
		w.order = Order{Checks: 1 + w.c.pick(2), Publish: []string{"pr", "branch", "pr", "none"}[w.c.pick(4)], Approve: []string{"never", "on-finding", "always"}[w.c.pick(3)],
			Attempts: 1 + w.c.pick(2), AtBest: sallyport.DecisionAccepted}
		if w.c.once(8) {
			w.order.AtBest = sallyport.DecisionAwaitingApproval
		}
	}
	w.rough = 160
	if !w.opt.Calm && w.c.once(3) {
		w.untilPublishing()
	}
	w.remote, w.slow = w.c.once(4), w.c.once(6)
	w.forge.finds = !w.c.once(3)
	w.forge.identity = [...]string{"bot", ""}[w.c.pick(2)]
	if !w.opt.Calm {
		w.sub.strangers()
		w.forge.strangers()
		for range 2 {
			w.start("mission control", func(p *party) {
				for range 3 {
					p.sleep(time.Duration(2+w.c.pick(40)) * time.Second)
					w.reconcile(p)
				}
			})
		}
		for range w.c.pick(5) {
			w.start("person", func(p *party) { w.person(p) })
		}
	}
	if len(w.j.order) == 0 {
		w.start("submit", func(p *party) { w.submit(p) })
	}
}

// untilPublishing has an Attempt accepted before anything goes wrong, so that all of that is about publishing; or two, of
// which the first is published already.
func (w *world) untilPublishing() {
	w.order = Order{Checks: 1, Publish: "pr", Approve: "never", Attempts: 1, AtBest: sallyport.DecisionAccepted}
	w.rough = 80
	again := w.c.once(2)
	w.c.calmed = true
	defer func() { w.c.calmed = false }()
	w.start("submit", func(p *party) { w.submit(p) })
	for w.law == "" && len(w.disk.acceptances) < 2 {
		p := w.choose()
		switch {
		case p != nil:
			w.resume(p)
			if !again && len(w.disk.acceptances) > 0 {
				return
			}
		case len(w.j.order) == 1:
			w.start("person", func(p *party) { w.runAgain(p) })
		default:
			return
		}
	}
}

// most is how many steps go wrong before it calms down.
const most = 400

// chaos has everybody go on, and things go wrong, until there is nothing left to be done.
func (w *world) chaos() {
	for w.steps < most && w.law == "" {
		p := w.choose()
		if p == nil {
			return
		}
		w.steps++
		w.misfortune()
		if !p.dead && w.law == "" {
			w.resume(p)
		}
	}
}

// choose is a process that can go on, after as much time as the next one needs. nil: nobody will.
func (w *world) choose() *party {
	w.parties = slices.DeleteFunc(w.parties, func(p *party) bool { return p.dead })
	var ready [64]*party
	for {
		n := 0
		soonest := time.Duration(-1)
		for _, p := range w.parties {
			switch {
			case p.until > w.now:
				if soonest < 0 || p.until < soonest {
					soonest = p.until
				}
			case n < len(ready):
				ready[n] = p
				n++
			}
		}
		if n > 0 {
			return ready[w.c.pick(n)]
		}
		if soonest < 0 {
			return nil
		}
		w.now = soonest
	}
}

// misfortune lets time pass, and once in a while something happens to somebody.
func (w *world) misfortune() {
	w.now += 50 * time.Millisecond
	v := 160 - w.rough + w.c.pick(w.rough)
	if v < 120 {
		return
	}
	switch {
	case v < 130:
		w.now += 2 * time.Second
	case v < 132: // the machine is suspended
		w.now += 40 * time.Second
	case v < 138:
		w.victim(func(p *party) { w.say("crash of " + p.name); p.kill() })
	case v < 144:
		w.victim(func(p *party) {
			w.say("pause of " + p.name)
			p.until, p.paused = w.now+[...]time.Duration{40 * time.Second, 5 * time.Second, 2 * time.Hour}[w.c.pick(3)], true
		})
	case v < 152:
		if len(w.late) > 0 {
			w.land(w.c.pick(len(w.late)))
		}
	case v < 155:
		if n := len(w.sub.boxes); n > 0 {
			if b := w.sub.boxes[w.c.pick(n)]; b.factory == ours && b.Allocation != "" {
				w.say("vanished: " + string(b.Allocation))
				w.sub.drop(b)
				w.sub.tell(deed{method: "Vanish", allocation: b.Allocation})
			}
		}
	case v < 158:
		w.atTheForge()
	default:
		for _, b := range w.sub.boxes {
			b.hidden = b.hidden && !w.c.once(2)
		}
	}
}

// atTheForge is what a person does there, where there is anything to do it to.
func (w *world) atTheForge() {
	if w.forge.tip == "" && w.disk.branch == "" {
		return
	}
	w.h = happened{}
	switch w.c.pick(5) {
	case 0, 1:
		w.say("a person closes our pull request")
		w.forge.closeByPerson()
	case 2:
		w.say("a person pushes")
		w.pushByPerson()
	case 3:
		w.say("a person deletes the branch")
		w.forge.tip, w.disk.branch = "", ""
	case 4:
		w.say("a person opens a pull request")
		w.forge.openByPerson()
	}
}

func (w *world) victim(do func(*party)) {
	if n := len(w.parties); n > 0 {
		do(w.parties[w.c.pick(n)])
	}
}

// land does one deed whose answer was lost.
func (w *world) land(i int) {
	do := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.h = happened{}
	w.say("it happens late")
	do()
	w.judge()
}

func (w *world) say(what string) {
	if w.opt.Trace {
		w.trace = append(w.trace, w.now.String()+" "+what)
	}
}

// rest ends all that goes wrong, and has reconcile run until it has nothing left to do.
func (w *world) rest() {
	w.c.calmed = true
	w.say("calm")
	for len(w.late) > 0 && w.law == "" {
		w.land(0)
	}
	for _, p := range w.parties {
		if p.paused {
			p.until = w.now
		}
	}
	w.quiet()
	for range 8 {
		w.now += leaseTTL // whoever died without a proof has none any more
		events, records := len(w.j.events), len(w.ledger.records)
		w.start("mission control", func(p *party) { w.reconcile(p) })
		w.quiet()
		w.start("publisher", func(p *party) { w.sweepAll(p) })
		w.quiet()
		if w.law != "" {
			return
		}
		if w.idle(events) && len(w.ledger.records) == records {
			break
		}
	}
	w.judgeRest()
}

// idle says that a reconciliation changed nothing but who held a lease for a moment.
func (w *world) idle(since int) bool {
	return !slices.ContainsFunc(w.j.events[since:], func(e lifecycle.Event) bool {
		return e.Type != lifecycle.LeaseAcquired && e.Type != lifecycle.LeaseReleased
	})
}

// quiet has everybody go on to their end.
func (w *world) quiet() {
	for n := 0; n < 5000 && w.law == ""; n++ {
		p := w.choose()
		if p == nil {
			return
		}
		w.steps++
		w.now += 50 * time.Millisecond
		w.resume(p)
	}
	if w.law == "" {
		w.violate("everybody comes to an end once nothing goes wrong any more", "5000 steps were not enough")
	}
}
