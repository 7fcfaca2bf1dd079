package reconcile

import (
	"fmt"

	"sallyport.dev/sallyport"
)

// Action is one step of a plan: Report, MarkOrphaned, Destroy, Lookup or Adopt. String is a line for people that
// says what is to be done (`reconcile --dry-run`).
type Action interface {
	fmt.Stringer
	// Done is the line once it was carried out.
	Done() string
	rank() int // the order of a plan: say, record, remove, ask, take over
}

type (
	// Report tells a person and changes nothing.
	Report struct {
		Subject string // the resource, allocation, attempt or provider
		Text    string
	}
	// MarkOrphaned is to append allocation.orphaned, after allocation.bound where the journal does not know
	// the resource yet. It comes before the Destroy of the same resource: the intent is durable first.
	MarkOrphaned struct {
		Attempt    sallyport.AttemptID
		Allocation sallyport.AllocationID
		Resource   sallyport.ResourceID
		Why        sallyport.Reason
	}
	// Destroy is to remove one resource by its exact id, after a second look at the lease.
	Destroy struct {
		Provider   string
		Resource   sallyport.ResourceID
		Attempt    sallyport.AttemptID    // as marked; may be unknown to the journal
		Allocation sallyport.AllocationID // as marked; may be unknown to the journal
		Why        string
	}
	// Lookup is to ask the provider about an Allocation that it did not list. Only CodeNotFound proves
	// absence. Resource is empty where Create was never answered: then nothing is concluded while the Attempt
	// may still be driven. Once it has ended, a List under its lease that shows nothing ends the Allocation;
	// what turns up later is orphaned.
	Lookup struct {
		Provider   string
		Attempt    sallyport.AttemptID
		Allocation sallyport.AllocationID
		Resource   sallyport.ResourceID
	}
	// Adopt is to acquire the lease of an Attempt that has not ended, and to drive it.
	Adopt struct {
		Attempt sallyport.AttemptID
	}
)

func (Report) rank() int       { return 0 }
func (MarkOrphaned) rank() int { return 1 }
func (Destroy) rank() int      { return 2 }
func (Lookup) rank() int       { return 3 }
func (Adopt) rank() int        { return 4 }

func (a Report) String() string { return fmt.Sprintf("report %s: %s", a.Subject, a.Text) }
func (a Report) Done() string   { return a.String() }

func (a MarkOrphaned) String() string { return "mark " + a.text() }
func (a MarkOrphaned) Done() string   { return "marked " + a.text() }
func (a MarkOrphaned) text() string {
	return fmt.Sprintf("%s orphaned (%s): %s", a.Allocation, a.Resource, a.Why.Message)
}

func (a Destroy) String() string { return "destroy " + a.text() }
func (a Destroy) Done() string   { return "destroyed " + a.text() }
func (a Destroy) text() string {
	return fmt.Sprintf("%s of provider %s: %s", a.Resource, a.Provider, a.Why)
}

func (a Lookup) String() string { return "look up " + a.text() }
func (a Lookup) Done() string   { return "looked up " + a.text() }
func (a Lookup) text() string {
	if a.Resource == "" {
		return fmt.Sprintf("%s, of which provider %s never gave an id", a.Allocation, a.Provider)
	}
	return fmt.Sprintf("%s (%s) at provider %s", a.Allocation, a.Resource, a.Provider)
}

func (a Adopt) String() string { return fmt.Sprintf("adopt %s", a.Attempt) }
func (a Adopt) Done() string   { return fmt.Sprintf("adopted %s", a.Attempt) }
