package github

import (
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
	"sallyport.dev/sallyport/internal/forge/forgetest/openapi"
)

// rig is the suite's repository on a GitHub of ours.
type rig struct {
	*served.Server
	app bool
}

func (r rig) config(t testing.TB, o forgetest.Options) Config {
	t.Helper()
	c := Config{URL: r.Repository}
	switch {
	case r.app:
		c.RepositoryID = 4711
		c.App = &App{ID: r.AppID, KeyFile: r.KeyFile, Installation: r.Installation}
		if o.Credential != "" {
			c.App.Key = served.OtherKey(t)
		}
	case o.Credential != "":
		c.Credential = forgetest.Known(o.Credential)
	default:
		c.Credential = forgetest.Known(r.Token)
	}
	c.Client = o.Client(t)
	return c
}

func driver(t testing.TB, c Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.wait = time.Millisecond
	return d
}

func (r rig) Driver(t testing.TB, o forgetest.Options) forge.Driver { return driver(t, r.config(t, o)) }

func (r rig) Branch(t testing.TB, name string) sallyport.ObjectID {
	return sallyport.ObjectID(r.Commit(name, "a change"))
}

func (r rig) DeleteBranch(t testing.TB, name string) { r.Git("update-ref", "-d", "refs/heads/"+name) }

func (r rig) Stranger(t testing.TB, head, base string) int64 {
	return int64(r.Open(served.Pull{Repo: 666, Owner: "stranger", Head: head, Base: base, Title: "t", Author: "stranger", Tip: r.Tip("main")}).Number)
}

func (r rig) Close(t testing.TB, number int64) {
	r.Change(int(number), func(p *served.Pull) { p.State, p.ClosedBy = "closed", "person" })
}

func (r rig) Merge(t testing.TB, number int64) {
	r.Change(int(number), func(p *served.Pull) { p.State, p.Merged, p.MergedBy = "closed", true, "person" })
}

func (r rig) Comments(t testing.TB, number int64) []string { return r.Pulls()[number-1].Comments }

func (r rig) Label(t testing.TB, number int64, name string) {
	r.Set(func(s *served.State) { s.Labels = append(s.Labels, name) })
	if number != 0 {
		r.Change(int(number), func(p *served.Pull) { p.Labels = append(p.Labels, name) })
	}
}

func TestConform(t *testing.T) {
	s := served.New(t)
	t.Run("with an App", func(t *testing.T) { forgetest.Conform(t, rig{s, true}) })
	if n := s.Live(); n != 1 {
		// The one whose answer was lost: nobody can know it, and it ends by itself.
		t.Errorf("%d tokens are left, expected 1", n)
	}
	t.Run("with a person's token", func(t *testing.T) { forgetest.Conform(t, rig{s, false}) })
}

// What the server is asked and answers is held to the document in every test; without it this one says so.
func TestAgainstPublishedDocument(t *testing.T) {
	if _, err := openapi.GitHub(); err != nil {
		t.Skipf("missing capability: GitHub's OpenAPI document, by npm: %v", err)
	}
	s := served.New(t)
	r := rig{s, true}
	d := driver(t, r.config(t, forgetest.Options{}))
	d.cfg.App.Installation = 0
	r.Set(func(s *served.State) { s.Granted["attestations"] = "write" })
	d.cfg.Attestations = true
	ctx := t.Context()
	g, err := d.Mint(ctx, "mark")
	if err != nil {
		t.Fatal(err)
	}
	r.Branch(t, "sallyport/x")
	pr, err := d.Create(ctx, g, forge.NewPullRequest{Head: "sallyport/x", Base: "main", Text: forge.Text{Title: "t", Body: "b"}, Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	if put, err := d.Label(ctx, g, pr.Number, []string{"agent"}); err != nil || len(put) != 1 {
		t.Errorf("%q, %v", put, err)
	}
	_, inspect := d.Inspect(ctx, g, "main")
	_, find := d.Find(ctx, g, "sallyport/x", "main")
	_, open := d.Get(ctx, g, pr.Number)
	edit := d.Edit(ctx, g, pr.Number, forge.Text{Title: "u", Body: "c"})
	closing := d.Close(ctx, g, pr.Number, "said")
	_, closed := d.Get(ctx, g, pr.Number)
	attest, again := d.Attest(ctx, g, subject, bundleOf("YQ==")), d.Attest(ctx, g, subject, bundleOf("YQ=="))
	for _, err := range []error{inspect, find, open, edit, closing, closed, attest, again, d.Revoke(ctx, g)} {
		if err != nil {
			t.Error(err)
		}
	}
	// The check itself must be able to fail.
	if asked := s.Asked(); len(asked) < 18 {
		t.Errorf("only %d requests were held to the document: %q", len(asked), asked)
	}
}
