package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

// Plan is what to do about w, each action once, in the order in which to do it: reports, then marks, then
// destructions, look-ups, adoptions. Equal worlds give equal plans, whatever the order of their lists. A
// world in which everything has its authority gives none.
func Plan(w World) []Action {
	x := w.index()
	var plan []Action
	for _, l := range w.Listings {
		if l.Err != nil {
			plan = append(plan, Report{l.Provider, "the provider did not list its resources, nothing is concluded about them: " + l.Err.Error()})
			continue
		}
		for _, s := range l.Statuses {
			plan = append(plan, x.resource(l.Provider, s)...)
		}
	}
	for _, a := range w.Allocations {
		plan = append(plan, x.allocation(a)...)
	}
	for _, a := range w.Attempts {
		if a.Free && !a.State.Ended() {
			plan = append(plan, Adopt{a.ID})
		}
	}
	return tidy(plan)
}

// resource judges one listed resource.
func (x index) resource(prov string, s provider.Status) []Action {
	subject := string(s.ID)
	if s.Allocation == "" {
		return []Action{Report{subject, "it bears this factory's mark and no allocation: it cannot be attributed and is left alone"}}
	}
	a, known := x.allocations[s.Allocation]
	switch {
	case !known:
		return x.unknown(prov, s)
	case a.Provider != prov:
		return []Action{Report{subject, fmt.Sprintf("it bears allocation %s, which the journal has at provider %s: left alone", a.ID, a.Provider)}}
	case s.Attempt != "" && s.Attempt != a.Attempt:
		return []Action{Report{subject, fmt.Sprintf("it is marked for %s, its allocation %s is of %s: left alone", s.Attempt, a.ID, a.Attempt)}}
	}
	owner, ok := x.attempts[a.Attempt]
	if !ok {
		return []Action{Report{subject, fmt.Sprintf("allocation %s is of %s, which the journal does not have: left alone", a.ID, a.Attempt)}}
	}
	second := x.listed[a.ID] != s.ID
	if !owner.abandoned() {
		return x.spared(s, a, second)
	}
	return x.leftover(prov, s, a, owner, second)
}

// unknown: the journal was read later and has no such allocation, so no intent of it survived. If the mark
// names an Attempt that still has authority, a person must look.
func (x index) unknown(prov string, s provider.Status) []Action {
	if owner, ok := x.attempts[s.Attempt]; ok && !owner.abandoned() {
		return []Action{Report{string(s.ID), fmt.Sprintf("the journal has no allocation %s, but its attempt %s has not ended: left alone", s.Allocation, s.Attempt)}}
	}
	return []Action{Destroy{prov, s.ID, s.Attempt, s.Allocation, "the journal has no intent of it"}}
}

// spared: its Attempt has a driver or will get one by Adopt. Only what a driver would not notice is said.
func (x index) spared(s provider.Status, a lifecycle.Allocation, second bool) []Action {
	switch {
	case second:
		return []Action{Report{string(s.ID), fmt.Sprintf("a second resource of allocation %s (%s): left to the attempt's driver", a.ID, first(a))}}
	case a.State == sallyport.SandboxTerminated:
		return []Action{Report{string(s.ID), fmt.Sprintf("allocation %s was proved gone and shows again: left to the attempt's driver", a.ID)}}
	}
	return nil
}

// leftover: nobody has authority over it any more.
func (x index) leftover(prov string, s provider.Status, a lifecycle.Allocation, owner Attempt, second bool) []Action {
	why := fmt.Sprintf("its attempt is %s and nobody drives it", owner.State)
	destroy := Destroy{prov, s.ID, a.Attempt, a.ID, why}
	switch a.State {
	case sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned:
		if a.Resource != "" { // the journal already says that it is to go
			return []Action{destroy}
		}
	case sallyport.SandboxTerminated:
		why = "it turned up after its absence had been proved"
		destroy.Why = why
	}
	if second { // the journal can bind one id; this other one is only removed
		destroy.Why = fmt.Sprintf("a second resource of its allocation (%s); %s", first(a), why)
		return []Action{Report{string(s.ID), destroy.Why}, destroy}
	}
	return []Action{MarkOrphaned{a.Attempt, a.ID, s.ID, sallyport.Reason{Code: "no-authority", Message: why}}, destroy}
}

func first(a lifecycle.Allocation) string {
	if a.Resource == "" {
		return "none is bound"
	}
	return "bound is " + string(a.Resource)
}

// allocation judges one open Allocation that no list shows.
func (x index) allocation(a lifecycle.Allocation) []Action {
	if _, shown := x.listed[a.ID]; shown || !a.Open() {
		return nil
	}
	owner, ok := x.attempts[a.Attempt]
	if !ok {
		return []Action{Report{string(a.ID), fmt.Sprintf("it is of %s, which the journal does not have: left alone", a.Attempt)}}
	}
	if !owner.Free {
		return nil // its driver knows better: it may have been made after the list was taken
	}
	answered, asked := x.answered[a.Provider]
	if !asked {
		return []Action{Report{string(a.ID), fmt.Sprintf("its provider %s is not in this program's list: nothing is concluded", a.Provider)}}
	}
	if !answered {
		return nil // reported once, for the provider
	}
	return []Action{Lookup{a.Provider, a.Attempt, a.ID, a.Resource}}
}

// tidy orders a plan and removes repeats.
func tidy(plan []Action) []Action {
	slices.SortFunc(plan, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)))
	})
	return slices.Compact(plan)
}
