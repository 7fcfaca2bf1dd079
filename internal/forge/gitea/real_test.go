package gitea_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

func minted(t testing.TB, d forge.Driver) forge.Grant {
	t.Helper()
	g, err := d.Mint(t.Context(), "mark")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func wantCode(t testing.TB, err error, want sallyport.Code, words ...string) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != want {
		t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// clone gives a bare repository with the base branch, fetched as the driver's user, and a commit on top.
func clone(t testing.TB, r forge.Remote) (dir string, base, commit sallyport.ObjectID) {
	t.Helper()
	dir = forgetest.Bare(t)
	base, err := forge.Fetch(t.Context(), dir, r, "refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	return dir, base, forgetest.CommitIn(t, dir, "ours", base)
}

func TestPushOverHTTP(t *testing.T) {
	r := start(t)
	for _, r.mint = range []bool{false, true} {
		d := r.Driver(t, forgetest.Options{})
		g := minted(t, d)
		remote := d.Remote(g)
		dir, base, commit := clone(t, remote)
		branch := fmt.Sprintf("sallyport/minted-%v", r.mint)
		for range 2 {
			if err := forge.Push(t.Context(), dir, remote, commit, "", branch); err != nil {
				t.Fatal(err)
			}
		}
		theirs := r.Commit(t, "", r.repo, branch)
		wantCode(t, forge.Push(t.Context(), dir, remote, base, commit, branch), sallyport.CodeConflict, string(theirs), string(commit))
		pr, err := d.Create(t.Context(), g, forge.NewPullRequest{Head: branch, Base: "main", Text: forge.Text{Title: "t"}})
		if err != nil || pr.Tip != theirs {
			t.Fatalf("%+v, %v", pr, err)
		}
		if err := d.Revoke(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		_, err = forge.Tip(t.Context(), remote, "refs/heads/main")
		switch {
		case r.mint:
			wantCode(t, err, sallyport.CodeDenied, "401")
			wantCode(t, forge.Push(t.Context(), dir, remote, base, "", "sallyport/late"), sallyport.CodeDenied, "401")
		case err != nil:
			t.Fatal(err)
		}
	}
}

func TestPushToAProtectedBranchIsDenied(t *testing.T) {
	r := start(t)
	r.Protect(t, r.repo, "main", map[string]any{"enable_push": false})
	d := r.Driver(t, forgetest.Options{})
	remote := d.Remote(minted(t, d))
	dir, base, commit := clone(t, remote)
	wantCode(t, forge.Push(t.Context(), dir, remote, commit, base, "main"), sallyport.CodeDenied, "rejected", "protected branch main")
}

func TestPushOverSSH(t *testing.T) {
	r := start(t)
	key := func(readOnly bool) string {
		name := filepath.Join(t.TempDir(), "a key's file")
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		public, err := os.ReadFile(name + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		r.DeployKey(t, r.repo, string(public), readOnly)
		return name
	}
	c := r.config(t, forgetest.Options{})
	c.SSH = &gitea.SSH{URL: r.SSH + "/" + r.repo + ".git", Key: key(false), KnownHosts: r.KnownHosts}
	remote := func() forge.Remote { d := driver(t, c); return d.Remote(minted(t, d)) }
	dir, base, commit := clone(t, remote())
	if err := forge.Push(t.Context(), dir, remote(), commit, "", "sallyport/ssh"); err != nil {
		t.Fatal(err)
	}
	theirs := r.Commit(t, "", r.repo, "sallyport/ssh")
	wantCode(t, forge.Push(t.Context(), dir, remote(), base, commit, "sallyport/ssh"), sallyport.CodeConflict, string(theirs))

	c.SSH.Key = key(true)
	wantCode(t, forge.Push(t.Context(), dir, remote(), base, "", "sallyport/read-only"), sallyport.CodeDenied, "not authorized")
	other := r.SSH + "/owner/other.git"
	r.Repository(t, "owner/other", nil)
	c.SSH.URL = other
	_, err := forge.Tip(t.Context(), remote(), "refs/heads/main")
	if c := sallyport.CodeOf(err); err == nil || c != sallyport.CodeDenied && c != sallyport.CodeNotFound {
		t.Errorf("another repository with a deploy key: %v (%v)", err, c)
	}
	c.SSH.KnownHosts = filepath.Join(t.TempDir(), "none")
	_, err = forge.Tip(t.Context(), remote(), "refs/heads/main")
	wantCode(t, err, sallyport.CodeDenied, "Host key verification failed")
}

func TestTokenWithTooLittle(t *testing.T) {
	r := start(t)
	r.Repository(t, "owner/other", nil)
	r.Commit(t, "", r.repo, "sallyport/x")
	for _, c := range []struct {
		repo   string
		scopes []string
		find   sallyport.Code
		create sallyport.Code
		push   sallyport.Code
	}{
		{r.repo, []string{"read:repository"}, -1, sallyport.CodeDenied, sallyport.CodeDenied},
		{r.repo, []string{"write:issue"}, sallyport.CodeDenied, sallyport.CodeDenied, sallyport.CodeDenied},
		{"owner/other", []string{"write:repository"}, sallyport.CodeNotFound, sallyport.CodeNotFound, sallyport.CodeNotFound},
		{"owner/none", []string{"write:repository"}, sallyport.CodeNotFound, sallyport.CodeNotFound, sallyport.CodeNotFound},
	} {
		t.Run(c.repo+" "+c.scopes[0], func(t *testing.T) {
			d := driver(t, gitea.Config{URL: r.URL + "/" + c.repo, Credential: forgetest.Known(r.Token(t, "bot", c.scopes...))})
			g := minted(t, d)
			_, err := d.Find(t.Context(), g, "sallyport/x", "main")
			if c.find >= 0 {
				wantCode(t, err, c.find)
			} else if err != nil {
				t.Error(err)
			}
			_, err = d.Create(t.Context(), g, forge.NewPullRequest{Head: "sallyport/x", Base: "main", Text: forge.Text{Title: "t"}})
			wantCode(t, err, c.create)
			dir := forgetest.Bare(t)
			commit := forgetest.CommitIn(t, dir, "ours")
			wantCode(t, forge.Push(t.Context(), dir, d.Remote(g), commit, "", "sallyport/y"), c.push)
		})
	}
}

// The server gives five at a time, whatever is asked for (forgetest).
func TestFindLooksAtEveryPage(t *testing.T) {
	r := start(t)
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	r.Commit(t, "", r.repo, "noise")
	for range 6 {
		var made struct{ Number int64 }
		r.Do(t, "", http.MethodPost, "/repos/"+r.repo+"/pulls", map[string]string{"head": "noise", "base": "main", "title": "n"}, &made)
		r.Close(t, made.Number)
	}
	r.Commit(t, "", r.repo, "sallyport/late")
	pr, err := d.Create(t.Context(), g, forge.NewPullRequest{Head: "sallyport/late", Base: "main", Text: forge.Text{Title: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	prs, err := d.Find(t.Context(), g, "sallyport/late", "main")
	if err != nil || len(prs) != 1 || prs[0].Number != pr.Number {
		t.Errorf("found %+v, %v", prs, err)
	}
	if prs, err = d.Find(t.Context(), g, "noise", "main"); err != nil || len(prs) != 6 {
		t.Errorf("found %d, %v", len(prs), err)
	}
}

// A reader can push a change without a branch (refs/for/main), under a topic that reads like a branch of ours.
func TestChangeWithoutABranchIsNotOurs(t *testing.T) {
	r := start(t)
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	dir, _, commit := clone(t, d.Remote(g))
	to := strings.Replace(r.URL, "http://", "http://stranger:"+forgetest.Password+"@", 1) + "/" + r.repo + ".git"
	forgetest.Git(t, dir, "push", "-q", "-o", "topic=topic", "-o", "title=mine", to, string(commit)+":refs/for/main")
	var there []struct {
		Number int64
		Head   struct{ Label, Ref string }
	}
	r.Do(t, "", http.MethodGet, "/repos/"+r.repo+"/pulls?state=all", nil, &there)
	if len(there) != 1 {
		t.Fatalf("expected one pull request: %+v", there)
	}
	for _, name := range []string{"stranger/topic", "topic", there[0].Head.Ref, ""} {
		if prs, err := d.Find(t.Context(), g, name, "main"); err != nil || len(prs) != 0 {
			t.Errorf("%q finds %+v, %v", name, prs, err)
		}
	}
}

func TestRenamedRepositoryIsNotFollowed(t *testing.T) {
	r := start(t)
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	dir, _, commit := clone(t, d.Remote(g))
	r.Do(t, "", http.MethodPatch, "/repos/"+r.repo, map[string]string{"name": "renamed"}, nil)
	_, err := d.Find(t.Context(), g, "sallyport/x", "main")
	wantCode(t, err, sallyport.CodeInvalid, "owner/renamed")
	_, err = d.Create(t.Context(), g, forge.NewPullRequest{Head: "a", Base: "main", Text: forge.Text{Title: "t"}})
	wantCode(t, err, sallyport.CodeInvalid, "owner/renamed")
	wantCode(t, forge.Push(t.Context(), dir, d.Remote(g), commit, "", "sallyport/x"), sallyport.CodeInvalid, "owner/renamed")
}

func TestArchivedRepository(t *testing.T) {
	r := start(t)
	r.Commit(t, "", r.repo, "sallyport/x")
	r.Do(t, "", http.MethodPatch, "/repos/"+r.repo, map[string]bool{"archived": true}, nil)
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	in, err := d.Inspect(t.Context(), g, "main")
	if err != nil || !in.Archived || !found(in, "cannot-push", true) {
		t.Errorf("%+v, %v", in, err)
	}
	_, err = d.Create(t.Context(), g, forge.NewPullRequest{Head: "sallyport/x", Base: "main", Text: forge.Text{Title: "t"}})
	wantCode(t, err, sallyport.CodeDenied)
}

func found(in forge.Inspection, code string, blocking bool) bool {
	return slices.ContainsFunc(in.Findings, func(f forge.Finding) bool { return f.Code == code && f.Blocking == blocking })
}

func TestInspect(t *testing.T) {
	r := start(t)
	r.User(t, "admin2")
	r.User(t, "reader")
	for _, c := range []struct {
		name, right string
		rule        map[string]any // nil: not protected
		switchOff   bool           // pull requests
		want        string
	}{
		{"a writer, nothing guarded", "write", nil, false, "unprotected-base!"},
		{"a writer, an approval is needed", "write", map[string]any{"enable_push": false, "required_approvals": 1}, false, "can-merge"},
		{"a writer, somebody else may merge", "write", map[string]any{"enable_push": false, "required_approvals": 1, "enable_merge_whitelist": true, "merge_whitelist_usernames": []string{"owner"}}, false, ""},
		{"a writer, no approval is needed", "write", map[string]any{"enable_push": false}, false, "can-merge! no-review-required"},
		{"a writer who may push", "write", map[string]any{"enable_push": true, "required_approvals": 1}, false, "can-merge!"},
		{"an administrator", "admin", map[string]any{"enable_push": false, "required_approvals": 1}, false, "can-administer! can-merge"},
		{"a reader", "read", map[string]any{"enable_push": false, "required_approvals": 1}, false, "cannot-push!"},
		{"a writer without pull requests", "write", map[string]any{"enable_push": false, "required_approvals": 1}, true, "can-merge cannot-open!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			repo := "owner/" + strings.NewReplacer(" ", "-", ",", "").Replace(c.name)
			r.Repository(t, repo, map[string]string{"bot": c.right})
			if c.rule != nil {
				r.Protect(t, repo, "main", c.rule)
			}
			if c.switchOff {
				r.Do(t, "", http.MethodPatch, "/repos/"+repo, map[string]bool{"has_pull_requests": false}, nil)
			}
			d := driver(t, gitea.Config{URL: r.URL + "/" + repo, Credential: forgetest.Known(r.Token(t, "bot", "write:repository"))})
			in, err := d.Inspect(t.Context(), minted(t, d), "main")
			if err != nil || !in.Private || in.Archived {
				t.Fatalf("%+v, %v", in, err)
			}
			var got []string
			for _, f := range in.Findings {
				switch {
				case f.Code == "too-wide" || f.Code == "long-lived" || f.Code == "not-told":
					if f.Blocking {
						t.Errorf("%+v", f)
					}
				case f.Blocking:
					got = append(got, f.Code+"!")
				default:
					got = append(got, f.Code)
				}
			}
			slices.Sort(got)
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%q, expected %q", g, c.want)
			}
			for _, code := range []string{"too-wide", "long-lived", "not-told"} {
				if !found(in, code, false) {
					t.Errorf("%s is not told", code)
				}
			}
		})
	}
}

func TestLabelsThatExistAreSet(t *testing.T) {
	r := start(t)
	r.Do(t, "", http.MethodPost, "/repos/"+r.repo+"/labels", map[string]string{"name": "by a machine", "color": "#00aabb"}, nil)
	for i, scopes := range [][]string{{"write:repository", "write:issue"}, {"write:repository"}} {
		head := fmt.Sprintf("sallyport/%d", i)
		r.Commit(t, "", r.repo, head)
		d := driver(t, gitea.Config{URL: r.URL + "/" + r.repo, Credential: forgetest.Known(r.Token(t, "bot", scopes...))})
		pr, err := d.Create(t.Context(), minted(t, d), forge.NewPullRequest{Head: head, Base: "main", Text: forge.Text{Title: "t"}, Labels: []string{"none", "by a machine"}})
		if err != nil {
			t.Fatal(err)
		}
		var there []struct{ Name string }
		r.Do(t, "", http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/labels", r.repo, pr.Number), nil, &there)
		if want := 1 - i; len(there) != want {
			t.Errorf("scopes %v: labels %+v, expected %d", scopes, there, want)
		}
	}
}

// Gitea has one exclusive label of a scope at a time: a person's is not taken away for one of ours.
func TestLabelOfAPersonsScope(t *testing.T) {
	r := start(t)
	r.Commit(t, "", r.repo, "sallyport/x")
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	pr, err := d.Create(t.Context(), g, forge.NewPullRequest{Head: "sallyport/x", Base: "main", Text: forge.Text{Title: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Gitea.Label(t, r.repo, 0, "review/open", true)
	r.Gitea.Label(t, r.repo, 0, "agent", false)
	r.Gitea.Label(t, r.repo, pr.Number, "review/done", true)
	for _, names := range [][]string{{"review/open"}, {"agent", "review/open"}} {
		if put, err := d.Label(t.Context(), g, pr.Number, names); err != nil || len(put) != len(names)-1 {
			t.Errorf("%q, %v", put, err)
		}
	}
	if on := r.Labels(t, r.repo, pr.Number); !slices.Equal(on, []string{"agent", "review/done"}) {
		t.Errorf("labels %q", on)
	}
}

func TestWhoseAConfiguredTokenIs(t *testing.T) {
	r := start(t)
	for want, scopes := range map[string][]string{"bot": {"write:repository", "read:user"}, "": {"write:repository"}} {
		d := driver(t, gitea.Config{URL: r.URL + "/" + r.repo, Credential: forgetest.Known(r.Token(t, "bot", scopes...))})
		if g := minted(t, d); g.Identity != want || g.Class != forge.ClassConfigured {
			t.Errorf("scopes %v: acts as %q, %s", scopes, g.Identity, g.Class)
		}
	}
}

func TestRevokeByMark(t *testing.T) {
	r := start(t)
	r.mint = true
	d := r.Driver(t, forgetest.Options{})
	g := minted(t, d)
	if !slices.Equal(g.Scope, []string{"write:issue", "write:repository"}) || g.Identity != "bot" || !g.Expires.IsZero() {
		t.Errorf("scope %v, identity %q, expires %v", g.Scope, g.Identity, g.Expires)
	}
	if err := d.Revoke(t.Context(), forge.Grant{ID: "mark", Class: forge.ClassMinted}); err != nil {
		t.Fatal(err)
	}
	_, err := d.Find(t.Context(), g, "a", "main")
	wantCode(t, err, sallyport.CodeDenied)
	for _, mark := range []string{"", "1", "0x1", "_a"} { // an id of another token, or nearly
		_, err := d.Mint(t.Context(), mark)
		wantCode(t, err, sallyport.CodeInvalid)
	}
}

func TestCompareIsAPageOfTheForge(t *testing.T) {
	r := start(t)
	r.Commit(t, "", r.repo, "sallyport/a%b")
	r.Do(t, "", http.MethodPatch, "/repos/"+r.repo, map[string]bool{"private": false}, nil)
	d := r.Driver(t, forgetest.Options{})
	resp, err := http.Get(d.Describe().Compare("sallyport/a%b", "main"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s", resp.Request.URL, resp.Status)
	}
	if u, err := url.Parse(d.Describe().Repository); err != nil || u.User != nil {
		t.Errorf("%v, %v", u, err)
	}
}

// A token whose answer was lost is ended by its mark, and only it; a mark that names none is as good as ended.
func TestRevokeMark(t *testing.T) {
	r := start(t)
	r.mint = true
	d := driver(t, r.config(t, forgetest.Options{}))
	ctx := t.Context()
	lost, err := d.Mint(ctx, "sallyport-lost")
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.Mint(ctx, "sallyport-other")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.RevokeMark(ctx, "sallyport-lost"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Find(ctx, lost, "x", "main"); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("it is alive: %v", err)
	}
	if _, err := d.Find(ctx, other, "x", "main"); err != nil {
		t.Errorf("another one was ended: %v", err)
	}
	// A number would be another token's id.
	if err := d.RevokeMark(ctx, other.ID); sallyport.CodeOf(err) != sallyport.CodeInvalid || err == nil {
		t.Errorf("by its id: %v", err)
	}
}
