package publisher

import (
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
	Branch      *BranchRow               // what was last pushed and is known to have arrived
	Pushing     *BranchRow               // intended, and not known to have arrived
	Pushed      []sallyport.ObjectID     // every commit that we ever intended for the branch
	Opening     *PullRow                 // intended, and not known to be there
	Pulls       []PullRow                // ours, oldest first
	Closed      []PullRow                // closed by us
}

func newState(s Scope) *State {
	return &State{Scope: s, Heads: map[string][]Received{}, Requests: map[string]Received{}, Receipts: map[string]string{}, Credentials: map[string]CredentialRow{}}
}

func (s *State) apply(r Record) {
	switch r.Type {
	case RequestReceived:
		s.Fence = max(s.Fence, r.Request.Fence)
		s.Heads[r.Request.Origin] = append(s.Heads[r.Request.Origin], *r.Request)
		s.Requests[r.Nonce] = *r.Request
	case CredentialIntended, CredentialBound, CredentialFailed:
		row := s.Credentials[r.Credential.Mark]
		if row.Mark = r.Credential.Mark; r.Credential.Sealed != nil {
			row = *r.Credential
		}
		row.Proof = r.Credential.Proof
		s.Credentials[row.Mark] = row
	case CredentialGone:
		delete(s.Credentials, r.Credential.Mark)
	case BranchIntended:
		s.Pushing = r.Branch
		if !slices.Contains(s.Pushed, r.Branch.Commit) {
			s.Pushed = append(s.Pushed, r.Branch.Commit)
		}
	case BranchBound:
		s.Branch, s.Pushing = r.Branch, nil
	case PullRequestIntended:
		s.Opening = r.Pull
	case PullRequestBound:
		s.Opening = nil
		if i := s.pull(r.Pull.Number); i < 0 {
			s.Pulls = append(s.Pulls, *r.Pull)
		}
	case PullRequestClosed:
		if i := s.pull(r.Pull.Number); i >= 0 {
			s.Pulls = slices.Delete(s.Pulls, i, i+1)
		}
		s.Closed = append(s.Closed, *r.Pull)
	case RequestDone:
		s.Receipts[r.Nonce] = r.Receipt
	}
}

func (s *State) pull(number int64) int {
	return slices.IndexFunc(s.Pulls, func(p PullRow) bool { return p.Number == number })
}

// admit says whether a request may go on. nil with a receipt: it is done already.
func (s *State) admit(nonce string, r Received) error {
	if was, ok := s.Requests[nonce]; ok {
		if was.Acceptance != r.Acceptance {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "nonce", Message: "this nonce was used for another acceptance"}
		}
		return nil
	}
	if r.Fence < s.Fence {
		return &sallyport.Error{Op: "publish", Code: sallyport.CodeFenced, Subject: "fence", Message: "a later driver of this work order has published since"}
	}
	for _, h := range s.Heads[r.Origin] {
		if h.Seq > r.Seq || h.Seq == r.Seq && h.Hash != r.Hash {
			return otherHistory()
		}
	}
	if len(s.Heads) > 0 && s.Heads[r.Origin] == nil {
		return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "journal", Message: "the work order belongs to another journal"}
	}
	return nil
}
