package approval

import (
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestCount(t *testing.T) {
	ann, ann2, bob, eve, sam := person(1), person(2), person(3), person(4), person(5)
	allowed := []AllowedKey{ann.allowed("ann"), ann2.allowed("Ann"), bob.allowed("bob"), sam.allowed("sam")}
	of := func(m memory, change func(*Approval)) []byte {
		a := sample()
		if change != nil {
			change(&a)
		}
		return approve(t, m, a)
	}
	good := func(m memory) []byte { return of(m, nil) }
	other := func(change func(*Approval)) [][]byte { return [][]byte{good(bob), of(ann, change)} }
	sha := sallyport.Sum([]byte("another"))
	oid := sallyport.ObjectID(strings.Repeat("c", 40))
	for _, c := range []struct {
		name    string
		blobs   [][]byte
		counted int
		why     string // in the last verdict
	}{
		{"two people", [][]byte{good(ann), good(bob)}, 2, ""},
		{"nobody", nil, 0, ""},
		{"one", [][]byte{good(ann)}, 1, ""},
		{"one twice", [][]byte{good(ann), good(ann)}, 1, `"ann" has approved already`},
		{"one with two keys", [][]byte{good(ann), good(ann2)}, 1, `"Ann" has approved already`},
		{"one at two times", [][]byte{good(ann), of(ann, func(a *Approval) { a.Given = "2026-12-01T00:00:00Z" })}, 1, "already"},
		{"one under two logins", [][]byte{good(ann), of(ann2, func(a *Approval) { a.Approver = "bob" })}, 1, "already"},
		{"a stranger", [][]byte{good(bob), good(eve)}, 1, "may not approve"},
		{"the submitter", [][]byte{good(bob), good(sam)}, 1, "asked for the change"},
		{"damaged", [][]byte{good(bob), good(ann)[1:]}, 1, "does not hold"},
		{"no approval", [][]byte{good(bob), []byte("x")}, 1, "expected a line"},
		{"other evidence", other(func(a *Approval) { a.Evidence = sha }), 1, "evidence: expected"},
		{"other manifest", other(func(a *Approval) { a.Manifest = sha }), 1, "manifest: expected"},
		{"other tree", other(func(a *Approval) { a.Tree = oid }), 1, "tree: expected"},
		{"other base", other(func(a *Approval) { a.BaseCommit = oid }), 1, "base commit: expected"},
		{"other repository", other(func(a *Approval) { a.Target.Repository += "2" }), 1, "repository: expected"},
		{"other base branch", other(func(a *Approval) { a.Target.BaseBranch = "release" }), 1, "base branch: expected"},
		{"other head branch", other(func(a *Approval) { a.Target.HeadBranch += "2" }), 1, "head branch: expected"},
		{"a bad one first spoils nothing", [][]byte{good(eve), good(sam), good(bob), good(ann2)}, 2, ""},
	} {
		for _, by := range []Submitter{{Person: "Sam"}, {Key: sam.key.PublicKey()}, {Key: sam.key.PublicKey(), Person: "sam"}} {
			tally, err := Count(c.blobs, allowed, sample(), by, 2)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if tally.Counted != c.counted || tally.Enough != (c.counted >= 2) || tally.Needed != 2 || len(tally.Verdicts) != len(c.blobs) {
				t.Errorf("%s: %+v", c.name, tally)
			}
			if n := len(tally.Verdicts); n > 0 {
				if v := tally.Verdicts[n-1]; !strings.Contains(v.Reason, c.why) || v.Counts != (c.why == "") {
					t.Errorf("%s: %+v, want %q", c.name, v, c.why)
				}
			}
		}
	}
}

// The submitter's other key is the submitter's, whichever of the two is known.
func TestSubmitterHasManyKeys(t *testing.T) {
	one, two, stranger := person(1), person(2), person(3)
	allowed := []AllowedKey{one.allowed("sam"), two.allowed("sam")}
	for _, by := range []Submitter{{Key: one.key.PublicKey()}, {Key: two.key.PublicKey()}, {Person: "SAM"}, {Key: stranger.key.PublicKey(), Person: "sam"}} {
		tally, err := Count([][]byte{approve(t, one, sample()), approve(t, two, sample())}, allowed, sample(), by, 1)
		if err != nil || tally.Enough || tally.Counted != 0 {
			t.Errorf("%+v: %+v %v", by, tally, err)
		}
	}
	tally, err := Count([][]byte{approve(t, one, sample())}, allowed, sample(), Submitter{Key: stranger.key.PublicKey()}, 1)
	if err != nil || !tally.Enough {
		t.Errorf("somebody else asked: %+v %v", tally, err)
	}
}

func TestCountDecidesNothingOnBadQuestions(t *testing.T) {
	ann := person(1)
	good, allowed := [][]byte{approve(t, ann, sample())}, []AllowedKey{ann.allowed("ann")}
	by := Submitter{Person: "sam"}
	want := sample()
	want.Evidence = ""
	for name, ask := range map[string]func() (Tally, error){
		"no evidence":       func() (Tally, error) { return Count(good, allowed, want, by, 1) },
		"nothing":           func() (Tally, error) { return Count(good, allowed, Approval{}, by, 1) },
		"none needed":       func() (Tally, error) { return Count(good, allowed, sample(), by, 0) },
		"unknown submitter": func() (Tally, error) { return Count(good, allowed, sample(), Submitter{}, 1) },
		"nobody allowed":    func() (Tally, error) { return Count(good, nil, sample(), by, 1) },
		"a key of two": func() (Tally, error) {
			return Count(good, append(slices.Clone(allowed), ann.allowed("bob")), sample(), by, 1)
		},
		"no key":      func() (Tally, error) { return Count(good, []AllowedKey{{Person: "ann"}}, sample(), by, 1) },
		"no name":     func() (Tally, error) { return Count(good, []AllowedKey{ann.allowed("")}, sample(), by, 1) },
		"a long list": func() (Tally, error) { return Count(make([][]byte, maxBlobs+1), allowed, sample(), by, 1) },
	} {
		tally, err := ask()
		wantCode(t, name, err, sallyport.CodeInvalid)
		if tally.Enough {
			t.Errorf("%s: enough", name)
		}
	}
	anonymous := sample()
	anonymous.Approver, anonymous.Given, anonymous.Type = "", "", ""
	if tally, err := Count(good, allowed, anonymous, by, 1); err != nil || !tally.Enough {
		t.Errorf("who and when are not what is asked for: %+v %v", tally, err)
	}
}
