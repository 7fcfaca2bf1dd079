package attack

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

const realSecret = "the-real-secret-of-api-test"

// elsewhere is every host at once: a server on loopback with a certificate for whatever name it is asked for.
type elsewhere struct {
	tls, plain string // ports
	authority  string // PEM
	mu         sync.Mutex
	heard      []string // "HOST METHOD URI", with what of headers and body should not have come
}

func (e *elsewhere) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.heard...)
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	secure, plain := httptest.NewUnstartedServer(e), httptest.NewUnstartedServer(e)
	quiet := log.New(io.Discard, "", 0)
	secure.Config.ErrorLog, plain.Config.ErrorLog = quiet, quiet
	secure.TLS, e.authority = world.Everybody(t)
	secure.StartTLS()
	plain.Start()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	port := func(s *httptest.Server) string {
		u, _ := url.Parse(s.URL)
		return u.Port()
	}
	e.tls, e.plain = port(secure), port(plain)
	return e
}

func (e *elsewhere) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := r.Host + " " + r.Method + " " + r.URL.RequestURI()
	for name, values := range r.Header {
		if v := strings.Join(values, ","); strings.Contains(v, "leak") || strings.Contains(v, "sallyport-") {
			line += " leak-in-header:" + name
		}
	}
	if strings.Contains(string(body), "leak") {
		line += " leak-in-body"
	}
	if strings.HasPrefix(r.Host, "api.test") && r.Header.Get("Authorization") != "Bearer "+realSecret {
		line += " leak-without-the-secret"
	}
	e.mu.Lock()
	e.heard = append(e.heard, line)
	e.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	case strings.HasSuffix(r.URL.Path, "/echo"):
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	case r.URL.Path == "/v1/messages": // a stream that says nothing of usage, and breaks off
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprintln(w, "hello")
	}
}

var (
	outLine = regexp.MustCompile(`(?m)^OUT \[(.*?)\] (.*) \((\d+) ms\)$`)
	// capUSD lets a few requests of the storm through, at 1000 tokens of output each.
	capUSD = 0.05
)

// TestNothingGoesOutButWhatIsListed: a hostile program tries more than a hundred ways out of a sandbox that may reach a
// few hosts in part. What arrives outside is what the rules list, with the secret where it belongs; nothing hangs; what it
// was refused is on record.
func TestNothingGoesOutButWhatIsListed(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		e := newElsewhere(t)
		config := filepath.Join(w.Home, ".config", "sallyport", "config.yaml")
		token := w.File(filepath.Join(w.Home, "token"), realSecret+"\n")
		w.Must(os.Chmod(token, 0o600))
		w.File(config, "version: 1\nresolve:\n  {api.test: 127.0.0.1, open.test: 127.0.0.1, drop.test: 127.0.0.1, git.test: 127.0.0.1, plain.test: 127.0.0.1, evil.test: 127.0.0.1, api.github.com: 127.0.0.1, api.anthropic.com: 127.0.0.1}\n"+
			"credentials:\n  - {name: api, from: {file: ~/token}, host: api.test, header: authorization, prefix: \"Bearer \", env: API_TOKEN}\n"+
			"egress:\n"+
			"  - {host: api.test, port: "+e.tls+", methods: [GET, POST], paths: [/v1/*]}\n"+
			"  - {host: open.test, port: "+e.tls+", methods: [\"*\"], own-auth: true}\n"+
			"  - {host: drop.test, port: "+e.tls+", methods: [GET], paths: [/ok/*], own-auth: true}\n"+
			"  - {host: git.test, port: "+e.tls+", protocol: git, paths: [/r]}\n"+
			"  - {host: plain.test, port: "+e.plain+", protocol: http, methods: [GET, POST], paths: [/ok/*]}\n"+
			"  - {host: api.github.com, port: "+e.tls+", methods: [\"*\"], own-auth: true}\n"+
			"  - {host: api.anthropic.com, port: "+e.tls+", methods: [GET, POST], paths: [/v1/messages], own-auth: true}\n")
		w.Env = append(w.Env, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "elsewhere.pem"), e.authority))
		w.File("sallyport.yaml", fmt.Sprintf("version: 1\nlimits: {time: 4m, spend: {usd: %g, on-exceeded: refuse}}\nchecks:\n  - {name: test, run: sh t.sh, timeout: 10s}\n", capUSD))
		w.Commit("limits")
		rep := w.Run("attack", "echo note > note; ./x out "+e.tls+" "+e.plain, "--credential", "api").Want(0).Report()
		text := w.Log(rep.Attempt, "agent")
		said := map[string]string{}
		for _, m := range outLine.FindAllStringSubmatch(text, -1) {
			said[m[1]] = m[2]
			if ms, _ := strconv.Atoi(m[3]); ms > 15000 || strings.Contains(m[2], "HUNG") {
				t.Errorf("%s took %d ms: %s", m[1], ms, m[2])
			}
		}
		if !strings.Contains(text, fmt.Sprintf("cases: %d\n", len(said))) || len(said) < 25 || !strings.Contains(text, "done\n") {
			t.Errorf("%d cases were told:\n%s", len(said), text)
		}
		if strings.Contains(text, "WON") || strings.Contains(text, realSecret) {
			t.Errorf("it won:\n%s", text)
		}
		heard := strings.Join(e.all(), "\n")
		for _, line := range e.all() {
			if strings.Contains(line, "leak") || strings.HasPrefix(line, "evil.test") {
				t.Errorf("outside heard %q", line)
			}
		}
		for _, fine := range []string{"fine-api", "fine-open", "fine-drop", "fine-plain", "git-upload-pack", "fine-override", "fine-afterwards"} {
			if !strings.Contains(heard, fine) {
				t.Errorf("outside did not hear %q, so that the rest says nothing:\n%s\n%s", fine, heard, text)
			}
		}
		for name, want := range map[string]string{"quic": "ECONNREFUSED", "udp": "ECONNREFUSED", "dns txt 8.8.8.8:53": "NXDOMAIN", "dns a 127.0.0.53:53": "NXDOMAIN"} {
			if said[name] != want {
				t.Errorf("%s: %s", name, said[name])
			}
		}
		spent := strings.Count(heard, "/v1/messages")
		if rep.Spend == nil || rep.Spend.USD > capUSD || spent == 0 || spent > 10 {
			t.Errorf("%d requests to the model passed, counted %+v", spent, rep.Spend)
		}
		if len(rep.Refusals) < 20 {
			t.Errorf("%d refusals are on record: %+v", len(rep.Refusals), rep.Refusals)
		}
		for _, f := range rep.Refusals {
			if strings.Contains(fmt.Sprint(f), realSecret) {
				t.Errorf("%+v", f)
			}
		}
		if t.Failed() {
			t.Logf("the program said:\n%s", text)
		}
	})
}
