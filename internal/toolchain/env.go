package toolchain

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// passed are the operator's variables that come along, if their value does not look like a credential.
// Everything else stays outside. A name ending in "*" is a prefix.
var passed = []string{
	"LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "NO_COLOR", "TZ",
	"CC", "CXX", "CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM", "GOEXPERIMENT", "GOFLAGS", "GODEBUG", "GOPRIVATE", "GONOSUMDB", "GOMAXPROCS",
	"NODE_ENV", "PYENV_VERSION", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "RUSTUP_TOOLCHAIN", "RUST_BACKTRACE", "RUSTFLAGS",
	"ASDF_*_VERSION", "MISE_*_VERSION",
}

// places inside of variables: passed only where the folder they name is visible inside.
var passedFolders = []string{
	"GOROOT", "GOPATH", "NVM_DIR", "FNM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL", "DENO_INSTALL", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "UV_TOOL_DIR",
	"ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "RUSTUP_HOME", "CARGO_HOME", "SDKMAN_DIR", "JAVA_HOME", "RBENV_ROOT", "DOTNET_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX",
}

// goEnvNames are read from `go env -w`'s file, which the fresh home does not have.
var goEnvNames = []string{"GOPATH", "GOMODCACHE", "GOCACHE", "GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED", "GOPRIVATE", "GONOSUMDB", "GOTOOLCHAIN", "GOBIN"}

// operatorEnv is the operator's environment completed by the two files in which tools keep folders.
func operatorEnv(home string, env map[string]string) map[string]string {
	out := map[string]string{}
	if file := settings(filepath.Join(home, ".config/go/env")); file != nil {
		for _, n := range goEnvNames {
			if v, ok := file[n]; ok {
				out[n] = v
			}
		}
	}
	npmrc := settings(filepath.Join(home, ".npmrc"))
	for key, name := range map[string]string{"prefix": "NPM_PREFIX", "cache": "npm_config_cache", "store-dir": "npm_config_store_dir"} {
		if v := npmrc[key]; v != "" {
			v = strings.NewReplacer("${HOME}", home, "$HOME", home).Replace(v)
			if strings.HasPrefix(v, "~/") {
				v = filepath.Join(home, v[2:])
			}
			out[name] = v
		}
	}
	for k, v := range env {
		out[k] = v
	}
	if v := env["npm_config_prefix"]; v != "" {
		out["NPM_PREFIX"] = v
	}
	return out
}

// settings reads KEY=VALUE lines of a small file. Only values that a caller asks for by name leave it.
func settings(path string) map[string]string {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > suspectBytes {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		k, v, ok := strings.Cut(s.Text(), "=")
		if k = strings.TrimSpace(k); ok && k != "" && k[0] != '#' && k[0] != ';' {
			out[k] = strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return out
}

// environment is everything that a command inside finds in its environment, except what the caller adds.
func (r *resolver) environment(path []string) map[string]string {
	env := map[string]string{
		"HOME": r.inside(), "PATH": strings.Join(path, ":"), "TMPDIR": "/tmp", "SHELL": r.shell(), "USER": r.user(), "LOGNAME": r.user(),
		"LANG": "C.UTF-8", "TERM": "xterm-256color",
		"npm_config_prefix": r.own(), "GOTOOLCHAIN": r.goToolchain(),
	}
	for _, c := range caches {
		for k, v := range c.offline {
			env[k] = v
		}
	}
	for k, v := range r.env {
		if v != "" && isPassed(k) {
			r.pass(env, k, v)
		}
	}
	for _, k := range passedFolders {
		if v := r.variable(k); v != "" && r.env[k] != "" && r.folderInside(v) {
			r.pass(env, k, v)
		}
	}
	r.movedCaches(env)
	r.installFolders(env)
	return env
}

func (r *resolver) pass(env map[string]string, k, v string) {
	if looksSecret(k+"="+v) || strings.ContainsRune(v, 0) {
		r.notice("%s is not passed on: its value looks like a credential", k)
		return
	}
	env[k] = v
}

func isPassed(name string) bool {
	for _, p := range passed {
		if starMatch(pattern(p), name) {
			return true
		}
	}
	return false
}

// folderInside reports whether a folder exists inside, as a mount or as the parent of one.
func (r *resolver) folderInside(dir string) bool {
	real := realOr(dir)
	if r.covered(real) {
		return true
	}
	for m := range r.mounts {
		if within(m, real) {
			return true
		}
	}
	return false
}

// movedCaches tells tools where a cache lies that is not at its default inside.
func (r *resolver) movedCaches(env map[string]string) {
	inside := *r
	inside.env = map[string]string{}
	for _, c := range caches {
		for _, p := range c.places {
			dir := r.placeDir(p)
			if p.env == "" || dir == "" || dir == inside.expand(p.fallback) || !r.covered(realOr(dir)) {
				continue
			}
			env[p.env] = strings.TrimSuffix(strings.TrimSuffix(dir, p.sub), "/")
		}
	}
}

// installFolders points installers at the fresh home where the operator's own folder is mounted read-only.
func (r *resolver) installFolders(env map[string]string) {
	if gobin := r.gobin(); r.covered(gobin) {
		env["GOBIN"] = r.ownBin()
	}
	local := filepath.Join(r.home, ".local")
	if r.covered(filepath.Join(local, "bin")) && len(glob(local+pattern("/lib/python*"))) == 0 {
		env["PYTHONUSERBASE"] = r.own()
	}
}

func (r *resolver) gobin() string {
	if v := r.variable("GOBIN"); v != "" {
		return v
	}
	return filepath.Join(r.variable("GOPATH"), "bin")
}

// goToolchain is "local", since nothing can be downloaded, unless the mounted module cache holds toolchains
// that go.mod may ask for: those work with GOPROXY=off (go1.26.8, tried 2026-11).
func (r *resolver) goToolchain() string {
	mod := r.placeDir(caches[0].places[0])
	if v := r.env["GOTOOLCHAIN"]; v != "local" && r.covered(realOr(mod)) && len(glob(mod+pattern("/golang.org/toolchain@*"))) > 0 {
		if v == "" || looksSecret(v) {
			return "auto"
		}
		return v
	}
	return "local"
}

func (r *resolver) shell() string {
	if executable("/bin/bash") {
		return "/bin/bash"
	}
	return "/bin/sh"
}

func (r *resolver) user() string {
	for _, k := range []string{"USER", "LOGNAME"} {
		if v := r.env[k]; v != "" && !strings.ContainsAny(v, "/:\x00\n") {
			return v
		}
	}
	return filepath.Base(r.home)
}
