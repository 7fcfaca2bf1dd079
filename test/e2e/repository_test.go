package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// TestMonorepo: checks stand in their own folders; one that a change does not touch is listed as not run.
func TestMonorepo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("api/value", "base\n")
	w.file("api/t.sh", "#!/bin/sh\ngrep -qE 'good|base' value\n")
	w.file("web/value", "base\n")
	w.file("web/t.sh", "#!/bin/sh\ngrep -qE 'good|base' value\n")
	w.file("docs/x", "x\n")
	w.file("sallyport.yaml", `version: 1
checks:
  - {name: api, run: sh t.sh, dir: api, when: ["api/**"]}
  - {name: web, run: sh t.sh, dir: web, when: ["web/**", "api/**"]}
`)
	w.commit("monorepo")
	r := w.runIn("web", "web", `[ "$(basename "$PWD")" = web ] || exit 5; echo good > value`).want(0)
	rep := r.report()
	got := statuses(rep)
	if got["api"] != sallyport.CheckNotRun || got["web"] != sallyport.CheckPassed {
		t.Errorf("checks: %v", got)
	}
	if !has(rep.NotChecked, `"api"`) {
		t.Errorf("not_checked: %q", rep.NotChecked)
	}
	if len(rep.Changes) != 1 || rep.Changes[0].Path != "web/value" {
		t.Errorf("changes: %+v", rep.Changes)
	}
	r.says("not run")
	both := w.run("both", "echo good > api/value").want(0).report()
	if got := statuses(both); got["api"] != sallyport.CheckPassed || got["web"] != sallyport.CheckPassed {
		t.Errorf("checks: %v", got)
	}
	bad := w.run("bad", "echo bad > web/value; echo good > api/value").want(20).report()
	if got := statuses(bad); got["api"] != sallyport.CheckPassed || got["web"] != sallyport.CheckFailed {
		t.Errorf("checks: %v", got)
	}
	none := w.run("none", "echo y > docs/x").want(10).report()
	if none.Reason.Code != "no-check-ran" {
		t.Errorf("%+v", none.Reason)
	}
}

func statuses(r sallyport.Report) map[string]sallyport.CheckStatus {
	out := map[string]sallyport.CheckStatus{}
	for _, k := range r.Checks {
		out[k.Name] = k.Status
	}
	return out
}

// TestDirty: what is not committed is counted and left out, or taken in on request; the tree stays as it is.
func TestDirty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file(".gitignore", "ignored\n")
	w.file("c", "c\n")
	w.commit("more")
	w.file("a", "good, uncommitted\n")
	w.file("c", "staged\n")
	w.git("add", "c")
	w.file("new1", "1\n")
	w.file("new2", "2\n")
	w.file("ignored", "i\n")
	before := w.fingerprint()
	out := w.run("out", `[ "$(cat a)" = base ] || exit 5; [ ! -e new1 ] || exit 6; echo good > a`).want(0)
	out.says("2 changed, 2 untracked", "not in the base", "--include-dirty")
	w.untouched(before, "sallyport/out")
	in := w.run("in", `[ "$(cat a)" = 'good, uncommitted' ] || exit 5; [ "$(cat new2)" = 2 ] || exit 6; [ "$(cat c)" = staged ] || exit 7; [ ! -e ignored ] || exit 8; echo x > d`, "--include-dirty")
	if in.code != 0 && in.code != 10 {
		in.want(0)
	}
	rep := in.report()
	for _, p := range []string{"a", "c", "new1", "new2", "d"} {
		found := false
		for _, c := range rep.Changes {
			found = found || c.Path == p
		}
		if !found {
			t.Errorf("%s is not among the changes to the base: %+v", p, rep.Changes)
		}
	}
	w.untouched(before, "sallyport/out", "sallyport/in")
}

// TestUncommittedPolicy: the person's own uncommitted file counts, is announced and marked.
func TestUncommittedPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file("sallyport.yaml", policy("grep -rq special ."))
	r := w.run("own", "echo special > a").want(0)
	r.says("sallyport.yaml", "uncommitted")
	rep := r.report()
	if rep.Checks[0].Run != "grep -rq special ." {
		t.Errorf("check: %s", rep.Checks[0].Run)
	}
	manifest := w.read(filepath.Join(w.state, "manifests", strings.TrimPrefix(string(rep.Manifest), "sha256:")+".json"))
	if !strings.Contains(manifest, `"kind":"worktree"`) {
		t.Errorf("the manifest does not say where the policy came from: %s", manifest)
	}
	if !strings.Contains(w.sallyport("show", string(rep.Attempt)).want(0).out, "source: worktree") {
		t.Error("show does not say source: worktree")
	}
}

// TestAgentsPolicy: a policy in the tree that the agent made has no effect, and its edit is a finding.
func TestAgentsPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	rep := w.run("lax", `printf 'version: 1\nchecks: [{name: test, run: "true"}]\n' > sallyport.yaml; echo bad > a`).want(20).report()
	if len(rep.Findings) == 0 || rep.Findings[0].Path != "sallyport.yaml" {
		t.Errorf("findings: %+v", rep.Findings)
	}
	// Even where scope lets the file be edited, the checks are the base's.
	w.file("sallyport.yaml", policy("sh t.sh", "scope: {deny: []}"))
	w.commit("lax scope")
	rep = w.run("lax2", `printf 'version: 1\nchecks: [{name: test, run: "true"}]\n' > sallyport.yaml; echo bad > a`).want(20).report()
	for _, k := range rep.Checks {
		if k.Run != "sh t.sh" {
			t.Errorf("check %q ran", k.Run)
		}
	}
}

// TestEditedTests: a change that passes only with its own tests waits for a person, and they are named first.
func TestEditedTests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	r := w.run("edited", "echo bad > a; printf '#!/bin/sh\\nexit 0\\n' > t.sh").want(10)
	rep := r.report()
	if rep.Reason.Code != "tests-edited" || len(rep.Checks) != 1 || rep.Checks[0].BaseTests != sallyport.CheckFailed || rep.Checks[0].Status != sallyport.CheckPassed {
		t.Errorf("%+v %+v", rep.Reason, rep.Checks)
	}
	r.says("t.sh")
}

// TestScope: allow and deny, from the file and the flags.
func TestScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.run("allowed", "echo good > a", "--allow", "a").want(0)
	rep := w.run("outside", "echo good > a; echo x > b", "--allow", "a").want(20).report()
	if len(rep.Findings) == 0 || rep.Findings[0].Path != "b" || !strings.HasPrefix(rep.Findings[0].Rule, "scope.") || rep.Findings[0].Todo == "" {
		t.Errorf("findings: %+v", rep.Findings)
	}
	w.run("nothing", "echo good > a", "--allow=").want(20)
	w.file("wo.yaml", "version: 1\nname: by-file\ntask: From a file.\ncommand: [sh, -c, 'echo good > a']\nscope: {allow: [a]}\nlimits: {time: 1m}\nattempts: 2\n")
	if got := w.sallyport("run", "--json", "-f", "wo.yaml").want(0).report(); got.Name != "by-file" || got.Branch != "sallyport/by-file" {
		t.Errorf("%q %q", got.Name, got.Branch)
	}
}

// TestTrust: what the repository asks of the host needs a grant; without a terminal the command is named.
func TestTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file(".gitignore", "deps\n")
	w.file("deps/lib", "from the host\n")
	w.file("sallyport.yaml", policy("grep -q host deps/lib && sh t.sh", "deps: [deps]"))
	w.commit("asks for deps")
	r := w.run("asks", "echo good > a").want(40).says("sallyport trust")
	if rep := r.report(); rep.Attempt != "" || rep.Reason.Code != "denied" {
		t.Errorf("%q %+v", rep.Attempt, rep.Reason)
	}
	w.sallyport("trust", "--show").want(0).says("deps", "not granted")
	w.sallyport("trust").want(40).says("sallyport trust --yes")
	w.sallyport("trust", "--yes").want(0).says("Granted")
	rep := w.run("asks", "grep -q host deps/lib || exit 5; echo changed > deps/lib; echo good > a").want(0).report()
	if len(rep.Changes) != 1 {
		t.Errorf("changes: %+v", rep.Changes)
	}
	if got := w.read("deps/lib"); got != "from the host\n" {
		t.Errorf("the agent wrote into the person's dependencies: %q", got)
	}
	w.file("sallyport.yaml", policy("sh t.sh", "deps: [deps, more]"))
	w.commit("asks for more")
	w.run("more", "echo good > a").want(40)
}

// TestInit: what init writes for each kind of repository is taken by run as it is.
func TestInit(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name  string
		files map[string]string
		check string
	}{
		{"go", map[string]string{"go.mod": "module example.invalid/x\n\ngo 1.22\n", "x.go": "package x\n"}, "go test"},
		{"npm", map[string]string{"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"node --test"}}`, "x.test.js": "require('node:test')('t', () => {})\n"}, "npm"},
		{"python", map[string]string{"pyproject.toml": "[project]\nname = \"x\"\nversion = \"1\"\n", "tests/test_x.py": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n"}, "python"},
		{"rust", map[string]string{"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "pub fn x() {}\n"}, "cargo test"},
		{"make", map[string]string{"Makefile": "test:\n\ttrue\n.PHONY: test\n"}, "make test"},
		{"nothing", map[string]string{"README": "x\n"}, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t)
			if k.name == "rust" {
				w.hostRust()
			}
			for name, text := range k.files {
				w.file(name, text)
			}
			w.commit("a repository")
			r := w.sallyport("init").want(0).says("sallyport.yaml")
			written := w.read("sallyport.yaml")
			if k.check != "" && !strings.Contains(r.out, k.check) {
				t.Errorf("init said nothing of %q:\n%s", k.check, r.out)
			}
			if !strings.Contains(written, "#") || !strings.Contains(written, "version: 1") {
				t.Errorf("not a commented file:\n%s", written)
			}
			w.sallyport("init").want(2).says("exists")
			if w.read("sallyport.yaml") != written {
				t.Error("init overwrote its file")
			}
			// The agent does nothing: rejected, but the file was taken and nothing was refused.
			rep := w.run("try", "true").want(20).report()
			if rep.Reason.Code != "no-change" {
				t.Errorf("%+v", rep.Reason)
			}
		})
	}
}

// hostRust lets the world use the Rust of the user that runs the tests: its home is not the world's.
func (w *world) hostRust() {
	w.t.Helper()
	rust(w.t)
	home, err := os.UserHomeDir()
	w.must(err)
	for name, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
		dir := os.Getenv(name)
		if dir == "" {
			dir = filepath.Join(home, folder)
		}
		if _, err := os.Stat(dir); err == nil {
			w.env = append(w.env, name+"="+dir)
		}
	}
}
