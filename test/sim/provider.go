package sim

import (
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

var (
	errUnknown     = &sallyport.Error{Op: "sim", Code: sallyport.CodeUnknown, Message: "the answer was lost"}
	errUnavailable = &sallyport.Error{Op: "sim", Code: sallyport.CodeUnavailable, Message: "it does not answer"}
	errNotFound    = &sallyport.Error{Op: "sim", Code: sallyport.CodeNotFound, Message: "there is none"}
	errConflict    = &sallyport.Error{Op: "sim", Code: sallyport.CodeConflict, Message: "it is somebody else's"}
	errFenced      = &sallyport.Error{Op: "sim", Code: sallyport.CodeFenced, Message: "the lease was lost"}
	errDenied      = &sallyport.Error{Op: "sim", Code: sallyport.CodeDenied, Message: "no"}
)

// Whose a resource is, by its mark.
const (
	ours   = "ours"
	theirs = "theirs" // of another factory
)

// box is one resource of the substrate.
type box struct {
	provider.Status
	factory string
	purpose sallyport.Purpose
	tree    sallyport.ObjectID // that its command works on
	check   int
	fence   int64 // the highest that was seen on its wire
	started bool
	stopped bool
	hidden  bool // left out of lists
}

// substrate is the provider's contract over a list of boxes. It is a model and not internal/provider/fake, whose sandboxes
// have goroutines, pipes and real time; TestProviderIsTheFake holds the two against each other.
type substrate struct {
	w     *world
	boxes []*box
	// told hears of every call, how it was made to go wrong, and what it answered. nil: nobody does.
	told func(deed)
}

// deed is one call and what came of it.
type deed struct {
	method     string
	allocation sallyport.AllocationID
	fault      fault
	err        error
	listed     []sallyport.AllocationID // of ours
	hidden     []sallyport.AllocationID
}

func (s *substrate) tell(d deed) {
	if s.told != nil {
		s.told(d)
	}
}

// fault draws one. What is told comes in the order of the calls, so that nothing is late there.
func (s *substrate) fault(n int) fault {
	if f := s.w.fault(n); f != late || s.told == nil {
		return f
	}
	return after
}

// fault is how one call goes wrong.
type fault int

const (
	fine   fault = iota
	before       // it fails, and nothing happened
	after        // it happened, and the answer is lost
	late         // the answer is lost, and it happens at a moment of its own
)

// fault draws one; most calls are fine.
func (w *world) fault(n int) fault {
	if v := w.c.pick(n); v >= n-3 {
		return fault(v - n + 4)
	}
	return fine
}

// call does a deed as a fault wants.
func (w *world) call(f fault, do func() error) error {
	switch f {
	case before:
		return errUnavailable
	case late:
		w.late = append(w.late, func() { _ = do() })
		return errUnknown
	}
	if err := do(); err != nil {
		return err
	}
	if f == after {
		return errUnknown
	}
	return nil
}

func (s *substrate) find(id sallyport.ResourceID) *box {
	if i := slices.IndexFunc(s.boxes, func(b *box) bool { return b.ID == id }); i >= 0 {
		return s.boxes[i]
	}
	return nil
}

// create: equal spec again is the same resource; each bears factory and allocation.
func (s *substrate) create(spec box) (sallyport.ResourceID, error) {
	spec.ID, spec.Alive, spec.factory = resourceOf(spec.Allocation), true, ours
	f := s.fault(24)
	err := s.w.call(f, func() error {
		if s.find(spec.ID) == nil {
			b := spec
			b.hidden = s.w.c.once(16)
			s.boxes = append(s.boxes, &b)
			s.w.h.created = &b
		}
		return nil
	})
	s.tell(deed{method: "Create", allocation: spec.Allocation, fault: f, err: err})
	if err != nil {
		return "", err
	}
	return spec.ID, nil
}

func resourceOf(a sallyport.AllocationID) sallyport.ResourceID {
	return "fake:" + factory + ":" + sallyport.ResourceID(a)
}

func allocationOf(id sallyport.ResourceID) sallyport.AllocationID {
	return sallyport.AllocationID(strings.TrimPrefix(string(id), string(resourceOf(""))))
}

// list is what bears our mark, half-made ones included. It may lag.
func (s *substrate) list() (all []provider.Status, err error) {
	f := s.fault(24)
	if f == late {
		f = after // an answer that comes late is none
	}
	err = s.w.call(f, func() error {
		for _, b := range s.boxes {
			if (b.factory == ours || s.w.opt.Broken == NoMark) && (!b.hidden || s.w.c.calmed) {
				all = append(all, b.Status)
			}
		}
		return nil
	})
	if s.told != nil {
		d := deed{method: "List", fault: f, err: err}
		for _, b := range s.boxes {
			switch {
			case b.factory != ours || b.Allocation == "":
			case b.hidden && !s.w.c.calmed:
				d.hidden = append(d.hidden, b.Allocation)
			default:
				d.listed = append(d.listed, b.Allocation)
			}
		}
		s.told(d)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// lookup: only errNotFound proves absence, and only of an id of this factory.
func (s *substrate) lookup(id sallyport.ResourceID) error {
	f := s.fault(24)
	if f == late {
		f = after
	}
	err := s.w.call(f, func() error {
		if b := s.find(id); b == nil {
			return errNotFound
		} else if b.factory != ours {
			return errUnavailable
		}
		return nil
	})
	s.tell(deed{method: "Lookup", allocation: allocationOf(id), fault: f, err: err})
	return err
}

// destroy: absent is done; of another factory, refused.
func (s *substrate) destroy(by *party, id sallyport.ResourceID) error {
	f := s.fault(10)
	do := func() error {
		b := s.find(id)
		if b == nil {
			return nil
		}
		if b.factory != ours && s.w.opt.Broken != NoMark {
			return errUnavailable
		}
		s.drop(b)
		s.w.h.destroyed, s.w.h.destroyer = b, by
		return nil
	}
	if f == fine && s.told == nil && s.w.c.once(24) {
		s.w.late = append(s.w.late, func() { _ = do() }) // it said yes, and takes its time
		return nil
	}
	err := s.w.call(f, do)
	s.tell(deed{method: "Destroy", allocation: allocationOf(id), fault: f, err: err})
	return err
}

func (s *substrate) drop(b *box) {
	s.boxes = slices.DeleteFunc(s.boxes, func(x *box) bool { return x == b })
}

// connect: absent is errNotFound, a fence lower than one that was seen errFenced.
func (s *substrate) connect(id sallyport.ResourceID, fence int64) (*box, error) {
	if s.w.c.once(32) {
		return nil, errUnavailable
	}
	b := s.find(id)
	switch {
	case b == nil:
		return nil, errNotFound
	case fence < b.fence:
		return nil, errFenced
	}
	b.fence = fence
	return b, nil
}
