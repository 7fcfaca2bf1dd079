package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

func TestExitCode(t *testing.T) {
	published := func(a *journal.Attempt) { a.Publication, a.Published = &lifecycle.Publication{}, true }
	refused := func(a *journal.Attempt) { a.Publication = &lifecycle.Publication{} }
	because := func(code string) func(*journal.Attempt) {
		return func(a *journal.Attempt) { a.Report.Reason.Code = code }
	}
	for _, c := range []struct {
		name string
		at   journal.Attempt
		want int
	}{
		{"accepted and published", at(sallyport.AttemptAccepted, published), 0},
		{"accepted, publication not asked", at(sallyport.AttemptAccepted), 0},
		{"accepted, branch not free", at(sallyport.AttemptAccepted, refused), 10},
		{"awaiting approval", at(sallyport.AttemptAwaitingApproval), 10},
		{"rejected", at(sallyport.AttemptRejected), 20},
		{"failed", at(sallyport.AttemptFailed, because("agent-failed")), 30},
		{"failed on a limit", at(sallyport.AttemptFailed, because("limit")), 30},
		{"layer not held", at(sallyport.AttemptFailed, because("layer-not-held")), 40},
		{"denied", at(sallyport.AttemptFailed, because("denied")), 40},
		{"cancelled", at(sallyport.AttemptCancelled), 130},
		{"a rejection is no refusal", at(sallyport.AttemptRejected, because("denied")), 20},
		{"not ended", at(sallyport.AttemptRunning), 1},
		{"nothing", journal.Attempt{}, 1},
		{"a state of another version", at("merged"), 1},
	} {
		if got := ExitCode(c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestExitCodeOf(t *testing.T) {
	of := func(c sallyport.Code) error { return &sallyport.Error{Code: c} }
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{of(sallyport.CodeInvalid), 2}, {of(sallyport.CodeNotFound), 2}, {of(sallyport.CodeConflict), 2},
		{of(sallyport.CodeDenied), 40}, {of(sallyport.CodeUnsupported), 40},
		{of(sallyport.CodeUnknown), 1}, {of(sallyport.CodeFenced), 1}, {of(sallyport.CodeUnavailable), 1},
		{of(sallyport.CodeCorrupt), 1}, {of(sallyport.CodeExhausted), 1},
		{errors.New("other"), 1},
		{fmt.Errorf("wrapped: %w", of(sallyport.CodeDenied)), 40},
		{context.Canceled, 130},
		{&sallyport.Error{Op: "wait", Err: context.Canceled}, 130},
		{&sallyport.Error{Code: sallyport.CodeDenied, Err: context.Canceled}, 40},
		{&exitError{code: 20, err: of(sallyport.CodeDenied)}, 20},
		{fmt.Errorf("wrapped: %w", exit(77)), 77},
		{exit(0), 0},
	} {
		if got := ExitCodeOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestChecksCode(t *testing.T) {
	of := func(s ...sallyport.CheckStatus) (out []sallyport.CheckResult) {
		for _, x := range s {
			out = append(out, sallyport.CheckResult{Status: x})
		}
		return out
	}
	for _, c := range []struct {
		results []sallyport.CheckResult
		want    int
	}{
		{nil, 0}, {of("passed", "not-run"), 0}, {of("passed", "flaky"), 10}, {of("flaky", "failed", "passed"), 20},
		{of("failed", "error"), 30}, {of("something"), 30}, {of(""), 30},
	} {
		if got := checksCode(c.results); got != c.want {
			t.Errorf("%v: %d, want %d", c.results, got, c.want)
		}
	}
}
