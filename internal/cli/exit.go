package cli

import (
	"context"
	"errors"
	"os"
	"syscall"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
)

// The exit codes of every verb. They are documented and stable.
const (
	ExitOK          = 0  // accepted (and published where that was asked), or: the verb did what it was asked
	ExitInternal    = 1  // our own fault, or our own state is in doubt
	ExitInvalid     = 2  // the request cannot be right as it stands
	ExitAwaiting    = 10 // a person must say; also: accepted, but the branch was not free
	ExitRejected    = 20
	ExitFailed      = 30 // the Attempt failed: agent, limit, sandbox
	ExitRefused     = 40 // not started: policy, a missing grant, a required layer that cannot be enforced
	ExitHangup      = 129
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// refusals are the reasons by which an Attempt ends before any code of its WorkOrder ran.
func refusal(code string) bool {
	switch code {
	case "layer-not-held", "not-granted", "refused", sallyport.CodeDenied.String(), sallyport.CodeUnsupported.String():
		return true
	}
	return false
}

// ExitCode is the exit code that an Attempt's end stands for; ExitInternal for one that has not ended.
func ExitCode(at journal.Attempt) int {
	switch at.Report.State {
	case sallyport.AttemptAccepted:
		if unpublished(at) {
			return ExitAwaiting
		}
		return ExitOK
	case sallyport.AttemptAwaitingApproval:
		return ExitAwaiting
	case sallyport.AttemptRejected:
		return ExitRejected
	case sallyport.AttemptFailed:
		if refusal(at.Report.Reason.Code) {
			return ExitRefused
		}
		return ExitFailed
	case sallyport.AttemptCancelled:
		return ExitInterrupted
	}
	return ExitInternal
}

// unpublished: accepted, and the branch was to move and did not.
func unpublished(at journal.Attempt) bool {
	return at.Report.State == sallyport.AttemptAccepted && at.Publication != nil && !at.Published
}

// ExitCodeOf is the exit code for an error; ExitOK for nil.
func ExitCodeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.code
	}
	switch sallyport.CodeOf(err) {
	case sallyport.CodeDenied, sallyport.CodeUnsupported:
		return ExitRefused
	case sallyport.CodeInvalid, sallyport.CodeNotFound, sallyport.CodeConflict:
		return ExitInvalid
	case sallyport.CodeUnknown:
		if errors.Is(err, context.Canceled) {
			return ExitInterrupted
		}
	}
	return ExitInternal
}

// exitError carries an exit code up. Without err there is nothing left to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "exit"
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit is nil for ExitOK.
func exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exitError{code: code}
}

// signalCode is what a shell would report for a program that a signal ended.
func signalCode(s os.Signal) int {
	switch s {
	case syscall.SIGHUP:
		return ExitHangup
	case syscall.SIGTERM:
		return ExitTerminated
	}
	return ExitInterrupted
}
