package toolchain

import (
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestNvmAgent(t *testing.T) {
	w := newWorld(t)
	v20 := w.home + "/.nvm/versions/node/v20.1.0"
	w.program(v20+"/bin/node", "\x7fELF")
	w.program(v20+"/lib/node_modules/@vendor/agent/cli.js", "#!/usr/bin/env -S node --no-warnings\n")
	w.link(v20+"/bin/agent", "../lib/node_modules/@vendor/agent/cli.js")
	w.program(w.home+"/.nvm/versions/node/v18.0.0/bin/node", "")
	token := w.file(v20+"/etc/npmrc", "//registry.example/:_authToken=abc\n")
	req := w.request(v20 + "/bin")
	req.Commands = []string{"agent", "sh"}
	res := w.resolve(req)
	wantMount(t, res, v20, "ro", "tool nvm")
	if shown(res, w.home+"/.nvm/versions/node/v18.0.0/bin/node") {
		t.Error("a version that is not on PATH is shown")
	}
	if shown(res, token) || !strings.Contains(strings.Join(res.Notices, "\n"), token) {
		t.Errorf("npm's token is shown, or its absence is not said: %v", res.Notices)
	}
	if res.Path[0] != v20+"/bin" || !slices.Contains(res.Path, "/usr/bin") {
		t.Errorf("PATH lost its order: %v", res.Path)
	}
}

func TestHarmlessConfigurationStays(t *testing.T) {
	w := newWorld(t)
	v := w.home + "/.nvm/versions/node/v20.1.0"
	w.program(v+"/bin/node", "")
	rc := w.file(v+"/etc/npmrc", "fund=false\ncafile=/etc/ssl/certs/x.pem\n")
	if res := w.resolve(w.request(v + "/bin")); !shown(res, rc) {
		t.Error("a configuration without a credential was hidden")
	}
}

func TestPyenvShims(t *testing.T) {
	w := newWorld(t)
	p := w.home + "/.pyenv"
	w.program(p+"/shims/python3", "#!/usr/bin/env bash\nexec pyenv exec python3\n")
	w.program(p+"/bin/pyenv", "#!/usr/bin/env bash\n")
	w.program(p+"/versions/3.12.1/bin/python3", "")
	git := w.file(p+"/.git/config", "[remote \"origin\"]\n\turl = https://me:hunter2@git.example/pyenv\n")
	pip := w.file(p+"/versions/3.12.1/pip.conf", "[global]\nindex-url = https://u:p@host.example/simple\n")
	req := w.request(p+"/shims", p+"/bin")
	req.Commands, req.Env = []string{"python3"}, map[string]string{"PYENV_ROOT": p}
	res := w.resolve(req)
	wantMount(t, res, p, "ro", "tool pyenv")
	if !slices.Equal(res.Path[:2], []string{p + "/shims", p + "/bin"}) {
		t.Errorf("PATH: %v", res.Path)
	}
	if shown(res, git) || shown(res, pip) {
		t.Error("a password in a URL is shown")
	}
	if !shown(res, p+"/versions/3.12.1/bin/python3") {
		t.Error("the interpreter behind the shim is not shown")
	}
	if res.Env["PYENV_ROOT"] != p {
		t.Errorf("PYENV_ROOT is %q", res.Env["PYENV_ROOT"])
	}
}

func TestRustupProxies(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.cargo/bin/rustup", "")
	w.link(w.home+"/.cargo/bin/cargo", "rustup")
	w.file(w.home+"/.rustup/settings.toml", "version = \"12\"\n")
	cred := w.file(w.home+"/.cargo/credentials.toml", "[registry]\ntoken = \"x\"\n")
	conf := w.file(w.home+"/.cargo/config.toml", "[build]\njobs = 2\n")
	req := w.request(w.home + "/.cargo/bin")
	req.Commands = []string{"cargo"}
	res := w.resolve(req)
	wantMount(t, res, w.home+"/.cargo/bin", "ro", "tool rustup")
	wantMount(t, res, w.home+"/.rustup", "ro", "tool rustup")
	if shown(res, cred) {
		t.Error("cargo's credentials are shown")
	}
	if !shown(res, conf) {
		t.Error("cargo's harmless configuration is missing")
	}
	w.file(w.home+"/.cargo/config.toml", "[registries.x]\ntoken = \"abc\"\n")
	if res := w.resolve(req); shown(res, conf) || !strings.Contains(strings.Join(res.Notices, "\n"), "config.toml") {
		t.Errorf("a configuration with a token is shown, or its absence not said: %v", res.Notices)
	}
}

func TestToolFolderBehindLink(t *testing.T) {
	w := newWorld(t)
	data := w.base + "/data/nvm"
	w.program(data+"/versions/node/v20/bin/node", "")
	w.link(w.home+"/.nvm", data)
	entry := w.home + "/.nvm/versions/node/v20/bin"
	req := w.request(entry)
	req.Commands = []string{"node"}
	res := w.resolve(req)
	wantMount(t, res, data+"/versions/node/v20", "ro", "tool nvm")
	if !slices.Contains(res.Links, Link{w.home + "/.nvm", data}) {
		t.Errorf("links: %v", res.Links)
	}
	if _, bound := mount(res, w.home+"/.nvm"); bound {
		t.Error("a link to a folder that is not mounted as a whole is among the mounts")
	}
	if res.Path[0] != entry {
		t.Errorf("PATH: %v", res.Path)
	}
}

func TestHomeBehindLink(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.volta/bin/node", "")
	alias := w.link(w.base+"/alias", "home")
	req := w.request()
	req.Home = strings.Replace(w.home, w.base+"/home", alias, 1)
	req.PathEnv = req.Home + "/.volta/bin"
	req.Commands = []string{"node"}
	res := w.resolve(req)
	wantMount(t, res, w.home+"/.volta", "ro", "tool volta")
	if res.Home != w.home || res.Env["HOME"] != w.home || res.Path[0] != w.home+"/.volta/bin" {
		t.Errorf("home %q, PATH %v", res.Home, res.Path)
	}
	if !slices.Contains(res.Links, Link{alias, "home"}) {
		t.Errorf("the home's other name is lost: %v", res.Links)
	}
	if _, bound := mount(res, alias); bound {
		t.Error("a link to the parent of all homes may be bound")
	}
}

func TestTemporaryFolderOfLinks(t *testing.T) {
	w := newWorld(t)
	real := w.home + "/.local/share/fnm/node-versions/v22/installation/bin"
	w.program(real+"/node", "")
	w.link(w.base+"/run/fnm_multishells/1_2", w.home+"/.local/share/fnm/node-versions/v22/installation")
	req := w.request(w.base + "/run/fnm_multishells/1_2/bin")
	req.Commands = []string{"node"}
	res := w.resolve(req)
	if res.Path[0] != real {
		t.Errorf("PATH: %v", res.Path)
	}
	wantMount(t, res, w.home+"/.local/share/fnm/node-versions/v22", "ro", "tool fnm")
}

func TestLinkInUnknownFolder(t *testing.T) {
	w := newWorld(t)
	versions := w.home + "/.local/share/claude/versions"
	w.program(versions+"/2.1", "\x7fELF")
	w.link(w.home+"/bin/claude", versions+"/2.1")
	w.program(w.home+"/bin/private", "")
	req := w.request(w.home + "/bin")
	req.Commands = []string{"claude"}
	res := w.resolve(req)
	wantMount(t, res, versions, "ro", "tool claude")
	wantMount(t, res, w.home+"/bin/claude", "ro", "link")
	if res.Path[0] != w.home+"/bin" {
		t.Errorf("PATH: %v", res.Path)
	}
	if shown(res, w.home+"/bin/private") {
		t.Error("the folder came along with its link")
	}
}

func TestVenvAndItsInterpreter(t *testing.T) {
	w := newWorld(t)
	py := w.program(w.home+"/.pyenv/versions/3.12/bin/python3.12", "")
	venv := w.base + "/envs/a"
	w.file(venv+"/pyvenv.cfg", "home = x\n")
	w.link(venv+"/bin/python", py)
	w.program(venv+"/bin/tool", "#!"+venv+"/bin/python\n")
	req := w.request(venv + "/bin")
	req.Commands = []string{"tool"}
	res := w.resolve(req)
	wantMount(t, res, venv, "ro", "tool venv")
	if !shown(res, py) {
		t.Error("the environment's Python is not shown")
	}
}

func TestProjectLocalAgent(t *testing.T) {
	w := newWorld(t)
	mod := w.base + "/elsewhere/node_modules"
	w.program(mod+"/agent/cli.js", "#!/bin/sh\n")
	w.file(w.base+"/elsewhere/private.txt", "x")
	w.link(mod+"/.bin/agent", "../agent/cli.js")
	req := w.request()
	req.Commands = []string{mod + "/.bin/agent"}
	res := w.resolve(req)
	wantMount(t, res, mod, "ro", "tool npm-package")
	if shown(res, w.base+"/elsewhere/private.txt") {
		t.Error("the project around node_modules is shown")
	}
	req.Commands, req.Checks = nil, []string{mod + "/.bin/agent"}
	w.refuse(req, sallyport.CodeInvalid) // a check's path is the repository's word
}

func TestUnpackedGoAnywhere(t *testing.T) {
	w := newWorld(t)
	root := w.base + "/tools/go1.30"
	w.program(root+"/bin/go", "")
	w.file(root+"/src/runtime/runtime.go", "package runtime")
	req := w.request(root + "/bin")
	req.Commands = []string{"go"}
	wantMount(t, w.resolve(req), root, "ro", "tool go")
	req.Tools = None()
	w.refuse(req.withoutSystemPath(), sallyport.CodeInvalid)
}

func (r Request) withoutSystemPath() Request {
	r.PathEnv = strings.TrimSuffix(r.PathEnv, ":/usr/bin:/bin")
	return r
}

func TestShadowedByUnknown(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/bin/git", "#!/bin/sh\n")
	req := w.request(w.home + "/bin")
	req.Commands = []string{"git"}
	res := w.resolve(req)
	if slices.Contains(res.Path, w.home+"/bin") || !strings.Contains(strings.Join(res.Notices, "\n"), "/usr/bin/git runs inside instead") {
		t.Errorf("PATH %v, notices %v", res.Path, res.Notices)
	}
}

// TestSmallestRoot: of two folders of the table that hold a program, the deeper one is mounted.
func TestSmallestRoot(t *testing.T) {
	w := newWorld(t)
	java := w.home + "/.sdkman/candidates/java"
	w.program(java+"/17.0.1/bin/java", "")
	w.program(w.home+"/.sdkman/candidates/maven/3.9/bin/mvn", "#!/bin/sh\n")
	w.link(java+"/current", "17.0.1")
	req := w.request(java + "/current/bin")
	req.Commands, req.Env = []string{"java"}, map[string]string{"JAVA_HOME": java + "/current"}
	res := w.resolve(req)
	wantMount(t, res, java+"/17.0.1", "ro", "tool jdks")
	wantMount(t, res, java+"/current", "ro", "link")
	if shown(res, w.home+"/.sdkman/candidates/maven/3.9/bin/mvn") {
		t.Error("every candidate is shown for one")
	}
	if res.Path[0] != java+"/current/bin" || res.Env["JAVA_HOME"] != java+"/current" {
		t.Errorf("PATH %v, JAVA_HOME %q", res.Path, res.Env["JAVA_HOME"])
	}
	req.PathEnv += ":" + w.home + "/.sdkman/candidates/maven/3.9/bin"
	req.Commands = []string{"java", "mvn"}
	wantMount(t, w.resolve(req), w.home+"/.sdkman/candidates", "ro", "tool sdkman")
}
