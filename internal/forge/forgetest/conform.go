package forgetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// Rig is one repository with its branch main on one forge, real or not, and a person who works there by other means than
// the driver. A method that cannot do its work fails the test.
type Rig interface {
	// Driver is a new driver for the repository. It may write there and nothing else.
	Driver(t testing.TB, o Options) forge.Driver
	// Branch makes a branch with one commit of its own on top of main, or puts another commit on it, and tells its tip.
	Branch(t testing.TB, name string) sallyport.ObjectID
	// DeleteBranch removes one.
	DeleteBranch(t testing.TB, name string)
	// Stranger opens a pull request to base from a branch called head in a fork of somebody else, and tells its number.
	Stranger(t testing.TB, head, base string) int64
	// Close and Merge are what a person does with a pull request.
	Close(t testing.TB, number int64)
	Merge(t testing.TB, number int64)
	// Label makes a label, and puts it on a pull request; 0: on none.
	Label(t testing.TB, number int64, name string)
	// Comments are the texts of a pull request's comments.
	Comments(t testing.TB, number int64) []string
}

// Options change the driver of a Rig.
type Options struct {
	// Credential stands in place of what the driver is configured with: token, key or password; "": the right one.
	Credential string
	// Wrap goes around the transport of the driver's requests; nil: nothing does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client is what the options ask for in place of a driver's own; nil: nothing.
func (o Options) Client(t testing.TB) *http.Client {
	t.Helper()
	if o.Wrap == nil {
		return nil
	}
	client, err := forge.NewClient("")
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: o.Wrap(client.Transport)}
}

// Known gives a secret as configuration does.
func Known(secret string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return secret, nil }
}

// The deadline of a call in the suite; no forge of a test is that slow.
const patience = time.Minute

// Conform says in tests what forge.Driver says in words. The driver's Description decides what is asked of it. Each subtest
// uses branches of its own, so the rig's repository may be used before and after.
func Conform(t *testing.T, rig Rig) {
	s := suite{rig}
	for _, c := range []struct {
		sentence string
		test     func(*testing.T)
	}{
		{"what is created is found by head and base", s.created},
		{"creating twice is a conflict", s.twice},
		{"a head that is not there cannot be opened", s.noHead},
		{"a branch of the same name in a stranger's fork is not ours", s.stranger},
		{"other heads and other bases are not listed", s.others},
		{"what a person closed is listed as closed", s.closed},
		{"what a person merged is listed as merged, also without its branch", s.merged},
		{"all are listed, oldest first, in whatever state", s.history},
		{"the tip follows a push", s.follows},
		{"an edit replaces title and body", s.edit},
		{"closing leaves one comment however often it is repeated", s.closing},
		{"a comment whose answer is lost is said once", s.saidOnce},
		{"a draft stays a draft when it is edited", s.draft},
		{"hostile text comes back as it was", s.hostileText},
		{"labels that do not exist are left out", s.labels},
		{"labels are put on however often it is repeated, and none is taken off", s.label},
		{"what is not there is not found", s.absent},
		{"an inspection tells the base branch's tip", s.inspect},
		{"a credential is not printed", s.printed},
		{"a revoked credential is good for nothing, and revoking twice is nothing", s.revoke},
		{"minting again under one mark leaves one good credential", s.mintAgain},
		{"a wrong credential is denied and named nowhere", s.wrongCredential},
		{"a redirect is refused and not followed", s.redirect},
		{"a rate limit says until when", s.limited},
		{"a forge that is down is unavailable", s.down},
		{"a request whose answer is lost has an unknown outcome", s.lost},
		{"an answer without end is given up", s.endless},
		{"an answer that is not JSON is no answer", s.nonsense},
		{"what the forge says is one short printable line without the credential", s.words},
		{"a call ends with its context", s.cancelled},
	} {
		t.Run(c.sentence, c.test)
	}
}

type suite struct{ rig Rig }

func (s suite) context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// grant mints, and revokes when the test is over.
func (s suite) grant(t *testing.T, d forge.Driver) forge.Grant {
	t.Helper()
	ctx := s.context(t)
	g, err := d.Mint(ctx, unique("mint"))
	if err != nil {
		t.Fatalf("mint: %v", err)
	}
	if d.Describe().Mints != (g.Class == forge.ClassMinted) {
		t.Errorf("Mints is %v, and the credential is %q", d.Describe().Mints, g.Class)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's own has ended
		defer cancel()
		if err := d.Revoke(ctx, g); err != nil {
			t.Errorf("revoke: %v", err)
		}
	})
	return g
}

// ready is a driver with its credential.
func (s suite) ready(t *testing.T) (forge.Driver, forge.Grant) {
	t.Helper()
	d := s.rig.Driver(t, Options{})
	return d, s.grant(t, d)
}

// open makes a branch and a pull request from it to main.
func (s suite) open(t *testing.T, d forge.Driver, g forge.Grant, head string) forge.PullRequest {
	t.Helper()
	tip := s.rig.Branch(t, head)
	pr, err := d.Create(s.context(t), g, proposal(head, "main"))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if pr.Tip != tip {
		t.Errorf("tip %s, expected %s", pr.Tip, tip)
	}
	return pr
}

func (s suite) find(t *testing.T, d forge.Driver, g forge.Grant, head, base string) []forge.PullRequest {
	t.Helper()
	prs, err := d.Find(s.context(t), g, head, base)
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	return prs
}

// only fails unless prs is exactly this one, in this state.
func only(t *testing.T, prs []forge.PullRequest, number int64, state forge.State) {
	t.Helper()
	if len(prs) != 1 || prs[0].Number != number || prs[0].State != state {
		t.Fatalf("found %+v, expected number %d alone, %s", prs, number, state)
	}
}

func proposal(head, base string) forge.NewPullRequest {
	return forge.NewPullRequest{Head: head, Base: base, Text: forge.Text{Title: "Say hello", Body: "It says hello.\n\nTwice."}}
}

// unique is a short name that no test used before; it reads well as a branch.
func unique(what string) string {
	return fmt.Sprintf("%s-%s", what, strings.ToLower(rand.Text()[:10]))
}

func branch(what string) string { return "sallyport/" + unique(what) }

func code(t *testing.T, err error, want sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != want {
		t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), want)
	}
}

func (s suite) created(t *testing.T) {
	d, g := s.ready(t)
	head := branch("create")
	pr := s.open(t, d, g, head)
	prs := s.find(t, d, g, head, "main")
	only(t, prs, pr.Number, forge.Open)
	again, err := d.Get(s.context(t), g, pr.Number)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]forge.PullRequest{"Create": pr, "Find": prs[0], "Get": again} {
		if p.Head != head || p.Base != "main" || p.Draft || p.Text != proposal("", "").Text || p.State != forge.Open || p.Tip != pr.Tip {
			t.Errorf("%s: %+v", name, p)
		}
		if !strings.HasPrefix(p.URL, d.Describe().Repository+"/") || p.Author == "" || p.Created.IsZero() || p.ClosedBy != "" {
			t.Errorf("%s: address %q, author %q, created %v, closed by %q", name, p.URL, p.Author, p.Created, p.ClosedBy)
		}
		if g.Identity != "" && p.Author != g.Identity {
			t.Errorf("%s: author %q, the credential acts as %q", name, p.Author, g.Identity)
		}
	}
}

func (s suite) twice(t *testing.T) {
	d, g := s.ready(t)
	head := branch("twice")
	pr := s.open(t, d, g, head)
	_, err := d.Create(s.context(t), g, proposal(head, "main"))
	code(t, err, sallyport.CodeConflict)
	only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Open)
}

func (s suite) noHead(t *testing.T) {
	d, g := s.ready(t)
	head := branch("nowhere")
	_, err := d.Create(s.context(t), g, proposal(head, "main"))
	if c := sallyport.CodeOf(err); err == nil || c != sallyport.CodeNotFound && c != sallyport.CodeInvalid {
		t.Fatalf("%v (%v)", err, c)
	}
	if prs := s.find(t, d, g, head, "main"); len(prs) != 0 {
		t.Errorf("found %+v", prs)
	}
}

func (s suite) stranger(t *testing.T) {
	d, g := s.ready(t)
	head := branch("fork")
	theirs := s.rig.Stranger(t, head, "main")
	if prs := s.find(t, d, g, head, "main"); len(prs) != 0 {
		t.Fatalf("found a stranger's: %+v", prs)
	}
	pr := s.open(t, d, g, head)
	if pr.Number == theirs {
		t.Fatal("the stranger's was taken for ours")
	}
	only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Open)
}

func (s suite) others(t *testing.T) {
	d, g := s.ready(t)
	head, other, base := branch("one"), branch("two"), branch("base")
	s.rig.Branch(t, base)
	pr := s.open(t, d, g, head)
	s.open(t, d, g, other)
	elsewhere, err := d.Create(s.context(t), g, proposal(head, base))
	if err != nil {
		t.Fatal(err)
	}
	only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Open)
	only(t, s.find(t, d, g, head, base), elsewhere.Number, forge.Open)
	if prs := s.find(t, d, g, strings.TrimPrefix(head, "sallyport/"), "main"); len(prs) != 0 {
		t.Errorf("the end of a name finds %+v", prs)
	}
}

func (s suite) closed(t *testing.T) {
	d, g := s.ready(t)
	head := branch("closed")
	pr := s.open(t, d, g, head)
	s.rig.Close(t, pr.Number)
	only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Closed)
}

func (s suite) merged(t *testing.T) {
	d, g := s.ready(t)
	head := branch("merged")
	pr := s.open(t, d, g, head)
	s.rig.Merge(t, pr.Number)
	only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Merged)
	s.rig.DeleteBranch(t, head)
	prs := s.find(t, d, g, head, "main")
	only(t, prs, pr.Number, forge.Merged)
	if prs[0].Head != head || prs[0].Tip != pr.Tip {
		t.Errorf("head %q at %s, expected %q at %s", prs[0].Head, prs[0].Tip, head, pr.Tip)
	}
}

func (s suite) history(t *testing.T) {
	d, g := s.ready(t)
	head := branch("again")
	first := s.open(t, d, g, head)
	s.rig.Close(t, first.Number)
	second := s.open(t, d, g, head)
	prs := s.find(t, d, g, head, "main")
	if len(prs) != 2 || prs[0].Number != first.Number || prs[1].Number != second.Number {
		t.Fatalf("found %+v, expected %d and %d", prs, first.Number, second.Number)
	}
	if prs[0].State != forge.Closed || prs[1].State != forge.Open {
		t.Errorf("states %s and %s", prs[0].State, prs[1].State)
	}
}

func (s suite) follows(t *testing.T) {
	d, g := s.ready(t)
	head := branch("follow")
	pr := s.open(t, d, g, head)
	tip := s.rig.Branch(t, head)
	s.until(t, "the pull request has the pushed tip", func() bool {
		now, err := d.Get(s.context(t), g, pr.Number)
		return err == nil && now.Tip == tip && now.State == forge.Open
	})
}

// until waits for a forge that does a part of its work after it has answered.
func (s suite) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := s.context(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

func (s suite) edit(t *testing.T) {
	d, g := s.ready(t)
	pr := s.open(t, d, g, branch("edit"))
	for _, text := range []forge.Text{{Title: "Say goodbye", Body: "It says goodbye."}, {Title: "Say nothing", Body: ""}} {
		if err := d.Edit(s.context(t), g, pr.Number, text); err != nil {
			t.Fatal(err)
		}
		now, err := d.Get(s.context(t), g, pr.Number)
		if err != nil || now.Text != text || now.State != forge.Open {
			t.Errorf("%+v, %v, expected %+v", now, err, text)
		}
	}
}

func (s suite) closing(t *testing.T) {
	d, g := s.ready(t)
	head := branch("closing")
	pr := s.open(t, d, g, head)
	const comment = "Superseded by another attempt."
	for range 2 {
		if err := d.Close(s.context(t), g, pr.Number, comment); err != nil {
			t.Fatal(err)
		}
		only(t, s.find(t, d, g, head, "main"), pr.Number, forge.Closed)
	}
	if said := s.rig.Comments(t, pr.Number); !slices.Equal(said, []string{comment}) {
		t.Errorf("comments %q", said)
	}
}

func (s suite) saidOnce(t *testing.T) {
	d, g, f := s.broken(t, nil)
	pr := s.open(t, d, g, branch("said"))
	const comment = "Superseded by another attempt."
	f.armed.Store(lostAnswer(http.MethodPost))
	code(t, d.Close(s.context(t), g, pr.Number, comment), sallyport.CodeUnknown)
	f.armed.Store(nil)
	if err := d.Close(s.context(t), g, pr.Number, comment); err != nil {
		t.Fatal(err)
	}
	if said := s.rig.Comments(t, pr.Number); !slices.Equal(said, []string{comment}) {
		t.Errorf("comments %q", said)
	}
}

func (s suite) draft(t *testing.T) {
	d, g := s.ready(t)
	if !d.Describe().Drafts {
		return // and the publisher does not ask it for one
	}
	head := branch("draft")
	s.rig.Branch(t, head)
	n := proposal(head, "main")
	n.Draft = true
	pr, err := d.Create(s.context(t), g, n)
	if err != nil {
		t.Fatal(err)
	}
	text := forge.Text{Title: "Say less", Body: "b"}
	if err := d.Edit(s.context(t), g, pr.Number, text); err != nil {
		t.Fatal(err)
	}
	now, err := d.Get(s.context(t), g, pr.Number)
	if err != nil || !pr.Draft || pr.Text != n.Text || !now.Draft || now.Text != text {
		t.Errorf("made %+v, edited %+v, %v", pr, now, err)
	}
}

func (s suite) hostileText(t *testing.T) {
	d, g := s.ready(t)
	head := branch("hostile")
	s.rig.Branch(t, head)
	n := proposal(head, "main")
	n.Text = forge.Text{
		Title: `</title><script>alert("1")</script> \u0000 %s ${x} $(id) 'q' ` + "`b` ünï \u202e ok",
		Body:  "<!-- a --> <img src=x onerror=y> &amp; \\ \" '\n\n```\nfixes #1\n```\n| a | b |\n" + strings.Repeat("0123456789abcdef", 3000) + "\nend",
	}
	pr, err := d.Create(s.context(t), g, n)
	if err != nil {
		t.Fatal(err)
	}
	now, err := d.Get(s.context(t), g, pr.Number)
	if err != nil || now.Text != n.Text {
		t.Errorf("%v\ntitle %q\nexpected %q\nbodies are equal: %v", err, now.Text.Title, n.Text.Title, now.Text.Body == n.Text.Body)
	}
}

func (s suite) labels(t *testing.T) {
	d, g := s.ready(t)
	head := branch("labels")
	s.rig.Branch(t, head)
	n := proposal(head, "main")
	n.Labels = []string{unique("no-such-label")}
	if _, err := d.Create(s.context(t), g, n); err != nil {
		t.Fatal(err)
	}
}

func (s suite) label(t *testing.T) {
	d, g := s.ready(t)
	ours, theirs, created := unique("ours"), unique("theirs"), branch("label-created")
	pr := s.open(t, d, g, branch("label"))
	s.rig.Label(t, 0, ours)
	s.rig.Label(t, pr.Number, theirs)
	for range 2 {
		put, err := d.Label(s.context(t), g, pr.Number, []string{ours, unique("no-such-label")})
		if err != nil || !slices.Equal(put, []string{ours}) {
			t.Fatalf("%q, %v", put, err)
		}
	}
	// The same as where the forge takes them with Create.
	s.rig.Branch(t, created)
	n := proposal(created, "main")
	n.Labels = []string{ours}
	other, err := d.Create(s.context(t), g, n)
	if err == nil {
		_, err = d.Label(s.context(t), g, other.Number, n.Labels)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number int64
		want   []string
	}{{pr.Number, []string{ours, theirs}}, {other.Number, []string{ours}}} {
		now, err := d.Get(s.context(t), g, c.number)
		slices.Sort(now.Labels)
		if err != nil || !slices.Equal(now.Labels, c.want) {
			t.Errorf("%q, %v, expected %q", now.Labels, err, c.want)
		}
		if list := s.find(t, d, g, now.Head, "main"); len(list) != 1 || len(list[0].Labels) != len(c.want) {
			t.Errorf("the list tells another thing: %+v", list)
		}
	}
}

func (s suite) absent(t *testing.T) {
	d, g := s.ready(t)
	label := unique("label")
	s.rig.Label(t, 0, label)
	_, err := d.Label(s.context(t), g, 987654321, []string{label})
	code(t, err, sallyport.CodeNotFound)
	_, err = d.Get(s.context(t), g, 987654321)
	code(t, err, sallyport.CodeNotFound)
	code(t, d.Edit(s.context(t), g, 987654321, forge.Text{Title: "t"}), sallyport.CodeNotFound)
	code(t, d.Close(s.context(t), g, 987654321, "c"), sallyport.CodeNotFound)
	_, err = d.Inspect(s.context(t), g, branch("none"))
	code(t, err, sallyport.CodeNotFound)
}

func (s suite) inspect(t *testing.T) {
	d, g := s.ready(t)
	base := branch("inspect")
	tip := s.rig.Branch(t, base)
	in, err := d.Inspect(s.context(t), g, base)
	if err != nil || in.Base != tip || in.RepositoryID == "" || in.Archived {
		t.Errorf("%+v, %v, expected the tip %s", in, err, tip)
	}
	for _, f := range in.Findings {
		if f.Code == "" || f.Message == "" || f.Code == "cannot-push" || f.Code == "cannot-open" {
			t.Errorf("finding %+v", f)
		}
	}
}
