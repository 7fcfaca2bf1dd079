package publisher

import "testing"

// One change becomes one pull request, and the next Attempt of its work order brings the same up to date.
func TestPublish(t *testing.T) {
	s := newStage(t, "publish")
	p := s.publisher(Options{})
	one := s.accept("one\n", nil)
	first := s.must(p, one)
	if !first.PullRequest.Opened || !first.PullRequest.Draft || first.Replaced != "" || first.Credential.Class != "minted" || first.Credential.Revoked == "" || first.Credential.Identity != s.bot {
		t.Errorf("%+v %+v", first, first.PullRequest)
	}
	two := s.accept("two\n", nil)
	second := s.must(p, two)
	if second.PullRequest.Opened || second.PullRequest.Number != first.PullRequest.Number || second.Replaced != one.commit {
		t.Errorf("%+v %+v", second, second.PullRequest)
	}
}
