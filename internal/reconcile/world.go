package reconcile

import (
	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

// World is what is known. The zero value gives no action.
//
// Preconditions: every Listing was taken before the journal was read; Allocations hold all open ones and,
// of the terminated ones, those that a Listing names; Attempts hold those of all Allocations and Listings,
// and all that have not ended.
type World struct {
	Listings    []Listing
	Allocations []lifecycle.Allocation
	Attempts    []Attempt
}

// Listing is one provider's answer to List: only what bears this factory's mark.
type Listing struct {
	Provider string
	Statuses []provider.Status
	// Err: the provider did not answer. Nothing is concluded about its resources.
	Err error
}

// Attempt is what the journal says of one Attempt.
type Attempt struct {
	ID    sallyport.AttemptID
	State sallyport.AttemptState
	// Free: no live lease (never taken, given back, expired, of another boot, or its holder proven dead).
	// The zero value is the cautious one: somebody drives it.
	Free bool
}

// abandoned: no driver, and none will come without a person's word. Only then may its resources go.
func (a Attempt) abandoned() bool { return a.Free && a.State.Ended() }

// index is the World by name.
type index struct {
	attempts    map[sallyport.AttemptID]Attempt
	allocations map[sallyport.AllocationID]lifecycle.Allocation
	answered    map[string]bool // providers whose list can be read
	// listed is the resource that stands for an Allocation: the one the journal has bound, or, where it has
	// none, the first by name of those that bear the mark. One Allocation can be bound once.
	listed map[sallyport.AllocationID]sallyport.ResourceID
}

func (w World) index() index {
	x := index{
		attempts:    map[sallyport.AttemptID]Attempt{},
		allocations: map[sallyport.AllocationID]lifecycle.Allocation{},
		answered:    map[string]bool{},
		listed:      map[sallyport.AllocationID]sallyport.ResourceID{},
	}
	for _, a := range w.Attempts {
		x.attempts[a.ID] = a
	}
	for _, a := range w.Allocations {
		x.allocations[a.ID] = a
	}
	for _, l := range w.Listings {
		x.answered[l.Provider] = l.Err == nil
		if l.Err != nil {
			continue
		}
		for _, s := range l.Statuses {
			x.note(l.Provider, s)
		}
	}
	return x
}

func (x *index) note(prov string, s provider.Status) {
	a, known := x.allocations[s.Allocation]
	if !known || a.Provider != prov || (a.Resource != "" && a.Resource != s.ID) {
		return
	}
	if first, ok := x.listed[a.ID]; !ok || s.ID < first {
		x.listed[a.ID] = s.ID
	}
}
