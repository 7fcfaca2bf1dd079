package publisher

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence/evidencetest"
)

// begun is a stage with one pull request.
func begun(t *testing.T, name string) (*stage, *Publisher, order1) {
	t.Helper()
	s := newStage(t, name)
	p := s.publisher(Options{})
	o := s.accept("one\n", nil)
	s.must(p, o)
	return s, p, o
}

// A person's commit is never overwritten, whoever asks how often.
func TestPersonsCommit(t *testing.T) {
	s, p, _ := begun(t, "persons-commit")
	theirs := s.forge.Commit(t, "owner", s.repo, "sallyport/fix")
	next := s.accept("two\n", nil)
	for range 2 {
		s.fails(p, next, sallyport.CodeConflict, string(theirs))
	}
	if tip := s.tip("sallyport/fix"); tip != theirs {
		t.Errorf("the branch is at %s", tip)
	}
	if left := s.tokens(); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
}

// A branch of that name that was there before is a person's too.
func TestPersonsBranch(t *testing.T) {
	s := newStage(t, "persons-branch")
	theirs := s.forge.Commit(t, "owner", s.repo, "sallyport/fix")
	s.fails(s.publisher(Options{}), s.accept("one\n", nil), sallyport.CodeConflict)
	if tip := s.tip("sallyport/fix"); tip != theirs || len(s.pullRequests("all")) > 0 {
		t.Errorf("the branch is at %s", tip)
	}
}

func TestClosedAndReopened(t *testing.T) {
	s, p, _ := begun(t, "closed")
	number := s.pullRequests("open")[0].Number
	s.forge.ClosePull(t, s.repo, number)
	next := s.accept("two\n", nil)
	before := s.tip("sallyport/fix")
	s.fails(p, next, sallyport.CodeDenied, "closed by a person")
	if s.tip("sallyport/fix") != before || len(s.pullRequests("open")) > 0 {
		t.Error("something was done all the same")
	}
	if n := s.types(p)[PullRequestGone]; n != 1 {
		t.Errorf("%d records of a pull request that is gone", n)
	}
	s.reopen(number)
	if r := s.must(p, next); r.PullRequest.Number != number || r.PullRequest.Opened {
		t.Errorf("%+v", r.PullRequest)
	}
}

// A no that comes between the first look and the push is one as well.
func TestClosedBeforeThePush(t *testing.T) {
	s, _, _ := begun(t, "closed-before-push")
	number := s.pullRequests("open")[0].Number
	p := s.publisher(Options{At: func(point string) {
		if point == "before push" {
			s.forge.ClosePull(t, s.repo, number)
		}
	}})
	next := s.accept("two\n", nil)
	s.fails(p, next, sallyport.CodeDenied, "closed by a person")
	if len(s.pullRequests("all")) != 1 || len(s.pullRequests("open")) > 0 {
		t.Error("another one was opened in its place")
	}
	if left := s.tokens(); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
}

func TestMerged(t *testing.T) {
	s, p, o := begun(t, "merged")
	number := s.pullRequests("open")[0].Number
	s.unprotected(func() {
		s.forge.Do(t, "", http.MethodPatch, "/repos/"+s.repo+"/pulls/1", map[string]string{"title": "Ready"}, nil)
		s.forge.MergePull(t, s.repo, number)
	})
	s.fails(p, s.accept("two\n", nil), sallyport.CodeDenied, "merged")
	if _, err := s.publish(p, s.again(o)); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Error(err)
	}
}

// Gitea closes a pull request whose branch is deleted: a person has said no. Put back, it goes on.
func TestBranchDeleted(t *testing.T) {
	s, p, o := begun(t, "branch-deleted")
	s.forge.DeleteBranch(t, "owner", s.repo, "sallyport/fix")
	if len(s.pullRequests("open")) > 0 {
		t.Fatal("Gitea does not close it any more")
	}
	next := s.accept("two\n", nil)
	s.fails(p, next, sallyport.CodeDenied, "closed by a person")
	if s.tip("sallyport/fix") != "" {
		t.Error("the branch was made again")
	}
	s.git("fetch", "-q", s.remote(), "refs/pull/1/head")
	s.git("push", "-q", s.remote(), string(o.commit)+":refs/heads/sallyport/fix")
	s.reopen(1)
	if r := s.must(p, next); r.PullRequest.Number != 1 {
		t.Errorf("%+v", r.PullRequest)
	}
}

// A branch that is gone before there was a pull request is made again, and the ledger says so.
func TestBranchDeletedEarly(t *testing.T) {
	s := newStage(t, "branch-early")
	o := s.accept("one\n", nil)
	s.start(o, func(c *plan) { c.Kill = "after branch.bound" }).killed(t)
	s.forge.DeleteBranch(t, "owner", s.repo, "sallyport/fix")
	p := s.publisher(Options{})
	s.must(p, o)
	if n := s.types(p)[BranchGone]; n != 1 {
		t.Errorf("%d records of a branch that is gone", n)
	}
}

func TestBaseMoved(t *testing.T) {
	s, p, _ := begun(t, "base-moved")
	next := s.accept("two\n", nil)
	s.moveMain()
	strict := *s
	strict.config.Targets = slices.Clone(s.config.Targets)
	strict.config.Targets[0].BaseMoved = "refuse"
	strict.fails(strict.publisher(Options{}), next, sallyport.CodeConflict, "moved on")
	if r := s.must(p, next); len(r.Notes) != 1 {
		t.Errorf("%q", r.Notes)
	}
}

func TestBaseRewritten(t *testing.T) {
	s, p, _ := begun(t, "base-rewritten")
	next := s.accept("two\n", nil)
	s.unprotected(func() {
		s.git("commit", "-q", "--amend", "-m", "another history")
		s.git("push", "-q", "-f", s.remote(), "HEAD:main")
	})
	tip := s.tip("sallyport/fix")
	s.fails(p, next, sallyport.CodeDenied, "history")
	if s.tip("sallyport/fix") != tip {
		t.Error("pushed all the same")
	}
}

// A base whose history has a fault of an old tool is published to.
func TestBaseWithAnOldFault(t *testing.T) {
	s, p, repo := folderStage(t, Options{})
	old := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(old, []byte("tree "+s.git("rev-parse", "HEAD^{tree}")+"\nauthor a<a@example.test> 1 +0000\ncommitter a <a@example.test> 1 +0000\n\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.git("reset", "-q", "--hard", s.git("hash-object", "-t", "commit", "-w", "--literally", old))
	s.git("commit", "-q", "--allow-empty", "-m", "new")
	s.git("push", "-q", "-f", repo, "HEAD:refs/heads/main")
	o := s.accept("one\n", nil)
	if r := s.receipt(p, o); r.Commit != o.commit || len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
}

// A commit that nobody at the forge has ever seen is in no history.
func TestBaseUnknown(t *testing.T) {
	s := newStage(t, "base-unknown")
	s.git("commit", "-q", "--allow-empty", "-m", "here only")
	s.fails(s.publisher(Options{}), s.accept("one\n", nil), sallyport.CodeDenied, "history")
}

func TestRenamed(t *testing.T) {
	s, p, _ := begun(t, "renamed")
	next := s.accept("two\n", nil)
	s.forge.Do(t, "", http.MethodPatch, "/repos/"+s.repo, map[string]string{"name": "renamed-now"}, nil)
	s.repo = "owner/renamed-now"
	s.fails(p, next, sallyport.CodeInvalid, "renamed-now")
}

// One that a person has opened from our branch is taken for the one, without a word of theirs being changed; and it is
// never closed.
func TestPersonsPullRequest(t *testing.T) {
	s := newStage(t, "persons-pull")
	o := s.accept("one\n", nil)
	s.start(o, func(c *plan) { c.Kill = "before create" }).killed(t)
	s.forge.Do(t, "owner", http.MethodPost, "/repos/"+s.repo+"/pulls", map[string]string{"head": "sallyport/fix", "base": "main", "title": "Mine"}, nil)
	p := s.publisher(Options{})
	if r := s.must(p, o); r.PullRequest.Opened || len(r.Notes) != 1 {
		t.Errorf("%+v %q", r.PullRequest, r.Notes)
	}
	if pr := s.pullRequests("open")[0]; pr.Title != "Mine" {
		t.Errorf("%q", pr.Title)
	}
}

// Beside one of ours, a person's younger one stays open, and the receipt tells.
func TestPersonsSecond(t *testing.T) {
	s, p, _ := begun(t, "persons-second")
	s.forge.ClosePull(t, s.repo, 1)
	s.forge.Do(t, "owner", http.MethodPost, "/repos/"+s.repo+"/pulls", map[string]string{"head": "sallyport/fix", "base": "main", "title": "Mine"}, nil)
	s.reopen(1)
	receipt, err := s.publish(p, s.accept("two\n", nil))
	if err != nil {
		t.Fatal(err)
	}
	if open := s.pullRequests("open"); len(open) != 2 || receipt == "" {
		t.Errorf("%+v", open)
	}
}

// There is one branch and one base for a work order.
func TestOnePlace(t *testing.T) {
	s, p, _ := begun(t, "one-place")
	s.forge.Do(t, "", http.MethodPost, "/repos/"+s.repo+"/branches", map[string]string{"new_branch_name": "next", "old_branch_name": "main"}, nil)
	s.fails(p, s.accept("two\n", func(c *evidencetest.Case) { c.Target.Branch = "refs/heads/sallyport/other" }), sallyport.CodeDenied, "sallyport/fix")
	s.fails(p, s.accept("three\n", func(c *evidencetest.Case) { c.Target.Base = "refs/heads/next" }), sallyport.CodeDenied, "sallyport/fix")
	if all := s.pullRequests("all"); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	// Another work order has no business on that branch.
	s.fails(p, s.accept("four\n", func(c *evidencetest.Case) { c.WorkOrder = 2 }), sallyport.CodeConflict)
}

// Each label of the target is put on once, when it is missing: what a person took off stays off, what they put on stays on.
func TestLabels(t *testing.T) {
	s, p, f := shakyStage(t, "labels")
	label := func(number int64, name string) { t.Helper(); s.forge.Label(t, s.repo, number, name, false) }
	on := func(want ...string) {
		t.Helper()
		if have := s.forge.Labels(t, s.repo, 1); !slices.Equal(have, want) {
			t.Errorf("labels %q, expected %q", have, want)
		}
	}
	takeOff := func() {
		t.Helper()
		s.forge.Do(t, "", http.MethodPut, "/repos/"+s.repo+"/issues/1/labels", map[string]any{"labels": []int64{}}, nil)
	}
	target := &p.config.Targets[0]
	label(0, "agent")
	target.Labels = []string{"agent", "not-there-yet"}
	s.must(p, s.accept("one\n", nil))
	on("agent")
	takeOff()
	label(1, "theirs")
	label(0, "not-there-yet")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/labels") {
			return answered(r, http.StatusServiceUnavailable), nil
		}
		return next.RoundTrip(r)
	})
	if r := s.must(p, s.accept("two\n", nil)); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "labels could not be put on") {
		t.Errorf("%q", r.Notes)
	}
	on("theirs")
	f.set(nil)
	s.must(p, s.accept("three\n", nil))
	on("not-there-yet", "theirs")
	takeOff()
	s.must(p, s.accept("four\n", nil))
	on()
}
