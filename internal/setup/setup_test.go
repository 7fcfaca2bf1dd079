package setup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWithoutScripts(t *testing.T) {
	for run, want := range map[string]string{
		"npm ci":                           "npm ci --ignore-scripts",
		"npm ci --no-audit --no-fund":      "npm ci --no-audit --no-fund --ignore-scripts",
		"npm ci --ignore-scripts=false":    "", // the last one counts for npm, but nobody has to know that
		"npm ci && npm run build":          "",
		"npm ci;evil":                      "",
		"npm ci\nevil":                     "",
		"npm  ci":                          "",
		"npm install":                      "", // it edits the lock file
		"npm":                              "",
		"":                                 "",
		"pnpm install --frozen-lockfile":   "pnpm install --frozen-lockfile --ignore-scripts --ignore-pnpmfile",
		"yarn install --immutable":         "yarn install --immutable --mode=skip-build",
		"yarn --frozen-lockfile":           "yarn --frozen-lockfile --ignore-scripts",
		"go mod download":                  "go mod download",
		"go mod download example.com/x@v1": "",
		"cargo fetch --locked":             "cargo fetch --locked",
		"pip install -r requirements.txt":  "",
		"GOPROXY=http://evil.test go mod download": "",
	} {
		if got := WithoutScripts(run); got != want {
			t.Errorf("%q: %q, want %q", run, got, want)
		}
	}
}

func TestLocks(t *testing.T) {
	if got := Locks("npm ci", "web"); !slices.Equal(got, []string{"web/package-lock.json", "web/npm-shrinkwrap.json"}) {
		t.Error(got)
	}
	if got := Locks("make deps", ""); !slices.Contains(got, "requirements.txt") || !slices.Contains(got, "Cargo.lock") {
		t.Error(got)
	}
}

func TestBelongs(t *testing.T) {
	for _, c := range []struct {
		lock, p string
		want    bool
	}{
		{"web/package-lock.json", "web/package-lock.json", true},
		{"web/package-lock.json", "web/package.json", true},
		{"web/package-lock.json", "web/packages/a/package.json", true},
		{"web/package-lock.json", "package.json", false},
		{"web/package-lock.json", "website/package.json", false},
		{"package-lock.json", "package.json", true},
		{"package-lock.json", "index.js", false},
		{"package-lock.json", ".npmrc", false}, // it says where packages come from: the base's counts
		{"go.sum", "go.mod", true},
		{"deps.txt", "package.json", false},
	} {
		if got := Belongs(c.lock, c.p); got != c.want {
			t.Errorf("%s, %s: %v", c.lock, c.p, got)
		}
	}
}

// A dependency in git can name a program of its own as git, in a .npmrc that npm reads while it prepares it.
func TestNothingOfAGitDependencyRuns(t *testing.T) {
	for _, program := range []string{"npm", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("missing capability: " + program)
		}
	}
	dir := t.TempDir()
	run := func(at string, more map[string]string, argv ...string) (string, error) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = filepath.Join(dir, at), append(os.Environ(), "HOME="+dir, "npm_config_cache="+filepath.Join(dir, "cache"))
		for k, v := range more {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	repository := func(name string, files map[string]string) string {
		for f, text := range files {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, f), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := run(name, nil, "sh", "-c", "git init -q -b main . && git add . && git -c user.name=a -c user.email=a@b.test commit -q -m x"); err != nil {
			t.Fatal(out)
		}
		commit, err := run(name, nil, "git", "rev-parse", "HEAD")
		if err != nil {
			t.Fatal(commit)
		}
		return "git+file://" + filepath.Join(dir, name) + "#" + commit
	}
	inner := repository("inner", map[string]string{"package.json": `{"name":"inner","version":"1.0.0"}`})
	outer := repository("outer", map[string]string{".npmrc": "git=./evil.sh\n", "evil.sh": "#!/bin/sh\ntouch " + filepath.Join(dir, "ran") + "\nexec git \"$@\"\n",
		"package.json": fmt.Sprintf(`{"name":"outer","version":"1.0.0","scripts":{"prepare":"true"},"dependencies":{"inner":%q}}`, inner)})
	repository("app", map[string]string{"package.json": fmt.Sprintf(`{"name":"app","version":"1.0.0","dependencies":{"outer":%q}}`, outer),
		"package-lock.json": fmt.Sprintf(`{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","version":"1.0.0","dependencies":{"outer":%[1]q}},
			"node_modules/outer":{"version":"1.0.0","resolved":%[1]q,"dependencies":{"inner":%[2]q}},"node_modules/inner":{"version":"1.0.0","resolved":%[2]q}}}`, outer, inner)})
	const command = "npm ci"
	for _, only := range []string{"npm_config_git", "GIT_ALLOW_PROTOCOL"} {
		out, err := run("app", map[string]string{only: Restraint(command)[only]}, "sh", "-c", WithoutScripts(command))
		if _, ran := os.Lstat(filepath.Join(dir, "ran")); ran == nil || err == nil {
			t.Errorf("with %s: %v, %s", only, err, out)
		}
	}
	// Without any of it the case is a case.
	if out, err := run("app", nil, "sh", "-c", WithoutScripts(command)); err != nil {
		t.Fatal(err, out)
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err != nil {
		t.Skip("missing capability: an npm that runs what the .npmrc of a dependency in git names")
	}
}

// A change that names another package manager would have that one run, to which --mode=skip-build means nothing.
func TestSameManager(t *testing.T) {
	const berry = `{"name":"a","packageManager":"yarn@4.9.0"}`
	for _, c := range []struct {
		base, change string
		want         bool
	}{
		{berry, `{"packageManager": "yarn@4.9.0", "dependencies": {"b": "1"}}`, true},
		{berry, `{"packageManager":"yarn@1.22.22"}`, false},
		{berry, `{"name":"a"}`, false},
		{berry, `{"packageManager":"yarn@4.9.0","packageManager":"yarn@1.22.22"}`, false},
		{`{}`, `{"PackageManager":"of no meaning"}`, true},
		{`{}`, `{"devEngines":{"packageManager":{"name":"pnpm","version":"9"}}}`, false},
		{"", `{"name":"new"}`, true},
		{`{}`, `{`, false},
		{`{}`, "\ufeff{\"packageManager\":\"yarn@1.22.22\"}", false},
	} {
		if got := SameManager([]byte(c.base), []byte(c.change)); got != c.want {
			t.Errorf("%s, %s: %v", c.base, c.change, got)
		}
	}
}

// FuzzWithoutScripts: whatever is understood begins as the command did, and holds nothing that a shell would read
// as more than words.
func FuzzWithoutScripts(f *testing.F) {
	for _, s := range []string{"npm ci", "npm ci --no-audit", "npm ci & evil", "go mod download -x", "yarn install --immutable", "npm ci $(evil)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, run string) {
		out := WithoutScripts(run)
		if out != "" && (!strings.HasPrefix(out, run) || strings.ContainsAny(out, "\n\t;&|<>()$`\\\"'*?[]#~%{}")) {
			t.Errorf("%q became %q", run, out)
		}
	})
}
