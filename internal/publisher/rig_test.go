package publisher

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/evidence/evidencetest"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
	"sallyport.dev/sallyport/internal/publication"
)

// stage is a repository at a real Gitea with a bot of its own, a Mission Control that accepts changes, and the state folder
// of the Publishers for it.
type stage struct {
	t      testing.TB
	forge  *forgetest.Gitea
	bot    string
	repo   string // owner/name
	config Config
	ring   *evidence.Keyring // Mission Control's
	clone  string
	store  *change.Store
	attempts, nonces,
	seq int64
}

// order1 is a request with all that goes with it.
type order1 struct {
	request publication.Request
	pack    []byte
	commit  sallyport.ObjectID
	c       evidencetest.Case
}

// set is done once for each Gitea.
var owned bool

// newStage makes everything; name is of repository and bot.
func newStage(t testing.TB, name string) *stage {
	t.Helper()
	s := &stage{t: t, forge: forgetest.Shared(t), bot: "bot-" + name, repo: "owner/" + name}
	if !owned {
		s.forge.User(t, "owner")
		owned = true
	}
	s.forge.User(t, s.bot)
	s.forge.Repository(t, s.repo, map[string]string{s.bot: "write"})
	s.forge.Protect(t, s.repo, "main", map[string]any{"enable_push": false, "required_approvals": 1})
	s.local()
	s.pull()
	return s
}

// local is what is on this side: keys, configuration, a clone.
func (s *stage) local() {
	t := s.t
	t.Helper()
	dir := t.TempDir()
	var err error
	if s.ring, err = evidence.OpenKeyring(filepath.Join(dir, "mission-control")); err != nil {
		t.Fatal(err)
	}
	public, err := s.ring.Public()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mission-control.pub"), public, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.config = Config{Version: 1, MissionControl: []string{filepath.Join(dir, "mission-control.pub")}, State: filepath.Join(dir, "state"),
		Targets: []Target{{Repository: s.forge.URL + "/" + s.repo, Kind: "gitea", Bases: []string{"main", "next"}, Credential: Source{User: s.bot, Password: "not-read"}}}}
	if err := s.config.check(dir); err != nil {
		t.Fatal(err)
	}
	s.clone = filepath.Join(dir, "clone")
	forgetest.Git(t, "/", "init", "-q", "-b", "main", s.clone)
	repo, err := change.Open(t.Context(), s.clone)
	if err != nil {
		t.Fatal(err)
	}
	if s.store, err = change.OpenStore(t.Context(), filepath.Join(dir, "store"), repo); err != nil {
		t.Fatal(err)
	}
}

// auth is git's configuration for the owner.
func auth() string {
	return "http.extraHeader=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+forgetest.Password))
}

// git runs it in the clone, as the owner.
func (s *stage) git(args ...string) string {
	s.t.Helper()
	return forgetest.Git(s.t, s.clone, append([]string{"-c", auth(), "-c", "user.name=p", "-c", "user.email=p@example.test"}, args...)...)
}

func (s *stage) remote() string { return s.forge.URL + "/" + s.repo + ".git" }

// pull brings the clone to the base as it is.
func (s *stage) pull() {
	s.t.Helper()
	s.git("fetch", "-q", s.remote(), "main")
	s.git("reset", "-q", "--hard", "FETCH_HEAD")
}

// main adds a commit to main, as the forge's own merge does: protection lets nobody push.
func (s *stage) moveMain() {
	s.t.Helper()
	s.unprotected(func() { s.forge.Commit(s.t, "", s.repo, "main") })
}

func (s *stage) unprotected(do func()) {
	s.t.Helper()
	s.forge.Do(s.t, "", http.MethodDelete, "/repos/"+s.repo+"/branch_protections/main", nil, nil)
	do()
	s.forge.Protect(s.t, s.repo, "main", map[string]any{"enable_push": false, "required_approvals": 1})
}

// accept makes an acceptance of a change of one file upon the clone's head. alter may be nil.
func (s *stage) accept(content string, alter func(*evidencetest.Case)) order1 {
	s.t.Helper()
	return s.acceptFiles(map[string]string{"a": content}, alter)
}

func (s *stage) acceptFiles(files map[string]string, alter func(*evidencetest.Case)) order1 {
	t := s.t
	t.Helper()
	base := sallyport.ObjectID(s.git("rev-parse", "HEAD"))
	baseTree := sallyport.ObjectID(s.git("rev-parse", "HEAD^{tree}"))
	in, err := s.store.Import(t.Context(), baseTree, bytes.NewReader(stream(t, files)), collect.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	commit, err := s.store.Commit(t.Context(), change.CommitOptions{Tree: in.Tree, Parent: base, When: time.Now(), Message: "Fix it\n"})
	if err != nil {
		t.Fatal(err)
	}
	var pack bytes.Buffer
	if err := s.store.Handover(t.Context(), commit, base, &pack); err != nil {
		t.Fatal(err)
	}
	s.attempts++
	s.seq += 3
	signer, err := s.ring.Signer()
	if err != nil {
		t.Fatal(err)
	}
	return s.sealed(evidencetest.Case{Signer: signer, WorkOrder: 1, Attempt: byte(s.attempts), Fence: s.attempts, Seq: s.seq, Tree: in.Tree, Commit: commit, Pack: pack.Bytes(),
		Base: evidence.AcceptedBase{Commit: base, Tree: baseTree}, At: time.Now(),
		Target: evidence.Target{Repository: s.config.Targets[0].Repository, Base: "refs/heads/main", Branch: "refs/heads/sallyport/fix"}}, alter)
}

// sealed signs a case with a nonce of its own.
func (s *stage) sealed(c evidencetest.Case, alter func(*evidencetest.Case)) order1 {
	s.t.Helper()
	s.nonces++
	c.Nonce = fmt.Sprintf("%040d", s.nonces)
	if alter != nil {
		alter(&c)
	}
	return sealedBy(s.t, c, s.ring)
}

func sealedBy(t testing.TB, c evidencetest.Case, ring *evidence.Keyring) order1 {
	t.Helper()
	e := evidencetest.Evidence(t, c)
	a := evidencetest.Acceptance(t, c, e, ring.Keys())
	return order1{publication.Request{Acceptance: string(a), Evidence: string(e), PackBytes: int64(len(c.Pack))}, c.Pack, c.Commit, c}
}

// again is the same change accepted once more: another nonce, a later point of the journal.
func (s *stage) again(o order1) order1 {
	s.t.Helper()
	s.seq++
	c := o.c
	s.attempts++
	c.Seq, c.Fence = s.seq, s.attempts
	return s.sealed(c, nil)
}

func stream(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := collect.NewWriter(&b)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content, err := files[name], error(nil)
		switch {
		case content == "":
			err = w.Delete(name)
		case strings.HasPrefix(content, "-> "):
			err = w.Link(name, content[3:])
		default:
			err = w.File(name, collect.ModeFile, int64(len(content)), strings.NewReader(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// minting is the driver for a target whose bot mints; wrap may be nil.
func minting(wrap func(http.RoundTripper) http.RoundTripper) func(Target) (forge.Driver, error) {
	return func(t Target) (forge.Driver, error) {
		c := gitea.Config{URL: t.Repository, Mint: &gitea.Mint{User: t.Credential.User, Password: known(forgetest.Password)}}
		return wrapped(c, wrap)
	}
}

func wrapped(c gitea.Config, wrap func(http.RoundTripper) http.RoundTripper) (forge.Driver, error) {
	if wrap != nil {
		client, err := forge.NewClient("")
		if err != nil {
			return nil, err
		}
		c.Client = &http.Client{Transport: wrap(client.Transport)}
	}
	return gitea.New(c)
}

// configured is the driver with a token that is there already.
func configured(token string) func(Target) (forge.Driver, error) {
	return func(t Target) (forge.Driver, error) {
		return gitea.New(gitea.Config{URL: t.Repository, Credential: known(token)})
	}
}

func known(secret string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return secret, nil }
}

// publisher opens one on the stage's state folder.
func (s *stage) publisher(o Options) *Publisher {
	s.t.Helper()
	if o.Driver == nil {
		o.Driver = minting(nil)
	}
	p, err := Open(s.config, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.Close() })
	return p
}

func (s *stage) publish(p *Publisher, o order1) (string, error) {
	s.t.Helper()
	b, err := p.Publish(s.t.Context(), o.request, bytes.NewReader(o.pack), "none")
	return string(b), err
}

// must publishes and holds the receipt to what is at the forge.
func (s *stage) must(p *Publisher, o order1) evidence.Published {
	s.t.Helper()
	receipt, err := s.publish(p, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.laws(p, o, receipt)
}

// fails publishes and expects an error of the code, with the words.
func (s *stage) fails(p *Publisher, o order1, code sallyport.Code, words ...string) error {
	s.t.Helper()
	receipt, err := s.publish(p, o)
	if err == nil || sallyport.CodeOf(err) != code || receipt != "" {
		s.t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.t.Errorf("%v: does not say %q", err, w)
		}
	}
	return err
}

// pullRequest is what the forge says of one.
type pullRequest struct {
	Number int64  `json:"number"`
	State  string `json:"state"`
	Draft  bool   `json:"draft"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	User   struct {
		Login string `json:"login"`
	} `json:"user"`
	Head struct {
		Ref   string             `json:"ref"`
		Label string             `json:"label"`
		SHA   sallyport.ObjectID `json:"sha"`
	} `json:"head"`
}

func (s *stage) pullRequests(state string) (list []pullRequest) {
	s.t.Helper()
	s.forge.Do(s.t, "", http.MethodGet, "/repos/"+s.repo+"/pulls?limit=50&sort=oldest&state="+state, nil, &list)
	return list
}

// tokens are the names of those that the bot has.
func (s *stage) tokens() (names []string) {
	s.t.Helper()
	var list []struct {
		Name string `json:"name"`
	}
	s.forge.Do(s.t, s.bot, http.MethodGet, "/users/"+s.bot+"/tokens?limit=50", nil, &list)
	for _, l := range list {
		names = append(names, l.Name)
	}
	return names
}

// tip of a branch at the forge, "" if it is not there.
func (s *stage) tip(branch string) sallyport.ObjectID {
	s.t.Helper()
	return s.at("refs/heads/" + branch)
}

// at is where a ref of the forge is.
func (s *stage) at(ref string) sallyport.ObjectID {
	s.t.Helper()
	line := s.git("ls-remote", s.remote(), ref)
	id, _, _ := strings.Cut(line, "\t")
	return sallyport.ObjectID(id)
}

// laws hold after every publication that was done.
func (s *stage) laws(p *Publisher, o order1, receipt string) evidence.Published {
	t := s.t
	t.Helper()
	keys, err := p.Keys()
	if err != nil {
		t.Fatal(err)
	}
	list, err := evidence.ParsePublicKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	r, err := evidence.VerifyPublication([]byte(receipt), list, []byte(o.request.Acceptance))
	if err != nil {
		t.Fatalf("the receipt does not verify: %v", err)
	}
	pub := r.Predicate
	if again, err := s.publish(p, o); err != nil || again != receipt {
		t.Errorf("the same nonce gives another receipt: %v", err)
	}
	open := s.pullRequests("open")
	if len(open) != 1 || open[0].Head.SHA != o.commit || open[0].Head.Ref != "sallyport/fix" || pub.PullRequest == nil || pub.PullRequest.Number != open[0].Number || pub.Commit != o.commit {
		t.Errorf("open: %+v, expected one with %s; the receipt has %+v", open, o.commit, pub)
	}
	if tip := s.tip("sallyport/fix"); tip != o.commit {
		t.Errorf("the branch is at %q", tip)
	}
	if left := s.tokens(); pub.Credential.Class == "minted" && len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
	if err := p.ledger.Check(t.Context()); err != nil {
		t.Error(err)
	}
	return pub
}

// state is what the ledger knows of the stage's work order.
func (s *stage) state(p *Publisher, o order1) *State {
	s.t.Helper()
	st, err := p.ledger.State(s.t.Context(), Scope{o.c.Target.Repository, o.c.WorkOrderID()})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// types are the records of the ledger, each type once.
func (s *stage) types(p *Publisher) map[Type]int {
	s.t.Helper()
	all := map[Type]int{}
	if err := p.ledger.each(s.t.Context(), "", nil, func(r Record, _, _ []byte) error { all[r.Type]++; return nil }); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// openExtra has a second pull request of the bot's for the same branch and base. The forge refuses that except to those who
// ask at the same moment: the first is closed for a moment.
func (s *stage) openExtra() {
	t := s.t
	t.Helper()
	first := s.pullRequests("open")[0].Number
	s.forge.ClosePull(t, s.repo, first)
	s.forge.Do(t, s.bot, http.MethodPost, "/repos/"+s.repo+"/pulls", map[string]string{"head": "sallyport/fix", "base": "main", "title": "Extra"}, nil)
	s.reopen(first)
	if n := len(s.pullRequests("open")); n != 2 {
		t.Fatalf("%d open", n)
	}
}

func (s *stage) reopen(number int64) {
	s.t.Helper()
	s.forge.Do(s.t, "", http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/%d", s.repo, number), map[string]string{"state": "open"}, nil)
}
