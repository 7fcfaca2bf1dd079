package publisher

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence/evidencetest"
	"sallyport.dev/sallyport/internal/forge"
)

// An older request that was never finished does not come after a newer one that was: its change would take the newer's place.
func TestOlderUnfinished(t *testing.T) {
	s := newStage(t, "older")
	old := s.accept("old\n", nil)
	s.start(old, func(c *plan) { c.Kill = "after branch.bound" }).killed(t)
	next := s.accept("new\n", nil)
	p := s.publisher(Options{})
	receipt, err := s.publish(p, next)
	if err != nil {
		t.Fatal(err)
	}
	s.fails(p, old, sallyport.CodeFenced)
	s.laws(p, next, receipt)
}

// A mirror that a git left locked, or that is damaged, is made anew.
func TestMirrorDamaged(t *testing.T) {
	s, p, _ := begun(t, "mirror")
	for i, damage := range []func(dir string) error{
		func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "refs/sallyport/forge/heads/main.lock"), nil, 0o600)
		},
		func(dir string) error { return os.RemoveAll(filepath.Join(dir, "objects")) },
		func(dir string) error { return os.WriteFile(filepath.Join(dir, "config"), []byte("[core\n"), 0o600) },
	} {
		dirs, err := filepath.Glob(filepath.Join(s.config.State, "mirrors", "*"))
		if err != nil || len(dirs) != 1 {
			t.Fatal(dirs, err)
		}
		s.moveMain() // so that there is something to fetch
		s.pull()
		if err := damage(dirs[0]); err != nil {
			t.Fatal(err)
		}
		s.must(p, s.accept(strings.Repeat("x", i+2), nil))
	}
}

// forgetful is a forge that cannot find a credential by its mark, and whose credentials end by themselves.
type forgetful struct{ forge.Driver }

func (f forgetful) Describe() forge.Description {
	d := f.Driver.Describe()
	d.Lives = time.Hour
	return d
}

// Where the forge finds nothing by a mark, the row of a lost credential says until when it may live, and goes when that is over.
func TestLostUntilItEnds(t *testing.T) {
	s := newStage(t, "lost-ends")
	driver := minting(nil)
	now := time.Now()
	p := s.publisher(Options{Now: func() time.Time { return now }, Driver: func(t Target) (forge.Driver, error) {
		d, err := driver(t)
		return forgetful{d}, err
	}})
	scope := Scope{Target: s.config.Targets[0].Repository}
	row := CredentialRow{Mark: "sallyport-lost", Expires: now.Add(time.Hour).UTC().Format(time.RFC3339)}
	if err := p.record(t.Context(), scope, nil, Record{Type: CredentialIntended, Credential: &row}); err != nil {
		t.Fatal(err)
	}
	if lines, err := p.Reconcile(t.Context()); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "ends by itself at "+row.Expires) {
		t.Errorf("%q %v", lines, err)
	}
	now = now.Add(time.Hour + clockSkew + time.Minute)
	if lines, err := p.Reconcile(t.Context()); err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0], "ended") {
		t.Errorf("%q %v", lines, err)
	}
	// A mint bounds its row from the beginning.
	now = time.Now()
	if _, _, err := p.mint(t.Context(), scope, "", mustDriver(t, p)); err != nil {
		t.Fatal(err)
	}
	var last *CredentialRow
	if err := p.ledger.each(t.Context(), "where type = ?", []any{string(CredentialIntended)}, func(r Record, _, _ []byte) error { last = r.Credential; return nil }); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, last.Expires); err != nil || at.Sub(now) > time.Hour+2*time.Minute || at.Sub(now) < time.Hour {
		t.Errorf("%+v", last)
	}
	if _, err := p.Reconcile(t.Context()); err != nil || len(s.tokens()) > 0 {
		t.Errorf("%v, alive: %q", err, s.tokens())
	}
}

func mustDriver(t *testing.T, p *Publisher) forge.Driver {
	t.Helper()
	d, err := p.options.Driver(p.config.Targets[0])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A check leaves no credential, and records the one that it had.
func TestCheck(t *testing.T) {
	s := newStage(t, "check")
	p := s.publisher(Options{})
	target := p.config.Targets[0]
	target.Bases = []string{"main"}
	r, err := p.Check(t.Context(), target)
	if err != nil || r.Blocked() {
		t.Errorf("%v %q", err, r.Lines())
	}
	if n := s.types(p); n[CredentialGone] != 1 || len(s.tokens()) > 0 {
		t.Errorf("%v", n)
	}
	target.Bases = []string{"nowhere"}
	if _, err := p.Check(t.Context(), target); err == nil || len(s.tokens()) > 0 {
		t.Errorf("%v, alive: %q", err, s.tokens())
	}
}

// With a token that is there already nothing is minted, and nothing is revoked.
func TestConfiguredToken(t *testing.T) {
	s := newStage(t, "configured")
	p := s.publisher(Options{Driver: configured(s.forge.Token(t, s.bot, "write:repository", "write:issue"))})
	if r := s.must(p, s.accept("one\n", nil)); r.Credential.Class != "configured" || r.Credential.Revoked != "" {
		t.Errorf("%+v", r.Credential)
	}
	s.must(p, s.accept("two\n", nil))
	if n := s.types(p); n[CredentialIntended] > 0 || len(s.tokens()) != 1 {
		t.Errorf("%v", n)
	}
}

// A ledger that was changed is seen. All types of record are in the one of a stage to which everything happens.
func TestLedger(t *testing.T) {
	s, p, f := shakyStage(t, "ledger")
	s.must(p, s.accept("one\n", nil))
	s.openExtra()
	s.must(p, s.accept("two\n", nil)) // closes the extra one
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == "DELETE" {
			return answered(r, 503), nil
		}
		return next.RoundTrip(r)
	})
	if _, err := s.publish(p, s.accept("three\n", nil)); err != nil {
		t.Fatal(err)
	}
	f.set(nil)
	s.forge.ClosePull(t, s.repo, 1)
	s.fails(p, s.accept("four\n", nil), sallyport.CodeDenied)
	s.forge.Do(t, "owner", "DELETE", "/repos/"+s.repo+"/branches/sallyport%2Ffix", nil, nil)
	s.fails(p, s.accept("five\n", nil), sallyport.CodeDenied)
	have := s.types(p)
	for _, k := range []Type{RequestReceived, RequestRefused, CredentialIntended, CredentialBound, CredentialGone, CredentialFailed, BranchIntended, BranchBound, PullRequestIntended, PullRequestBound, PullRequestClosed, PullRequestGone, RequestDone} {
		if have[k] == 0 { // branch.gone: TestBranchDeletedEarly
			t.Errorf("no %s", k)
		}
	}
	if _, err := p.ledger.db.Exec("update records set body = replace(body, 'three', 'tree') || ' ' where seq = 5"); err != nil {
		t.Fatal(err)
	}
	if err := p.ledger.Check(context.Background()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Error(err)
	}
}

// Without enough approvals nothing is done, and no driver is asked.
func TestApprovalsMissing(t *testing.T) {
	s := newStage(t, "approvals")
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Skipf("missing capability: ssh-keygen: %s", out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	s.config.Targets[0].Approvers = Approval{Count: 1, People: []Person{{Name: "ada", Keys: []string{strings.TrimSpace(string(public))}}}}
	p := s.publisher(Options{Driver: func(Target) (forge.Driver, error) { t.Error("a driver was made"); return nil, os.ErrInvalid }})
	s.fails(p, s.accept("one\n", func(c *evidencetest.Case) {}), sallyport.CodeDenied, "0 of the 1")
}
