package control

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
)

// An approval with a person's own key lies beside the evidence, named by its digest. It is a signature: whoever puts one
// there that is none, or takes one away, gains nothing.

const approvalSuffix = ".approval"

// approvals are those of an Attempt.
func (c *Control) approvals(id sallyport.AttemptID) ([]string, error) {
	dir := c.attemptFolder(id)
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, stateError(dir, err)
	}
	var out []string
	for _, e := range names {
		if !strings.HasSuffix(e.Name(), approvalSuffix) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, stateError(name, err)
		}
		out = append(out, string(b))
	}
	return out, nil
}

// SignApproval signs a person's approval of an Attempt as it stands, with their own key: its evidence and its target, and
// nothing else. Only a Publisher that pins the key can make anything of it. CodeConflict: it has no evidence, or goes nowhere.
//
// shown is the evidence that the person was shown: CodeConflict too where it is another one by now.
func (c *Control) SignApproval(ctx context.Context, id string, shown sallyport.Digest, who string, key approval.Signer) error {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return err
	}
	if at.Report.EvidenceDigest != shown {
		return &sallyport.Error{Op: "approve", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "its evidence has changed since you were shown it", Hint: "look at it again: call the same command"}
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil {
		return err
	}
	a, err := c.approvable(at, m)
	if err != nil {
		return err
	}
	a.Approver, a.Given = who, approval.Time(time.Now())
	blob, err := approval.Sign(ctx, key, a)
	if err != nil {
		return err
	}
	return writeDurable(filepath.Join(c.attemptFolder(at.Report.Attempt), sallyport.Sum(blob).Hex()[:16]+approvalSuffix), blob)
}

func (c *Control) approvable(at journal.Attempt, m sallyport.Manifest) (approval.Approval, error) {
	refuse := func(message string) (approval.Approval, error) {
		return approval.Approval{}, &sallyport.Error{Op: "approve", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: message}
	}
	if at.Report.EvidenceDigest == "" {
		return refuse("it has no evidence that could be approved")
	}
	if m.Publish.To != "pr" {
		return refuse("it goes to no forge: `sallyport approve` without --key is enough")
	}
	envelope, err := os.ReadFile(at.Report.Evidence)
	if err != nil {
		return approval.Approval{}, stateError(at.Report.Evidence, err)
	}
	v, err := evidence.Verify(envelope, c.keys.Keys(), evidence.Expect{Attempt: at.Report.Attempt})
	if err != nil {
		return approval.Approval{}, err
	}
	p := v.Statement.Predicate
	return approval.Approval{Evidence: v.Envelope, Tree: p.Result.Tree, BaseCommit: p.Base.Commit, Manifest: p.Manifest,
		Target: approval.Target{Repository: m.Publish.Repository, BaseBranch: m.Publish.Base, HeadBranch: strings.TrimPrefix(branchOf(m), "refs/heads/")}}, nil
}
