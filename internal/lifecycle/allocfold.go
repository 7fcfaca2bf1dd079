package lifecycle

import (
	"sallyport.dev/sallyport"
)

// allocationHandlers has one entry per allocation event. A handler fills a; the state is the table's.
var allocationHandlers = map[Type]func(a *Allocation, e Event) error{
	AllocationIntended:   intended,
	AllocationBound:      bound,
	AllocationReady:      func(_ *Allocation, e Event) error { return noPayload(e) },
	AllocationRunning:    func(_ *Allocation, e Event) error { return noPayload(e) },
	AllocationResult:     func(_ *Allocation, e Event) error { return noPayload(e) },
	AllocationTeardown:   fillReason,
	AllocationTerminated: fillReason,
	AllocationFailed:     setReason,
	AllocationOrphaned:   setReason,
}

func (s *State) applyAllocation(e Event, handle func(*Allocation, Event) error) error {
	if _, err := NextAttempt(s.Report.State, e.Type, ""); err != nil {
		return err
	}
	a := s.Allocations[e.Allocation]
	to, err := NextSandbox(a.State, e.Type)
	if err != nil {
		return err
	}
	a.ID, a.Attempt = e.Allocation, e.Attempt
	if err := handle(&a, e); err != nil {
		return err
	}
	a.State = to
	if s.Allocations == nil {
		s.Allocations = map[sallyport.AllocationID]Allocation{}
	}
	s.Allocations[a.ID] = a
	return nil
}

func intended(a *Allocation, e Event) error {
	if err := sallyport.CheckID(sallyport.AllocationPrefix, string(e.Allocation)); err != nil {
		return err
	}
	p, err := decode[Intended](e)
	if err != nil {
		return err
	}
	if p.Provider == "" || p.Purpose == "" {
		return invalid(e.Type, "expected purpose and provider")
	}
	a.Purpose, a.Label, a.Provider, a.Spec = p.Purpose, p.Label, p.Provider, p.Spec
	return nil
}

// bound refuses a second id: an Allocation never serves for a second sandbox.
func bound(a *Allocation, e Event) error {
	p, err := decode[Bound](e)
	switch {
	case err != nil:
		return err
	case p.Resource == "":
		return invalid(e.Type, "expected a resource id")
	case a.Resource != "" && a.Resource != p.Resource:
		return conflict(string(e.Type), "the allocation is bound to "+string(a.Resource)+" already", "two sandboxes bear one allocation id: destroy the one that is not recorded")
	}
	a.Resource = p.Resource
	return nil
}

// fillReason keeps what went wrong earlier: proof of absence says how it ended, not why.
func fillReason(a *Allocation, e Event) error {
	p, err := decode[sallyport.Reason](e)
	if err == nil && a.Reason == (sallyport.Reason{}) {
		a.Reason = p
	}
	return err
}

func setReason(a *Allocation, e Event) error {
	p, err := decode[sallyport.Reason](e)
	if err == nil {
		a.Reason = p
	}
	return err
}
