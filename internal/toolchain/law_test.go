package toolchain

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNoSecretIsEverShown: whatever tools lie where, and whatever is asked for by auto, no planted credential
// can be read inside and no mount repeats another.
func TestNoSecretIsEverShown(t *testing.T) {
	w := newWorld(t)
	var planted []string
	for _, s := range secrets {
		if strings.HasPrefix(s, "~/") {
			planted = append(planted, plant(w, filepath.Join(w.home, s[2:])))
		}
	}
	var dirs []string
	for i, tool := range roots {
		for _, b := range tool.base {
			if !strings.HasPrefix(b, "~/") {
				continue
			}
			dir := filepath.Join(w.home, strings.ReplaceAll(b[2:], "*", "v1"))
			w.program(dir+"/bin/tool", "")
			dirs = append(dirs, dir, dir+"/bin")
			for _, h := range append(append([]string{}, tool.hide...), tool.suspect...) {
				planted = append(planted, w.file(filepath.Join(dir, strings.ReplaceAll(h, "*", "v1")), "token = \"planted-credential\"\n"))
			}
			_ = i
		}
	}
	for _, c := range caches {
		for _, p := range c.places {
			if strings.HasPrefix(p.fallback, "~/") {
				w.dir(filepath.Join(w.home, p.fallback[2:]))
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		req := w.request(rapid.SliceOfN(rapid.SampledFrom(dirs), 0, 30).Draw(rt, "path")...)
		req.Tools = Choice{Auto: rapid.Bool().Draw(rt, "auto"), List: rapid.SliceOfN(rapid.SampledFrom(toolNames()), 0, 4).Draw(rt, "tools")}
		req.Caches = Choice{Auto: rapid.Bool().Draw(rt, "caches")}
		req.Env = map[string]string{"GOROOT": rapid.SampledFrom(append(planted, dirs...)).Draw(rt, "goroot")}
		res, err := Resolve(req)
		if err != nil {
			rt.Fatalf("Resolve: %v", err)
		}
		for _, p := range planted {
			if shown(res, p) {
				rt.Fatalf("%s is shown", p)
			}
		}
		checkShape(rt, res)
	})
}

func plant(w *world, path string) string {
	if fileNames[filepath.Base(path)] || strings.Contains(filepath.Base(path)[1:], ".") {
		return w.file(path, "token = \"planted-credential\"\n")
	}
	return w.file(path+"/planted", "token = \"planted-credential\"\n")
}

var fileNames = map[string]bool{".npmrc": true, ".netrc": true}

func checkShape(rt *rapid.T, res Result) {
	for i, m := range res.Mounts {
		if m.Hide == nil || m.Mode != "ro" && m.Mode != "cow" || m.Reason == "" {
			rt.Fatalf("mount %+v is incomplete", m)
		}
		for _, e := range res.Mounts[:i] {
			if m.Path == e.Path || within(e.Path, m.Path) {
				rt.Fatalf("%s comes after %s", m.Path, e.Path)
			}
			if within(m.Path, e.Path) && m.Mode == e.Mode && deepest(res.Mounts[:i], m.Path) >= 0 && res.Mounts[deepest(res.Mounts[:i], m.Path)].Path == e.Path {
				rt.Fatalf("%s repeats %s", m.Path, e.Path)
			}
		}
	}
}

// TestEnvironmentIsAList: no variable of the operator comes along unless a table names it, and no credential
// does under any name.
func TestEnvironmentIsAList(t *testing.T) {
	w := newWorld(t)
	base := w.resolve(w.request()).Env
	names := []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD", "BASH_ENV", "GIT_DIR", "NODE_OPTIONS", "LC_ALL", "GOFLAGS", "TERM", "RUSTFLAGS", "PYENV_VERSION"}
	values := []string{"plain", "https://a:b@c.example/", "ghp_0123456789abcdefghij", "-Dpassword=x", "token=abc", "Bearer abcdefghijklmnop"}
	rapid.Check(t, func(rt *rapid.T) {
		req := w.request()
		req.Env = rapid.MapOfN(rapid.SampledFrom(names), rapid.SampledFrom(values), 0, 8).Draw(rt, "env")
		env := mustEnv(rt, req)
		for k, v := range env {
			if base[k] == v {
				continue
			}
			if !isPassed(k) || v != "plain" {
				rt.Fatalf("%s=%q came along", k, v)
			}
		}
		for k, v := range req.Env {
			if v == "plain" && isPassed(k) && env[k] != v {
				rt.Fatalf("%s was lost", k)
			}
		}
	})
}

func mustEnv(rt *rapid.T, req Request) map[string]string {
	res, err := Resolve(req)
	if err != nil {
		rt.Fatal(err)
	}
	return res.Env
}
