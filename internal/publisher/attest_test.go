package publisher

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
	"sallyport.dev/sallyport/internal/forge/github"
)

// githubStage is a stage at a GitHub of ours, whose App may store attestations and is to.
func githubStage(t *testing.T) (*stage, *served.Server) {
	t.Helper()
	gh := served.New(t)
	gh.Set(func(s *served.State) { s.Granted["attestations"] = "write" })
	url, _ := strings.CutSuffix(gh.Repository, "/octo/repo")
	s := &stage{t: t, forge: &forgetest.Gitea{URL: url}, bot: "not-there", repo: "octo/repo"}
	s.local()
	s.git("fetch", "-q", gh.Dir, "main")
	s.git("reset", "-q", "--hard", "FETCH_HEAD")
	target := &s.config.Targets[0]
	target.Kind, target.Attestations = "github", true
	target.Credential = Source{App: &App{ID: gh.AppID, KeyFile: gh.KeyFile, Installation: gh.Installation, RepositoryID: 4711}}
	return s, gh
}

// onGitHub is the driver for a target there; wrap may be nil.
func onGitHub(wrap func(http.RoundTripper) http.RoundTripper) func(Target) (forge.Driver, error) {
	return func(t Target) (forge.Driver, error) {
		client, err := forge.NewClient("")
		if err != nil {
			return nil, err
		}
		if wrap != nil {
			client = &http.Client{Transport: wrap(client.Transport)}
		}
		a := t.Credential.App
		return github.New(github.Config{URL: t.Repository, RepositoryID: a.RepositoryID, Attestations: t.Attestations, Client: client,
			App: &github.App{ID: a.ID, KeyFile: a.KeyFile, Installation: a.Installation}})
	}
}

// published is what the receipt of a publication says.
func (s *stage) published(p *Publisher, o order1) evidence.Published {
	s.t.Helper()
	receipt, err := s.publish(p, o)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := evidence.VerifyPublication([]byte(receipt), p.ring.Keys(), []byte(o.request.Acceptance))
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Predicate
}

// attested holds what is stored to the one evidence, with the public key alone.
func (s *stage) attested(gh *served.Server, o order1) {
	t := s.t
	t.Helper()
	have := gh.Attestations()
	if len(have) != 1 {
		t.Fatalf("%d are stored, expected 1", len(have))
	}
	var b struct {
		DSSEEnvelope json.RawMessage
	}
	if err := json.Unmarshal(have[0].Bundle, &b); err != nil {
		t.Fatal(err)
	}
	v, err := evidence.Verify(b.DSSEEnvelope, s.ring.Keys(), evidence.Expect{Commit: o.commit})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(have[0].Subjects, string(v.Statement.Predicate.Manifest)) {
		t.Errorf("it is about %q", have[0].Subjects)
	}
}

// The evidence is stored once, however often it is published, with a permission that the receipt names.
func TestAttested(t *testing.T) {
	s, gh := githubStage(t)
	var points []string
	p := s.publisher(Options{Driver: onGitHub(nil), At: func(point string) { points = append(points, point) }})
	o := s.accept("one\n", nil)
	r := s.published(p, o)
	if len(r.Notes) != 0 || !slices.Equal(r.Credential.Scope, []string{"attestations: write", "contents: write", "metadata: read", "pull_requests: write"}) {
		t.Errorf("%q %q", r.Notes, r.Credential.Scope)
	}
	want := []string{"after branch.bound", "before attest", "after attest", "before create", "before revoke"}
	if got := slices.DeleteFunc(points, func(p string) bool { return !slices.Contains(want, p) }); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	s.attested(gh, o)
	s.published(p, s.again(o))
	s.attested(gh, o)
}

func TestAttestedOnlyWhereItIsWanted(t *testing.T) {
	s, gh := githubStage(t)
	s.config.Targets[0].Attestations = false
	p := s.publisher(Options{Driver: onGitHub(nil), At: func(point string) {
		if strings.HasSuffix(point, " attest") {
			t.Error(point)
		}
	}})
	r := s.published(p, s.accept("one\n", nil))
	if len(gh.Attestations()) != 0 || !slices.Equal(r.Credential.Scope, []string{"contents: write", "metadata: read", "pull_requests: write"}) {
		t.Errorf("%d are stored; %q", len(gh.Attestations()), r.Credential.Scope)
	}
}

// A GitHub that does not take it is no reason not to publish.
func TestAttestThatFailsIsNoted(t *testing.T) {
	s, gh := githubStage(t)
	gh.Break(host.Fault{Method: http.MethodPost, Path: "/attestations", Answer: host.Status(422, `{"message":"Invalid Argument - no certificate"}`)})
	r := s.published(s.publisher(Options{Driver: onGitHub(nil)}), s.accept("one\n", nil))
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "the evidence could not be stored as an attestation: ") || !strings.Contains(r.Notes[0], "no certificate") || r.PullRequest == nil || r.Credential.Revoked == "" {
		t.Errorf("%+v", r)
	}
}

// TestKilledWhileAttesting kills a Publisher around this effect as TestKilled does around the others.
func TestKilledWhileAttesting(t *testing.T) {
	for _, point := range []string{"before attest", "sent attest", "after attest"} {
		t.Run(point, func(t *testing.T) {
			s, gh := githubStage(t)
			o := s.accept("one\n", nil)
			s.start(o, func(c *plan) { c.Kill = point }).killed(t)
			if n := len(gh.Attestations()); point == "before attest" && n != 0 || point == "after attest" && n != 1 {
				t.Errorf("%d are stored", n)
			}
			r := s.published(s.publisher(Options{Driver: onGitHub(nil)}), o)
			s.attested(gh, o)
			if len(r.Notes) != 0 || len(gh.Pulls()) != 1 || gh.Live() != 0 {
				t.Errorf("%q, %d pull requests, %d tokens", r.Notes, len(gh.Pulls()), gh.Live())
			}
		})
	}
}
