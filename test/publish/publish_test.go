package publish

import (
	"testing"

	"sallyport.dev/sallyport/internal/forge/forgetest"
)

func start(t *testing.T) *forgetest.Gitea {
	g := forgetest.Start(t)
	for _, name := range []string{"owner", "bot"} {
		g.User(t, name)
	}
	return g
}

// TestPullRequest: an accepted change becomes one pull request, whose head is the validated commit.
func TestPullRequest(t *testing.T) {
	s := open(t, start(t), "shop")
	r := s.Run("fix", "echo good > a", "--publish", "pr").Want(0).Report()
	list := s.pulls()
	if len(list) != 1 {
		t.Fatalf("%d pull requests", len(list))
	}
	p := list[0]
	if p.State != "open" || !p.Draft || p.Head.SHA != string(r.Commit) || p.Head.Ref != "sallyport/fix" || p.Base.Ref != "main" || p.User.Login != "bot" || p.URL != r.PullRequest {
		t.Errorf("%+v, report %+v", p, r)
	}
	again := s.Sallyport("publish", string(r.Attempt)).Want(0)
	_ = again
	// A second Attempt of the work order brings the same request up to date.
	two := s.Run("fix", "echo good two > a", "--publish", "pr").Want(0).Report()
	if list = s.pulls(); len(list) != 1 || list[0].Head.SHA != string(two.Commit) || list[0].Number != p.Number {
		t.Errorf("after the second: %+v", list)
	}
}
