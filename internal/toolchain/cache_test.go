package toolchain

import (
	"strings"
	"testing"
)

func TestCaches(t *testing.T) {
	w := newWorld(t)
	for _, d := range []string{"/go/pkg/mod", "/.cache/go-build", "/.npm/_cacache", "/.cache/uv", "/.cargo/registry", "/.m2/repository", "/.gradle/caches", "/.local/share/pnpm/store"} {
		w.dir(w.home + d)
	}
	w.file(w.home+"/.m2/settings.xml", "<password>x</password>")
	w.file(w.home+"/.npm/_logs/x", "")
	req := w.request()
	if res := w.resolve(req); len(cow(res)) != 0 {
		t.Errorf("caches: none mounts %v", cow(res))
	}
	req.Caches = Auto()
	res := w.resolve(req)
	wantMount(t, res, w.home+"/go/pkg/mod", "cow", "cache go")
	wantMount(t, res, w.home+"/.npm/_cacache", "cow", "cache npm")
	wantMount(t, res, w.home+"/.local/share/pnpm/store", "cow", "cache pnpm")
	if got := len(cow(res)); got != 8 {
		t.Errorf("%d caches, expected 8: %v", got, cow(res))
	}
	if shown(res, w.home+"/.m2/settings.xml") || shown(res, w.home+"/.npm/_logs/x") {
		t.Error("more than the cache is shown")
	}
	req.Caches = Only("uv")
	if res := w.resolve(req); len(cow(res)) != 1 {
		t.Errorf("caches: [uv] mounts %v", cow(res))
	}
}

func cow(res Result) []string {
	var out []string
	for _, m := range res.Mounts {
		if m.Mode == "cow" {
			out = append(out, m.Path)
		}
	}
	return out
}

func TestCacheBelowReadOnlyTool(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.local/share/pnpm/pnpm", "")
	w.dir(w.home + "/.local/share/pnpm/store/v3")
	req := w.request(w.home + "/.local/share/pnpm")
	req.Caches = Auto()
	res := w.resolve(req)
	wantMount(t, res, w.home+"/.local/share/pnpm", "ro", "tool pnpm")
	wantMount(t, res, w.home+"/.local/share/pnpm/store", "cow", "cache pnpm")
}

func TestMovedCaches(t *testing.T) {
	w := newWorld(t)
	mod, build, npm := w.dir(w.base+"/big/mod"), w.dir(w.base+"/big/build"), w.base+"/big/npm"
	w.dir(npm + "/_cacache")
	w.file(w.home+"/.config/go/env", "GOMODCACHE="+mod+"\nGOFLAGS=-tags=x\nGOPROXY=https://u:p@proxy.example\n")
	w.file(w.home+"/.npmrc", "cache = "+npm+"\n//r.example/:_authToken=secret-value\n")
	req := w.request()
	req.Caches, req.Env = Auto(), map[string]string{"GOCACHE": build}
	res := w.resolve(req)
	for k, v := range map[string]string{"GOMODCACHE": mod, "GOCACHE": build, "npm_config_cache": npm, "GOFLAGS": "-tags=x", "GOPROXY": "off"} {
		if res.Env[k] != v {
			t.Errorf("%s is %q, expected %q", k, res.Env[k], v)
		}
	}
	wantMount(t, res, mod, "cow", "cache go")
	for k, v := range res.Env {
		if strings.Contains(v, "secret-value") || strings.Contains(v, "u:p@") {
			t.Errorf("%s carries a credential", k)
		}
	}
	req.Caches = None()
	if res := w.resolve(req); res.Env["GOMODCACHE"] != "" {
		t.Error("GOMODCACHE names a folder that is not there")
	}
}

func TestGoToolchainFromCache(t *testing.T) {
	w := newWorld(t)
	w.dir(w.home + "/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.99.0.linux-amd64")
	req := w.request()
	if res := w.resolve(req); res.Env["GOTOOLCHAIN"] != "local" {
		t.Errorf("without the cache: %q", res.Env["GOTOOLCHAIN"])
	}
	req.Caches = Auto()
	if res := w.resolve(req); res.Env["GOTOOLCHAIN"] != "auto" {
		t.Errorf("with the cache: %q", res.Env["GOTOOLCHAIN"])
	}
	req.Env = map[string]string{"GOTOOLCHAIN": "local"}
	if res := w.resolve(req); res.Env["GOTOOLCHAIN"] != "local" {
		t.Errorf("the operator said local: %q", res.Env["GOTOOLCHAIN"])
	}
}

func TestInstallersWriteToFreshHome(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/go/bin/gopls", "")
	w.program(w.home+"/.local/bin/x", "")
	res := w.resolve(w.request(w.home+"/go/bin", w.home+"/.local/bin"))
	own := w.home + "/.sallyport"
	if res.Env["GOBIN"] != own+"/bin" || res.Env["npm_config_prefix"] != own || res.Env["PYTHONUSERBASE"] != own {
		t.Errorf("env: %v", res.Env)
	}
	if res.Path[len(res.Path)-1] != own+"/bin" {
		t.Errorf("PATH: %v", res.Path)
	}
}
