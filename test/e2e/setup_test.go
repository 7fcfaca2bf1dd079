package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// registry serves packages of npm and modules of Go on loopback, as registry.test, which only the gateway finds.
type registry struct {
	port  string
	mu    sync.Mutex
	asked []string
	files map[string][]byte
}

func newRegistry(t *testing.T, w *world.World) *registry {
	t.Helper()
	r := &registry{files: map[string][]byte{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.port = port(t, s.URL)
	w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\nresolve: {registry.test: 127.0.0.1}\n")
	return r
}

func (r *registry) ServeHTTP(rw http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, q.Method+" "+q.URL.Path)
	b, ok := r.files[q.URL.Path]
	r.mu.Unlock()
	if !ok {
		http.NotFound(rw, q)
		return
	}
	_, _ = rw.Write(b)
}

func (r *registry) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.asked...)
}

func (r *registry) url() string { return "http://registry.test:" + r.port }

func (r *registry) rule() string {
	return "{host: registry.test, protocol: http, port: " + r.port + ", methods: [GET, HEAD], paths: [/**], own-auth: true}"
}

// add publishes dep at a version. When it is installed with scripts it says so.
func (r *registry) add(w *world.World, version string) (integrity string) {
	w.T.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"dep","version":"` + version + `","main":"index.js","scripts":{"postinstall":"echo ran > ran; echo ran > $HOME/ran"}}`,
		"package/index.js":     "exports.version = '" + version + "'\n",
	} {
		w.Must(tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := tw.Write([]byte(text))
		w.Must(err)
	}
	w.Must(tw.Close())
	w.Must(z.Close())
	sum := sha512.Sum512(b.Bytes())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files["/dep/-/dep-"+version+".tgz"] = b.Bytes()
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// addModule publishes dep.test/dep v1.0.0 as a Go module proxy does.
func (r *registry) addModule(w *world.World) {
	w.T.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"go.mod": "module dep.test/dep\n", "dep.go": "package dep\n\nconst Version = 1\n"} {
		f, err := z.Create("dep.test/dep@v1.0.0/" + name)
		w.Must(err)
		_, err = f.Write([]byte(text))
		w.Must(err)
	}
	w.Must(z.Close())
	r.files["/dep.test/dep/@v/v1.0.0.info"] = []byte(`{"Version":"v1.0.0"}`)
	r.files["/dep.test/dep/@v/v1.0.0.mod"] = []byte("module dep.test/dep\n")
	r.files["/dep.test/dep/@v/v1.0.0.zip"] = b.Bytes()
}

func packageJSON(version string) string {
	return `{"name":"job","version":"1.0.0","dependencies":{"dep":"` + version + `"}}` + "\n"
}

func (r *registry) lock(version, integrity string) string {
	b, err := json.MarshalIndent(map[string]any{"name": "job", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": map[string]any{
		"":                 map[string]any{"name": "job", "version": "1.0.0", "dependencies": map[string]string{"dep": version}},
		"node_modules/dep": map[string]any{"version": version, "resolved": r.url() + "/dep/-/dep-" + version + ".tgz", "integrity": integrity, "hasInstallScript": true},
	}}, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// node is a repository whose check needs a package, and sees that there is no network.
func (r *registry) node(t *testing.T, w *world.World, setup string) {
	t.Helper()
	for _, p := range []string{"node", "npm"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("missing capability: " + p)
		}
	}
	w.File(".gitignore", "node_modules/\n")
	w.File(".npmrc", "registry="+r.url()+"/\n")
	w.File("package.json", packageJSON("1.0.0"))
	w.File("package-lock.json", r.lock("1.0.0", r.add(w, "1.0.0")))
	w.File("want", "1.0.0\n")
	w.File("check.sh", "#!/bin/sh\nset -e\ngot=$(node -p \"require('dep').version\")\necho check has $got, ran $(cat node_modules/dep/ran 2>/dev/null), evil $(ls node_modules | grep -c evil)\n"+
		"test \"$got\" = \"$(cat want)\"\n! env | grep -i _proxy=\n! curl -sS -m 5 "+r.url()+"/check\n! curl -sS -m 5 -x http://127.0.0.1:18790 "+r.url()+"/check\n")
	w.File("sallyport.yaml", world.Policy("sh check.sh", strings.Split("setup:\n"+setup, "\n")...))
	w.Commit("a package")
}

func setupOf(t *testing.T, rep sallyport.Report, number int, kind string) sallyport.SetupResult {
	t.Helper()
	for _, s := range rep.Setup {
		if s.Number == number && s.For == kind {
			return s
		}
	}
	t.Fatalf("no setup %d for %s: %+v", number, kind, rep.Setup)
	return sallyport.SetupResult{}
}

// TestSetupNpm: a real npm installs from a registry that only setup reaches. The agent and the checks have what it
// installed; the change has nothing of it; the next run fetches nothing; a change of the lock file is installed
// without scripts, for the checks alone.
func TestSetupNpm(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		r := newRegistry(t, w)
		r.node(t, w, "  - run: npm ci\n    egress: ["+r.rule()+"]")
		refused(w, w.Run("job", "true"), 40, "sallyport.yaml", `setup "npm ci" egress {host: registry.test`, "sallyport trust")
		w.Sallyport("trust", "--yes").Want(0)
		script := "echo agent has $(node -p \"require('dep').version\"), ran $(cat node_modules/dep/ran) $(cat $HOME/ran); env | grep -i _proxy=; " +
			"curl -sS -m 5 " + r.url() + "/agent; curl -sS -m 5 -x http://127.0.0.1:18790 " + r.url() + "/agent; " +
			"echo changed > note; echo evil > node_modules/evil; echo evil >> node_modules/dep/index.js; rm node_modules/dep/package.json; echo evil > $HOME/ran"
		res := w.Run("job", script).Want(0)
		rep := res.Report()
		accepted(t, w, rep)
		log := w.Log(rep.Attempt, "agent")
		if !strings.Contains(log, "agent has 1.0.0, ran ran ran") || strings.Contains(strings.ToLower(log), "_proxy=") {
			t.Errorf("the agent said:\n%s", log)
		}
		if len(rep.Changes) != 1 || rep.Changes[0].Path != "note" {
			t.Errorf("changes: %+v", rep.Changes)
		}
		s := setupOf(t, rep, 1, "base")
		if s.Status != sallyport.SetupDone || s.Exit != 0 || s.Egress == nil || s.Egress.Requests < 1 || s.Egress.BytesDown < 100 || s.Reused != "" || s.StatusBy != "keeper" {
			t.Errorf("%+v, %+v", s, s.Egress)
		}
		if heard := strings.Join(r.heard(), " "); !strings.Contains(heard, "/dep/-/dep-1.0.0.tgz") || strings.Contains(heard, "/agent") || strings.Contains(heard, "/check") {
			t.Errorf("the registry was asked %s", heard)
		}
		if check := w.Log(rep.Attempt, "check-test-validate"); !strings.Contains(check, "check has 1.0.0, ran ran, evil 0") {
			t.Errorf("the check said:\n%s", check)
		}
		if !strings.Contains(res.Err, "setup: npm ci\n") || !strings.Contains(res.Err, "setup: npm ci: done in ") {
			t.Errorf("while it ran:\n%s", res.Err)
		}
		w.Sallyport("show", string(rep.Attempt)).Want(0).Says("Setup", "npm ci", "done: exit 0", "request")
		w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)
		w.Sallyport("verify", rep.Evidence, "--key", filepath.Join(w.Dir, "key.pem")).Want(0).Says("setup 1 (npm ci), done; ")

		// Again: nothing is fetched, and nothing that the agent before did is there.
		before := len(r.heard())
		rep = w.Run("again", script).Want(0).Report()
		if s := setupOf(t, rep, 1, "base"); s.Reused == "" || len(r.heard()) != before {
			t.Errorf("%+v; asked %v", s, r.heard()[before:])
		}
		if log := w.Log(rep.Attempt, "agent"); !strings.Contains(log, "agent has 1.0.0, ran ran ran") {
			t.Errorf("the second agent said:\n%s", log)
		}

		// A change of the lock file.
		two := r.add(w, "2.0.0")
		edit := "cat > package.json <<'E'\n" + packageJSON("2.0.0") + "E\ncat > package-lock.json <<'E'\n" + r.lock("2.0.0", two) + "E\necho 2.0.0 > want; mkdir -p node_modules/dep; echo \"exports.version='9'\" > node_modules/dep/index.js"
		rep = w.Run("newer", edit).Want(10).Report()
		if len(rep.Checks) != 1 || rep.Checks[0].Status != sallyport.CheckPassed {
			t.Errorf("%+v %+v", rep.Reason, rep.Checks)
		}
		s = setupOf(t, rep, 1, "change")
		if s.Run != "npm ci --ignore-scripts" || s.Status != sallyport.SetupDone || len(s.Locks) != 1 {
			t.Errorf("%+v", s)
		}
		if check := w.Log(rep.Attempt, "check-test-validate"); !strings.Contains(check, "check has 2.0.0, ran , evil 0") {
			t.Errorf("the check said:\n%s", check)
		}
		if rules := rulesOf(rep); !strings.Contains(rules, "lock.setup") || strings.Contains(rules, "lock.changed") {
			t.Errorf("findings: %s", rules)
		}

		// One that cannot be installed: the base's is used, and a person is asked.
		rep = w.Run("missing", strings.ReplaceAll(edit, "2.0.0", "3.0.0")).Report()
		if s := setupOf(t, rep, 1, "change"); s.Status != sallyport.SetupFailed || s.Tail == "" {
			t.Errorf("%+v", s)
		}
		if rules := rulesOf(rep); !strings.Contains(rules, "lock.changed") || rep.Decision == sallyport.DecisionAccepted {
			t.Errorf("%s, %s", rep.Decision, rules)
		}
	})
}

func rulesOf(rep sallyport.Report) string {
	var rules []string
	for _, f := range rep.Findings {
		rules = append(rules, f.Rule)
	}
	return strings.Join(rules, " ")
}

// TestSetupOfAnotherManager: what a change names as its package manager would run in the place of the one that is known.
func TestSetupOfAnotherManager(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	r := newRegistry(t, w)
	r.node(t, w, "  - run: npm ci\n    egress: ["+r.rule()+"]")
	w.Sallyport("trust", "--yes").Want(0)
	two := r.add(w, "2.0.0")
	other := strings.Replace(packageJSON("2.0.0"), "{", `{"packageManager":"yarn@1.22.22",`, 1)
	rep := w.Run("newer", "cat > package.json <<'E'\n"+other+"E\ncat > package-lock.json <<'E'\n"+r.lock("2.0.0", two)+"E\n").Want(10).Report()
	if len(rep.Setup) != 1 || !strings.Contains(rulesOf(rep), "lock.changed") || strings.Contains(strings.Join(r.heard(), " "), "2.0.0") {
		t.Errorf("%+v, %s, %v", rep.Setup, rulesOf(rep), r.heard())
	}
}

// TestSetupWithoutAWordForScripts: where nothing says how it runs without scripts, nothing is run from the change's
// lock file.
func TestSetupWithoutAWordForScripts(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	r := newRegistry(t, w)
	r.node(t, w, "  - run: npm ci && true\n    egress: ["+r.rule()+"]")
	w.Sallyport("trust", "--yes").Want(0)
	two := r.add(w, "2.0.0")
	rep := w.Run("newer", "cat > package.json <<'E'\n"+packageJSON("2.0.0")+"E\ncat > package-lock.json <<'E'\n"+r.lock("2.0.0", two)+"E\n").Want(10).Report()
	if len(rep.Setup) != 1 || !strings.Contains(rulesOf(rep), "lock.changed") || strings.Contains(strings.Join(r.heard(), " "), "2.0.0") {
		t.Errorf("%+v, %s, %v", rep.Setup, rulesOf(rep), r.heard())
	}
	if check := w.Log(rep.Attempt, "check-test-validate"); !strings.Contains(check, "check has 1.0.0") {
		t.Errorf("the check said:\n%s", check)
	}
}

// TestSetupGo: go mod download into a cache that the fresh home holds, behind a way out of its own.
func TestSetupGo(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	r := newRegistry(t, w)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("missing capability: go")
	}
	r.addModule(w)
	w.File("go.mod", "module job.test\n\ngo 1.24\n\nrequire dep.test/dep v1.0.0\n")
	w.File("job.go", "package job\n\nimport \"dep.test/dep\"\n\nconst V = dep.Version\n")
	w.File("job_test.go", "package job\n\nimport \"testing\"\n\nfunc TestV(t *testing.T) {\n\tif V != 1 {\n\t\tt.Fail()\n\t}\n}\n")
	w.File("sallyport.yaml", "version: 1\nlimits: {time: 5m}\nsetup:\n  - run: GOPROXY="+r.url()+" GONOSUMDB=dep.test GOFLAGS=-mod=mod go mod download\n    egress: ["+r.rule()+"]\nchecks:\n  - {name: test, run: GOFLAGS=-mod=mod GONOSUMDB=dep.test go test -v ./..., timeout: 2m}\n")
	w.Commit("a module")
	w.Sallyport("trust", "--yes").Want(0)
	rep := w.Run("job", "echo note > note").Want(0).Report()
	accepted(t, w, rep)
	if s := setupOf(t, rep, 1, "base"); s.Status != sallyport.SetupDone || s.Egress.Requests < 2 {
		t.Errorf("%+v %+v", s, s.Egress)
	}
}

// TestSetupFails: it ends the Attempt before the agent, with what it said last and what it was refused.
func TestSetupFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	r := newRegistry(t, w)
	w.Small()
	w.File("sallyport.yaml", world.Policy("sh t.sh", "setup:", "  - run: echo first words; curl -fsS -m 20 http://other.test/x; echo last words; exit 7", "    egress: ["+r.rule()+"]"))
	w.Commit("setup that fails")
	w.Sallyport("trust", "--yes").Want(0)
	res := w.Run("job", "echo the agent ran").Want(30)
	rep := res.Report()
	if rep.State != sallyport.AttemptFailed || rep.Reason.Code != "setup" || !strings.Contains(rep.Reason.Message, "status 7") || rep.Agent.Ran() {
		t.Errorf("%s %+v", rep.State, rep.Reason)
	}
	if s := setupOf(t, rep, 1, "base"); s.Exit != 7 || s.Egress.Refused == 0 || !strings.Contains(s.Tail, "last words") {
		t.Errorf("%+v %+v", s, s.Egress)
	}
	if len(rep.Refusals) != 1 || rep.Refusals[0].Stage != "setup 1" || rep.Refusals[0].Host != "other.test" {
		t.Errorf("%+v", rep.Refusals)
	}
	for _, want := range []string{"NOT STARTED", "last words", "setup 1 other.test", "egress: of that setup command"} {
		if !strings.Contains(res.Err, want) {
			t.Errorf("it does not say %q:\n%s", want, res.Err)
		}
	}
	// Not kept: the next one runs it again.
	if again := w.Run("again", "true").Want(30).Report(); setupOf(t, again, 1, "base").Reused != "" {
		t.Errorf("%+v", again.Setup)
	}
	w.File("sallyport.yaml", world.Policy("sh t.sh", "setup:", "  - {run: sleep 60, timeout: 1s}"))
	w.Commit("setup that hangs")
	if rep := w.Run("hangs", "true").Want(30).Report(); !strings.Contains(rep.Reason.Message, "timeout of 1s") {
		t.Errorf("%+v", rep.Reason)
	}
}

// TestSetupInOrder: each command has what those before it left and a way out of its own; the tree stays as it is;
// what git does not ignore is told; nothing of setup is alive or kept where it should not be.
func TestSetupInOrder(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		r := newRegistry(t, w)
		r.files["/one"] = []byte("fetched\n")
		w.File(".gitignore", "deps/\n")
		w.File("a", "base\n")
		w.File("src/kept", "of the tree\n")
		w.File("t.sh", "#!/bin/sh\nset -e\ncat deps/one deps/two made $HOME/.tool\ngrep -q base a\ngrep -q 'of the tree' src/kept\n! ls src/gone /tmp/left 2>/dev/null\n! grep -q evil -r deps\n")
		w.File("sallyport.yaml", world.Policy("sh t.sh", "setup:",
			"  - run: mkdir deps && curl -fsS "+r.url()+"/one > deps/one && echo tool > $HOME/.tool && echo made > made && echo overwritten > a && rm -r src && mkdir src && echo x > /tmp/left; (setsid sleep 300 >/dev/null 2>&1 &)",
			"    egress: ["+r.rule()+"]",
			"  - run: grep -q base a && test -e src/kept && cat $HOME/.tool && sed s/fetched/changed/ deps/one > deps/two && rm deps/one && echo one > deps/one && ! curl -fsS -m 5 "+r.url()+"/two && ! env | grep -i _proxy="))
		w.Commit("two commands")
		w.Sallyport("trust", "--yes").Want(0)
		res := w.Run("job", "cat deps/one deps/two made $HOME/.tool a src/kept; pgrep sleep; ls /tmp; git status --porcelain; echo good > b; echo evil >> deps/two; rm deps/one").Want(0)
		rep := res.Report()
		accepted(t, w, rep)
		log := w.Log(rep.Attempt, "agent")
		if !strings.HasPrefix(log, "one\nchanged\nmade\ntool\nbase\nof the tree\n") || strings.Contains(log, "left") {
			t.Errorf("the agent said:\n%s", log)
		}
		if len(rep.Changes) != 1 || rep.Changes[0].Path != "b" {
			t.Errorf("%+v", rep.Changes)
		}
		if heard := r.heard(); len(heard) != 1 {
			t.Errorf("asked: %v", heard)
		}
		told := strings.Join(rep.Notices, "\n")
		for _, want := range []string{"it changed a, src/kept", "does not ignore; agent and checks see them, the change does not hold them: made"} {
			if !strings.Contains(told, want) {
				t.Errorf("not told %q:\n%s", want, told)
			}
		}
		if setupOf(t, rep, 2, "base").Egress != nil {
			t.Error("the second command had a way out")
		}
		// Another second command: the first is kept.
		w.File("sallyport.yaml", strings.Replace(w.Read("sallyport.yaml"), "cat $HOME/.tool &&", "true &&", 1))
		rep = w.Run("other", "cat deps/two > c").Want(0).Report()
		if setupOf(t, rep, 1, "base").Reused == "" || setupOf(t, rep, 2, "base").Reused != "" {
			t.Errorf("%+v", rep.Setup)
		}
		w.Sallyport("check", string(rep.Attempt)).Want(0)
		w.Sallyport("gc").Want(0)
		if n := fmt.Sprint(setupOf(t, w.Run("third", "cat deps/two > d").Want(0).Report(), 2, "base").Reused); n == "" {
			t.Error("gc removed what is in use")
		}
	})
}

// TestSetupLearns: what setup asks for is heard as its own, and not proposed as the agent's.
func TestSetupLearns(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	newRegistry(t, w)
	w.Small()
	w.File("sallyport.yaml", world.Policy("sh t.sh", "setup:", "  - run: curl -sS -m 20 http://setup.test/x; true"))
	w.Commit("setup that asks")
	r := w.Sallyport("learn", "--name", "l", "--", "sh", "-c", "curl -sS -m 20 http://agent.test/y; echo good > a").Want(0)
	if r.Out != "egress:\n  - {host: agent.test, protocol: http, paths: [/y]}\n" || !strings.Contains(r.Err, "setup 1 was refused http setup.test:80 GET /x") || !strings.Contains(r.Err, "under egress: of that command: {host: setup.test") {
		t.Errorf("learned\n%s\n%s", r.Out, r.Err)
	}
	if rep := w.Run("job", "echo good > a").Want(0).Report(); len(rep.Refusals) != 0 {
		t.Errorf("%+v", rep.Refusals)
	}
}
