package sim

import (
	"strings"
	"testing"
)

// TestEveryLawCanFail breaks one rule at a time, and expects the law that is there for it to be broken within so many seeds.
func TestEveryLawCanFail(t *testing.T) {
	const within = 8000
	noticed := map[string]bool{}
	for _, m := range []struct {
		broken Broken
		law    string // what its sentence begins with
	}{
		{NoFence, "never two live drivers"},
		{NoLease, "never two live drivers"},
		{WrongTree, "no acceptance without"},
		{NoChecks, "no acceptance without"},
		{NoMark, "nothing without our mark"},
		{AllFree, "a resource of an Attempt with a live lease"},
		{DestroyFirst, "nothing is destroyed before"},
		{CreateFirst, "the allocation's intent"},
		{TwoPulls, "at most one open"},
		{Hasty, "what is published is an accepted"},
		{Reopens, "a person's closed pull request"},
		{LooksOnce, "a person's closed pull request"},
		{Overwrite, "a person's commit"},
		{NewReceipts, "a nonce gives one receipt"},
		{AdmitsAll, "a Publisher begins nothing"},
		{NoRevoke, "a credential that was sealed"},
		{NoSweep, "no token lives past"},
		{NeverConcludes, "every allocation ends"},
		{FailsTwice, "every allocation ends"},
		{NobodyAdopts, "every Attempt ends"},
		{LostProjection, "the journal's projections"},
	} {
		t.Run(string(m.broken), func(t *testing.T) {
			others := map[string]int{}
			for s := range uint64(within) {
				r := Run(fresh(s+1), Options{Broken: m.broken})
				if strings.HasPrefix(r.Law, m.law) {
					noticed[r.Law] = true
					short := Shrink(r.Choices, Options{Broken: m.broken}, r.Law)
					t.Logf("seed %d, %d choices of %d are enough: %s", s+1, len(short), len(r.Choices), r.What)
					return
				}
				if r.Law != "" {
					others[r.Law]++
				}
			}
			t.Errorf("not noticed within %d seeds; other laws: %v", within, others)
		})
	}
	for _, l := range append(laws[:len(laws):len(laws)], atRest...) {
		if !noticed[l.sentence] {
			t.Errorf("nothing shows that this law can fail: %s", l.sentence)
		}
	}
}
