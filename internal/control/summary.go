package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
)

// The SLSA summary beside the evidence is never kinder than the journal, whenever a crash comes: a no is there
// before the record, a yes after it. One that is not there yet is Reconcile's to write.

// summaryPath is where the SLSA summary of signed evidence lies: beside it, under its name.
func summaryPath(evidencePath string) string {
	folder, name := filepath.Split(evidencePath)
	return filepath.Join(folder, "summary-"+strings.TrimPrefix(name, "evidence-"))
}

// summarise signs the SLSA summary of evidence that lies at path: PASSED once the change is accepted, FAILED
// until then. It replaces an earlier one, so a person's word is followed by another call.
func (c *Control) summarise(ctx context.Context, path string, id sallyport.AttemptID, decision sallyport.Decision) error {
	envelope, err := os.ReadFile(path)
	if err != nil {
		return stateError(path, err)
	}
	v, err := evidence.Verify(envelope, c.keys.Keys(), evidence.Expect{Attempt: id})
	if err != nil {
		return err
	}
	signer, err := c.keys.Signer()
	if err != nil {
		return err
	}
	vsa, err := evidence.Summarise(v, decision, time.Now())
	if err != nil {
		return err
	}
	b, _, err := evidence.SealVSA(ctx, signer, vsa)
	if err != nil {
		return err
	}
	return writeDurable(summaryPath(path), b)
}

// undecided is what a summary may say of a decision that is not recorded.
func undecided(d sallyport.Decision) sallyport.Decision {
	if d == sallyport.DecisionAccepted {
		return sallyport.DecisionAwaitingApproval
	}
	return d
}

// summariseAccepted is for an Attempt whose acceptance is recorded. Repeat: the same again.
func (c *Control) summariseAccepted(ctx context.Context, id sallyport.AttemptID) error {
	at, err := c.journal.Attempt(ctx, id)
	if err != nil {
		return err
	}
	return c.summarise(ctx, at.Report.Evidence, id, sallyport.DecisionAccepted)
}

// checkSummary verifies the summary of v, the evidence of an Attempt. Behind: the journal accepted the change and
// the summary does not say so yet. CodeDenied and the like where it is not one, is about something else or kinder.
func (c *Control) checkSummary(ctx context.Context, at journal.Attempt, v evidence.Verified) (behind bool, err error) {
	path := summaryPath(at.Report.Evidence)
	b, err := os.ReadFile(path)
	if err != nil {
		return false, stateError(path, err)
	}
	s, _, err := evidence.ReadVSA(b, c.keys.Keys(), evidence.SummaryOf(v))
	if err != nil {
		return false, err
	}
	passed := s.Predicate.VerificationResult == evidence.VSAPassed
	accepted := at.Report.State == sallyport.AttemptAccepted
	if passed == accepted {
		return false, nil
	}
	// A person may have decided since the journal was read.
	if at, err = c.journal.Attempt(ctx, at.Report.Attempt); err != nil {
		return false, err
	}
	accepted = accepted || at.Report.State == sallyport.AttemptAccepted
	if passed && !accepted {
		return false, fmt.Errorf("%s says %s, and the journal that the change is %s", path, evidence.VSAPassed, at.Report.State)
	}
	return !passed && accepted, nil
}

// behind reports whether an accepted Attempt's summary is still to be written. What is wrong with it is Fsck's to
// say.
func (c *Control) behind(ctx context.Context, at journal.Attempt) bool {
	if at.Report.State != sallyport.AttemptAccepted || at.Report.Evidence == "" {
		return false
	}
	b, err := os.ReadFile(at.Report.Evidence)
	if err != nil {
		return false
	}
	v, err := evidence.Verify(b, c.keys.Keys(), evidence.Expect{Attempt: at.Report.Attempt})
	if err != nil {
		return false
	}
	late, err := c.checkSummary(ctx, at, v)
	return err == nil && late
}
