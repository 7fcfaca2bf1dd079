package gitlab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/gitlab"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

func minting(t *testing.T) (rig, *Driver) {
	t.Helper()
	r := rig{served.New(t), true}
	return r, driver(t, r.config(t, forgetest.Options{}))
}

func mint(t *testing.T, d *Driver) forge.Grant {
	t.Helper()
	g, err := d.Mint(t.Context(), "sallyport-mark")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func fails(t *testing.T, err error, code sallyport.Code, words ...string) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), code)
	}
	for _, w := range words {
		if text := err.Error() + " | " + sallyport.HintOf(err); !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

func proposal(head string) forge.NewPullRequest {
	return forge.NewPullRequest{Head: head, Base: "main", Text: forge.Text{Title: "t", Body: "b"}}
}

func count(asked []string, prefix string) (n int) {
	for _, a := range asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

func TestConfigurationIsRefused(t *testing.T) {
	for name, url := range map[string]string{
		"no address": "", "http": "http://gitlab.example/a/b", "a user in it": "https://u:p@gitlab.example/a/b", "a query in it": "https://gitlab.example/a/b?x=1",
		"one name": "https://gitlab.example/a", "dots": "https://gitlab.example/a/..", "escaped": "https://gitlab.example/a/b%2Fc", "a dash": "https://gitlab.example/a/-/b",
	} {
		if _, err := New(Config{URL: url, Owner: forgetest.Known("x")}); sallyport.CodeOf(err) != sallyport.CodeInvalid || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]Config{"both": {URL: "https://g.example/a/b", Owner: forgetest.Known("x"), Credential: forgetest.Known("x")}, "neither": {URL: "https://g.example/a/b"}} {
		if _, err := New(c); sallyport.CodeOf(err) != sallyport.CodeInvalid || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := driver(t, Config{URL: "https://g.example/a/b/c.git", Owner: forgetest.Known("x")})
	if d.at != "/projects/a%2Fb%2Fc" || d.Describe().Repository != "https://g.example/a/b/c" {
		t.Errorf("%s, %s", d.at, d.Describe().Repository)
	}
}

// A line of a text that GitLab would carry out is put so that it is shown, and comes back as it was.
func TestNoTextActs(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	r.Branch(t, "x")
	n := proposal("x")
	n.Text.Body = "x\n/clo\u017fe\n/merge\n  /close now\n\t/ASSIGN @x\n/usr/bin/true\n\\/merge\ntext /merge\n/approve"
	pr, err := d.Create(t.Context(), g, n)
	if err != nil || pr.Text != n.Text {
		t.Errorf("%q, %v", pr.Text.Body, err)
	}
	if err := d.Edit(t.Context(), g, pr.Number, forge.Text{Title: "t", Body: "/label ~x\n/merge"}); err != nil {
		t.Error(err)
	}
	if err := d.Close(t.Context(), g, pr.Number, "/reopen"); err != nil {
		t.Error(err)
	}
	if acted := r.Acted(); len(acted) != 0 {
		t.Errorf("carried out: %q", acted)
	}
	if now, err := d.Get(t.Context(), g, pr.Number); err != nil || now.Text.Body != "/label ~x\n/merge" {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestQuietIsTakenBack(t *testing.T) {
	line := rapid.SampledFrom([]string{"/merge", "/a b", " /x\t", `\/merge`, `\\/y z`, "/usr/bin", "text", "", "/", `\`, " / x", "/é", "/merge\r", "/\rmerge", "\r/me\rrge x", "\\\r/merge", "/clo\u017fe"})
	// What GitLab would carry out, in its own words.
	acts := regexp.MustCompile(`(?im)^/(merge|close|a|y|x)( [^\n]*)?\s*$`)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.OneOf(line, rapid.String()), 0, 6).Draw(t, "lines"), "\n")
		if got := aloud(quiet(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
		if found := acts.FindString(strings.ReplaceAll(quiet(s), "\r", "")); found != "" {
			t.Errorf("%q acts in %q", found, s)
		}
	})
}

func TestAnotherTokenIsRevoked(t *testing.T) {
	r, d := minting(t)
	for name, change := range map[string]func(map[string]any){
		"a higher role": func(m map[string]any) { m["access_level"] = 40 },
		"no role":       func(m map[string]any) { delete(m, "access_level") },
		"another scope": func(m map[string]any) { m["scopes"] = []string{"api", "sudo"} },
		"no scopes":     func(m map[string]any) { delete(m, "scopes") },
		"a late end":    func(m map[string]any) { m["expires_at"] = "2099-01-01" },
		"no end":        func(m map[string]any) { m["expires_at"] = nil },
		"another name":  func(m map[string]any) { m["name"] = "x" },
	} {
		r.Break(host.Fault{Method: http.MethodPost, Path: "/access_tokens", Change: func(res *httptest.ResponseRecorder) {
			var m map[string]any
			if err := json.Unmarshal(res.Body.Bytes(), &m); err != nil {
				t.Error(err)
			}
			change(m)
			text, _ := json.Marshal(m) // from JSON
			res.Body.Reset()
			res.Body.Write(text)
		}})
		_, err := d.Mint(t.Context(), "mark")
		if err == nil || sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), "it was revoked") {
			t.Errorf("%s: %v", name, err)
		}
		if live := r.Live(); len(live) != 0 {
			t.Errorf("%s: %q are left", name, live)
		}
		r.Mend()
	}
}

// The one whose answer was lost is found by its name, and only by the whole of it.
func TestALostTokenIsFoundByItsName(t *testing.T) {
	r, d := minting(t)
	other, err := d.Mint(t.Context(), "mark-2")
	if err != nil {
		t.Fatal(err)
	}
	r.Break(host.Fault{Method: http.MethodPost, Path: "/access_tokens", Lose: true, Times: 1})
	_, err = d.Mint(t.Context(), "mark")
	fails(t, err, sallyport.CodeUnknown)
	g, err := d.Mint(t.Context(), "mark")
	if err != nil {
		t.Fatal(err)
	}
	if live := r.Live(); !slices.Equal(live, []string{"mark-2", "mark"}) {
		t.Errorf("%q are left", live)
	}
	for _, g := range []forge.Grant{other, g} {
		if err := d.Revoke(t.Context(), g); err != nil {
			t.Error(err)
		}
	}
	if live := r.Live(); len(live) != 0 {
		t.Errorf("%q are left", live)
	}
	g.ID = "../../../user"
	fails(t, d.Revoke(t.Context(), g), sallyport.CodeInvalid)
	_, err = d.Mint(t.Context(), "")
	fails(t, err, sallyport.CodeInvalid)
}

func TestATokenOutlivesMidnightOnlyIfItMust(t *testing.T) {
	for at, want := range map[string]string{"2027-05-06T00:00:01Z": "2027-05-07", "2027-05-06T23:29:00Z": "2027-05-07", "2027-05-06T23:31:00Z": "2027-05-08", "2027-05-06T23:00:00-05:00": "2027-05-08"} {
		r := rig{served.New(t), true}
		c := r.config(t, forgetest.Options{})
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		c.Now = func() time.Time { return now }
		g, err := driver(t, c).Mint(t.Context(), "mark")
		if err != nil || g.Expires.Format(time.DateOnly) != want {
			t.Errorf("%s: %v, %v, expected %s", at, g.Expires, err, want)
		}
	}
}

func TestAGrantSaysWhatItIs(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	if g.Class != forge.ClassMinted || !slices.Equal(g.Scope, []string{"api"}) || !strings.HasPrefix(g.Identity, "project_4711_bot_") || g.ID == "" {
		t.Errorf("%+v %v %v", g, g.Scope, g.Identity)
	}
	g = mint(t, driver(t, rig{r.Server, false}.config(t, forgetest.Options{})))
	if g.Class != forge.ClassConfigured || g.Identity != "bot" || g.Expires.Year() != 2027 || g.ID != "" {
		t.Errorf("%+v %v %v", g, g.Identity, g.Expires)
	}
}

func TestABranchThatIsNotSeenYetIsTriedAgain(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	r.Branch(t, "x")
	r.Set(func(s *served.State) { s.Lag = 4 })
	if _, err := d.Create(t.Context(), g, proposal("x")); err != nil {
		t.Error(err)
	}
	r.Branch(t, "y")
	for _, german := range []bool{false, true} {
		for _, there := range []bool{true, false} {
			head := map[bool]string{true: "y", false: "none"}[there]
			r.Set(func(s *served.State) { s.Lag, s.German = 100, german })
			r.Asked()
			_, err := d.Create(t.Context(), g, proposal(head))
			tries := 5
			switch {
			case !there:
				fails(t, err, sallyport.CodeNotFound, "not there")
			case german: // its words are not understood, and the branch is there
				fails(t, err, sallyport.CodeInvalid)
				tries = 1
			default:
				fails(t, err, sallyport.CodeUnavailable, "has the branch")
			}
			if n := count(r.Asked(), "POST"); n != tries {
				t.Errorf("german %v, there %v: %d attempts, expected %d", german, there, n, tries)
			}
		}
	}
}

func TestCreateIsRefused(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	r.Branch(t, "x")
	n := proposal("x")
	n.Base = "none"
	_, err := d.Create(t.Context(), g, n)
	fails(t, err, sallyport.CodeNotFound)
	n = proposal("x")
	n.Text.Title = strings.Repeat("x", 300)
	_, err = d.Create(t.Context(), g, n)
	fails(t, err, sallyport.CodeInvalid)
	if n := len(r.Requests()); n != 0 {
		t.Errorf("%d merge requests", n)
	}
	// By its status, in whatever language.
	r.Set(func(s *served.State) { s.German = true })
	r.Break(host.Fault{Method: http.MethodPost, Path: "/merge_requests", Before: func() {
		r.Open(served.Request{Source: "x", Target: "main", Title: "t", Author: "a"})
	}})
	_, err = d.Create(t.Context(), g, proposal("x"))
	fails(t, err, sallyport.CodeConflict)
	if n := len(r.Requests()); n != 1 {
		t.Errorf("%d merge requests", n)
	}
}

func TestLabelsThatExistArePut(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	r.Branch(t, "x")
	r.Set(func(s *served.State) { s.Labels = append(s.Labels, "a/b::c d") })
	n := proposal("x")
	n.Labels = []string{"agent", "a/b::c d", "none", "agent,none", ""}
	if _, err := d.Create(t.Context(), g, n); err != nil {
		t.Fatal(err)
	}
	if m := r.Requests()[0]; !slices.Equal(m.Labels, []string{"agent", "a/b::c d"}) {
		t.Errorf("labels %q", m.Labels)
	}
}

// GitLab has one label of a scope at a time: a person's is not taken away for one of ours.
func TestLabelOfAPersonsScope(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	r.Branch(t, "x")
	pr, err := d.Create(t.Context(), g, proposal("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Label(t, 0, "review::open")
	r.Label(t, pr.Number, "review::done")
	for _, names := range [][]string{{"review::open"}, {"agent", "review::open"}} {
		if put, err := d.Label(t.Context(), g, pr.Number, names); err != nil || len(put) != len(names)-1 {
			t.Errorf("%q, %v", put, err)
		}
	}
	if m := r.Requests()[0]; !slices.Equal(m.Labels, []string{"review::done", "agent"}) {
		t.Errorf("labels %q", m.Labels)
	}
}

func TestFind(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	tip := r.Branch(t, "x")
	r.Open(served.Request{SourceID: 666, Source: "x", Target: "main", Title: "t", Author: "a", SHA: string(tip)})
	for _, state := range []string{"locked", "of another time"} {
		r.Open(served.Request{Source: "x", Target: "main", Title: "t", Author: "a", State: state})
	}
	for range 230 {
		r.Open(served.Request{Source: "x", Target: "main", Title: "t", Author: "a", State: "closed"})
	}
	r.Asked()
	prs, err := d.Find(t.Context(), g, "x", "main")
	if err != nil || len(prs) != 232 || prs[0].Number != 2 || prs[231].Number != 233 {
		t.Fatalf("%d, %v", len(prs), err)
	}
	if prs[0].State != forge.Open || prs[1].State != forge.Closed {
		t.Errorf("locked is %s, an unknown state %s", prs[0].State, prs[1].State)
	}
	if n := count(r.Asked(), "GET"); n != 3 {
		t.Errorf("%d requests, expected 3", n)
	}
	// A server that forgets its filter.
	r.Open(served.Request{Source: "y", Target: "main", Title: "t", Author: "a"})
	r.Break(host.Fault{Method: http.MethodGet, Path: "/merge_requests", Filter: func(req *http.Request) {
		q := req.URL.Query()
		q.Del("source_branch")
		req.URL.RawQuery = q.Encode()
	}})
	prs, err = d.Find(t.Context(), g, "y", "main")
	if err != nil || len(prs) != 1 || prs[0].Number != 234 {
		t.Errorf("%+v, %v", prs, err)
	}
}

func TestWhoClosedItIsTold(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	for name, end := range map[string]func(testing.TB, int64){"closed": r.Close, "merged": r.Merge} {
		r.Branch(t, name)
		pr, err := d.Create(t.Context(), g, proposal(name))
		if err != nil {
			t.Fatal(err)
		}
		end(t, pr.Number)
		now, err := d.Get(t.Context(), g, pr.Number)
		if err != nil || string(now.State) != name || now.ClosedBy != "person" {
			t.Errorf("%+v, %v", now, err)
		}
		if err := d.Close(t.Context(), g, pr.Number, "c"); name == "merged" && sallyport.CodeOf(err) != sallyport.CodeConflict || name == "closed" && err != nil {
			t.Errorf("closing one that is %s: %v", name, err)
		}
	}
}

func TestARenamedProjectIsNamed(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	byPath := driver(t, rig{r.Server, false}.config(t, forgetest.Options{}))
	r.Set(func(s *served.State) { s.Path = "octo/renamed" })
	_, err := d.Inspect(t.Context(), g, "main")
	fails(t, err, sallyport.CodeInvalid, "octo/renamed")
	r.Asked()
	_, err = byPath.Inspect(t.Context(), mint(t, byPath), "main")
	fails(t, err, sallyport.CodeInvalid, "/projects/4711")
	if asked := r.Asked(); slices.ContainsFunc(asked, func(s string) bool { return strings.HasSuffix(s, "/projects/4711") }) {
		t.Errorf("it was followed: %q", asked)
	}
}

func TestInspect(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	b := driver(t, rig{r.Server, false}.config(t, forgetest.Options{}))
	for name, c := range map[string]struct {
		set   func(*served.State)
		d     *Driver
		wants string
	}{
		"protected":          {func(s *served.State) {}, d, "can-change-workflows not-told"},
		"unprotected":        {func(s *served.State) { s.Protected = false }, d, "can-change-workflows unprotected-base! can-merge!"},
		"may push":           {func(s *served.State) { s.CanPush = true }, d, "can-change-workflows unprotected-base! not-told"},
		"may merge":          {func(s *served.State) { s.DevelopersMerge = true }, d, "can-change-workflows can-merge!"},
		"merge unreviewed":   {func(s *served.State) { s.DevelopersMerge, s.Approvals = true, 0 }, d, "can-change-workflows no-review-required!"},
		"merge reviewed":     {func(s *served.State) { s.DevelopersMerge, s.Approvals = true, 1 }, d, "can-change-workflows can-merge"},
		"reviewed":           {func(s *served.State) { s.Approvals = 1 }, d, "can-change-workflows"},
		"archived":           {func(s *served.State) { s.Archived = true }, d, "cannot-push! can-change-workflows not-told"},
		"no merge requests":  {func(s *served.State) { s.MergeRequests = "disabled" }, d, "cannot-open! can-change-workflows not-told"},
		"a reporter":         {func(s *served.State) { s.Level = 20 }, d, "cannot-push! can-change-workflows not-told"},
		"a maintainer":       {func(s *served.State) { s.Level = 40 }, d, "can-administer! can-change-workflows can-merge!"},
		"configured":         {func(s *served.State) {}, b, "can-change-workflows long-lived not-told not-told"},
		"configured, a wide": {func(s *served.State) { s.BotScopes = []string{"api", "sudo"} }, b, "can-change-workflows long-lived too-wide! not-told not-told"},
	} {
		r.Set(func(s *served.State) {
			s.Protected, s.CanPush, s.DevelopersMerge, s.Archived, s.Level, s.Approvals = true, false, false, false, 30, -1
			s.MergeRequests, s.BotScopes = "enabled", []string{"api"}
			c.set(s)
		})
		grant := g
		if c.d == b {
			grant = mint(t, b)
		}
		in, err := c.d.Inspect(t.Context(), grant, "main")
		if err != nil || in.RepositoryID != "4711" || string(in.Base) != r.Tip("main") || !in.Private {
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

// Limits of GitLab: https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/#response-headers
func TestRateLimit(t *testing.T) {
	r, d := minting(t)
	g := mint(t, d)
	reset := time.Now().Add(9 * time.Minute).Truncate(time.Second)
	r.Break(host.Fault{Path: "/merge_requests", Answer: host.Status(429, "Retry later", "RateLimit-Remaining", "0", "RateLimit-Reset", fmt.Sprint(reset.Unix()))})
	_, err := d.Find(t.Context(), g, "x", "main")
	fails(t, err, sallyport.CodeUnavailable, reset.UTC().Format(time.RFC3339))
}

// What Remote says is enough for git, and is good until it is revoked.
func TestGitPushesWithTheGrant(t *testing.T) {
	r, d := minting(t)
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
}
