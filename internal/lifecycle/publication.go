package lifecycle

import (
	"strings"

	"sallyport.dev/sallyport"
)

// publicationIntended is durable before the ref moves. A second intent replaces an open one: the publisher
// looked, found the ref elsewhere and tries again.
func publicationIntended(s *State, e Event, p Publication) error {
	if err := p.Commit.Check(); err != nil {
		return err
	}
	switch {
	case !strings.HasPrefix(p.Branch, "refs/"):
		return invalid(e.Type, "expected a full ref name, got %q", p.Branch)
	case s.Published:
		return conflict(string(e.Type), "not allowed: the attempt is published already", "")
	case s.Report.Commit != "" && p.Commit != s.Report.Commit:
		return conflict(string(e.Type), "not allowed: the commit is not the one that was signed", "sign the commit that is to be published")
	}
	s.Publication, s.Publishing = &p, true
	return nil
}

// publicationDone may be repeated with the same commit: whoever finds the ref in place may say so.
func publicationDone(s *State, e Event, p Publication) error {
	if s.Publication == nil || s.Publication.Branch != p.Branch || s.Publication.Commit != p.Commit || s.Publication.Nonce != p.Nonce {
		return conflict(string(e.Type), "not allowed: this branch and commit were not intended", "append publication.intended first")
	}
	s.Report.Branch = strings.TrimPrefix(p.Branch, "refs/heads/")
	s.Report.Commit = p.Commit
	s.Publication = &p
	s.Report.PullRequest = p.URL
	s.Publishing, s.Published = false, true
	if s.Report.Reason.Code == RefusedBranch || s.Report.Reason.Code == RefusedPullRequest {
		s.Report.Reason = sallyport.Reason{Code: "published", Message: "accepted, and published once its branch was free"}
	}
	return nil
}

// RefusedBranch is the reason of an acceptance whose branch was not free.
const RefusedBranch = "branch-taken"

// RefusedPullRequest is the reason of an acceptance that the Publisher refused, or could not carry out.
const RefusedPullRequest = "not-published"

// publicationRefused leaves the acceptance as it is: the change is good, the branch was not free.
func publicationRefused(s *State, e Event, p sallyport.Reason) error {
	if !s.Publishing {
		return conflict(string(e.Type), "not allowed: no publication is under way", "")
	}
	s.Publishing = false
	s.Report.Reason = p
	return nil
}
