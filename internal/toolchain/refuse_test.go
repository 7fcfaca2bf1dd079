package toolchain

import (
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestCommandOutside(t *testing.T) {
	w := newWorld(t)
	w.program(w.base+"/opt/x/bin/agent", "\x7fELF")
	req := w.request(w.base + "/opt/x/bin")
	req.Commands = []string{"agent"}
	e := w.refuse(req, sallyport.CodeInvalid)
	if !strings.Contains(e.Message, w.base+"/opt/x/bin/agent") || !strings.Contains(e.Hint, "tools: [auto, "+w.base+"/opt/x]") {
		t.Errorf("message %q, hint %q", e.Message, e.Hint)
	}
	req.Tools = Only("auto", w.base+"/opt/x") // the hint, followed
	wantMount(t, w.resolve(req), w.base+"/opt/x", "ro", "tool "+w.base+"/opt/x")
}

func TestCommandNotOnPath(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.local/bin/agent", "")
	req := w.request()
	req.Commands = []string{"agent"}
	e := w.refuse(req, sallyport.CodeInvalid)
	if !strings.Contains(e.Message, "/usr/bin") || !strings.Contains(e.Message, w.home+"/.local/bin/agent") || !strings.Contains(e.Hint, "on PATH") {
		t.Errorf("message %q, hint %q", e.Message, e.Hint)
	}
	req.Commands = []string{"no-such-program"}
	if e := w.refuse(req, sallyport.CodeInvalid); e.Hint == "" {
		t.Error("no next step")
	}
}

func TestMissingInterpreter(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.local/bin/agent", "#!/usr/bin/env no-such-interpreter\n")
	req := w.request(w.home + "/.local/bin")
	req.Commands = []string{"agent"}
	if e := w.refuse(req, sallyport.CodeInvalid); e.Subject != "no-such-interpreter (needed by agent)" {
		t.Errorf("subject %q", e.Subject)
	}
}

func TestShellWordsNeedNoProgram(t *testing.T) {
	w := newWorld(t)
	req := w.request()
	req.Checks = []string{"cd", "FOO=1", "$RUN", "export", "./gradlew"}
	w.resolve(req)
}

func TestFoldersNeverMounted(t *testing.T) {
	w := newWorld(t)
	for _, p := range []string{"/.ssh/keys", "/.config/gh", "/.aws", "/.claude"} {
		w.dir(w.home + p)
	}
	w.link(w.base+"/innocent", w.home+"/.ssh")
	w.link(w.home+"/.kube", w.dir(w.base+"/harmless"))
	state := w.dir(w.base + "/state/quarantine")
	for _, name := range []string{"~/.ssh", "~/.ssh/keys", "~/.config", "~/.config/gh", "~/.aws", "~/.kube", "~/.claude", w.home, w.base + "/home", "/", "/etc", "/etc/ssl/certs/../../../root/..",
		w.base + "/innocent", w.base + "/innocent/keys", state, w.base + "/state", "/proc", "/run/lock"} {
		t.Run(name, func(t *testing.T) {
			req := w.request()
			req.Tools, req.Never = Only("auto", name), []string{w.base + "/state"}
			w.refuse(req, sallyport.CodeDenied)
		})
	}
}

func TestNamedFolderHidesCredentials(t *testing.T) {
	w := newWorld(t)
	x := w.dir(w.base + "/opt/x")
	secret := w.file(x+"/.netrc", "machine a login b password c")
	state := w.file(x+"/state/db", "")
	req := w.request()
	req.Tools, req.Never = Only(x), []string{x + "/state"}
	res := w.resolve(req)
	m, _ := mount(res, x)
	if !slices.Equal(m.Hide, []string{".netrc", "state"}) || shown(res, secret) || shown(res, state) {
		t.Errorf("hide: %v", m.Hide)
	}
}

func TestVariableCannotOpenSecretFolder(t *testing.T) {
	w := newWorld(t)
	w.program(w.home+"/.ssh/bin/java", "")
	req := w.request(w.home + "/.ssh/bin")
	req.Env = map[string]string{"JAVA_HOME": w.home + "/.ssh", "GOMODCACHE": w.home + "/.ssh", "GOCACHE": w.home, "CARGO_HOME": "/"}
	req.Caches = Auto()
	res := w.resolve(req)
	if shown(res, w.home+"/.ssh/bin/java") || slices.Contains(res.Path, w.home+"/.ssh/bin") {
		t.Errorf("a variable opened ~/.ssh: %+v", res.Mounts)
	}
	if _, ok := mount(res, w.home); ok {
		t.Error("the home is mounted")
	}
}

func TestUnknownNames(t *testing.T) {
	w := newWorld(t)
	req := w.request()
	req.Tools = Only("rust")
	if e := w.refuse(req, sallyport.CodeInvalid); !strings.Contains(e.Message, "rustup") {
		t.Errorf("message: %q", e.Message)
	}
	req = w.request()
	req.Caches = Only("golang")
	w.refuse(req, sallyport.CodeInvalid)
}

func TestRelativePathEntriesAreDropped(t *testing.T) {
	w := newWorld(t)
	w.program(w.repo+"/bin/go", "")
	req := w.request(".", "bin", w.repo+"/bin")
	res := w.resolve(req)
	for _, p := range res.Path {
		if within(p, w.repo) || !strings.HasPrefix(p, "/") {
			t.Errorf("the candidate's own folder %s is on PATH", p)
		}
	}
}
