package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// TestMonorepo: checks stand in their own folders; one that a change does not touch is listed as not run.
func TestMonorepo(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.File("api/value", "base\n")
	w.File("api/t.sh", "#!/bin/sh\ngrep -qE 'good|base' value\n")
	w.File("web/value", "base\n")
	w.File("web/t.sh", "#!/bin/sh\ngrep -qE 'good|base' value\n")
	w.File("docs/x", "x\n")
	w.File("sallyport.yaml", `version: 1
checks:
  - {name: api, run: sh t.sh, dir: api, when: ["api/**"]}
  - {name: web, run: sh t.sh, dir: web, when: ["web/**", "api/**"]}
`)
	w.Commit("monorepo")
	r := w.RunIn("web", "web", `[ "$(basename "$PWD")" = web ] || exit 5; echo good > value`).Want(0)
	rep := r.Report()
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
	r.Says("not run")
	both := w.Run("both", "echo good > api/value").Want(0).Report()
	if got := statuses(both); got["api"] != sallyport.CheckPassed || got["web"] != sallyport.CheckPassed {
		t.Errorf("checks: %v", got)
	}
	bad := w.Run("bad", "echo bad > web/value; echo good > api/value").Want(20).Report()
	if got := statuses(bad); got["api"] != sallyport.CheckPassed || got["web"] != sallyport.CheckFailed {
		t.Errorf("checks: %v", got)
	}
	none := w.Run("none", "echo y > docs/x").Want(10).Report()
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
	w := world.New(t)
	w.Small()
	w.File(".gitignore", "ignored\n")
	w.File("c", "c\n")
	w.Commit("more")
	w.File("a", "good, uncommitted\n")
	w.File("c", "staged\n")
	w.Git("add", "c")
	w.File("new1", "1\n")
	w.File("new2", "2\n")
	w.File("ignored", "i\n")
	before := w.Fingerprint()
	out := w.Run("out", `[ "$(cat a)" = base ] || exit 5; [ ! -e new1 ] || exit 6; echo good > a`).Want(0)
	out.Says("2 changed, 2 untracked", "not in the base", "--include-dirty")
	w.Untouched(before, "sallyport/out")
	in := w.Run("in", `[ "$(cat a)" = 'good, uncommitted' ] || exit 5; [ "$(cat new2)" = 2 ] || exit 6; [ "$(cat c)" = staged ] || exit 7; [ ! -e ignored ] || exit 8; echo x > d`, "--include-dirty")
	if in.Code != 0 && in.Code != 10 {
		in.Want(0)
	}
	rep := in.Report()
	for _, p := range []string{"a", "c", "new1", "new2", "d"} {
		found := false
		for _, c := range rep.Changes {
			found = found || c.Path == p
		}
		if !found {
			t.Errorf("%s is not among the changes to the base: %+v", p, rep.Changes)
		}
	}
	w.Untouched(before, "sallyport/out", "sallyport/in")
}

// TestUncommittedPolicy: the person's own uncommitted file counts, is announced and marked.
func TestUncommittedPolicy(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File("sallyport.yaml", world.Policy("grep -rq special ."))
	r := w.Run("own", "echo special > a").Want(0)
	r.Says("sallyport.yaml", "uncommitted")
	rep := r.Report()
	if rep.Checks[0].Run != "grep -rq special ." {
		t.Errorf("check: %s", rep.Checks[0].Run)
	}
	manifest := w.Read(filepath.Join(w.State, "manifests", strings.TrimPrefix(string(rep.Manifest), "sha256:")+".json"))
	if !strings.Contains(manifest, `"kind":"worktree"`) {
		t.Errorf("the manifest does not say where the policy came from: %s", manifest)
	}
	if !strings.Contains(w.Sallyport("show", string(rep.Attempt)).Want(0).Out, "source: worktree") {
		t.Error("show does not say source: worktree")
	}
}

// TestAgentsPolicy: a policy in the tree that the agent made has no effect, and its edit is a finding.
func TestAgentsPolicy(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	rep := w.Run("lax", `printf 'version: 1\nchecks: [{name: test, run: "true"}]\n' > sallyport.yaml; echo bad > a`).Want(20).Report()
	if len(rep.Findings) == 0 || rep.Findings[0].Path != "sallyport.yaml" {
		t.Errorf("findings: %+v", rep.Findings)
	}
	// Even where scope lets the file be edited, the checks are the base's.
	w.File("sallyport.yaml", world.Policy("sh t.sh", "scope: {deny: []}"))
	w.Commit("lax scope")
	rep = w.Run("lax2", `printf 'version: 1\nchecks: [{name: test, run: "true"}]\n' > sallyport.yaml; echo bad > a`).Want(20).Report()
	for _, k := range rep.Checks {
		if k.Run != "sh t.sh" {
			t.Errorf("check %q ran", k.Run)
		}
	}
}

// TestEditedTests: a change that passes only with its own tests waits for a person, and they are named first.
func TestEditedTests(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	r := w.Run("edited", "echo bad > a; printf '#!/bin/sh\\nexit 0\\n' > t.sh").Want(10)
	rep := r.Report()
	if rep.Reason.Code != "tests-edited" || len(rep.Checks) != 1 || rep.Checks[0].BaseTests != sallyport.CheckFailed || rep.Checks[0].Status != sallyport.CheckPassed {
		t.Errorf("%+v %+v", rep.Reason, rep.Checks)
	}
	r.Says("t.sh")
}

// TestScope: allow and deny, from the file and the flags.
func TestScope(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Run("allowed", "echo good > a", "--allow", "a").Want(0)
	rep := w.Run("outside", "echo good > a; echo x > b", "--allow", "a").Want(20).Report()
	if len(rep.Findings) == 0 || rep.Findings[0].Path != "b" || !strings.HasPrefix(rep.Findings[0].Rule, "scope.") || rep.Findings[0].Todo == "" {
		t.Errorf("findings: %+v", rep.Findings)
	}
	w.Run("nothing", "echo good > a", "--allow=").Want(20)
	w.File("wo.yaml", "version: 1\nname: by-file\ntask: From a file.\ncommand: [sh, -c, 'echo good > a']\nscope: {allow: [a]}\nlimits: {time: 1m}\nattempts: 2\n")
	if got := w.Sallyport("run", "--json", "-f", "wo.yaml").Want(0).Report(); got.Name != "by-file" || got.Branch != "sallyport/by-file" {
		t.Errorf("%q %q", got.Name, got.Branch)
	}
}

// TestTrust: what the repository asks of the host needs a grant; without a terminal the command is named.
func TestTrust(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File(".gitignore", "deps\n")
	w.File("deps/lib", "from the host\n")
	w.File("sallyport.yaml", world.Policy("grep -q host deps/lib && sh t.sh", "deps: [deps]"))
	w.Commit("asks for deps")
	r := w.Run("asks", "echo good > a").Want(40).Says("sallyport trust")
	if rep := r.Report(); rep.Attempt != "" || rep.Reason.Code != "denied" {
		t.Errorf("%q %+v", rep.Attempt, rep.Reason)
	}
	w.Sallyport("trust", "--show").Want(0).Says("deps", "not granted")
	w.Sallyport("trust").Want(40).Says("sallyport trust --yes")
	w.Sallyport("trust", "--yes").Want(0).Says("Granted")
	rep := w.Run("asks", "grep -q host deps/lib || exit 5; echo changed > deps/lib; echo good > a").Want(0).Report()
	if len(rep.Changes) != 1 {
		t.Errorf("changes: %+v", rep.Changes)
	}
	if got := w.Read("deps/lib"); got != "from the host\n" {
		t.Errorf("the agent wrote into the person's dependencies: %q", got)
	}
	w.File("sallyport.yaml", world.Policy("sh t.sh", "deps: [deps, more]"))
	w.Commit("asks for more")
	w.Run("more", "echo good > a").Want(40)
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
			w := world.New(t)
			if k.name == "rust" {
				hostRust(w)
			}
			for name, text := range k.files {
				w.File(name, text)
			}
			w.Commit("a repository")
			r := w.Sallyport("init").Want(0).Says("sallyport.yaml")
			written := w.Read("sallyport.yaml")
			if k.check != "" && !strings.Contains(r.Out, k.check) {
				t.Errorf("init said nothing of %q:\n%s", k.check, r.Out)
			}
			if !strings.Contains(written, "#") || !strings.Contains(written, "version: 1") {
				t.Errorf("not a commented file:\n%s", written)
			}
			w.Sallyport("init").Want(2).Says("exists")
			if w.Read("sallyport.yaml") != written {
				t.Error("init overwrote its file")
			}
			// The agent does nothing: rejected, but the file was taken and nothing was refused.
			rep := w.Run("try", "true").Want(20).Report()
			if rep.Reason.Code != "no-change" {
				t.Errorf("%+v", rep.Reason)
			}
		})
	}
}

// hostRust lets the world use the Rust of the user that runs the tests: its home is not the world's.
func hostRust(w *world.World) {
	w.T.Helper()
	rust(w.T)
	home, err := os.UserHomeDir()
	w.Must(err)
	for name, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
		dir := os.Getenv(name)
		if dir == "" {
			dir = filepath.Join(home, folder)
		}
		if _, err := os.Stat(dir); err == nil {
			w.Env = append(w.Env, name+"="+dir)
		}
	}
}
