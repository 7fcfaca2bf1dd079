package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// endpoint is a token endpoint as OAuth 2.0 has it with rotation: each refresh token is good once. A second use is
// refused, and counted.
type endpoint struct {
	*httptest.Server
	mu      sync.Mutex
	login   string
	current string // the refresh token that it takes
	access  string
	n       int
	asked   []map[string]string
	reused  int
	status  int // answered instead, if not zero
	rotates bool
	slow    time.Duration
}

// seen is what it was asked and has given so far.
func (e *endpoint) seen() (asked, given, reused int, refresh, access string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked), e.n, e.reused, e.current, e.access
}

func (e *endpoint) given() int      { _, n, _, _, _ := e.seen(); return n }
func (e *endpoint) again() int      { _, _, n, _, _ := e.seen(); return n }
func (e *endpoint) refresh() string { _, _, _, s, _ := e.seen(); return s }
func (e *endpoint) token() string   { _, _, _, _, s := e.seen(); return s }

// set changes how it answers from now on.
func (e *endpoint) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

func jwtUntil(at time.Time, more string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256"}`) + "." + part(fmt.Sprintf(`{"exp":%d%s}`, at.Unix(), more)) + "." + part("signature-"+canary)
}

func newEndpoint(t *testing.T, login, refresh string) *endpoint {
	e := &endpoint{login: login, current: refresh, rotates: true}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask map[string]string
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.Method != http.MethodPost {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		slow := e.slow
		e.mu.Unlock()
		time.Sleep(slow)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.asked = append(e.asked, ask)
		if e.status != 0 {
			w.WriteHeader(e.status)
			return
		}
		if ask["refresh_token"] != e.current || ask["grant_type"] != "refresh_token" {
			e.reused++
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		e.n++
		e.access = fmt.Sprintf("access-%d-%s", e.n, canary)
		if e.login == "codex" {
			e.access = jwtUntil(time.Now().Add(time.Hour), fmt.Sprintf(`,"n":%d`, e.n))
		}
		answer := map[string]any{"access_token": e.access, "expires_in": 3600, "token_type": "Bearer"}
		if e.rotates {
			e.current = fmt.Sprintf("refresh-%d-%s", e.n, canary)
			answer["refresh_token"] = e.current
		}
		if e.login == "codex" {
			answer["id_token"] = jwtUntil(time.Now().Add(time.Hour), `,"email":"ann@corp.example"`)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(e.Close)
	return e
}

// atHome writes a login as its tool does, ending at until, and the data file that sends its refresh to the endpoint.
func atHome(t *testing.T, login string, until time.Time) (home, path string, e *endpoint) {
	t.Helper()
	home = t.TempDir()
	refresh := "refresh-0-" + canary
	e = newEndpoint(t, login, refresh)
	data, err := logins.ReadFile("logins/" + login + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	l, err := loginNamed(login, nil)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(l.Endpoint), []byte(e.URL+"/oauth/token"), 1)
	path = filepath.Join(home, l.File)
	// Odd spacing, odd order, unknown fields, escapes: all of it is the tool's own.
	doc := fmt.Sprintf("{ \"mcpOAuth\":{\"srv\":{\"accessToken\":\"mcp-%s\"}},\t\"claudeAiOauth\" : {\"accessToken\":\"access-0-%s\",\n   \"refreshToken\": %q, \"expiresAt\":%d,\"scopes\":[\"user:inference\",\"user:profile\"], \"subscriptionType\":\"max\",\"x\\u0041\": 1.50e3 },\"z\":[1,  2]}\r\n",
		canary, canary, refresh, until.UnixMilli())
	if login == "codex" {
		doc = fmt.Sprintf("{\n  \"OPENAI_API_KEY\": \"sk-%s\",\n  \"tokens\": {\n    \"id_token\": %q,\n    \"access_token\": %q,\n    \"refresh_token\": %q,\n    \"account_id\": \"acc-1\"\n  },\n  \"last_refresh\": \"2026-01-01T00:00:00Z\", \"auth_mode\":\"chatgpt\",\n  \"later\": {\"a\":  null}\n}",
			canary, jwtUntil(until, `,"email":"ann@corp.example","https://api.openai.com/auth":{"chatgpt_plan_type":"pro","chatgpt_account_id":"acc-1"}`), jwtUntil(until, ""), refresh)
	}
	for name, b := range map[string][]byte{path: []byte(doc), filepath.Join(home, "logins", login+".yaml"): data} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home, path, e
}

func loginSet(t *testing.T, home, login string) *Set {
	return openSet(t, Deps{Home: home, Logins: os.DirFS(filepath.Join(home, "logins"))}, of(sallyport.CredentialSource{Login: login}))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// settled says that the file holds what the endpoint gave last, and that nothing is left beside it but the lock.
func settled(t *testing.T, login, path string, e *endpoint) {
	t.Helper()
	l, err := loginNamed(login, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := l.look("c", path)
	_, _, _, refresh, access := e.seen()
	if err != nil || st.refresh != refresh || st.access != access {
		t.Errorf("the file does not hold the endpoint's last tokens: %v", err)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, f := range entries {
		if f.Name() != filepath.Base(path) && f.Name() != filepath.Base(lockOf(path)) {
			t.Errorf("%s is left", f.Name())
		}
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v %v", fi.Mode(), err)
	}
}

func TestLoginIsRefreshed(t *testing.T) {
	for _, login := range []string{"claude-code", "codex"} {
		// Far from its end: read, and nobody is asked.
		home, path, e := atHome(t, login, time.Now().Add(time.Hour))
		before := read(t, path)
		if v, err := loginSet(t, home, login).Value(t.Context(), "c"); err != nil || !strings.Contains(before, v.Reveal()) || len(e.asked) != 0 || read(t, path) != before {
			t.Errorf("%s: %v, asked %d times", login, err, len(e.asked))
		}
		// Close to its end.
		home, path, e = atHome(t, login, time.Now().Add(time.Minute))
		before = read(t, path)
		heard := map[string]string{}
		s := loginSet(t, home, login)
		s.deps.Heard = func(name string, v Secret) error { heard[name+" "+v.Reveal()] = name; return nil }
		v, err := s.Value(t.Context(), "c")
		if err != nil || v.Reveal() != e.token() {
			t.Fatalf("%s: %v", login, err)
		}
		settled(t, login, path, e)
		if len(heard) < 4 {
			t.Errorf("%s: heard %d values", login, len(heard))
		}
		// Every byte that is not a value of ours is as it was.
		after := read(t, path)
		l, _ := loginNamed(login, nil)
		var blank []edit
		for _, p := range append([][]string{l.Access.Path, l.Refresh.Path, {"tokens", "id_token"}}, l.Expires, l.RefreshedAt) {
			if len(p) > 0 {
				blank = append(blank, edit{p, []byte(`"?"`)})
			}
		}
		b1, err1 := edited([]byte(before), blank)
		b2, err2 := edited([]byte(after), blank)
		if err1 != nil || err2 != nil || !bytes.Equal(b1, b2) || before == after {
			t.Errorf("%s: other bytes changed:\n%s\n%s", login, b1, b2)
		}
		ask := e.asked[0]
		scope := map[string]string{"claude-code": "user:inference user:profile", "codex": "openid profile email"}[login]
		if ask["client_id"] != l.ClientID || ask["scope"] != scope {
			t.Errorf("%s asked %v", login, ask)
		}
		// And again: it is fresh now.
		if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != e.token() || len(e.asked) != 1 {
			t.Errorf("%s: %v, asked %d times", login, err, len(e.asked))
		}
	}
}

func TestLoginThatIsNotRefreshed(t *testing.T) {
	const login = "claude-code"
	value := func(home string) (Secret, error) { return loginSet(t, home, login).Value(t.Context(), "c") }
	// The endpoint is down: what is good for a while is used, what has ended is not.
	home, path, e := atHome(t, login, time.Now().Add(2*time.Minute))
	before := read(t, path)
	e.set(func() { e.status = http.StatusBadGateway })
	if v, err := value(home); err != nil || v.Reveal() != "access-0-"+canary {
		t.Errorf("%v", err)
	}
	home, path, e = atHome(t, login, time.Now().Add(-time.Minute))
	for _, status := range []int{502, 429, 302} {
		e.set(func() { e.status = status })
		_, err := value(home)
		refused(t, err, sallyport.CodeUnavailable, fmt.Sprint("answers ", status))
	}
	e.set(func() { e.status = http.StatusUnauthorized })
	_, err := value(home)
	refused(t, err, sallyport.CodeDenied, "refuses the login (401)")
	if read(t, path) == before || strings.Contains(read(t, path), "refresh-1") {
		t.Error("the file was changed")
	}
	// The tool itself was faster: its token is read, ours is refused.
	e.set(func() { e.status, e.current, e.slow = 0, "refresh-tool-"+canary, 300*time.Millisecond })
	go func() {
		time.Sleep(100 * time.Millisecond)
		doc := strings.ReplaceAll(read(t, path), "refresh-0-"+canary, "refresh-tool-"+canary)
		doc = strings.ReplaceAll(doc, "access-0-"+canary, "access-tool-"+canary)
		l, _ := loginNamed(login, nil)
		b, err := edited([]byte(doc), []edit{{l.Expires, json.RawMessage(fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()))}})
		if err != nil || os.WriteFile(path, b, 0o600) != nil {
			t.Error("the tool could not write")
		}
	}()
	if v, err := value(home); err != nil || v.Reveal() != "access-tool-"+canary {
		t.Errorf("%v %v", v.Reveal(), err)
	}
	// Files that are no login.
	for says, doc := range map[string]string{
		"expected one JSON object":            `[]`,
		"claudeAiOauth: it has no such field": `{}`,
		"it has the same field twice":         `{"claudeAiOauth":{"accessToken":"a","accessToken":"b"}}`,
		"expiresAt: it has no such field":     `{"claudeAiOauth":{"accessToken":"` + canary + `","refreshToken":"` + canary + `"}}`,
		"accessToken: is of another kind":     `{"claudeAiOauth":{"accessToken":7}}`,
	} {
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := value(home)
		refused(t, err, sallyport.CodeInvalid, says)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = value(home)
	refused(t, err, sallyport.CodeDenied, "has mode 0644")
	// No rotation: the endpoint goes on taking the old one.
	home, path, e = atHome(t, login, time.Now().Add(-time.Minute))
	e.set(func() { e.rotates = false })
	if v, err := value(home); err != nil || v.Reveal() != e.token() || e.refresh() != "refresh-0-"+canary {
		t.Errorf("%v", err)
	}
	settled(t, login, path, e)
}

func child(t *testing.T, home, login, kill string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "CREDENTIAL_TEST_HOME="+home, "CREDENTIAL_TEST_LOGIN="+login, "CREDENTIAL_TEST_KILL="+kill)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestProcessesRaceForALogin: many processes need the login at once; one asks, all have the same token.
func TestProcessesRaceForALogin(t *testing.T) {
	for _, login := range []string{"claude-code", "codex"} {
		home, path, e := atHome(t, login, time.Now().Add(-time.Minute))
		e.set(func() { e.slow = 100 * time.Millisecond })
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				out, err := child(t, home, login, "").Output()
				if err != nil || string(out) != e.token() {
					t.Errorf("%s: %v", login, err)
				}
			})
		}
		wg.Wait()
		if e.given() != 1 || e.again() != 0 {
			t.Errorf("%s: asked %d times, %d of them with a token that was used up", login, e.given(), e.again())
		}
		settled(t, login, path, e)
	}
}

// TestKilledWhileRefreshing: kill -9 at each step, and the next process goes on. Only the answer that the killed one
// had in memory alone can be lost.
func TestKilledWhileRefreshing(t *testing.T) {
	for _, login := range []string{"claude-code", "codex"} {
		for _, step := range []string{"answer", "journal", "file"} {
			home, path, e := atHome(t, login, time.Now().Add(-time.Minute))
			before := read(t, path)
			if err := child(t, home, login, step).Run(); err == nil {
				t.Fatalf("%s: it was not killed at %s", login, step)
			}
			if e.given() != 1 || (step != "file") != (read(t, path) == before) {
				t.Errorf("%s, %s: not where it should have been killed", login, step)
			}
			abandon(t, login, path)
			out, err := child(t, home, login, "").Output()
			if step == "answer" {
				// The endpoint has made the old token void and nobody has the new one.
				if err == nil || e.again() != 1 {
					t.Errorf("%s: got a token after its answer was lost", login)
				}
				continue
			}
			if err != nil || string(out) != e.token() || e.given() != 1 || e.again() != 0 {
				t.Errorf("%s, %s: %v, asked %d times, reused %d", login, step, err, e.given(), e.again())
			}
			settled(t, login, path, e)
		}
	}
	// Somebody logged in anew in between: what the killed process had is not wanted any more.
	home, path, e := atHome(t, "claude-code", time.Now().Add(-time.Minute))
	if err := child(t, home, "claude-code", "journal").Run(); err == nil {
		t.Fatal("it was not killed")
	}
	abandon(t, "claude-code", path)
	doc := strings.ReplaceAll(read(t, path), "refresh-0-", "refresh-new-")
	e.set(func() { e.current = "refresh-new-" + canary })
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := child(t, home, "claude-code", "").Output(); err != nil || string(out) != e.token() || e.given() != 2 || e.again() != 0 {
		t.Errorf("%v, asked %d, reused %d", err, e.given(), e.again())
	}
	settled(t, "claude-code", path, e)
}

// abandon makes the tool's locks that a killed process left look as they do once nobody renewed them.
func abandon(t *testing.T, login, path string) {
	t.Helper()
	l, err := loginNamed(login, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range l.locks(path) {
		old := time.Now().Add(-toolStale - time.Second)
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Error(err)
		}
	}
}

// TestToolsLockIsTaken: while the tool refreshes we wait, and then use what it wrote; the tool waits for us as well.
func TestToolsLockIsTaken(t *testing.T) {
	const login = "claude-code"
	home, path, e := atHome(t, login, time.Now().Add(-time.Minute))
	l, err := loginNamed(login, nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := l.locks(path)
	if len(locks) != 2 || locks[0] != filepath.Join(home, ".claude/.oauth_refresh.lock") || locks[1] != filepath.Join(home, ".claude.lock") {
		t.Fatalf("%q", locks)
	}
	for _, lock := range locks {
		home, path, e = atHome(t, login, time.Now().Add(-time.Minute))
		lock = filepath.Join(home, strings.TrimPrefix(lock, filepath.Dir(filepath.Dir(locks[0]))))
		if err := os.Mkdir(lock, 0o755); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		go func() {
			v, err := loginSet(t, home, login).Value(t.Context(), "c")
			if err != nil {
				t.Error(err)
			}
			got <- v.Reveal()
		}()
		select {
		case <-got:
			t.Errorf("%s: nobody waited", lock)
		case <-time.After(300 * time.Millisecond):
		}
		b, err := edited([]byte(read(t, path)), []edit{{l.Access.Path, json.RawMessage(`"access-tool-` + canary + `"`)}, {l.Expires, json.RawMessage(fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()))}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v != "access-tool-"+canary || e.given() != 0 {
			t.Errorf("%s: %q, asked %d times", lock, v, e.given())
		}
	}
	// While we ask, both are there; afterwards none is.
	home, path, e = atHome(t, login, time.Now().Add(-time.Minute))
	s := loginSet(t, home, login)
	s.at = func(string) {
		for _, lock := range l.locks(path) {
			if _, err := os.Stat(lock); err != nil {
				t.Errorf("%s is not held: %v", lock, err)
			}
		}
	}
	if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != e.token() {
		t.Error(err)
	}
	for _, lock := range l.locks(path) {
		if _, err := os.Stat(lock); !os.IsNotExist(err) {
			t.Errorf("%s is left", lock)
		}
	}
	// What stands in a lock's place and is none.
	home, path, _ = atHome(t, login, time.Now().Add(-time.Minute))
	if err := os.WriteFile(l.locks(path)[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = loginSet(t, home, login).Value(t.Context(), "c")
	refused(t, err, sallyport.CodeUnavailable, "it is no folder")
}

// TestFilesHoldNoSecret: the sandbox's copy has the form that the tool reads, and nothing of the real tokens.
func TestFilesHoldNoSecret(t *testing.T) {
	for _, login := range []string{"claude-code", "codex"} {
		home, path, _ := atHome(t, login, time.Now().Add(time.Hour))
		s := loginSet(t, home, login)
		files, err := s.Files("key", "att_1", "/home/agent")
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v", login, err)
		}
		l, _ := loginNamed(login, nil)
		b := files["/home/agent/"+l.File]
		ph, err := s.Placeholder("key", "att_1", "c")
		if err != nil {
			t.Fatal(err)
		}
		// It is a login like any other, as far as form goes.
		inside := filepath.Join(t.TempDir(), "login")
		if err := os.WriteFile(inside, b, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := l.look("c", inside)
		if err != nil || st.access != ph || st.refresh == "" || st.refresh == ph || st.expires.Year() < 2099 {
			t.Errorf("%s: %v, %s", login, err, b)
		}
		decoded := string(b)
		for _, word := range strings.FieldsFunc(string(b), func(r rune) bool { return strings.ContainsRune("\". \n,:{}", r) }) {
			if d, err := base64.RawURLEncoding.DecodeString(word); err == nil {
				decoded += "\n" + string(d)
			}
		}
		for _, bad := range []string{canary, "mcp", "OPENAI_API_KEY", "ann@corp.example", base64.RawURLEncoding.EncodeToString([]byte("signature-" + canary))} {
			if strings.Contains(decoded, bad) {
				t.Errorf("%s: the copy holds %q:\n%s", login, bad, decoded)
			}
		}
		for _, want := range map[string][]string{"claude-code": {`"user:inference"`, `"subscriptionType": "max"`}, "codex": {`"account_id": "acc-1"`, `"chatgpt_plan_type":"pro"`, `"auth_mode": "chatgpt"`}}[login] {
			if !strings.Contains(decoded, want) {
				t.Errorf("%s: the copy lacks %s:\n%s", login, want, decoded)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, err = s.Files("key", "att_1", "/home/agent")
		refused(t, err, sallyport.CodeNotFound, "does not exist")
	}
}

func TestLoginData(t *testing.T) {
	for name, says := range map[string]string{"": "no login", "../x": "no login", "gemini": "no login"} {
		if _, err := loginNamed(name, nil); sallyport.CodeOf(err) != sallyport.CodeUnsupported || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", name, err)
		}
	}
	good, err := logins.ReadFile("logins/claude-code.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string][2]string{
		"expected an https URL":                {"https://platform", "http://platform"},
		"expected a path below the home":       {".claude/.credentials.json", "../x"},
		"not of this form":                     {"folder-env:", "folder:"},
		"expected access, refresh, answer and": {"expires:", "refreshed-at:"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/claude-code.yaml", bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loginNamed("claude-code", os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", change, err)
		}
	}
}

// FuzzEdited: what was put in comes back, and nothing else changes: taking it back gives the same bytes.
func FuzzEdited(f *testing.F) {
	for _, s := range []string{`{"a":{"b":"x"},"c":[1, 2]}`, "{ \"a\" :\t{\"b\": null , \"d\":{} }}\r\n", `{"a":{"b":1,"b":2}}`, `{"a":{"\u0062":"x"}}`, `[]`, `{"a":`, `{"a":{"b":"\ud800"}}`, `{"a":[{"b":1}]}`} {
		f.Add([]byte(s), "new")
	}
	path := []string{"a", "b"}
	f.Fuzz(func(t *testing.T, doc []byte, value string) {
		if !oneObject(doc) {
			return
		}
		at, err := find(doc, path...)
		if err != nil {
			return
		}
		old := bytes.Clone(doc[at.start:at.end])
		raw, _ := json.Marshal(value)
		out, err := edited(doc, []edit{{path, raw}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := get[json.RawMessage](out, path); err != nil || !bytes.Equal(got, raw) || !oneObject(out) {
			t.Fatalf("%q: %q %v", out, got, err)
		}
		back, err := edited(out, []edit{{path, old}})
		if err != nil || !bytes.Equal(back, doc) {
			t.Fatalf("%q came back as %q (%v)", doc, back, err)
		}
		// Another reader sees the same value.
		var whole map[string]map[string]json.RawMessage
		if json.Unmarshal(doc, &whole) == nil && !bytes.Equal(bytes.TrimSpace(whole["a"]["b"]), old) {
			t.Fatalf("%q: another reader sees %q, this one %q", doc, whole["a"]["b"], old)
		}
	})
}
