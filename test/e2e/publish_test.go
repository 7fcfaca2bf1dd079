package e2e

import (
	"testing"

	"sallyport.dev/sallyport"
)

// TestRevisions: the same name with other content moves the same branch, from the tip that we wrote.
func TestRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	before := w.fingerprint()
	one := w.run("rev", "echo good one > a").want(0).report()
	two := w.run("rev", "echo good two > a").want(0).report()
	accepted(t, w, two)
	if one.WorkOrder != two.WorkOrder || one.Branch != two.Branch || one.Manifest == two.Manifest {
		t.Errorf("two revisions: %s %s, %s %s", one.WorkOrder, two.WorkOrder, one.Branch, two.Branch)
	}
	if got := w.git("show", "sallyport/rev:a"); got != "good two" {
		t.Errorf("the branch has %q", got)
	}
	// The first revision's objects stay in the person's repository, as after any rewritten branch.
	w.git("branch", "first", string(one.Commit))
	w.untouched(before, "sallyport/rev", "first")
	same := w.run("rev", "echo good two > a").want(0).report()
	accepted(t, w, same)
	w.sallyport("fsck").want(0)
}

// TestForeignTip: a branch that somebody else moved is reported and never overwritten.
func TestForeignTip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.run("shared", "echo good one > a").want(0)
	w.git("checkout", "-q", "sallyport/shared")
	w.file("mine", "work of a person\n")
	tip := w.commit("a person's commit")
	w.git("checkout", "-q", "main")
	before := w.fingerprint()
	r := w.run("shared", "echo good two > a").want(10).says("sallyport publish")
	rep := r.report()
	if rep.State != sallyport.AttemptAccepted || rep.Reason.Code != "branch-taken" || rep.Branch != "" {
		t.Errorf("%s %+v branch %q", rep.State, rep.Reason, rep.Branch)
	}
	if got := w.git("rev-parse", "sallyport/shared"); got != tip {
		t.Errorf("the branch was moved from %s to %s", tip, got)
	}
	if got := w.git("status", "--porcelain"); got != "" {
		t.Errorf("status: %s", got)
	}
	id := string(rep.Attempt)
	w.sallyport("publish", id).want(10)
	if got := w.git("rev-parse", "sallyport/shared"); got != tip {
		t.Errorf("publish moved the branch from %s to %s", tip, got)
	}
	w.git("diff", "--quiet", "HEAD")
	after := w.fingerprint()
	for name, was := range before {
		if after[name] != was && name != ".git/index" && name != ".git" {
			t.Errorf("%s was touched", name)
		}
	}
	w.git("branch", "-m", "sallyport/shared", "persons")
	w.sallyport("publish", id).want(0)
	if got := w.git("show", "sallyport/shared:a"); got != "good two" {
		t.Errorf("after publish the branch has %q", got)
	}
	w.sallyport("publish", id).want(0)
	// What a person does after merging: delete the branch, go on under the same name.
	w.git("branch", "-q", "-D", "sallyport/shared")
	accepted(t, w, w.run("shared", "echo good three > a").want(0).report())
}

// TestBranchInTheWay: a branch of that name that was never ours, and one checked out by the person.
func TestBranchInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.git("branch", "sallyport/taken")
	was := w.git("rev-parse", "sallyport/taken")
	rep := w.run("taken", "echo good > a").want(10).report()
	if rep.Reason.Code != "branch-taken" || w.git("rev-parse", "sallyport/taken") != was {
		t.Errorf("%+v", rep.Reason)
	}
	w.run("out", "echo good one > a").want(0)
	w.git("checkout", "-q", "sallyport/out")
	here := w.git("rev-parse", "HEAD")
	w.run("out", "echo good two > a", "--base", "main").want(10)
	if got := w.git("rev-parse", "HEAD"); got != here || w.git("status", "--porcelain") != "" {
		t.Errorf("a checked out branch was moved: HEAD %s was %s, status %q", got, here, w.git("status", "--porcelain"))
	}
}

// TestPublishNone: to: none accepts and writes nothing to the repository.
func TestPublishNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file("sallyport.yaml", policy("sh t.sh", "publish: {to: none}"))
	w.commit("publish nothing")
	before := w.fingerprint()
	rep := w.run("kept", "echo good > a").want(0).report()
	if rep.Decision != sallyport.DecisionAccepted || rep.Branch != "" {
		t.Errorf("%s branch %q", rep.Decision, rep.Branch)
	}
	w.untouched(before)
	w.run("pr", "echo good > a", "--publish", "pr").want(40).says("pr")
	w.untouched(before)
}
