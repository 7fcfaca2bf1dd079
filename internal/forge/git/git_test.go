package git_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/git"
)

const password = "a-password-that-is-in-no-error"

func known(secret string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return secret, err }
}

func wantCode(t *testing.T, err error, want sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != want {
		t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), want)
	}
	if strings.Contains(err.Error(), password) {
		t.Errorf("the error has the password: %v", err)
	}
}

func TestPlainServer(t *testing.T) {
	dir := forgetest.Bare(t)
	base := forgetest.CommitIn(t, dir, "base")
	forgetest.Git(t, dir, "update-ref", "refs/heads/main", string(base))
	for name, c := range map[string]git.Config{
		"http": {URL: forgetest.ServeGit(t, dir, "bot", password, nil), User: "bot", Credential: known(password, nil)},
		"file": {URL: "file://" + dir},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := git.New(c)
			if err != nil {
				t.Fatal(err)
			}
			g, err := d.Mint(t.Context(), "mark")
			if err != nil || g.Class != forge.ClassConfigured || g.ID != "" {
				t.Fatalf("%v, %v", g, err)
			}
			in, err := d.Inspect(t.Context(), g, "main")
			if err != nil || in.Base != base || len(in.Findings) == 0 {
				t.Errorf("%+v, %v", in, err)
			}
			_, err = d.Inspect(t.Context(), g, "none")
			wantCode(t, err, sallyport.CodeNotFound)
			commit := forgetest.CommitIn(t, dir, name, base)
			if err := forge.Push(t.Context(), dir, d.Remote(g), commit, "", "sallyport/"+name); err != nil {
				t.Fatal(err)
			}
			if err := d.Revoke(t.Context(), g); err != nil {
				t.Error(err)
			}
			if in, err = d.Inspect(t.Context(), g, "sallyport/"+name); err != nil || in.Base != commit {
				t.Errorf("%+v, %v", in, err)
			}
			if s := fmt.Sprintf("%v %#v %s", g, g, d.Remote(g).URL); strings.Contains(s, password) {
				t.Errorf("%s", s)
			}
		})
	}
}

func TestWithoutPullRequests(t *testing.T) {
	d, err := git.New(git.Config{URL: "file:///srv/tool.git"})
	if err != nil {
		t.Fatal(err)
	}
	if s := d.Describe(); s.PullRequests || s.Mints || s.Drafts || s.Compare("a", "b") != "" || s.Kind != "git" {
		t.Errorf("%+v", s)
	}
	ctx := t.Context()
	if prs, err := d.Find(ctx, forge.Grant{}, "a", "main"); len(prs) != 0 || err != nil {
		t.Errorf("%v, %v", prs, err)
	}
	_, err = d.Create(ctx, forge.Grant{}, forge.NewPullRequest{})
	wantCode(t, err, sallyport.CodeUnsupported)
	_, err = d.Get(ctx, forge.Grant{}, 1)
	wantCode(t, err, sallyport.CodeUnsupported)
	wantCode(t, d.Edit(ctx, forge.Grant{}, 1, forge.Text{}), sallyport.CodeUnsupported)
	wantCode(t, d.Close(ctx, forge.Grant{}, 1, ""), sallyport.CodeUnsupported)
}

func TestCompare(t *testing.T) {
	d, err := git.New(git.Config{URL: "ssh://git@git.example/tool.git", Key: "/k", KnownHosts: "/h", Compare: "https://git.example/tool/compare?from={base}&to={head}"})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Describe().Compare("sallyport/a&b", "main"); got != "https://git.example/tool/compare?from=main&to=sallyport%2Fa%26b" {
		t.Error(got)
	}
	if got := d.Describe().Repository; got != "ssh://git.example/tool.git" {
		t.Error(got)
	}
	g, err := d.Mint(t.Context(), "m")
	if r := d.Remote(g); err != nil || r.Header != "" || !strings.Contains(r.SSH, "'-i' '/k'") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, c := range []git.Config{
		{},
		{URL: "tool.git"},
		{URL: "git://git.example/x"},
		{URL: "http://git.example/x", Credential: known("x", nil)},
		{URL: "https://git.example/x"},
		{URL: "https://bot:" + password + "@git.example/x", Credential: known("x", nil)},
		{URL: "https://bot@git.example/x", Credential: known("x", nil)},
		{URL: "ssh://git@git.example/x"},
		{URL: "ssh://git@git.example/x", Key: "/k"},
		{URL: "ext::sh -c true"},
		{URL: "http://[" + password},
	} {
		_, err := git.New(c)
		wantCode(t, err, sallyport.CodeInvalid)
	}
	for _, c := range []struct {
		secret string
		err    error
		want   sallyport.Code
	}{{"", nil, sallyport.CodeInvalid}, {"a\nX: y", nil, sallyport.CodeInvalid}, {"", errors.New("no file"), sallyport.CodeDenied}} {
		d, err := git.New(git.Config{URL: "https://git.example/x", Credential: known(c.secret, c.err)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Mint(t.Context(), "m")
		wantCode(t, err, c.want)
	}
}

func TestHeaderIsBasic(t *testing.T) {
	d, err := git.New(git.Config{URL: "https://git.example/x", Credential: known(password, nil)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := d.Mint(t.Context(), "m")
	if want := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+password)); err != nil || d.Remote(g).Header != want {
		t.Errorf("%q, %v", d.Remote(g).Header, err)
	}
}
