package fake

import (
	"context"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// Fault is one misbehaviour of one method. Faults of a method are used up in the order they were injected;
// each answers Times calls (0: one).
type Fault struct {
	Method     string                 // "Create", "Connect", "Lookup", "List", "Destroy", "Describe"
	Allocation sallyport.AllocationID // "": any
	Times      int

	// Delay holds the call first. A caller whose context ends meanwhile gets CodeUnknown, and the deed is not
	// done.
	Delay time.Duration
	// Before is returned and nothing happens.
	Before error
	// After is returned although it happened: the lost answer. A deed that fails by itself returns its own error.
	After error
	// Late: the caller gets CodeUnknown now; the deed happens when the test calls Release.
	Late bool
}

// Call is one call that came in.
type Call struct {
	Method     string
	Allocation sallyport.AllocationID
}

// Inject adds a fault.
func (p *Provider) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.Times = max(f.Times, 1)
	p.faults = append(p.faults, &f)
}

// Clear removes every fault that is not yet used up, and what List was told to show or to leave out. Deeds
// that wait for Release stay.
func (p *Provider) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.ghosts = nil, nil
	clear(p.unlisted)
}

// Release does, now, what late calls were about, and returns how many deeds that were.
func (p *Provider) Release() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	deeds := p.late
	p.late = nil
	for _, do := range deeds {
		do()
	}
	return len(deeds)
}

// Calls are all calls so far, in order.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Vanish takes a sandbox away as a crash of its host would: no Destroy, its wires cut, its work lost. Absent:
// nothing.
func (p *Provider) Vanish(a sallyport.AllocationID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(a)
}

// CutWires cuts every wire of a sandbox; it goes on. Absent: nothing.
func (p *Provider) CutWires(a sallyport.AllocationID) {
	p.mu.Lock()
	s := p.sandboxes[a]
	p.mu.Unlock()
	if s != nil {
		s.cut()
	}
}

// Omit makes List leave a sandbox out until Clear: a substrate whose listing lags. Lookup still shows it.
func (p *Provider) Omit(a sallyport.AllocationID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlisted[a] = true
}

// Ghost makes List show what is not there until Clear. Lookup tells the truth.
func (p *Provider) Ghost(st provider.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ghosts = append(p.ghosts, st)
}

// HalfMake leaves what a Create that crashed leaves: listed, half-made, to be made again or destroyed. CodeInvalid
// as Create.
func (p *Provider) HalfMake(spec provider.Spec) error {
	if err := p.check(spec); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.make(spec); err != nil {
		return err
	}
	p.sandboxes[spec.Allocation].halfMade = true
	return nil
}

// Resource is the id under which a sandbox of a would be known.
func (p *Provider) Resource(a sallyport.AllocationID) sallyport.ResourceID { return p.resource(a) }

// call does a deed under mu, as the next fault for it wants.
func (p *Provider) call(ctx context.Context, method string, a sallyport.AllocationID, do func() error) error {
	p.mu.Lock()
	p.calls = append(p.calls, Call{method, a})
	f := p.next(method, a)
	p.mu.Unlock()
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
		}
	}
	if f.Before != nil {
		return f.Before
	}
	if ctx.Err() != nil {
		return unknown(method, ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Late {
		p.late = append(p.late, func() { _ = do() })
		return unknown(method, context.DeadlineExceeded)
	}
	if err := do(); err != nil {
		return err
	}
	return f.After
}

func unknown(op string, err error) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeUnknown, Message: "the caller stopped waiting", Err: err}
}

// next uses one fault up; the zero Fault if none is for this call. Under mu.
func (p *Provider) next(method string, a sallyport.AllocationID) Fault {
	for i, f := range p.faults {
		if f.Method != method || f.Allocation != "" && f.Allocation != a {
			continue
		}
		if f.Times--; f.Times == 0 {
			p.faults = slices.Delete(p.faults, i, i+1)
		}
		return *f
	}
	return Fault{}
}
