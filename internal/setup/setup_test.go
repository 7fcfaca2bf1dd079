package setup

import (
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
		"pnpm install --frozen-lockfile":   "pnpm install --frozen-lockfile --ignore-scripts",
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
