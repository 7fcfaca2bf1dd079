package cli

import (
	"context"
	"io"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/control"
	"sallyport.dev/sallyport/internal/journal"
)

// Control is what the command line needs of Mission Control; *control.Control provides it. What each method
// promises is written there.
type Control interface {
	Close() error
	Journal() journal.Journal
	Attempt(ctx context.Context, prefix string) (journal.Attempt, error)
	Manifest(at journal.Attempt) (sallyport.Manifest, error)

	Submit(ctx context.Context, r Request) (sallyport.AttemptID, error)
	StartDriver(ctx context.Context, id sallyport.AttemptID) error
	Drive(ctx context.Context, id sallyport.AttemptID) error
	Follow(ctx context.Context, id sallyport.AttemptID, on Observer) (journal.Attempt, error)
	Attach(ctx context.Context, id string, t Terminal) error

	Logs(ctx context.Context, id string, follow bool, w io.Writer) error
	Diff(ctx context.Context, id string, o DiffOptions, w io.Writer) error
	Export(ctx context.Context, id, dir string) error
	Shell(ctx context.Context, id string, t Terminal) (exit int, err error)
	Check(ctx context.Context, id, name string) ([]sallyport.CheckResult, error)

	Cancel(ctx context.Context, id, who, why string) error
	Approve(ctx context.Context, id, who, why string) (journal.Attempt, error)
	SignApproval(ctx context.Context, id string, shown sallyport.Digest, who string, key approval.Signer) error
	Reject(ctx context.Context, id, who, why string) (journal.Attempt, error)
	Retry(ctx context.Context, id, message string) (sallyport.AttemptID, error)
	Publish(ctx context.Context, id string) (journal.Attempt, error)

	Reconcile(ctx context.Context, dryRun bool) ([]string, error)
	Fsck(ctx context.Context) ([]string, error)
	GC(ctx context.Context, dryRun bool) ([]string, error)
	Doctor(ctx context.Context) (Doctor, error)

	TrustAsks(ctx context.Context, dir string) (Trust, error)
	Grant(ctx context.Context, t Trust) error
	PublicKeys() ([]byte, error)
	RotateKey(ctx context.Context) error
}

// The shapes that cross the border to Mission Control.
type (
	Request     = control.Request
	Observer    = control.Observer
	Terminal    = control.Terminal
	DiffOptions = control.DiffOptions
	Doctor      = control.Doctor
	Fact        = control.Fact
	Fix         = control.Fix
	Trust       = control.Trust
)

var _ Control = (*control.Control)(nil)
