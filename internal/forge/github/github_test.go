package github

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

func app(t *testing.T) (rig, *Driver) {
	t.Helper()
	r := rig{served.New(t), true}
	return r, driver(t, r.config(t, forgetest.Options{}))
}

func mint(t *testing.T, d *Driver) forge.Grant {
	t.Helper()
	g, err := d.Mint(t.Context(), "mark")
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

func TestConfigurationIsRefused(t *testing.T) {
	key := served.OtherKey(t)
	good := func() Config {
		return Config{URL: "https://github.com/o/r", App: &App{ID: "1", Key: key}}
	}
	for name, change := range map[string]func(*Config){
		"no address":      func(c *Config) { c.URL = "" },
		"http":            func(c *Config) { c.URL = "http://github.com/o/r" },
		"a user in it":    func(c *Config) { c.URL = "https://u:p@github.com/o/r" },
		"a query in it":   func(c *Config) { c.URL = "https://github.com/o/r?x=1" },
		"one name":        func(c *Config) { c.URL = "https://github.com/o" },
		"three names":     func(c *Config) { c.URL = "https://github.com/o/r/x" },
		"dots":            func(c *Config) { c.URL = "https://github.com/o/.." },
		"escaped":         func(c *Config) { c.URL = "https://github.com/o/a%2Fb" },
		"api over http":   func(c *Config) { c.API = "http://github.com/api/v3" },
		"api with a user": func(c *Config) { c.API = "https://u@github.com/api/v3" },
		"both":            func(c *Config) { c.Credential = forgetest.Known("x") },
		"neither":         func(c *Config) { c.App = nil },
		"no app id":       func(c *Config) { c.App.ID = "" },
		"no key":          func(c *Config) { c.App.Key = nil },
		"no key file":     func(c *Config) { c.App.Key, c.App.KeyFile = nil, filepath.Join(t.TempDir(), "none") },
	} {
		c := good()
		change(&c)
		if _, err := New(c); err == nil || sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for url, api := range map[string]string{
		"https://github.com/o/r": "https://api.github.com/", "https://github.com/o/r.git": "https://api.github.com/",
		"https://ghe.example/o/r": "https://ghe.example/api/v3/", "http://127.0.0.1:1/o/r": "http://127.0.0.1:1/api/v3/",
	} {
		c := good()
		c.URL = url
		if d := driver(t, c); d.api != api || strings.HasSuffix(d.Describe().Repository, ".git") {
			t.Errorf("%s: %s, %s", url, d.api, d.Describe().Repository)
		}
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))})
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false} {
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, text, 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		c := good()
		c.App.Key, c.App.KeyFile = nil, file
		if _, err := New(c); (err == nil) != ok || err != nil && sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%o: %v", mode, err)
		}
	}
	c := good()
	got := driver(t, c).Describe().Compare("sallyport/a b", "main")
	if want := "https://github.com/o/r/compare/main...sallyport/a%20b?expand=1"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// A credential that is not what was asked for is refused and revoked, whatever the difference is.
func TestAnotherTokenIsRevoked(t *testing.T) {
	r, d := app(t)
	for name, change := range map[string]func(map[string]any){
		"one more permission":   func(m map[string]any) { m["permissions"].(map[string]any)["issues"] = "read" },
		"an unknown permission": func(m map[string]any) { m["permissions"].(map[string]any)["time_travel"] = "write" },
		"workflows":             func(m map[string]any) { m["permissions"].(map[string]any)["workflows"] = "write" },
		"more of one":           func(m map[string]any) { m["permissions"].(map[string]any)["contents"] = "admin" },
		"metadata to write":     func(m map[string]any) { m["permissions"].(map[string]any)["metadata"] = "write" },
		"one fewer":             func(m map[string]any) { delete(m["permissions"].(map[string]any), "contents") },
		"no permissions":        func(m map[string]any) { delete(m, "permissions") },
		"all repositories":      func(m map[string]any) { m["repository_selection"] = "all" },
		"no selection":          func(m map[string]any) { delete(m, "repository_selection") },
		"no repository":         func(m map[string]any) { delete(m, "repositories") },
		"two repositories":      func(m map[string]any) { m["repositories"] = append(m["repositories"].([]any), map[string]any{"id": 2}) },
		"another repository":    func(m map[string]any) { m["repositories"] = []any{map[string]any{"id": 2, "full_name": "octo/repo"}} },
		"a late end":            func(m map[string]any) { m["expires_at"] = time.Now().Add(2 * time.Hour) },
		"an end that is over":   func(m map[string]any) { m["expires_at"] = time.Now().Add(-time.Minute) },
		"no end":                func(m map[string]any) { delete(m, "expires_at") },
		"keys of another case": func(m map[string]any) {
			m["Repository_Selection"] = m["repository_selection"]
			delete(m, "repository_selection")
		},
		"permissions of no meaning": func(m map[string]any) { m["permissions"] = []string{"contents"} },
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
		before := r.Minted()
		_, err := d.Mint(t.Context(), "mark")
		if sallyport.CodeOf(err) != sallyport.CodeDenied || err == nil || !strings.Contains(err.Error(), "it was revoked") {
			t.Errorf("%s: %v", name, err)
		}
		if r.Live() != 0 || r.Minted() != before+1 {
			t.Errorf("%s: %d of %d tokens are left", name, r.Live(), r.Minted()-before)
		}
		r.Mend()
	}
}

func TestRevokingThatFailsIsSaid(t *testing.T) {
	r, d := app(t)
	d.discardWait = time.Millisecond
	r.Break(host.Fault{Method: http.MethodPost, Path: "/access_tokens", Change: func(res *httptest.ResponseRecorder) {
		text := strings.Replace(res.Body.String(), `"selected"`, `"all"`, 1)
		res.Body.Reset()
		res.Body.WriteString(text)
	}})
	r.Break(host.Fault{Method: http.MethodDelete, Path: "/installation/token", Answer: host.Status(503, "")})
	_, err := d.Mint(t.Context(), "mark")
	fails(t, err, sallyport.CodeDenied, "could not be revoked and ends at")
	if n := len(slices.DeleteFunc(r.Asked(), func(s string) bool { return !strings.HasPrefix(s, "DELETE") })); n != 3 {
		t.Errorf("revoked %d times, expected 3", n)
	}
}

func TestAGrantSaysWhatItIs(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	if g.Class != forge.ClassMinted || g.User != "x-access-token" || g.Identity != "sallyport-app[bot]" || g.ID == "" ||
		!slices.Equal(g.Scope, []string{"contents: write", "metadata: read", "pull_requests: write"}) ||
		time.Until(g.Expires) > time.Hour || time.Until(g.Expires) < 55*time.Minute {
		t.Errorf("%+v %v %v %v", g, g.Scope, g.Expires, g.Identity)
	}
	r.Expire()
	if err := d.Revoke(t.Context(), g); err != nil {
		t.Errorf("one that has ended: %v", err)
	}
	p := driver(t, rig{r.Server, false}.config(t, forgetest.Options{}))
	g = mint(t, p)
	if g.Class != forge.ClassConfigured || g.ID != "" || g.Identity != "person" || g.Expires.Year() != 2027 {
		t.Errorf("%+v %v %v", g, g.Expires, g.Identity)
	}
}

func TestWhatAnAppIsRefused(t *testing.T) {
	r, d := app(t)
	r.Set(func(s *served.State) { delete(s.Granted, "contents") })
	_, err := d.Mint(t.Context(), "m")
	fails(t, err, sallyport.CodeDenied, "contents: write")
	d.cfg.RepositoryID = 1
	_, err = d.Mint(t.Context(), "m")
	fails(t, err, sallyport.CodeDenied, "does not reach this repository")
	d.cfg.App.Installation = 5
	_, err = d.Mint(t.Context(), "m")
	fails(t, err, sallyport.CodeNotFound)
	d.cfg.App.Installation = 0
	d.name = "other"
	_, err = d.Mint(t.Context(), "m")
	fails(t, err, sallyport.CodeNotFound, "install the App")
	if r.Minted() != 0 {
		t.Error("a token was made")
	}
}

func TestClocksThatDiffer(t *testing.T) {
	r, d := app(t)
	r.Set(func(s *served.State) { s.Skew = -50 * time.Second })
	mint(t, d)
	for _, skew := range []time.Duration{-5 * time.Minute, 20 * time.Minute} {
		r.Set(func(s *served.State) { s.Skew = skew })
		_, err := d.Mint(t.Context(), "m")
		fails(t, err, sallyport.CodeDenied, "clock")
	}
	r.Set(func(s *served.State) { s.Skew = 0 })
	other := driver(t, r.config(t, forgetest.Options{Credential: "another"}))
	_, err := other.Mint(t.Context(), "m")
	fails(t, err, sallyport.CodeDenied)
	if strings.Contains(sallyport.HintOf(err), "clock") {
		t.Errorf("a wrong key is no matter of clocks: %v", sallyport.HintOf(err))
	}
}

func TestRateLimits(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	reset := time.Now().Add(17 * time.Minute).Truncate(time.Second)
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	secondary := `{"message":"You have exceeded a secondary rate limit","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		until  time.Time
	}{
		"primary":              {host.Status(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(reset.Unix())), reset},
		"primary by 429":       {host.Status(429, `{}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(reset.Unix())), reset},
		"secondary":            {host.Status(403, secondary, "Retry-After", "90"), in(90 * time.Second)},
		"secondary, no header": {host.Status(403, secondary), in(time.Minute)},
		"for ever":             {host.Status(429, `{}`, "Retry-After", "99999999"), in(24 * time.Hour)},
		"a date":               {host.Status(429, `{}`, "Retry-After", in(10*time.Minute).UTC().Format(http.TimeFormat)), in(10 * time.Minute)},
		"no sense":             {host.Status(429, `{}`, "Retry-After", "soon"), in(time.Minute)},
	} {
		r.Break(host.Fault{Path: "/pulls", Answer: c.answer})
		_, find := d.Find(t.Context(), g, "x", "main")
		_, create := d.Create(t.Context(), g, proposal("x"))
		for _, err := range []error{find, create} {
			var later *forge.Later
			if !errors.As(err, &later) || sallyport.CodeOf(err) != sallyport.CodeUnavailable || later.Until.Sub(c.until).Abs() > 5*time.Second {
				t.Errorf("%s: %v (%v): %v, expected %v", name, err, sallyport.CodeOf(err), later, c.until)
			}
		}
		r.Mend()
	}
	r.Break(host.Fault{Path: "/pulls", Answer: host.Status(403, `{"message":"Resource not accessible by integration"}`, "X-RateLimit-Remaining", "41")})
	_, err := d.Find(t.Context(), g, "x", "main")
	fails(t, err, sallyport.CodeDenied, "not accessible")
}

// A renamed repository sends elsewhere; the credential does not follow.
func TestARenamedRepositoryIsNamed(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Set(func(s *served.State) { s.Name = "renamed" })
	_, find := d.Find(t.Context(), g, "x", "main")
	_, inspect := d.Inspect(t.Context(), g, "main")
	_, create := d.Create(t.Context(), g, proposal("x"))
	for _, err := range []error{find, inspect, create} {
		fails(t, err, sallyport.CodeInvalid, "/repositories/4711", "new address")
	}
	for _, asked := range r.Asked() {
		if strings.Contains(asked, "/repositories/") {
			t.Errorf("it was followed: %s", asked)
		}
	}
	// Somebody else has the old name now.
	r.Set(func(s *served.State) { s.Name, s.ID = "repo", 4712 })
	_, err := d.Inspect(t.Context(), g, "main")
	fails(t, err, sallyport.CodeInvalid, "another repository")
}

// GitHub leaves a filter out that it does not understand, and lists all.
func TestFindComparesWhatTheFilterLetThrough(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	tip := r.Branch(t, "x")
	r.Branch(t, "other")
	for _, p := range []served.Pull{
		{Repo: 666, Owner: "octo", Head: "x", Base: "main", Tip: string(tip)}, // a fork under the same owner
		{Head: "x", Base: "other"},
		{Head: "X", Base: "main", Tip: string(tip)},
		{Head: "x", Base: "main"},
		{Head: "other", Base: "main"},
	} {
		p.Title, p.Author = "t", "a"
		r.Open(p)
	}
	r.Break(host.Fault{Method: http.MethodGet, Path: "/pulls", Filter: func(req *http.Request) {
		q := req.URL.Query()
		if q.Get("head") != "octo:x" || q.Get("state") != "all" {
			t.Errorf("asked for %v", q)
		}
		q.Del("head")
		q.Del("base")
		req.URL.RawQuery = q.Encode()
		req.RequestURI = req.URL.RequestURI()
	}})
	prs, err := d.Find(t.Context(), g, "x", "main")
	if err != nil || len(prs) != 1 || prs[0].Number != 4 {
		t.Errorf("%+v, %v", prs, err)
	}
}

func TestFindReadsAllPages(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Branch(t, "x")
	for range 230 {
		r.Open(served.Pull{Head: "x", Base: "main", Title: "t", Author: "a", State: "closed"})
	}
	r.Asked()
	prs, err := d.Find(t.Context(), g, "x", "main")
	if err != nil || len(prs) != 230 || prs[0].Number != 1 || prs[229].Number != 230 {
		t.Errorf("%d, %v", len(prs), err)
	}
	if n := len(r.Asked()); n != 3 {
		t.Errorf("%d requests, expected 3", n)
	}
}

func TestABranchThatIsNotSeenYetIsTriedAgain(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Branch(t, "x")
	r.Set(func(s *served.State) { s.Lag = 4 })
	if _, err := d.Create(t.Context(), g, proposal("x")); err != nil {
		t.Error(err)
	}
	r.Branch(t, "y")
	r.Set(func(s *served.State) { s.Lag = 100 })
	r.Asked()
	_, err := d.Create(t.Context(), g, proposal("y"))
	fails(t, err, sallyport.CodeUnavailable, "has the branch")
	if n := len(slices.DeleteFunc(r.Asked(), func(s string) bool { return !strings.HasPrefix(s, "POST") })); n != 5 {
		t.Errorf("%d attempts, expected 5", n)
	}
	if n := len(r.Pulls()); n != 1 {
		t.Errorf("%d pull requests", n)
	}
}

func TestCreateIsRefused(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Branch(t, "x")
	n := proposal("x")
	n.Draft = true
	r.Set(func(s *served.State) { s.NoDrafts = true })
	_, err := d.Create(t.Context(), g, n)
	fails(t, err, sallyport.CodeInvalid, "draft: false")
	n = proposal("x")
	n.Base = "none"
	_, err = d.Create(t.Context(), g, n)
	fails(t, err, sallyport.CodeInvalid, "base invalid")
	r.Git("update-ref", "refs/heads/same", "refs/heads/main")
	_, err = d.Create(t.Context(), g, proposal("same"))
	fails(t, err, sallyport.CodeInvalid, "No commits between")
	r.Set(func(s *served.State) { s.Archived = true })
	_, err = d.Create(t.Context(), g, proposal("x"))
	fails(t, err, sallyport.CodeDenied, "archived")
	if n := len(r.Pulls()); n != 0 {
		t.Errorf("%d pull requests", n)
	}
}

// Another process opened one between the look and the opening.
func TestADuplicateByRaceIsAConflict(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Branch(t, "x")
	r.Break(host.Fault{Method: http.MethodPost, Path: "/pulls", Before: func() {
		r.Open(served.Pull{Head: "x", Base: "main", Title: "t", Author: "a"})
	}})
	_, err := d.Create(t.Context(), g, proposal("x"))
	fails(t, err, sallyport.CodeConflict)
	if n := len(r.Pulls()); n != 1 {
		t.Errorf("%d pull requests", n)
	}
}

func TestLabelsThatExistArePut(t *testing.T) {
	r, d := app(t)
	g := mint(t, d)
	r.Branch(t, "x")
	pr, err := d.Create(t.Context(), g, proposal("x"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"agent", "a/b c?d", "none"}
	r.Set(func(s *served.State) { s.Labels = append(s.Labels, "a/b c?d") })
	if _, err := d.Label(t.Context(), g, pr.Number, names); err != nil {
		t.Fatal(err)
	}
	if p := r.Pulls()[0]; !slices.Equal(p.Labels, []string{"agent", "a/b c?d"}) {
		t.Errorf("labels %q", p.Labels)
	}
	r.Break(host.Fault{Method: http.MethodPost, Path: "/labels", Answer: host.Status(500, "")})
	_, err = d.Label(t.Context(), g, pr.Number, names)
	fails(t, err, sallyport.CodeUnavailable)
}

func TestWhoClosedItIsTold(t *testing.T) {
	r, d := app(t)
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
