package gitea_test

import (
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

// rig is a private repository of somebody's, of which bot is a writer and stranger a reader.
type rig struct {
	*forgetest.Gitea
	repo string
	mint bool
}

func start(t testing.TB) rig {
	t.Helper()
	g := forgetest.Start(t)
	for _, name := range []string{"owner", "bot", "stranger"} {
		g.User(t, name)
	}
	g.Repository(t, "owner/tool", map[string]string{"bot": "write", "stranger": "read"})
	return rig{Gitea: g, repo: "owner/tool"}
}

func (r rig) config(t testing.TB, o forgetest.Options) gitea.Config {
	t.Helper()
	c := gitea.Config{URL: r.URL + "/" + r.repo}
	secret := o.Credential
	switch {
	case r.mint && secret == "":
		secret = forgetest.Password
	case secret == "":
		secret = r.Token(t, "bot", "write:repository", "write:issue")
	}
	if r.mint {
		c.Mint = &gitea.Mint{User: "bot", Password: forgetest.Known(secret)}
	} else {
		c.Credential = forgetest.Known(secret)
	}
	c.Client = o.Client(t)
	return c
}

func driver(t testing.TB, c gitea.Config) *gitea.Driver {
	t.Helper()
	d, err := gitea.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (r rig) Driver(t testing.TB, o forgetest.Options) forge.Driver { return driver(t, r.config(t, o)) }

func (r rig) Branch(t testing.TB, name string) sallyport.ObjectID {
	t.Helper()
	return r.Commit(t, "", r.repo, name)
}

func (r rig) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	r.Gitea.DeleteBranch(t, "", r.repo, name)
}

func (r rig) Stranger(t testing.TB, head, base string) int64 {
	t.Helper()
	return r.ForkPull(t, "stranger", r.repo, head, base)
}

func (r rig) Close(t testing.TB, number int64) { t.Helper(); r.ClosePull(t, r.repo, number) }
func (r rig) Merge(t testing.TB, number int64) { t.Helper(); r.MergePull(t, r.repo, number) }
func (r rig) Comments(t testing.TB, number int64) []string {
	t.Helper()
	return r.Gitea.Comments(t, r.repo, number)
}

func (r rig) Label(t testing.TB, number int64, name string) {
	t.Helper()
	r.Gitea.Label(t, r.repo, number, name, false)
}

func TestConform(t *testing.T) {
	r := start(t)
	t.Run("with a configured token", func(t *testing.T) { forgetest.Conform(t, r) })
	r.mint = true
	t.Run("with a minted token", func(t *testing.T) { forgetest.Conform(t, r) })
}
