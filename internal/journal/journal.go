// Package journal is the append-only record of what was intended and what happened, with the leases that
// say who may append for an Attempt. A store keeps the log, its hash chain and the projections in one
// transaction; journal/sqlite is the embedded one. What events mean is internal/lifecycle's.
package journal

import (
	"context"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Record is one event to append. Data is marshalled to JSON by the store.
type Record struct {
	Type       lifecycle.Type
	Attempt    sallyport.AttemptID
	Allocation sallyport.AllocationID
	Data       any
}

// Holder is a process that may drive: exact enough to prove that it is dead on this host.
type Holder struct {
	Host      string // host name, for people
	Boot      string // boot id
	PID       int
	StartTime uint64 // field 22 of /proc/PID/stat
	PIDSpace  uint64 // inode of its pid namespace, in which PID counts
}

// Lease says who drives an Attempt, until when, under which fence.
type Lease struct {
	Attempt sallyport.AttemptID
	Holder  Holder
	Fence   int64         // grows with each acquisition, over all Attempts
	Until   time.Duration // on this boot's CLOCK_BOOTTIME
}

// Allocation is the projection of one external resource.
type Allocation struct {
	ID       sallyport.AllocationID
	Attempt  sallyport.AttemptID
	Purpose  sallyport.Purpose
	Label    string
	Provider string
	Spec     sallyport.Digest
	Resource sallyport.ResourceID
	State    sallyport.SandboxState
	Reason   sallyport.Reason
}

// Attempt is the projection of one Attempt.
type Attempt struct {
	Report          sallyport.Report
	Submitter       string
	StartTree       sallyport.ObjectID
	Feedback        string
	CancelRequested bool
	CancelBy        string
	Logs            []lifecycle.Log
	Egress          *lifecycle.Egress // nil: no way out was opened, as far as is recorded
	EgressOpen      int               // ways out of which nobody said (yet) what went through
	Spend           *lifecycle.Spend  // nil: nothing was metered
	Imported        *lifecycle.Imported
	Publication     *lifecycle.Publication // the last intent
	Publishing      bool                   // that intent is neither done nor refused: the ref may have moved
	Published       bool
	Lease           *Lease // the last lease, expired or not; nil: never or released
}

// Journal is one store. Several processes may have it open.
type Journal interface {
	// Append makes the records durable in one transaction, in order, and returns when they are on disk.
	// With a lease: CodeFenced unless it is the current one of that Attempt. Without one only what a person
	// or a creator may append is taken (created, cancel-requested, approved, rejected-by, publication.*, key,
	// checkpoint). An event that its table does not allow: CodeConflict, a sentence that names event and
	// state, and nothing is appended.
	Append(ctx context.Context, lease *Lease, records ...Record) ([]lifecycle.Event, error)

	// Acquire takes the lease if there is none, it has expired, or its holder is proven dead (dead may be
	// nil); by compare-and-swap. Held by another: CodeConflict naming the holder.
	Acquire(ctx context.Context, id sallyport.AttemptID, h Holder, ttl time.Duration, dead func(Holder) bool) (Lease, error)
	// Renew extends; CodeFenced if lost.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)
	// Release gives it back; nil if it is no longer ours.
	Release(ctx context.Context, l Lease) error

	Attempt(ctx context.Context, id sallyport.AttemptID) (Attempt, error)
	// Attempts lists newest first; all=false leaves out those that have ended and are not being
	// published.
	Attempts(ctx context.Context, all bool) ([]Attempt, error)
	// Find resolves an id or a unique prefix (with or without "att_"). CodeNotFound, CodeConflict.
	Find(ctx context.Context, prefix string) (Attempt, error)
	// OfWorkOrder lists the Attempts of one WorkOrder, oldest first.
	OfWorkOrder(ctx context.Context, id sallyport.WorkOrderID) ([]Attempt, error)
	Allocations(ctx context.Context, id sallyport.AttemptID) ([]Allocation, error)
	// OpenAllocations lists every allocation that is not terminated.
	OpenAllocations(ctx context.Context) ([]Allocation, error)
	// Events after seq, at most limit, oldest first; id empty: of all Attempts.
	Events(ctx context.Context, id sallyport.AttemptID, after int64, limit int) ([]lifecycle.Event, error)
	// Head is the last sequence number and hash.
	Head(ctx context.Context) (int64, sallyport.Digest, error)
	// Check walks the whole chain and replays it against the projections; CodeCorrupt names the first fault.
	Check(ctx context.Context) error
	Close() error
}
