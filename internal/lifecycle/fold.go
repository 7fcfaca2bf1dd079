package lifecycle

import (
	"slices"

	"sallyport.dev/sallyport"
)

// Apply folds one event into s. The same call serves live operation and replay.
//
// CodeConflict, in a sentence that names event and state, where the tables or a guard do not allow it;
// CodeInvalid for a payload of the wrong shape. After an error s is as it was before. e.Attempt must be
// the Attempt that s is about; an allocation event needs its Allocation in s.Allocations.
func (s *State) Apply(e Event) error {
	if s.Exists() && e.Attempt != s.Report.Attempt {
		return invalid(e.Type, "event of %q applied to attempt %q", e.Attempt, s.Report.Attempt)
	}
	if h, ok := attemptHandlers[e.Type]; ok {
		return h(s, e)
	}
	if h, ok := allocationHandlers[e.Type]; ok {
		return s.applyAllocation(e, h)
	}
	return invalid(e.Type, "this version does not know the event")
}

// Known reports whether t is an event of this version.
func Known(t Type) bool {
	_, a := attemptHandlers[t]
	_, b := allocationHandlers[t]
	return a || b
}

// OfAllocation reports whether t is about an Allocation.
func OfAllocation(t Type) bool {
	_, ok := allocationHandlers[t]
	return ok
}

// Fold applies the events of one Attempt, in order, to an empty State.
func Fold(events []Event) (State, error) {
	var s State
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			return s, err
		}
	}
	return s, nil
}

var attemptHandlers = map[Type]func(*State, Event) error{
	AttemptCreated:      on(create),
	AttemptStage:        on(stage),
	AttemptBundle:       on(bundle),
	AttemptImported:     on(imported),
	AttemptFindings:     on(findings),
	AttemptCheck:        on(check),
	AttemptAgent:        on(agent),
	AttemptSetup:        on(setup),
	AttemptLayers:       on(layers),
	AttemptNotice:       on(notice),
	AttemptLog:          on(logged),
	AttemptEgress:       on(egress),
	AttemptRefused:      on(refused),
	AttemptReserved:     on(reserved),
	AttemptSettled:      on(settled),
	AttemptSigned:       on(signed),
	AttemptDecided:      on(decided),
	AttemptReopened:     on(reopened),
	AttemptFailed:       on(ending),
	AttemptCancelled:    on(ending),
	CancelRequested:     on(cancel),
	AttemptApproved:     on(approved),
	AttemptDisallowed:   on(disallowed),
	LeaseAcquired:       on(lease),
	LeaseReleased:       on(lease),
	PublicationIntended: on(publicationIntended),
	PublicationDone:     on(publicationDone),
	PublicationRefused:  on(publicationRefused),
	KeyRotated:          opaque,
	Checkpoint:          opaque,
}

// on wraps the handler of one attempt event: decode, ask the table, then the handler, which checks its
// guard before it changes anything, and at last the new state.
func on[T any](handle func(*State, Event, T) error) func(*State, Event) error {
	return func(s *State, e Event) error {
		p, err := decode[T](e)
		if err != nil {
			return err
		}
		var want sallyport.AttemptState
		if t, ok := any(p).(interface {
			target() sallyport.AttemptState
		}); ok {
			want = t.target()
		}
		to, err := NextAttempt(s.Report.State, e.Type, want)
		if err != nil {
			return err
		}
		if err := handle(s, e, p); err != nil {
			return err
		}
		s.enter(to, e.At)
		return nil
	}
}

func (s Stage) target() sallyport.AttemptState   { return s.State }
func (d Decided) target() sallyport.AttemptState { return sallyport.AttemptState(d.Decision) }

func (s *State) enter(to sallyport.AttemptState, at string) {
	if to.Ended() && !s.Report.State.Ended() {
		s.Report.Ended = at
	}
	s.Report.State = to
}

// opaque events mean nothing to an Attempt; outside of one they need no state at all.
func opaque(s *State, e Event) error {
	if !s.Exists() {
		return nil
	}
	_, err := NextAttempt(s.Report.State, e.Type, "")
	return err
}

func create(s *State, e Event, p Created) error {
	if err := sallyport.CheckID(sallyport.AttemptPrefix, string(e.Attempt)); err != nil {
		return err
	}
	if p.WorkOrder == "" || p.Repository == "" {
		return invalid(e.Type, "expected work_order and repository")
	}
	if err := p.Manifest.Check(); err != nil {
		return err
	}
	s.begin(e, p)
	return nil
}

// stage guards the order by facts: nothing is inspected that is not durable in quarantine, nothing is
// validated that we did not write ourselves.
func stage(s *State, e Event, p Stage) error {
	switch {
	case p.State == "":
		return invalid(e.Type, "expected the name of a stage")
	case p.Seconds < 0:
		return invalid(e.Type, "seconds must not be negative")
	case p.State == sallyport.AttemptInspecting && s.Report.Bundle == "":
		return conflict(string(e.Type), "inspecting is not allowed: no bundle is in quarantine", "append attempt.bundle first")
	case p.State == sallyport.AttemptValidating && s.Imported == nil:
		return conflict(string(e.Type), "validating is not allowed: no tree is imported", "append attempt.imported first")
	}
	s.Report.Timings[string(s.Report.State)] += p.Seconds
	return nil
}

func bundle(s *State, e Event, p Bundle) error {
	if err := p.Digest.Check(); err != nil {
		return err
	}
	if s.Report.Bundle != p.Digest {
		s.forgetResult()
	}
	s.Report.Bundle = p.Digest
	return nil
}

func imported(s *State, e Event, p Imported) error {
	if err := p.Tree.Check(); err != nil {
		return err
	}
	if s.Report.Bundle == "" {
		return conflict(string(e.Type), "not allowed: no bundle is in quarantine", "append attempt.bundle first")
	}
	if s.Report.Tree != p.Tree {
		s.forgetResult()
	}
	if p.Changes == nil {
		p.Changes = []sallyport.Change{}
	}
	s.Imported = &p
	s.Report.Tree, s.Report.Changes = p.Tree, p.Changes
	return nil
}

// findings adds: inspection and validation both find. A repeated finding is one finding.
func findings(s *State, e Event, p Findings) error {
	all := slices.Clone(s.Report.Findings)
	for _, f := range p.Findings {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	if len(all) != len(s.Report.Findings) {
		s.voidEvidence()
	}
	s.Report.Findings = all
	return nil
}

// check replaces an earlier result of the same name.
func check(s *State, e Event, p sallyport.CheckResult) error {
	if p.Name == "" {
		return invalid(e.Type, "expected a check's name")
	}
	if p.Controls == nil {
		p.Controls = []sallyport.Control{}
	}
	all := slices.Clone(s.Report.Checks)
	i := slices.IndexFunc(all, func(c sallyport.CheckResult) bool { return c.Name == p.Name })
	switch {
	case i < 0:
		all = append(all, p)
		s.voidEvidence()
	default:
		if all[i].Status != p.Status || all[i].BaseTests != p.BaseTests {
			s.voidEvidence()
		}
		all[i] = p
	}
	s.Report.Checks = all
	return nil
}

func agent(s *State, e Event, p sallyport.AgentResult) error {
	s.Report.Agent = p
	return nil
}

// setup replaces an earlier result of the same command for the same files.
func setup(s *State, e Event, p sallyport.SetupResult) error {
	switch {
	case p.Number < 1 || p.Run == "" || p.For != "base" && p.For != "change":
		return invalid(e.Type, "expected a number of 1 or more, a command, and base or change for what it is")
	case p.Status != sallyport.SetupRunning && p.Status != sallyport.SetupDone && p.Status != sallyport.SetupFailed:
		return invalid(e.Type, "expected a status: running, done or failed")
	case p.Seconds < 0:
		return invalid(e.Type, "seconds must not be negative")
	}
	if t := p.Egress; t != nil && (min(t.Requests, t.Refused, t.BytesUp, t.BytesDown) < 0 || t.Refused > t.Requests) {
		return invalid(e.Type, "expected numbers of 0 or more, and no more refused requests than requests")
	}
	all := slices.Clone(s.Report.Setup)
	i := slices.IndexFunc(all, func(r sallyport.SetupResult) bool { return r.Number == p.Number && r.For == p.For })
	if i < 0 {
		all = append(all, p)
	} else {
		all[i] = p
	}
	s.Report.Setup = all
	s.voidEvidence()
	return nil
}

func layers(s *State, e Event, p Layers) error {
	if p.Layers == nil {
		p.Layers = []sallyport.LayerReport{}
	}
	s.Report.Layers = p.Layers
	return nil
}

func notice(s *State, e Event, p Notice) error {
	if p.Text == "" {
		return invalid(e.Type, "expected a text")
	}
	if !slices.Contains(s.Report.Notices, p.Text) {
		s.Report.Notices = append(slices.Clone(s.Report.Notices), p.Text)
	}
	return nil
}

// logged: a new log says nothing against what was signed; one that replaces another does.
func logged(s *State, e Event, p Log) error {
	switch {
	case p.Name == "":
		return invalid(e.Type, "expected a log's name")
	case min(p.Bytes, p.Redactions) < 0:
		return invalid(e.Type, "bytes and redactions must not be negative")
	}
	if p.Digest != "" {
		if err := p.Digest.Check(); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(s.Logs, func(l Log) bool { return l.Name == p.Name })
	if i >= 0 && s.Logs[i] == p || i < 0 && p.Digest == "" {
		return nil
	}
	all := slices.Clone(s.Logs)
	switch {
	case i < 0:
		s.Logs = append(all, p)
		return nil
	case p.Digest == "":
		all = slices.Delete(all, i, i+1)
	default:
		all[i] = p
	}
	s.Logs = all
	s.voidEvidence()
	return nil
}

func egress(s *State, e Event, p Egress) error {
	switch {
	case min(p.Requests, p.Refused, p.BytesUp, p.BytesDown) < 0 || p.Refused > p.Requests:
		return invalid(e.Type, "expected numbers of 0 or more, and no more refused requests than requests")
	case p.Open && p != Egress{Open: true}:
		return invalid(e.Type, "nothing went through what is only being opened")
	case !p.Open && s.EgressOpen == 0:
		return conflict(string(e.Type), "not allowed: no way out is open", "append attempt.egress with open first")
	}
	var sum Egress
	if s.Egress != nil {
		sum = *s.Egress
	}
	if p.Open {
		s.EgressOpen++
	} else {
		s.EgressOpen--
	}
	s.Egress = &Egress{Requests: sum.Requests + p.Requests, Refused: sum.Refused + p.Refused, BytesUp: sum.BytesUp + p.BytesUp, BytesDown: sum.BytesDown + p.BytesDown}
	s.voidEvidence()
	return nil
}

// MaxRefusals is how many different refusals are kept of one Attempt.
const MaxRefusals = 100

// refused adds up what is the same but for its count and who asked.
func refused(s *State, e Event, p Refused) error {
	all := slices.Clone(s.Report.Refusals)
	for _, r := range p.Refusals {
		if r.Reason == "" || r.Count < 1 {
			return invalid(e.Type, "expected a reason, and a count of 1 or more")
		}
		// Who asked is of the first time only.
		same := func(x sallyport.Refusal) bool { x.Count, x.Process = r.Count, r.Process; return x == r }
		switch i := slices.IndexFunc(all, same); {
		case i >= 0:
			all[i].Count += r.Count
		case len(all) < MaxRefusals:
			all = append(all, r)
		}
	}
	s.Report.Refusals = all
	return nil
}

func signed(s *State, e Event, p Signed) error {
	if err := p.Digest.Check(); err != nil {
		return err
	}
	s.Report.Evidence, s.Report.EvidenceDigest = p.Path, p.Digest
	s.Report.NotChecked = p.NotChecked
	if p.Commit != "" {
		s.Report.Commit = p.Commit
	}
	return nil
}

// decided: only a rejection may go without evidence.
func decided(s *State, e Event, p Decided) error {
	if p.Decision != sallyport.DecisionRejected && s.Report.EvidenceDigest == "" {
		return conflict(string(e.Type), string(p.Decision)+" is not allowed: nothing is signed, or a fact changed after it was", "append attempt.signed first")
	}
	if p.Seconds < 0 {
		return invalid(e.Type, "seconds must not be negative")
	}
	if p.Seconds > 0 {
		s.Report.Timings[string(sallyport.AttemptDeciding)] += p.Seconds
	}
	s.Report.Decision, s.Report.Reason = p.Decision, p.Reason
	return nil
}

// reopened: the evidence that the decision rests on is void until the new fact is signed as well. What is
// out cannot be called back.
func reopened(s *State, e Event, p sallyport.Reason) error {
	switch {
	case p.Code == "":
		return invalid(e.Type, "expected a reason with a code")
	case s.Published || s.Publishing:
		return conflict(string(e.Type), "not allowed: the attempt is published, or being so", "delete or revert the branch; what was published stays published")
	}
	s.Report.State = sallyport.AttemptAwaitingApproval
	s.voidEvidence()
	s.Report.Decision, s.Report.Reason = sallyport.DecisionAwaitingApproval, p
	return nil
}

func ending(s *State, e Event, p sallyport.Reason) error {
	s.Report.Reason = p
	return nil
}

func cancel(s *State, e Event, p Person) error {
	if p.Who == "" {
		return invalid(e.Type, "expected who asked")
	}
	s.CancelRequested, s.CancelBy = true, p.Who
	return nil
}

// approved: a person's word counts for the evidence they saw and for no other.
func approved(s *State, e Event, p Approval) error {
	if p.Who == "" {
		return invalid(e.Type, "expected who approved")
	}
	if s.Report.EvidenceDigest == "" || p.Evidence != s.Report.EvidenceDigest {
		return conflict(string(e.Type), "the approval is for other evidence than the attempt has now", "look at the attempt again, then approve")
	}
	s.Report.Decision = sallyport.DecisionAccepted
	s.Report.Reason = sallyport.Reason{Code: "approved", Message: says("approved by "+p.Who, p.Why)}
	return nil
}

func disallowed(s *State, e Event, p Approval) error {
	switch {
	case p.Who == "":
		return invalid(e.Type, "expected who rejected")
	case s.Published:
		return conflict(string(e.Type), "not allowed: the attempt is accepted and published", "delete or revert the branch; what was published stays published")
	case s.Publishing:
		return conflict(string(e.Type), "not allowed: the publication is under way", "let the publication be concluded, then look again")
	}
	s.Report.Decision = sallyport.DecisionRejected
	s.Report.Reason = sallyport.Reason{Code: "rejected-by-person", Message: says("rejected by "+p.Who, p.Why)}
	return nil
}

func says(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func lease(*State, Event, LeaseChange) error { return nil }
