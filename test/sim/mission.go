package sim

import (
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/decision"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Mission Control's processes. Each function repeats, step by step, the one of internal/control that steps.go names.

// The clocks of internal/control.
const (
	leaseTTL   = 30 * time.Second
	leaseEvery = 8 * time.Second
	cuts       = 4
)

const (
	workOrder = sallyport.WorkOrderID("wo_sim")
	branchRef = "refs/heads/sallyport/fix"
	baseRef   = "refs/heads/main"
)

var (
	baseTree = sallyport.ObjectID(strings.Repeat("b", 40))
	baseID   = sallyport.ObjectID(strings.Repeat("a", 40))
)

// driver is one process that drives one Attempt.
type driver struct {
	w       *world
	p       *party
	id      sallyport.AttemptID
	lease   journal.Lease
	renewed time.Duration
	lost    bool // the lease, and this process knows it
	busy    int  // in one of so many appends the journal is
}

// number is an id that no other of the history has.
func (w *world) number(prefix string) string {
	w.ids++
	return sallyport.FormatID(prefix, [16]byte{byte(w.ids >> 8), byte(w.ids)})
}

// digits is n as the end of a name of so many digits.
func digits(first byte, n, length int) string {
	s := strconv.Itoa(n)
	return string(first) + strings.Repeat("0", length-1-len(s)) + s
}

func digest(first byte, n int) sallyport.Digest {
	return sallyport.Digest("sha256:" + digits(first, n, 64))
}

// numberOf is n of one of digits's names.
func numberOf(s string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(s[len(s)-8:], "0"))
	return n
}

// submit makes the first Attempt and starts its driver.
func (w *world) submit(p *party) {
	id := w.create(p, "", 1, baseTree)
	if id != "" {
		w.startDriver(id)
	}
}

func (w *world) create(p *party, previous sallyport.AttemptID, n int, start sallyport.ObjectID) sallyport.AttemptID {
	p.step("attempt.created")
	id := sallyport.AttemptID(w.number(sallyport.AttemptPrefix))
	_, err := w.append(p, nil, journal.Record{Type: lifecycle.AttemptCreated, Attempt: id, Data: lifecycle.Created{WorkOrder: workOrder, Name: "fix", Number: n, Previous: previous,
		Manifest: digest('f', 1), Base: baseID, Repository: "/repo", Submitter: "una", StartTree: start, Separation: "none"}})
	if err != nil {
		return ""
	}
	return id
}

func (w *world) append(p *party, l *journal.Lease, records ...journal.Record) ([]lifecycle.Event, error) {
	events, err := w.j.Append(l, records...)
	w.h.by = p
	w.h.events = append(w.h.events, events...)
	return events, err
}

// startDriver is a new process; two for one Attempt are one too many only until one has the lease.
func (w *world) startDriver(id sallyport.AttemptID) {
	if len(w.parties) > 50 {
		return // a host has room for so many
	}
	w.start("driver", func(p *party) {
		for id != "" {
			id = w.driveOne(p, id)
		}
	})
}

// acquire is look and swap: others go between the two.
func (w *world) acquire(p *party, id sallyport.AttemptID) (journal.Lease, error) {
	for {
		p.step("look at the lease")
		seen, err := w.j.Look(id, w.holder(p), w.proven)
		if err != nil {
			return journal.Lease{}, err
		}
		p.step("lease.acquired")
		before := len(w.j.events)
		l, won, err := w.j.Swap(id, w.holder(p), leaseTTL, seen, w.proven)
		if err != nil || won {
			w.h.events = append(w.h.events, w.j.events[before:]...)
			return l, err
		}
	}
}

func (w *world) release(p *party, l journal.Lease) {
	p.step("lease.released")
	before := len(w.j.events)
	_ = w.j.Release(l)
	w.h.events = append(w.h.events, w.j.events[before:]...)
}

// driveOne drives one Attempt and names the next one, if any.
func (w *world) driveOne(p *party, id sallyport.AttemptID) (next sallyport.AttemptID) {
	at := w.j.states[id]
	if at.Report.State.Ended() && !at.Publishing {
		return ""
	}
	l, err := w.acquire(p, id)
	if err != nil {
		return ""
	}
	d := &driver{w: w, p: p, id: id, lease: l, renewed: w.now, busy: 200}
	if at.Publishing {
		_ = d.finishPublication()
	} else {
		next = d.run()
	}
	w.release(p, d.lease)
	return next
}

func (d *driver) run() sallyport.AttemptID {
	err := d.steps()
	switch {
	case err == nil:
		return d.again()
	case d.lost || sallyport.CodeOf(err) == sallyport.CodeFenced:
		return ""
	}
	d.fail(err)
	return ""
}

func (d *driver) steps() error {
	if err := d.tidy(); err != nil {
		return err
	}
	for _, step := range []func() error{d.execute, d.importChange, d.inspect, d.validate, d.conclude} {
		if d.attempt().Report.State.Ended() {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// step is keepLease beside whatever else the process does. A ticker may be starved.
func (d *driver) step(what string) error {
	if d.w.now-d.renewed >= leaseEvery && d.w.c.pick(6) < 5 {
		d.p.step("renew")
		l, err := d.w.j.Renew(d.lease, leaseTTL)
		if sallyport.CodeOf(err) == sallyport.CodeFenced {
			d.lost = true
		}
		if err == nil {
			d.lease, d.renewed = l, d.w.now
			d.w.truth.until[d.id] = l.Until
		}
	}
	if d.lost {
		return errFenced
	}
	d.p.step(what)
	return nil
}

func (d *driver) sleep(t time.Duration) error {
	for t > 0 {
		d.p.until = d.w.now + min(t, leaseEvery)
		if err := d.step("sleep"); err != nil {
			return err
		}
		t -= leaseEvery
	}
	return nil
}

// record appends under the lease. Once in a while the journal is busy for too long.
func (d *driver) record(records ...journal.Record) error {
	return d.recordAs(string(records[0].Type), records...)
}

func (d *driver) recordAs(what string, records ...journal.Record) error {
	if err := d.step(what); err != nil {
		return err
	}
	if d.w.c.once(d.busy) {
		return errUnavailable
	}
	for i := range records {
		records[i].Attempt = d.id
	}
	_, err := d.w.append(d.p, &d.lease, records...)
	return err
}

func (d *driver) attempt() *lifecycle.State { return d.w.j.states[d.id] }

func (d *driver) cancelled() bool { return d.attempt().CancelRequested }

func (d *driver) stage(s sallyport.AttemptState) error {
	if d.attempt().Report.State == s {
		return nil
	}
	return d.recordAs("attempt.stage "+string(s), journal.Record{Type: lifecycle.AttemptStage, Data: lifecycle.Stage{State: s, Seconds: 1}})
}

// because is an error that is a person's reason, and errCancelled their own wish.
type because string

func (b because) Error() string { return string(b) }

const errCancelled = because("cancelled")

// whileCut repeats what a later driver would do.
func (d *driver) whileCut(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		code := sallyport.CodeOf(err)
		if err == nil || d.lost || try == cuts || code != sallyport.CodeUnavailable && code != sallyport.CodeUnknown {
			return err
		}
		if err := d.sleep(time.Duration(try) * 100 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (d *driver) execute() error {
	at := d.attempt()
	if at.Report.Bundle != "" {
		return nil
	}
	if err := d.stage(sallyport.AttemptPreparing); err != nil {
		return err
	}
	spec, rid, err := d.executor(at)
	if err != nil {
		return err
	}
	return d.whileCut(func() error {
		b, err := d.connect(rid)
		if err != nil {
			return err
		}
		if err := d.beginIn(spec, b); err != nil {
			return err
		}
		if err := d.follow(b); err != nil {
			return err
		}
		return d.collect(spec, b)
	})
}

func (d *driver) executor(at *lifecycle.State) (spec box, rid sallyport.ResourceID, err error) {
	for _, al := range d.w.j.allocations(d.id) {
		if al.Purpose != sallyport.PurposeExecute {
			continue
		}
		if al.State == sallyport.SandboxTerminated {
			return spec, "", because("sandbox-lost")
		}
		known := false
		if spec, known = d.w.disk.frozen[al.ID]; !known {
			return spec, "", because("corrupt")
		}
		if al.State != sallyport.SandboxProvisioning {
			return spec, al.Resource, nil
		}
		break
	}
	if spec.Allocation == "" {
		if spec, err = d.intend(sallyport.PurposeExecute, at.StartTree, 0); err != nil {
			return spec, "", err
		}
		if d.cancelled() {
			return spec, "", errCancelled
		}
	}
	rid, err = d.make(spec)
	return spec, rid, err
}

// intend makes spec and intent durable.
func (d *driver) intend(purpose sallyport.Purpose, tree sallyport.ObjectID, check int) (spec box, err error) {
	if err := d.step("the spec is written"); err != nil {
		return spec, err
	}
	spec = box{purpose: purpose, tree: tree, check: check}
	spec.Allocation, spec.Attempt = sallyport.AllocationID(d.w.number(sallyport.AllocationPrefix)), d.id
	d.w.disk.frozen[spec.Allocation] = spec
	if d.w.opt.Broken == CreateFirst {
		_, _ = d.w.sub.create(spec)
	}
	return spec, d.record(journal.Record{Type: lifecycle.AllocationIntended, Allocation: spec.Allocation, Data: lifecycle.Intended{Purpose: purpose, Provider: "fake", Spec: digest('c', 1), Label: "x"}})
}

func (d *driver) make(spec box) (rid sallyport.ResourceID, err error) {
	err = d.whileCut(func() (err error) {
		if err := d.step("create"); err != nil {
			return err
		}
		rid, err = d.w.sub.create(spec)
		return err
	})
	if err != nil {
		return "", err
	}
	return rid, d.record(journal.Record{Type: lifecycle.AllocationBound, Allocation: spec.Allocation, Data: lifecycle.Bound{Resource: rid}})
}

func (d *driver) connect(rid sallyport.ResourceID) (*box, error) {
	if err := d.step("connect"); err != nil {
		return nil, err
	}
	return d.w.sub.connect(rid, d.lease.Fence)
}

// there is an error where the sandbox behind a wire is gone.
func (d *driver) there(b *box) error {
	if d.w.sub.find(b.ID) != b {
		return errUnavailable
	}
	if b.fence > d.lease.Fence {
		return errUnavailable // a later driver connected, which ends this wire
	}
	return nil
}

func (d *driver) beginIn(spec box, b *box) error {
	al := d.w.j.allocation(spec.Allocation)
	if al.State == sallyport.SandboxProvisioning {
		if err := d.record(journal.Record{Type: lifecycle.AttemptLayers, Data: lifecycle.Layers{}}, journal.Record{Type: lifecycle.AllocationReady, Allocation: al.ID}); err != nil {
			return err
		}
	}
	if err := d.stage(sallyport.AttemptRunning); err != nil {
		return err
	}
	if al.State == sallyport.SandboxProvisioning || al.State == sallyport.SandboxReady {
		if err := d.record(journal.Record{Type: lifecycle.AllocationRunning, Allocation: al.ID}); err != nil {
			return err
		}
	}
	return d.startIn(b)
}

func (d *driver) startIn(b *box) error {
	if err := d.step("start"); err != nil {
		return err
	}
	if err := d.there(b); err != nil {
		return err
	}
	b.started = true
	return nil
}

func (d *driver) follow(b *box) error {
	for range 1 + d.w.c.pick(3) {
		if err := d.sleep(time.Second * 5); err != nil {
			return err
		}
		if err := d.there(b); err != nil {
			return err
		}
		if d.cancelled() {
			b.stopped = true
			break
		}
	}
	return nil
}

func (d *driver) collect(spec box, b *box) error {
	ended := "exit"
	exit := d.w.truth.agent(d.w, d.id).exit
	if b.stopped {
		ended, exit = "cancelled", -1
	}
	if err := d.record(journal.Record{Type: lifecycle.AttemptAgent, Data: sallyport.AgentResult{Exit: exit, Ended: ended, By: "keeper"}}); err != nil {
		return err
	}
	if err := d.stage(sallyport.AttemptCollecting); err != nil {
		return err
	}
	if err := d.step("into quarantine"); err != nil {
		return err
	}
	if err := d.there(b); err != nil {
		return err
	}
	if err := d.record(journal.Record{Type: lifecycle.AttemptBundle, Data: lifecycle.Bundle{Digest: digest('d', d.w.truth.agent(d.w, d.id).n), Bytes: 1}},
		journal.Record{Type: lifecycle.AllocationResult, Allocation: spec.Allocation}); err != nil {
		return err
	}
	return d.destroy(spec.Allocation, b.ID)
}

func (d *driver) destroy(a sallyport.AllocationID, rid sallyport.ResourceID) error {
	if d.w.opt.Broken == DestroyFirst {
		_ = d.w.sub.destroy(d.p, rid)
	}
	if err := d.record(journal.Record{Type: lifecycle.AllocationTeardown, Allocation: a, Data: sallyport.Reason{Code: "teardown"}}); err != nil {
		return err
	}
	return d.finishDestroy(a, rid)
}

func (d *driver) finishDestroy(a sallyport.AllocationID, rid sallyport.ResourceID) error {
	err := d.erase(rid)
	if err == nil {
		return d.gone(a)
	}
	if d.lost {
		return err
	}
	if s := d.w.j.allocation(a).State; s == sallyport.SandboxFailed || s == sallyport.SandboxOrphaned {
		return nil
	}
	return d.record(journal.Record{Type: lifecycle.AllocationFailed, Allocation: a, Data: sallyport.Reason{Code: "not-destroyed"}})
}

func (d *driver) gone(a sallyport.AllocationID) error {
	if err := d.step("the spec is removed"); err != nil {
		return err
	}
	delete(d.w.disk.frozen, a)
	return d.record(journal.Record{Type: lifecycle.AllocationTerminated, Allocation: a, Data: sallyport.Reason{Code: "gone"}})
}

func (d *driver) erase(rid sallyport.ResourceID) (err error) {
	for try := range 5 {
		if try > 0 {
			if err := d.sleep(time.Duration(try) * 200 * time.Millisecond); err != nil {
				return err
			}
		}
		if err := d.step("destroy"); err != nil {
			return err
		}
		if err = d.w.sub.destroy(d.p, rid); err != nil {
			continue
		}
		if err := d.step("look up"); err != nil {
			return err
		}
		if err = d.w.sub.lookup(rid); sallyport.CodeOf(err) == sallyport.CodeNotFound {
			return nil
		}
		if err == nil {
			err = errUnavailable
		}
	}
	return err
}

// resource is an Allocation's exact id, also where a crash came before it was bound.
func (d *driver) resource(al lifecycle.Allocation) (sallyport.ResourceID, error) {
	if al.Resource != "" {
		return al.Resource, nil
	}
	if err := d.step("list"); err != nil {
		return "", err
	}
	list, err := d.w.sub.list()
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if s.Allocation == al.ID {
			return s.ID, nil
		}
	}
	return "", nil
}

func (d *driver) tidy() error {
	for _, al := range d.w.j.allocations(d.id) {
		if al.State == sallyport.SandboxTerminated || al.Purpose == sallyport.PurposeExecute && al.State != sallyport.SandboxTeardown {
			continue
		}
		if err := d.drop(al); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) destroyAll() error {
	for _, al := range d.w.j.allocations(d.id) {
		if al.State == sallyport.SandboxTerminated {
			continue
		}
		if err := d.drop(al); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) drop(al lifecycle.Allocation) error {
	rid, err := d.resource(al)
	if err != nil {
		return err
	}
	if rid == "" {
		return d.record(journal.Record{Type: lifecycle.AllocationTerminated, Allocation: al.ID, Data: sallyport.Reason{Code: "never-made"}})
	}
	if al.State == sallyport.SandboxTeardown || al.State == sallyport.SandboxFailed {
		return d.finishDestroy(al.ID, rid)
	}
	return d.destroy(al.ID, rid)
}

func (d *driver) importChange() error {
	at := d.attempt()
	a := d.w.truth.agent(d.w, d.id)
	if at.Imported == nil {
		if err := d.stage(sallyport.AttemptInspecting); err != nil {
			return err
		}
		var changes []sallyport.Change
		if a.changes {
			changes = []sallyport.Change{{Path: "value", Status: sallyport.ChangeModified}}
		}
		if err := d.record(journal.Record{Type: lifecycle.AttemptImported, Data: lifecycle.Imported{Tree: a.tree, Changes: changes}}); err != nil {
			return err
		}
	}
	switch r := d.attempt().Report.Agent; {
	case r.Ended == "cancelled":
		return errCancelled
	case r.Exit != 0:
		return because("agent-failed")
	}
	return nil
}

func (d *driver) inspect() error {
	if d.attempt().Report.State != sallyport.AttemptInspecting {
		return nil
	}
	var found []sallyport.Finding
	if s := d.w.truth.agent(d.w, d.id).finding; s != "" {
		found = []sallyport.Finding{{Rule: "ci.changed", Severity: s, Path: "value", Message: "m"}}
	}
	return d.record(journal.Record{Type: lifecycle.AttemptFindings, Data: lifecycle.Findings{Findings: found}})
}

func (d *driver) validate() error {
	at := d.attempt()
	if len(at.Imported.Changes) == 0 || d.w.truth.agent(d.w, d.id).finding == sallyport.SeverityBlock {
		return nil
	}
	if err := d.stage(sallyport.AttemptValidating); err != nil {
		return err
	}
	for k := range d.w.order.Checks {
		if k < len(at.Report.Checks) {
			continue // an earlier driver has recorded it: they come in policy's order
		}
		r, err := d.judgeOnce(k, at.Imported.Tree)
		if err != nil {
			return err
		}
		if err := d.record(journal.Record{Type: lifecycle.AttemptCheck, Data: r}); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) judgeOnce(k int, tree sallyport.ObjectID) (sallyport.CheckResult, error) {
	r := sallyport.CheckResult{Name: "check-" + strconv.Itoa(k), Run: "true", Exit: -1, StatusBy: "keeper"}
	if d.cancelled() {
		return r, errCancelled
	}
	before, known := d.w.disk.remembered[answer{tree, k}]
	if known && before == sallyport.CheckPassed {
		r.Status = before
		return r, nil
	}
	var err error
	if r.BaseStatus, err = d.onBase(k); err != nil {
		return r, err
	}
	on := tree
	if d.w.opt.Broken == WrongTree {
		on = baseTree
	}
	if r.Status, err = d.runOnce(sallyport.PurposeValidate, on, k); err != nil {
		return r, err
	}
	if d.cancelled() {
		return r, errCancelled
	}
	if known && before != r.Status && r.Status == sallyport.CheckPassed {
		r.Status = sallyport.CheckFlaky
	}
	if r.Status != sallyport.CheckError {
		r.Status, err = d.remember(answer{tree, k}, r.Status)
	}
	return r, err
}

// remember keeps s, beside what another may have kept meanwhile.
func (d *driver) remember(a answer, s sallyport.CheckStatus) (sallyport.CheckStatus, error) {
	if err := d.step("the answer is remembered"); err != nil {
		return s, err
	}
	if was, known := d.w.disk.remembered[a]; known && was != s && s == sallyport.CheckPassed && d.w.opt.Broken != LastWord {
		s = sallyport.CheckFlaky
	}
	d.w.disk.remembered[a] = s
	d.w.truth.failures[a] = d.w.truth.failures[a] || s == sallyport.CheckFailed
	return s, nil
}

// onBase is the check on the untouched base, once. Of a real driver it runs beside the agent, in threads of its own.
func (d *driver) onBase(k int) (sallyport.CheckStatus, error) {
	if s, known := d.w.disk.remembered[answer{baseTree, k}]; known {
		return s, nil
	}
	s, err := d.runOnce(sallyport.PurposeBase, baseTree, k)
	if err != nil || s == sallyport.CheckError {
		return s, err
	}
	if err := d.step("the answer is remembered"); err != nil {
		return s, err
	}
	d.w.disk.remembered[answer{baseTree, k}] = s
	return s, nil
}

func (d *driver) runOnce(purpose sallyport.Purpose, tree sallyport.ObjectID, k int) (sallyport.CheckStatus, error) {
	spec, err := d.intend(purpose, tree, k)
	if err != nil {
		return "", err
	}
	rid, err := d.make(spec)
	if err != nil {
		return "", err
	}
	status := sallyport.CheckError
	err = d.whileCut(func() (err error) { status, err = d.runIn(spec, rid); return err })
	if derr := d.destroy(spec.Allocation, rid); err == nil {
		err = derr
	}
	return status, err
}

func (d *driver) runIn(spec box, rid sallyport.ResourceID) (sallyport.CheckStatus, error) {
	b, err := d.connect(rid)
	if err != nil {
		return "", err
	}
	if d.w.j.allocation(spec.Allocation).State == sallyport.SandboxProvisioning {
		if err := d.record(journal.Record{Type: lifecycle.AllocationReady, Allocation: spec.Allocation}, journal.Record{Type: lifecycle.AllocationRunning, Allocation: spec.Allocation}); err != nil {
			return "", err
		}
	}
	if err := d.startIn(b); err != nil {
		return "", err
	}
	if err := d.sleep(time.Second); err != nil {
		return "", err
	}
	if err := d.there(b); err != nil {
		return "", err
	}
	return d.w.truth.check(d.w, b), nil
}

func (d *driver) conclude() error {
	at := d.attempt()
	if err := d.stage(sallyport.AttemptDeciding); err != nil {
		return err
	}
	checks := at.Report.Checks
	if d.w.opt.Broken == NoChecks {
		checks = []sallyport.CheckResult{{Name: "check-0", Status: sallyport.CheckPassed}}
	}
	concluded, why := decision.Decide(decision.Verdict{Changes: len(at.Imported.Changes), Findings: at.Report.Findings, Checks: checks, AtBest: d.w.order.AtBest, Approve: d.w.order.Approve})
	commit := sallyport.ObjectID("")
	if len(at.Imported.Changes) > 0 {
		commit = commitOf(at)
		d.w.truth.trees[commit] = at.Imported.Tree
	}
	if d.w.opt.Broken == Hasty && commit != "" {
		if err := d.handOver(at, lifecycle.Publication{Target: "pr", Branch: branchRef, Commit: commit, Repository: "r", Base: baseRef, Nonce: d.w.number("n")}); err != nil {
			return err
		}
	}
	if err := d.step("the evidence is written"); err != nil {
		return err
	}
	d.w.ids++
	if err := d.record(journal.Record{Type: lifecycle.AttemptSigned, Data: lifecycle.Signed{Path: "e", Digest: digest('e', d.w.ids), KeyID: "k", Commit: commit}},
		journal.Record{Type: lifecycle.Checkpoint, Data: struct{}{}}); err != nil {
		return err
	}
	if err := d.destroyAll(); err != nil {
		return err
	}
	records := []journal.Record{{Type: lifecycle.AttemptDecided, Data: lifecycle.Decided{Decision: concluded, Reason: why, Seconds: 1}}}
	publishing := concluded == sallyport.DecisionAccepted && d.w.order.Publish != "none"
	if publishing {
		records = append(records, journal.Record{Type: lifecycle.PublicationIntended, Data: d.w.publication(d.id, commit)})
	}
	if err := d.record(records...); err != nil || !publishing {
		return err
	}
	return d.finishPublication()
}

// commitOf: the same Attempt always gives the same commit.
func commitOf(at *lifecycle.State) sallyport.ObjectID {
	return sallyport.ObjectID(digits('c', at.Report.Number*10000+numberOf(string(at.Imported.Tree)), 40))
}

func (d *driver) fail(cause error) {
	if err := d.destroyAll(); d.lost || sallyport.CodeOf(err) == sallyport.CodeFenced {
		return
	}
	if cause == errCancelled {
		_ = d.record(journal.Record{Type: lifecycle.AttemptCancelled, Data: sallyport.Reason{Code: "cancelled"}})
		return
	}
	_ = d.record(journal.Record{Type: lifecycle.AttemptFailed, Data: sallyport.Reason{Code: "internal", Message: cause.Error()}})
}

// again starts the next Attempt of an order that allows more.
func (d *driver) again() sallyport.AttemptID {
	at := d.attempt()
	if at.Report.Decision != sallyport.DecisionRejected || at.Report.Number >= d.w.order.Attempts || len(at.Report.Changes) == 0 {
		return ""
	}
	for _, id := range d.w.j.order {
		if !d.w.j.states[id].Report.State.Ended() {
			return ""
		}
	}
	return d.w.create(d.p, d.id, at.Report.Number+1, at.Report.Tree)
}
