package github

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

func TestInspect(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	p := driver(t, rig{r.Server, false}.config(t, forgetest.Options{}))
	pg := mint(t, p)
	for name, c := range map[string]struct {
		set   func(*served.State)
		d     *Driver
		g     forge.Grant
		wants string
	}{
		"reviewed":   {func(s *served.State) {}, d, g, "not-told"},
		"unreviewed": {func(s *served.State) { s.Approvals = 0 }, d, g, "no-review-required! can-merge"},
		"no rule":    {func(s *served.State) { s.Approvals = -1 }, d, g, "unprotected-base! can-merge"},
		"protected":  {func(s *served.State) { s.Approvals, s.Protected = -1, true }, d, g, "not-told!"},
		"archived":   {func(s *served.State) { s.Archived = true }, d, g, "cannot-push! not-told"},
		"a person":   {func(s *served.State) {}, p, pg, "long-lived not-told not-told not-told"},
		"an admin":   {func(s *served.State) { s.Admin = true }, p, pg, "long-lived can-administer! not-told not-told not-told"},
	} {
		r.Set(func(s *served.State) {
			s.Approvals, s.Protected, s.Archived, s.Admin = 1, false, false, false
			c.set(s)
		})
		in, err := c.d.Inspect(t.Context(), c.g, "main")
		if err != nil || in.RepositoryID != "4711" || string(in.Base) != r.Tip("main") {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
		var got []string
		for _, f := range in.Findings {
			if f.Blocking {
				f.Code += "!"
			}
			got = append(got, f.Code)
		}
		if strings.Join(got, " ") != c.wants {
			t.Errorf("%s: %q, expected %q", name, got, c.wants)
		}
	}
}

// What Remote says is enough for git, and is good until it is revoked.
func TestGitPushesWithTheGrant(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	remote := d.Remote(g)
	dir := t.TempDir()
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(host.Env(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+remote.Header)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "m"}, {"push", "-q", remote.URL, "HEAD:refs/heads/sallyport/x"}} {
		if out, err := git(args...); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	if r.Tip("sallyport/x") == "" {
		t.Error("nothing was pushed")
	}
	if err := d.Revoke(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if out, err := git("push", "-q", remote.URL, "HEAD:refs/heads/sallyport/y"); err == nil {
		t.Errorf("pushed with a revoked token: %s", out)
	}
	config, err := os.ReadFile(filepath.Join(dir, ".git", "config"))
	if err != nil || strings.Contains(string(config), g.Secret) {
		t.Errorf("%v: the token is in git's configuration", err)
	}
}
