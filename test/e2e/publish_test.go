package e2e

import (
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// TestRevisions: the same name with other content moves the same branch, from the tip that we wrote.
func TestRevisions(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	before := w.Fingerprint()
	one := w.Run("rev", "echo good one > a").Want(0).Report()
	two := w.Run("rev", "echo good two > a").Want(0).Report()
	accepted(t, w, two)
	if one.WorkOrder != two.WorkOrder || one.Branch != two.Branch || one.Manifest == two.Manifest {
		t.Errorf("two revisions: %s %s, %s %s", one.WorkOrder, two.WorkOrder, one.Branch, two.Branch)
	}
	if got := w.Git("show", "sallyport/rev:a"); got != "good two" {
		t.Errorf("the branch has %q", got)
	}
	// The first revision's objects stay in the person's repository, as after any rewritten branch.
	w.Git("branch", "first", string(one.Commit))
	w.Untouched(before, "sallyport/rev", "first")
	same := w.Run("rev", "echo good two > a").Want(0).Report()
	accepted(t, w, same)
	w.Sallyport("fsck").Want(0)
}

// TestForeignTip: a branch that somebody else moved is reported and never overwritten.
func TestForeignTip(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Run("shared", "echo good one > a").Want(0)
	w.Git("checkout", "-q", "sallyport/shared")
	w.File("mine", "work of a person\n")
	tip := w.Commit("a person's commit")
	w.Git("checkout", "-q", "main")
	before := w.Fingerprint()
	r := w.Run("shared", "echo good two > a").Want(10).Says("sallyport publish")
	rep := r.Report()
	if rep.State != sallyport.AttemptAccepted || rep.Reason.Code != "branch-taken" || rep.Branch != "" {
		t.Errorf("%s %+v branch %q", rep.State, rep.Reason, rep.Branch)
	}
	if got := w.Git("rev-parse", "sallyport/shared"); got != tip {
		t.Errorf("the branch was moved from %s to %s", tip, got)
	}
	if got := w.Git("status", "--porcelain"); got != "" {
		t.Errorf("status: %s", got)
	}
	id := string(rep.Attempt)
	w.Sallyport("publish", id).Want(10)
	if got := w.Git("rev-parse", "sallyport/shared"); got != tip {
		t.Errorf("publish moved the branch from %s to %s", tip, got)
	}
	w.Git("diff", "--quiet", "HEAD")
	after := w.Fingerprint()
	for name, was := range before {
		if after[name] != was && name != ".git/index" && name != ".git" {
			t.Errorf("%s was touched", name)
		}
	}
	w.Git("branch", "-m", "sallyport/shared", "persons")
	w.Sallyport("publish", id).Want(0)
	if got := w.Git("show", "sallyport/shared:a"); got != "good two" {
		t.Errorf("after publish the branch has %q", got)
	}
	w.Sallyport("publish", id).Want(0)
	// What a person does after merging: delete the branch, go on under the same name.
	w.Git("branch", "-q", "-D", "sallyport/shared")
	accepted(t, w, w.Run("shared", "echo good three > a").Want(0).Report())
}

// TestBranchInTheWay: a branch of that name that was never ours, and one checked out by the person.
func TestBranchInTheWay(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Git("branch", "sallyport/taken")
	was := w.Git("rev-parse", "sallyport/taken")
	rep := w.Run("taken", "echo good > a").Want(10).Report()
	if rep.Reason.Code != "branch-taken" || w.Git("rev-parse", "sallyport/taken") != was {
		t.Errorf("%+v", rep.Reason)
	}
	w.Run("out", "echo good one > a").Want(0)
	w.Git("checkout", "-q", "sallyport/out")
	here := w.Git("rev-parse", "HEAD")
	w.Run("out", "echo good two > a", "--base", "main").Want(10)
	if got := w.Git("rev-parse", "HEAD"); got != here || w.Git("status", "--porcelain") != "" {
		t.Errorf("a checked out branch was moved: HEAD %s was %s, status %q", got, here, w.Git("status", "--porcelain"))
	}
}

// TestPublishNone: to: none accepts and writes nothing to the repository.
func TestPublishNone(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File("sallyport.yaml", world.Policy("sh t.sh", "publish: {to: none}"))
	w.Commit("publish nothing")
	before := w.Fingerprint()
	rep := w.Run("kept", "echo good > a").Want(0).Report()
	if rep.Decision != sallyport.DecisionAccepted || rep.Branch != "" {
		t.Errorf("%s branch %q", rep.Decision, rep.Branch)
	}
	w.Untouched(before)
	w.Run("pr", "echo good > a", "--publish", "pr").Want(40).Says("no Publisher is configured")
	w.Untouched(before)
}
