package publisher

import (
	"fmt"
	"slices"

	"sallyport.dev/sallyport"
)

// State is the fold of a scope's records.
type State struct {
	Scope       Scope
	Fence       int64                    // the highest that was received
	Heads       map[string][]Received    // by origin: the points of that journal that acceptances were tied to
	Requests    map[string]Received      // by nonce
	Receipts    map[string]string        // by nonce
	Credentials map[string]CredentialRow // by mark: those not proved gone
	Ref, Base   string                   // the one branch and base of the scope, from the first effect on
	Branch      *BranchRow               // what was last pushed and is known to have arrived
	Pushing     *BranchRow               // intended, and not known to have arrived
	Pushed      []sallyport.ObjectID     // every commit that we ever intended for the branch
	Attached    []sallyport.ObjectID     // every commit of evidence that we ever intended
	Opening     *PullRow                 // intended, and not known to be there
	Pulls       []PullRow                // ours, oldest first
	Closed      []PullRow                // closed by us
}

// NewState is that of a scope without records.
func NewState(s Scope) *State {
	return &State{Scope: s, Heads: map[string][]Received{}, Requests: map[string]Received{}, Receipts: map[string]string{}, Credentials: map[string]CredentialRow{}}
}

// Apply folds one record into s.
func (s *State) Apply(r Record) {
	switch r.Type {
	case RequestReceived:
		s.Fence = max(s.Fence, r.Request.Fence)
		s.Heads[r.Request.Origin] = append(s.Heads[r.Request.Origin], *r.Request)
		s.Requests[r.Nonce] = *r.Request
	case CredentialIntended, CredentialBound, CredentialFailed:
		row, known := s.Credentials[r.Credential.Mark]
		if !known || r.Credential.Sealed != nil {
			row = *r.Credential
		}
		row.Proof = r.Credential.Proof
		s.Credentials[row.Mark] = row
	case CredentialGone:
		delete(s.Credentials, r.Credential.Mark)
	case BranchIntended:
		s.Pushing, s.Ref = r.Branch, r.Branch.Ref
		s.Pushing.nonce = r.Nonce
		if !slices.Contains(s.Pushed, r.Branch.Commit) {
			s.Pushed = append(s.Pushed, r.Branch.Commit)
		}
	case BranchBound:
		s.Branch, s.Pushing = r.Branch, nil
		s.Branch.nonce = r.Nonce
	case BranchGone:
		s.Branch = nil
	case EvidenceIntended:
		if !slices.Contains(s.Attached, r.Evidence.Commit) {
			s.Attached = append(s.Attached, r.Evidence.Commit)
		}
	case PullRequestIntended:
		s.Opening, s.Base = r.Pull, r.Pull.Base
		s.Opening.nonce = r.Nonce
	case PullRequestBound:
		s.Opening, s.Base, r.Pull.nonce = nil, r.Pull.Base, r.Nonce
		if i := s.pull(r.Pull.Number); i < 0 {
			s.Pulls = append(s.Pulls, *r.Pull)
		} else {
			s.Pulls[i].Labels = r.Pull.Labels
		}
	case PullRequestClosed, PullRequestGone:
		if i := s.pull(r.Pull.Number); i >= 0 {
			s.Pulls = slices.Delete(s.Pulls, i, i+1)
		}
		if r.Type == PullRequestClosed {
			s.Closed = append(s.Closed, *r.Pull)
		}
	case RequestDone:
		s.Receipts[r.Nonce] = r.Receipt
	}
}

func (s *State) pull(number int64) int {
	return slices.IndexFunc(s.Pulls, func(p PullRow) bool { return p.Number == number })
}

// Admit says whether a request may go on. One that is done may always be asked for again; one that is not, only while
// nothing later was received: it would put an older change in the place of a newer one.
func (s *State) Admit(nonce string, r Received) error {
	deny := func(code sallyport.Code, subject, message, hint string) error {
		return &sallyport.Error{Op: "publish", Code: code, Subject: subject, Message: message, Hint: hint}
	}
	was, known := s.Requests[nonce]
	if known && was.Acceptance != r.Acceptance {
		return deny(sallyport.CodeDenied, "nonce", "this nonce was used for another acceptance", "")
	}
	if _, done := s.Receipts[nonce]; known && done {
		return nil
	}
	if r.Fence < s.Fence {
		return deny(sallyport.CodeFenced, "fence", "a later driver of this work order has published since", "")
	}
	for _, h := range s.Heads[r.Origin] {
		if h.Seq > r.Seq || h.Seq == r.Seq && h.Hash != r.Hash {
			return otherHistory()
		}
	}
	if len(s.Heads) > 0 && s.Heads[r.Origin] == nil {
		return deny(sallyport.CodeDenied, "journal", "the work order belongs to another journal", "")
	}
	if s.Ref != "" && s.Ref != r.Branch || s.Base != "" && s.Base != r.Base {
		return deny(sallyport.CodeDenied, "target", fmt.Sprintf("the work order has its one pull request already, from %s to %s", s.Ref, s.Base), "run the task under another name")
	}
	return nil
}
