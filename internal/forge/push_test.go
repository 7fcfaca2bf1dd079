package forge_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

const branch, ref = "sallyport/one", "refs/heads/sallyport/one"

// place is a repository of ours with three commits in a row, and an empty one that is pushed to.
type place struct {
	ours, theirs string
	one, two     sallyport.ObjectID // two on one
	other        sallyport.ObjectID // on one
	remote       forge.Remote
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{ours: forgetest.Bare(t), theirs: forgetest.Bare(t)}
	p.one = forgetest.CommitIn(t, p.ours, "one")
	p.two = forgetest.CommitIn(t, p.ours, "two", p.one)
	p.other = forgetest.CommitIn(t, p.ours, "other", p.one)
	p.remote = forge.Remote{URL: "file://" + p.theirs}
	return p
}

// over serves the place over HTTP.
func (p place) over(t *testing.T, between func(http.ResponseWriter, *http.Request) bool) place {
	t.Helper()
	p.remote = forge.Remote{
		URL:    forgetest.ServeGit(t, p.theirs, "bot", secret, between),
		Header: "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bot:"+secret)),
	}
	return p
}

const secret = "a-secret-that-is-in-no-error"

func (p place) push(t *testing.T, commit, expect sallyport.ObjectID) error {
	t.Helper()
	return forge.Push(t.Context(), p.ours, p.remote, commit, expect, branch)
}

func (p place) at(t *testing.T, want sallyport.ObjectID) {
	t.Helper()
	tip, err := forge.Tip(t.Context(), p.remote, ref)
	if err != nil || tip != want {
		t.Fatalf("the branch is at %q, %v, expected %q", tip, err, want)
	}
}

func wantCode(t *testing.T, err error, want sallyport.Code, words ...string) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != want {
		t.Fatalf("%v (%v), expected %v", err, sallyport.CodeOf(err), want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if text := fmt.Sprintf("%v", err); strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("bot:"+secret))) || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("the error: %q", text)
	}
}

func TestPushOnlyFromWhatIsExpected(t *testing.T) {
	for name, p := range map[string]place{"file": newPlace(t), "http": newPlace(t).over(t, nil)} {
		t.Run(name, func(t *testing.T) {
			p.at(t, "")
			for _, step := range []struct {
				what           string
				commit, expect sallyport.ObjectID
				fails          bool
				after          sallyport.ObjectID
			}{
				{"not there, one expected", p.two, p.one, true, ""},
				{"made", p.one, "", false, p.one},
				{"made again", p.one, "", false, p.one},
				{"not expected to be there", p.two, "", true, p.one},
				{"moved", p.two, p.one, false, p.two},
				{"moved again", p.two, p.one, false, p.two},
				{"somebody else's tip", p.other, p.one, true, p.two},
				{"rewritten", p.other, p.two, false, p.other},
				{"moved back", p.one, p.other, false, p.one},
			} {
				err := p.push(t, step.commit, step.expect)
				switch {
				case !step.fails && err != nil:
					t.Fatalf("%s: %v", step.what, err)
				case step.fails && step.after != "":
					wantCode(t, err, sallyport.CodeConflict, string(step.after), "somebody else")
				case step.fails:
					wantCode(t, err, sallyport.CodeConflict, "no such branch", string(step.expect))
				}
				p.at(t, step.after)
			}
		})
	}
}

// What lands between git's look and its write is kept by the server's own comparison.
func TestPushLosesARaceWithoutHarm(t *testing.T) {
	var p place
	var raced atomic.Bool
	p = newPlace(t).over(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "git-receive-pack") && raced.CompareAndSwap(false, true) {
			forgetest.Git(t, p.theirs, "fetch", "-q", p.ours, string(p.other)+":"+ref)
		}
		return false
	})
	forgetest.Git(t, p.ours, "config", "uploadpack.allowAnySHA1InWant", "true")
	wantCode(t, p.push(t, p.two, ""), sallyport.CodeConflict, string(p.other))
	p.at(t, p.other)
	if !raced.Load() {
		t.Error("there was no race")
	}
}

func TestPushRefusedByARule(t *testing.T) {
	p := newPlace(t)
	hook := "#!/bin/sh\nprintf 'no \\033[2Jentry for you\\n' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(p.theirs, "hooks", "update"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]place{"file": p, "http": p.over(t, nil)} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, p.push(t, p.one, ""), sallyport.CodeDenied, "remote rejected", "entry for you")
			p.at(t, "")
		})
	}
}

func TestPushWhereAFolderIs(t *testing.T) {
	p := newPlace(t)
	if err := forge.Push(t.Context(), p.ours, p.remote, p.one, "", branch+"/below"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, p.push(t, p.one, ""), sallyport.CodeDenied, "remote rejected")
}

func TestPushWithAWrongCredential(t *testing.T) {
	p := newPlace(t).over(t, nil)
	p.remote.Header = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bot:"+secret+"x"))
	wantCode(t, p.push(t, p.one, ""), sallyport.CodeDenied, "401")
	_, err := forge.Tip(t.Context(), p.remote, ref)
	wantCode(t, err, sallyport.CodeDenied, "401")
	_, err = forge.Fetch(t.Context(), p.ours, p.remote, ref)
	wantCode(t, err, sallyport.CodeDenied, "401")
}

// answers makes a server that answers so, to those requests.
func answers(status int, header, value string, which func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if which(r) {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			return true
		}
		return false
	}
}

func always(*http.Request) bool { return true }
func writing(r *http.Request) bool {
	return r.URL.Query().Get("service") == "git-receive-pack" || strings.HasSuffix(r.URL.Path, "/git-receive-pack")
}

func TestPushToAServerThatAnswersOtherwise(t *testing.T) {
	for _, c := range []struct {
		what    string
		between func(http.ResponseWriter, *http.Request) bool
		want    sallyport.Code
		words   string
	}{
		{"reading is allowed, writing is not", answers(403, "X", "x", writing), sallyport.CodeDenied, "403"},
		{"forbidden", answers(403, "X", "x", always), sallyport.CodeDenied, "403"},
		{"no such repository", answers(404, "X", "x", always), sallyport.CodeNotFound, "404"},
		{"down for writing", answers(503, "X", "x", writing), sallyport.CodeUnavailable, "503"},
		{"too many", answers(429, "Retry-After", "60", writing), sallyport.CodeUnavailable, "429"},
		{"elsewhere", answers(301, "Location", "https://elsewhere.example/x.git/info/refs?service=y", always), sallyport.CodeInvalid, "https://elsewhere.example/x.git"},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPlace(t).over(t, c.between)
			err := p.push(t, p.one, "")
			wantCode(t, err, c.want, c.words)
			var later *forge.Later
			if errors.As(err, &later) != (c.words == "429") {
				t.Errorf("until when: %v in %v", later, err)
			}
		})
	}
}

// git itself would follow.
func TestPushIsNotLedElsewhere(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	p := newPlace(t).over(t, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
		return true
	})
	wantCode(t, p.push(t, p.one, ""), sallyport.CodeInvalid, other.URL)
	_, err := forge.Tip(t.Context(), p.remote, ref)
	wantCode(t, err, sallyport.CodeInvalid, other.URL)
	if n := asked.Load(); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// The server takes the push and its answer is lost: the look afterwards tells.
func TestPushWhoseAnswerIsLost(t *testing.T) {
	var broken atomic.Bool
	var p place
	p = newPlace(t).over(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && writing(r) && r.ContentLength != 4 { // git asks with an empty request first
			forgetest.Git(t, p.theirs, "fetch", "-q", p.ours, string(p.one)+":"+ref)
			panic(http.ErrAbortHandler)
		}
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	forgetest.Git(t, p.ours, "config", "uploadpack.allowAnySHA1InWant", "true")
	if err := p.push(t, p.one, ""); err != nil {
		t.Errorf("the branch is where it should be, and: %v", err)
	}
	p.at(t, p.one)
}

func TestPushThatCannotBeLookedAt(t *testing.T) {
	var gone atomic.Bool
	p := newPlace(t).over(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		gone.Store(r.Method == http.MethodPost && writing(r))
		return false
	})
	wantCode(t, p.push(t, p.one, ""), sallyport.CodeUnknown)
}

func TestPushWithoutAServer(t *testing.T) {
	p := newPlace(t).over(t, nil)
	p.remote.URL = "http://127.0.0.1:1/x.git" // nobody listens there
	err := p.push(t, p.one, "")
	if c := sallyport.CodeOf(err); err == nil || c != sallyport.CodeUnknown && c != sallyport.CodeUnavailable {
		t.Errorf("%v (%v)", err, c)
	}
	_, err = forge.Tip(t.Context(), p.remote, ref)
	wantCode(t, err, sallyport.CodeUnavailable)
}

func TestPushEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 100)
	release := make(chan struct{})
	p := newPlace(t).over(t, func(http.ResponseWriter, *http.Request) bool {
		asked <- struct{}{}
		<-release
		return false
	})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	began := time.Now()
	_, err := forge.Tip(ctx, p.remote, ref)
	wantCode(t, err, sallyport.CodeUnavailable, "interrupted")
	if took := time.Since(began); took > 4*time.Second { // WaitDelay is 5 s: git's helper held the pipes
		t.Errorf("took %v", took)
	}
}

// Nothing that lies about changes what is run, and nothing of the credential lies about.
func TestPushSeesNoConfiguration(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{home, filepath.Join(home, "git")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bad := "[url \"file:///nonexistent/\"]\n\tinsteadOf = file://\n\tinsteadOf = http://\n[core]\n\thooksPath = " + home + "/hooks\n"
	for _, name := range []string{".gitconfig", "git/config"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	t.Setenv("GIT_TRACE", filepath.Join(home, "trace"))
	t.Setenv("GIT_DIR", "/nonexistent")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var headers []string
	p := newPlace(t)
	p = p.over(t, func(_ http.ResponseWriter, r *http.Request) bool {
		headers = append(headers, r.Header["X-Of-The-Repository"]...)
		return false
	})
	mark := filepath.Join(home, "hook-ran")
	hook := filepath.Join(p.ours, "hooks", "pre-push")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	forgetest.Git(t, p.ours, "config", "http.extraHeader", "X-Of-The-Repository: yes")
	forgetest.Git(t, p.ours, "tag", "v1", string(p.one))
	forgetest.Git(t, p.ours, "config", "push.followTags", "true")
	if err := p.push(t, p.one, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook ran")
	}
	if _, err := os.Stat(filepath.Join(home, "trace")); err == nil {
		t.Error("git left a trace")
	}
	if len(headers) != 0 {
		t.Error("the repository's configuration added a header")
	}
	if refs := forgetest.Git(t, p.theirs, "for-each-ref", "--format=%(refname)"); refs != ref {
		t.Errorf("pushed %q", refs)
	}
	if config, err := os.ReadFile(filepath.Join(p.ours, "config")); err != nil || strings.Contains(string(config), "Authorization") {
		t.Errorf("configuration: %s, %v", config, err)
	}
}

func TestWhatIsNotPushed(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"", "-x", "a..b", "a b", "a:b", "a*", "a.lock", "a/", "/a", "a//b", "a/.b", "a@{b", "a~", "a^", "a?", "a[", `a\b`, "a\x01", "a.", strings.Repeat("a", 300)} {
		wantCode(t, forge.Push(t.Context(), p.ours, p.remote, p.one, "", name), sallyport.CodeInvalid)
	}
	wantCode(t, forge.Push(t.Context(), p.ours, p.remote, "HEAD", "", branch), sallyport.CodeInvalid)
	wantCode(t, forge.Push(t.Context(), p.ours, p.remote, "", "", branch), sallyport.CodeInvalid)
	wantCode(t, forge.Push(t.Context(), p.ours, p.remote, p.one, "main", branch), sallyport.CodeInvalid)
	for _, url := range []string{
		"", "x", "/tmp/x", "git@host.example:x", "ext::sh -c date", "git://host.example/x", "http://host.example/x.git",
		"https://user:" + secret + "@host.example/x", "https://" + secret + "@host.example/x", "ssh://-oProxyCommand=x/y", "ssh://host.example/x", "file://host/x",
		"https://host.example/x\ny", "--upload-pack=x",
	} {
		wantCode(t, forge.Push(t.Context(), p.ours, forge.Remote{URL: url}, p.one, "", branch), sallyport.CodeInvalid)
	}
}

func TestFetchTakesOneRef(t *testing.T) {
	for name, p := range map[string]place{"file": newPlace(t), "http": newPlace(t).over(t, nil)} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []struct{ commit, expect sallyport.ObjectID }{{p.two, ""}, {p.other, p.two}} {
				if err := p.push(t, step.commit, step.expect); err != nil {
					t.Fatal(err)
				}
				forgetest.Git(t, p.theirs, "tag", "-f", "tagged", string(step.commit))
				fresh := forgetest.Bare(t)
				for range 2 {
					id, err := forge.Fetch(t.Context(), fresh, p.remote, ref)
					if err != nil || id != step.commit {
						t.Fatalf("%s, %v", id, err)
					}
				}
				got := forgetest.Git(t, fresh, "for-each-ref", "--format=%(refname) %(objectname)")
				if want := "refs/sallyport/forge/heads/sallyport/one " + string(step.commit); got != want {
					t.Errorf("refs %q, expected %q", got, want)
				}
				if _, err := os.Stat(filepath.Join(fresh, "FETCH_HEAD")); err == nil {
					t.Error("FETCH_HEAD was written")
				}
			}
			_, err := forge.Fetch(t.Context(), p.ours, p.remote, "refs/heads/none")
			wantCode(t, err, sallyport.CodeNotFound)
		})
	}
}

// ls-remote's pattern matches the end of a name.
func TestTipIsOfExactlyThisRef(t *testing.T) {
	p := newPlace(t)
	forgetest.Git(t, p.theirs, "fetch", "-q", p.ours, "+refs/*:refs/*")
	if err := forge.Push(t.Context(), p.ours, p.remote, p.one, "", "x/refs/heads/sallyport/one"); err != nil {
		t.Fatal(err)
	}
	p.at(t, "")
}
