package publisher

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
)

// approved demands that as many people as the target says have approved exactly this, by keys that this Publisher pins:
// Mission Control cannot make an approval. What was approved is evidence, tree, base, manifest and target; any difference
// needs a new one.
func (p *Publisher) approved(o *order, blobs []string) error {
	if word := o.accepted().Approved; word != nil {
		o.approvals = append(o.approvals, word.Who+" (by Mission Control's journal)")
	}
	rule := o.target.Approvers
	n := max(rule.Count, o.accepted().Approvers)
	if n == 0 {
		return nil
	}
	if n > len(rule.People) {
		return no("approvals", "policy wants %d people, and this target knows the keys of %d", n, len(rule.People))
	}
	var allowed []approval.AllowedKey
	for _, person := range rule.People {
		for _, line := range person.Keys {
			k, err := approval.ParseKey(person.Name, line)
			if err != nil {
				return err
			}
			allowed = append(allowed, k)
		}
	}
	a, e := o.accepted(), o.evidence.Statement.Predicate
	want := approval.Approval{BaseCommit: a.Base.Commit, Evidence: a.Evidence, Manifest: e.Manifest, Tree: e.Result.Tree,
		Target: approval.Target{BaseBranch: o.base(), HeadBranch: o.head(), Repository: a.Target.Repository}}
	var list [][]byte
	for _, b := range blobs {
		list = append(list, []byte(b))
	}
	tally, err := approval.Count(list, allowed, want, approval.Submitter{Person: a.Submitter}, n)
	if err != nil {
		return err
	}
	var not []string
	for _, v := range tally.Verdicts {
		if v.Counts {
			o.approvals = append(o.approvals, v.Person+" ("+v.Fingerprint+")")
		} else {
			not = append(not, v.Reason)
		}
	}
	if !tally.Enough {
		return needed(tally, not)
	}
	return nil
}

func needed(t approval.Tally, not []string) error {
	why := ""
	if len(not) > 0 {
		why = "; what does not count: " + strings.Join(not, "; ")
	}
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "approvals", Message: fmt.Sprintf("%d of the %d approvals that are needed at this target%s", t.Counted, t.Needed, why),
		Hint: "an approver signs at their terminal: `sallyport approve A --key FILE`"}
}
