package gitlab

import (
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/gitlab"
)

// rig is the suite's project on a GitLab of ours.
type rig struct {
	*served.Server
	mints bool
}

func (r rig) config(t testing.TB, o forgetest.Options) Config {
	t.Helper()
	c := Config{URL: r.Project}
	secret := o.Credential
	switch {
	case r.mints && secret == "":
		secret = r.Owner
	case secret == "":
		secret = r.Bot
	}
	if r.mints {
		c.ProjectID, c.Owner = 4711, forgetest.Known(secret)
	} else {
		c.Credential = forgetest.Known(secret)
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
	return int64(r.Open(served.Request{SourceID: 666, Source: head, Target: base, Title: "t", Author: "stranger", SHA: r.Tip("main")}).IID)
}

func (r rig) Close(t testing.TB, number int64) {
	r.Change(int(number), func(m *served.Request) { m.State, m.ClosedBy = "closed", "person" })
}

func (r rig) Merge(t testing.TB, number int64) {
	r.Change(int(number), func(m *served.Request) { m.State, m.MergedBy = "merged", "person" })
}

func (r rig) Comments(t testing.TB, number int64) []string { return r.Requests()[number-1].Notes }

func (r rig) Label(t testing.TB, number int64, name string) {
	r.Set(func(s *served.State) { s.Labels = append(s.Labels, name) })
	if number != 0 {
		r.Change(int(number), func(m *served.Request) { m.Labels = append(m.Labels, name) })
	}
}

func TestConform(t *testing.T) {
	s := served.New(t)
	t.Run("with a minted token", func(t *testing.T) { forgetest.Conform(t, rig{s, true}) })
	if live := s.Live(); len(live) != 0 {
		t.Errorf("tokens are left: %q", live)
	}
	t.Run("with a configured token", func(t *testing.T) { forgetest.Conform(t, rig{s, false}) })
}
