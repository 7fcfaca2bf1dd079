// Package setup knows package managers: which lock files one reads, what belongs to a lock file, and how a command
// that installs is said so that nothing of what it installs is run. It is pure: it sees commands and names, no file.
//
// Who runs setup commands is internal/control; how sallyport.yaml says them is internal/manifest; what a lock file
// holds is looked at by internal/inspect.
package setup

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// manager is one package manager's command line and the files that it goes by.
type manager struct {
	words []string // how the command begins
	locks []string // plain names
	// add is what is added to run nothing of what is installed. nil: nothing of it is run anyway.
	add []string
	// whole: the command is exactly words, or words and one of flags.
	flags []string
}

// managers are the commands that are understood whole: any other word makes a command unknown, since a flag can
// turn scripts on again (--foreground-scripts does not, --ignore-scripts=false does).
//
// pip is not here on purpose: a requirements file can itself ask for a build from source (--no-binary, a URL, a
// folder), which runs code, and no flag of pip's forbids all of that.
var managers = []manager{
	{words: []string{"npm", "ci"}, locks: npmLocks, add: []string{"--ignore-scripts"}, flags: []string{"--no-audit", "--no-fund", "--omit=dev", "--include=dev", "--prefer-offline"}},
	{words: []string{"npm", "clean-install"}, locks: npmLocks, add: []string{"--ignore-scripts"}, flags: []string{"--no-audit", "--no-fund", "--omit=dev", "--include=dev", "--prefer-offline"}},
	// A dependency that pnpm-workspace.yaml lists under configDependencies can bring a pnpmfile, which pnpm runs.
	{words: []string{"pnpm", "install", "--frozen-lockfile"}, locks: []string{"pnpm-lock.yaml"}, add: []string{"--ignore-scripts", "--ignore-pnpmfile"}, flags: []string{"--prod", "--prefer-offline"}},
	{words: []string{"yarn", "install", "--frozen-lockfile"}, locks: []string{"yarn.lock"}, add: []string{"--ignore-scripts"}, flags: []string{"--non-interactive"}},
	{words: []string{"yarn", "--frozen-lockfile"}, locks: []string{"yarn.lock"}, add: []string{"--ignore-scripts"}, flags: []string{"--non-interactive"}},
	{words: []string{"yarn", "install", "--immutable"}, locks: []string{"yarn.lock"}, add: []string{"--mode=skip-build"}, flags: []string{"--immutable-cache"}},
	{words: []string{"go", "mod", "download"}, locks: goLocks, flags: []string{"-x"}},
	{words: []string{"cargo", "fetch"}, locks: []string{"Cargo.lock"}, flags: []string{"--locked"}},
}

var (
	npmLocks = []string{"package-lock.json", "npm-shrinkwrap.json"}
	goLocks  = []string{"go.sum", "go.mod", "go.work.sum"}
)

// companions are the files that a lock file belongs to; without them it cannot be read.
var companions = map[string][]string{
	"package-lock.json": {"package.json"}, "npm-shrinkwrap.json": {"package.json"}, "pnpm-lock.yaml": {"package.json", "pnpm-workspace.yaml"},
	"yarn.lock": {"package.json"}, "bun.lock": {"package.json"}, "go.sum": {"go.mod"}, "go.mod": {"go.sum"}, "go.work.sum": {"go.work", "go.mod", "go.sum"},
	"Cargo.lock": {"Cargo.toml"}, "poetry.lock": {"pyproject.toml"}, "uv.lock": {"pyproject.toml"}, "pdm.lock": {"pyproject.toml"},
	"Pipfile.lock": {"Pipfile"}, "Gemfile.lock": {"Gemfile"}, "composer.lock": {"composer.json"}, "mix.lock": {"mix.exs"},
}

// known are the lock files of every manager, for a command that is not understood.
var known = []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "go.sum", "go.mod", "go.work.sum", "Cargo.lock",
	"poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "Gemfile.lock", "composer.lock", "mix.lock"}

// of is the manager whose command run is, whole; nil: none that is known.
func of(run string) *manager {
	words := strings.Split(run, " ") // a tab, a line feed or two spaces: not understood
	for i, m := range managers {
		if len(words) < len(m.words) || !slices.Equal(words[:len(m.words)], m.words) {
			continue
		}
		if !slices.ContainsFunc(words[len(m.words):], func(w string) bool { return !slices.Contains(m.flags, w) }) {
			return &managers[i]
		}
	}
	return nil
}

// WithoutScripts is run so said that nothing of what it installs is run; "" where that is not known.
func WithoutScripts(run string) string {
	m := of(run)
	if m == nil {
		return ""
	}
	return strings.Join(append([]string{run}, m.add...), " ")
}

// Restraint is what a command that runs WithoutScripts is told by its environment beside its flags, whoever wrote them.
// npm prepares a dependency that lies in git by another npm inside it, which goes by the .npmrc there, and that can name
// any program as git. Nothing that a change pins is fetched with git by these managers, so that none is prepared.
func Restraint(run string) map[string]string {
	env := map[string]string{"npm_config_ignore_scripts": "true", "npm_config_git": "/bin/false", "YARN_ENABLE_SCRIPTS": "false"}
	if name, _, _ := strings.Cut(run, " "); slices.Contains([]string{"npm", "pnpm", "yarn"}, name) {
		env["GIT_ALLOW_PROTOCOL"] = "none"
	}
	return env
}

// Locks are the lock files, relative to the repository, that a command in dir goes by: its manager's, or every
// known one. Whether they exist is not known here; one that a change adds counts as edited.
func Locks(run, dir string) []string {
	names := known
	if m := of(run); m != nil {
		names = m.locks
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = path.Join(dir, n)
	}
	return out
}

// Belongs reports whether the file at p is needed to make sense of the lock file at lock: the lock file itself, its
// manifest beside it, or one of the same name below it (workspaces).
func Belongs(lock, p string) bool {
	if p == lock {
		return true
	}
	dir := path.Dir(lock)
	if dir != "." && !strings.HasPrefix(p, dir+"/") {
		return false
	}
	return slices.Contains(companions[path.Base(lock)], path.Base(p))
}

// SameManager reports whether two versions of a package.json name the same package manager: corepack and pnpm run the
// one that is named there, in the place of the one that is installed, and to that one a flag may mean nothing. What
// cannot be read is not the same.
func SameManager(one, other []byte) bool {
	a, ok := namedManager(one)
	b, also := namedManager(other)
	return ok && also && a == b
}

// namedManager is what a package.json says of its package manager, "" for nothing; false: it cannot be read.
func namedManager(manifest []byte) (string, bool) {
	if len(manifest) == 0 {
		manifest = []byte("{}")
	}
	var all, engines map[string]json.RawMessage // not a struct, which would take the names in any case
	if json.Unmarshal(manifest, &all) != nil {
		return "", false
	}
	if e, ok := all["devEngines"]; ok && json.Unmarshal(e, &engines) != nil {
		return "", false
	}
	var out bytes.Buffer
	for _, v := range []json.RawMessage{all["packageManager"], engines["packageManager"]} {
		if len(v) > 0 && json.Compact(&out, v) != nil {
			return "", false
		}
		out.WriteByte('\n')
	}
	return out.String(), true
}
