package journal

import (
	"fmt"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// The rule of leases and fences, apart from where they are stored: every store asks it inside its transaction.

// Held is a lease as a store has it. Comparable: the compare of compare-and-swap.
type Held struct {
	Lease
	Released bool
}

// Same says whether nothing has happened to a lease between two looks. nil: there never was one.
func Same(a, b *Held) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Free says whether a lease may be taken: none, given back, of another boot, expired, or its holder proven dead.
func Free(h *Held, boot string, now time.Duration, dead func(Holder) bool) bool {
	return h == nil || h.Released || !h.Live(boot, now) || (dead != nil && dead(h.Holder))
}

// Current refuses a lease that another acquisition has replaced or that was given back. One that has expired and was
// taken by nobody still counts: only the fence protects.
func Current(l Lease, now *Held) error {
	if now != nil && !now.Released && now.Fence == l.Fence {
		return nil
	}
	msg := "the lease was given back or never taken"
	if now != nil && !now.Released {
		msg = fmt.Sprintf("another holder has the lease: %s, fence %d against %d", now.Holder, now.Fence, l.Fence)
	}
	return &sallyport.Error{Op: "append", Code: sallyport.CodeFenced, Subject: string(l.Attempt), Message: msg, Hint: "stop; what this process still does has no effect"}
}

// Renewed is h for ttl from now on. It never shortens.
func (h Held) Renewed(now, ttl time.Duration) Held {
	h.Until = max(h.Until, now+ttl)
	return h
}

// unleased is what a person, a creator or the publisher may append without driving the Attempt.
var unleased = map[lifecycle.Type]bool{
	lifecycle.AttemptCreated: true, lifecycle.CancelRequested: true, lifecycle.AttemptApproved: true, lifecycle.AttemptDisallowed: true,
	lifecycle.PublicationIntended: true, lifecycle.PublicationDone: true, lifecycle.PublicationRefused: true,
	lifecycle.KeyRotated: true, lifecycle.Checkpoint: true,
}

// Unleased says whether t may be appended by somebody who does not drive the Attempt.
func Unleased(t lifecycle.Type) bool { return unleased[t] }

// Authority says whether rec may be appended under lease at all, whichever the current one is.
func Authority(lease *Lease, rec Record) error {
	typ := string(rec.Type)
	invalid := func(message string) error {
		return &sallyport.Error{Op: "append", Code: sallyport.CodeInvalid, Subject: typ, Message: message}
	}
	switch {
	case !lifecycle.Known(rec.Type):
		return invalid("this version does not know the event")
	case rec.Type == lifecycle.LeaseAcquired || rec.Type == lifecycle.LeaseReleased:
		return invalid("only Acquire and Release append it")
	case rec.Attempt == "" && rec.Type != lifecycle.KeyRotated && rec.Type != lifecycle.Checkpoint:
		return invalid("expected an attempt")
	case rec.Allocation == "" && lifecycle.OfAllocation(rec.Type):
		return invalid("expected an allocation")
	case unleased[rec.Type]:
		return nil
	case lease == nil:
		return &sallyport.Error{Op: "append", Code: sallyport.CodeFenced, Subject: typ, Message: "only the holder of the attempt's lease may append it", Hint: "acquire the lease first"}
	case lease.Attempt != rec.Attempt:
		return invalid(fmt.Sprintf("the lease is of %s, the record of %s", lease.Attempt, rec.Attempt))
	}
	return nil
}
