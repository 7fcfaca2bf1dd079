package publisher

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/git"
)

// folderStage is a stage whose repository is a folder of this machine, and a Publisher for it.
func folderStage(t *testing.T, o Options) (s *stage, p *Publisher, repo string) {
	t.Helper()
	repo = forgetest.Bare(t)
	s = &stage{t: t, forge: &forgetest.Gitea{}, bot: "none", repo: "owner/none"} // no Gitea: local needs names
	s.local()
	s.config.Targets = []Target{{Repository: "file://" + repo, Kind: "git", Bases: []string{"main"}}}
	if err := s.config.check(s.config.State); err != nil {
		t.Fatal(err)
	}
	s.git("commit", "-q", "--allow-empty", "-m", "base")
	s.git("push", "-q", repo, "HEAD:refs/heads/main")
	o.Driver = func(t Target) (forge.Driver, error) { return git.New(git.Config{URL: t.Repository}) }
	return s, s.publisher(o), repo
}

// receipt publishes, and gives what the receipt says.
func (s *stage) receipt(p *Publisher, o order1) evidence.Published {
	t := s.t
	t.Helper()
	b, err := s.publish(p, o)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := evidence.ParsePublicKeys(must(p.Keys()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := evidence.VerifyPublication([]byte(b), keys, []byte(o.request.Acceptance))
	if err != nil {
		t.Fatal(err)
	}
	return r.Predicate
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// evidenceRows are the ledger's, in their order.
func (s *stage) evidenceRows(p *Publisher) (types []Type, rows []BranchRow) {
	s.t.Helper()
	if err := p.ledger.each(s.t.Context(), "where type like 'evidence.%'", nil, func(r Record, _, _ []byte) error {
		types, rows = append(types, r.Type), append(rows, *r.Evidence)
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return types, rows
}

// attached is where the evidence for o is in repo, "" if it is nowhere.
func attached(t *testing.T, repo string, o order1) sallyport.ObjectID {
	t.Helper()
	return sallyport.ObjectID(forgetest.Git(t, repo, "for-each-ref", "--format=%(objectname)", evidence.AttachedRef(o.commit)))
}

// What is attached is intended in the ledger before anything is sent, under the name and commit that it gets, and bound after.
func TestAttachIsInTheLedger(t *testing.T) {
	var points []string
	s, p, repo := folderStage(t, Options{At: func(point string) { points = append(points, point) }})
	o := s.accept("one\n", nil)
	if r := s.receipt(p, o); len(r.Notes) > 0 {
		t.Errorf("%q", r.Notes)
	}
	want := BranchRow{Ref: evidence.AttachedRef(o.commit), Commit: attached(t, repo, o)}
	types, rows := s.evidenceRows(p)
	if want.Commit == "" || !slices.Equal(types, []Type{EvidenceIntended, EvidenceBound}) || !slices.Equal(rows, []BranchRow{want, want}) {
		t.Errorf("%v %+v, expected %+v", types, rows, want)
	}
	around := "after evidence.intended before attach after attach before evidence.bound"
	if !strings.Contains(strings.Join(points, " "), around) {
		t.Errorf("%q", points)
	}
	// The same change accepted anew has another acceptance: it takes the place of what this Publisher put there.
	again := s.again(o)
	if r := s.receipt(p, again); len(r.Notes) > 0 || attached(t, repo, again) == want.Commit {
		t.Errorf("%q", r.Notes)
	}
	if _, rows := s.evidenceRows(p); rows[len(rows)-1].Expect != want.Commit {
		t.Errorf("%+v", rows)
	}
}

// A Publisher that is gone after the intention, or after the effect, is followed by one that ends in the same place.
func TestAttachAfterACrash(t *testing.T) {
	for point, want := range map[string][]Type{
		"after evidence.intended": {EvidenceIntended, EvidenceIntended, EvidenceBound},
		"after attach":            {EvidenceIntended, EvidenceBound},
	} {
		s, p, repo := folderStage(t, Options{})
		o := s.accept("one\n", nil)
		p.options.At = func(at string) {
			if at == point {
				panic("crash")
			}
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = s.publish(p, o)
		}()
		p.options.At = func(string) {}
		before := attached(t, repo, o)
		if r := s.receipt(p, o); len(r.Notes) > 0 {
			t.Errorf("%s: %q", point, r.Notes)
		}
		types, rows := s.evidenceRows(p)
		have := attached(t, repo, o)
		if !slices.Equal(types, want) || rows[0].Commit != have || rows[len(rows)-1].Commit != have || before != "" && before != have {
			t.Errorf("%s: %v %+v, attached %s, before %q", point, types, rows, have, before)
		}
	}
}

// What somebody else has put in the place of evidence stays, and so does what a server does not take: the change is
// published, and the receipt says it.
func TestAttachThatFails(t *testing.T) {
	s, p, repo := folderStage(t, Options{})
	o := s.accept("one\n", nil)
	theirs := forgetest.CommitIn(t, repo, "theirs")
	forgetest.Git(t, repo, "update-ref", evidence.AttachedRef(o.commit), string(theirs))
	if r := s.receipt(p, o); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "did not put there") || attached(t, repo, o) != theirs {
		t.Errorf("%q", r.Notes)
	}
	hook := "#!/bin/sh\ncase $1 in refs/sallyport/*) exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(repo, "hooks", "update"), []byte(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	two := s.accept("two\n", nil)
	if r := s.receipt(p, two); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "could not be attached") || r.Commit != two.commit {
		t.Errorf("%q", r.Notes)
	}
	if types, _ := s.evidenceRows(p); !slices.Equal(types, []Type{EvidenceIntended}) {
		t.Errorf("%v", types)
	}
}

// With attach: false nothing leaves beside the change, and nothing says that it could not.
func TestAttachSwitchedOff(t *testing.T) {
	s, p, repo := folderStage(t, Options{})
	no := false
	p.config.Targets[0].Attach = &no
	o := s.accept("one\n", nil)
	if r := s.receipt(p, o); len(r.Notes) > 0 || attached(t, repo, o) != "" {
		t.Errorf("%q, attached %s", r.Notes, attached(t, repo, o))
	}
	if types, _ := s.evidenceRows(p); len(types) > 0 {
		t.Errorf("%v", types)
	}
	order, err := p.verify(o.request, bytes.NewReader(o.pack), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer order.pack.Close()
	if body := (&work{o: order}).text().Body; strings.Contains(body, "--pr") || !strings.Contains(body, "--commit "+string(o.commit)) {
		t.Errorf("the pull request says how to verify what is not there:\n%s", body)
	}
	c, err := ReadConfig(guideConfig(t, strings.ReplaceAll(guideTarget, "%s}", "t}, attach: false")))
	if err != nil || *c.Targets[0].Attach || !*p.config.Targets[0].Draft {
		t.Errorf("%v", err)
	}
}
