package publish

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/lifecycle"
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
	s.Sallyport("publish", string(r.Attempt)).Want(0)
	s.Git("config", "http.extraHeader", "")
	s.Env = append(s.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+asOwner)
	key := filepath.Join(filepath.Dir(s.config), "mission-control.pub")
	s.Sallyport("verify", "--pr", p.URL, "--key", key).Want(0).Says("Proved: it matches what you hold in: tree, commit")
	s.forge.Commit(t, "owner", s.repo, "sallyport/fix")
	s.Sallyport("verify", "--pr", p.URL, "--key", key).Want(2).Says("no evidence is attached")
	// A person's commit is never overwritten.
	tip := s.tip("sallyport/fix")
	s.Run("fix", "echo good three > a", "--publish", "pr").Want(10).Says("did not put there")
	if got := s.tip("sallyport/fix"); got != tip {
		t.Errorf("the branch was moved from %s to %s", tip, got)
	}
}

// TestPullRequestAgain: a second Attempt of a work order brings the same pull request up to date.
func TestPullRequestAgain(t *testing.T) {
	s := open(t, start(t), "shop")
	s.Run("fix", "echo good > a", "--publish", "pr").Want(0)
	p := s.pulls()[0]
	// A second Attempt of the work order brings the same request up to date.
	two := s.Run("fix", "echo good two > a", "--publish", "pr").Want(0).Report()
	if list := s.pulls(); len(list) != 1 || list[0].Head.SHA != string(two.Commit) || list[0].Number != p.Number {
		t.Errorf("after the second: %+v", list)
	}
}

// TestApprovers: where policy wants people, a change waits for signatures that only they can make, and the submitter's
// own does not count.
func TestApprovers(t *testing.T) {
	s := open(t, start(t), "shop")
	for _, who := range []string{"ada", "una"} {
		s.Command(".", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", filepath.Join(s.Home, who)).Want(0)
	}
	key := func(who string) string { return strings.TrimSpace(s.Read(filepath.Join(s.Home, who+".pub"))) }
	s.target("credential: {token-file: bot.token}", "approvers: {count: 1, people: [{name: ada, keys: ['"+key("ada")+"']}, {name: "+submitter(t)+", keys: ['"+key("una")+"']}]}")
	r := s.Run("fix", "echo good > a", "--publish", "pr").Want(10).Says("0 of the 1 approvals").Report()
	if n := len(s.pulls()); n != 0 || s.tip("sallyport/fix") != "" {
		t.Fatalf("%d pull requests before anybody approved", n)
	}
	sign := func(who, answer string, want int, says string) {
		t.Helper()
		term := s.Terminal(".", "approve", string(r.Attempt), "--key", filepath.Join(s.Home, who))
		term.Shows("Sign that you approve exactly this, with evidence " + string(r.EvidenceDigest))
		term.Type(answer)
		term.Shows(says)
		term.Exits(want)
	}
	s.Sallyport("approve", string(r.Attempt), "--key", filepath.Join(s.Home, "ada")).Want(10).Says("no terminal")
	sign("ada", "n", 10, "not signed")
	sign("una", "y", 10, "0 of the 1 approvals")
	sign("ada", "y", 0, "ACCEPTED")
	if list := s.pulls(); len(list) != 1 || list[0].Head.SHA != string(r.Commit) || !strings.Contains(list[0].Body, "ada") {
		t.Errorf("%+v", list)
	}
}

// TestOvertaken: an Attempt whose driver slept while it was published, and is adopted after a later one of its work order is
// published, is neither published upon that one nor accepted anew.
func TestOvertaken(t *testing.T) {
	g := start(t)
	for _, stale := range []bool{false, true} {
		s := open(t, g, fmt.Sprintf("stale-%v", stale))
		socket := filepath.Join(s.Dir, "silent.sock")
		ln, err := net.Listen("unix", socket)
		s.Must(err)
		t.Cleanup(func() { ln.Close() })
		env := s.Env
		s.Env = append(slices.Clone(env), "SALLYPORT_PUBLISHER="+socket, "SALLYPORT_PUBLISHER_KEYS="+filepath.Join(filepath.Dir(s.config), "mission-control.pub"))
		one := s.Start("fix", "echo good > a", "--publish", "pr")
		asked, err := ln.Accept()
		s.Must(err)
		t.Cleanup(func() { asked.Close() })
		sleeper := s.Driver()
		s.Must(syscall.Kill(sleeper, syscall.SIGSTOP))
		s.Env = env
		two := s.Run("fix", "echo good two > a", "--publish", "pr").Want(0).Report()
		if stale {
			s.makeStale(one)
		}
		s.Kill(sleeper)
		s.Sallyport("ps")
		s.Await("the refusal", func() bool { return s.Count(lifecycle.PublicationRefused, "", one) == 1 })
		if want := map[bool]string{false: "later driver", true: "came later"}[stale]; s.Count(lifecycle.PublicationRefused, want, one) != 1 {
			t.Errorf("expected the word %q in\n%s", want, s.Story())
		}
		if list := s.pulls(); len(list) != 1 || list[0].Head.SHA != string(two.Commit) {
			t.Errorf("%+v", list)
		}
	}
}

// makeStale lets no acceptance of the Attempt count any more, as if its time were over.
func (s *stage) makeStale(id sallyport.AttemptID) {
	names, err := filepath.Glob(filepath.Join(s.State, "attempts", string(id), "acceptance-*.json"))
	s.Must(err)
	if len(names) != 1 {
		s.T.Fatalf("acceptances: %q", names)
	}
	s.Must(os.WriteFile(names[0], []byte("{}"), 0o600))
}

// submitter is whoever runs the tests, as Mission Control names them.
func submitter(t *testing.T) string {
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// TestDriverKilledWhilePublishing: the Publisher is asked, and Mission Control is killed. The next command of a person goes on
// from the intent, also where the acceptance that was signed for it has had its time.
func TestDriverKilledWhilePublishing(t *testing.T) {
	s := open(t, start(t), "shop")
	for _, stale := range []bool{false, true} {
		name := fmt.Sprintf("stale-%v", stale)
		// A Publisher that takes the request and never answers.
		socket := filepath.Join(s.Dir, name+".sock")
		ln, err := net.Listen("unix", socket)
		s.Must(err)
		t.Cleanup(func() { ln.Close() })
		keys := s.File(filepath.Join(s.Dir, name+".pub"), s.Read(filepath.Join(filepath.Dir(s.config), "mission-control.pub")))
		env := s.Env
		s.Env = append(slices.Clone(env), "SALLYPORT_PUBLISHER="+socket)
		s.Run("unverifiable", "echo good > a", "--publish", "pr").Want(40).Says("SALLYPORT_PUBLISHER_KEYS")
		s.Env = append(s.Env, "SALLYPORT_PUBLISHER_KEYS="+keys)
		id := s.Start(name, "echo good > a", "--publish", "pr")
		asked, err := ln.Accept()
		s.Must(err)
		t.Cleanup(func() { asked.Close() })
		s.Kill(s.Driver())
		s.Env = env
		if stale {
			s.makeStale(id)
		}
		s.Sallyport("ps")
		s.Await("the publication", func() bool { return s.Count(lifecycle.PublicationDone, "", id) == 1 })
		r := s.Show(id)
		mine := slices.DeleteFunc(s.pulls(), func(p pull) bool { return p.Head.Ref != "sallyport/"+name })
		if len(mine) != 1 || mine[0].Head.SHA != string(r.Commit) || mine[0].URL != r.PullRequest {
			t.Errorf("%s: %+v, report %s", name, mine, r.PullRequest)
		}
	}
}

// TestApprovedByAPerson: what awaits a person's word is published on that word, which the acceptance and the page name.
func TestApprovedByAPerson(t *testing.T) {
	s := open(t, start(t), "shop")
	r := s.Run("fix", "echo good > a", "--publish", "pr", "--approve", "always").Want(10).Report()
	s.Sallyport("publish", string(r.Attempt)).Want(40)
	if n := len(s.pulls()); n != 0 {
		t.Fatalf("%d pull requests before a word", n)
	}
	s.Sallyport("approve", string(r.Attempt), "--why", "read it").Want(0)
	list := s.pulls()
	if len(list) != 1 || list[0].Head.SHA != string(r.Commit) || !strings.Contains(list[0].Body, "by Mission Control's journal") {
		t.Errorf("%+v", list)
	}
	s.Env = append(s.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+asOwner)
	s.Sallyport("verify", "--pr", list[0].URL, "--key", filepath.Join(filepath.Dir(s.config), "mission-control.pub")).Want(0)
}
