package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// link gives the world a file of the host, without a copy where both lie on one file system.
func link(w *world.World, from, to string) {
	w.T.Helper()
	w.Must(os.MkdirAll(filepath.Dir(to), 0o755))
	if os.Link(from, to) == nil {
		return
	}
	b, err := os.ReadFile(from)
	w.Must(err)
	w.Must(os.WriteFile(to, b, 0o755))
}

// rust is a real toolchain's folder: behind rustup's proxies, or the system's.
func rust(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skip("needs a Rust toolchain")
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "cargo")); err != nil {
		t.Skip("needs a Rust toolchain with its own cargo")
	}
	return dir
}

const canary = "CANARY-6f1d0c"

// TestHomeToolchains: node, python and cargo lie below the person's home as nvm, pyenv and rustup lay them out.
// Agent and check find them in PATH's order; the credentials beside them are not there.
func TestHomeToolchains(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	if node, err = filepath.EvalSymlinks(node); err != nil {
		t.Fatal(err)
	}
	world.Each(t, func(t *testing.T, w *world.World) {
		home := func(parts ...string) string { return filepath.Join(append([]string{w.Home}, parts...)...) }
		nvm := home(".nvm/versions/node/v20.20.2")
		link(w, node, filepath.Join(nvm, "bin/node"))
		w.File(home(".nvm/nvm.sh"), "# nvm\n")
		w.File(home(".nvm/alias/default"), "v20.20.2\n")
		w.File(filepath.Join(nvm, "etc/npmrc"), "//registry.invalid/:_authToken="+canary+"\n")

		python, err := filepath.EvalSymlinks(systemPython(t))
		w.Must(err)
		version := home(".pyenv/versions/3.99.0")
		link(w, python, filepath.Join(version, "bin", filepath.Base(python)))
		w.Must(os.Symlink(filepath.Base(python), filepath.Join(version, "bin/python3")))
		w.File(home(".pyenv/version"), "3.99.0\n")
		w.File(home(".pyenv/libexec/pyenv"), "#!/bin/sh\n[ \"$1\" = exec ] && shift\nprogram=$1; shift\nexec \"${PYENV_ROOT:-$HOME/.pyenv}/versions/$(cat \"${PYENV_ROOT:-$HOME/.pyenv}/version\")/bin/$program\" \"$@\"\n")
		w.File(home(".pyenv/shims/python3"), "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\nexec \""+home(".pyenv/libexec/pyenv")+"\" exec \"$program\" \"$@\"\n")

		sysroot := rust(t)
		chain := home(".rustup/toolchains/stable-x86_64-unknown-linux-gnu")
		for _, part := range []string{"bin", "lib"} {
			w.Must(filepath.WalkDir(filepath.Join(sysroot, part), func(p string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					rel, _ := filepath.Rel(sysroot, p)
					link(w, p, filepath.Join(chain, rel))
				}
				return err
			}))
		}
		w.File(home(".rustup/settings.toml"), "default_toolchain = \"stable-x86_64-unknown-linux-gnu\"\nprofile = \"default\"\nversion = \"12\"\n")
		for _, p := range []string{"cargo", "rustc", "rustdoc"} {
			// What rustup's proxy does, without its program, which not every host has.
			w.File(home(".cargo/bin", p), "#!/bin/sh\nexec \"${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable-x86_64-unknown-linux-gnu/bin/"+p+"\" \"$@\"\n")
		}

		hidden := []string{".npmrc", ".netrc", ".git-credentials", ".pypirc", ".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".config/gh/hosts.yml",
			".docker/config.json", ".kube/config", ".cargo/credentials.toml", ".cargo/credentials", ".claude/.credentials.json", ".codex/auth.json", ".gnupg/secring.gpg"}
		for _, f := range hidden {
			w.File(home(f), "//registry.invalid/:_authToken="+canary+"\n")
		}
		if w.UID != os.Getuid() { // folders made on the way; hard links stay the host's
			w.Must(exec.Command("find", w.Home, "-type", "d", "-exec", "chown", "1000:1000", "{}", "+").Run())
		}
		path := strings.Join([]string{filepath.Join(nvm, "bin"), home(".pyenv/shims"), home(".cargo/bin"), "/usr/local/bin", "/usr/bin", "/bin"}, ":")
		w.Env = append(w.Env, "PATH="+path, "AWS_SECRET_ACCESS_KEY="+canary, "NPM_TOKEN="+canary, "GITHUB_TOKEN="+canary, "ANTHROPIC_API_KEY="+canary)

		w.File("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
		w.File("Cargo.lock", "version = 3\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n")
		w.File(".gitignore", "target/\n")
		w.File("src/lib.rs", "pub fn two() -> i32 { 2 }\n#[test]\nfn t() { assert_eq!(two(), 2) }\n")
		w.File("x.js", "if (1 + 1 !== 2) process.exit(1)\n")
		w.File("sallyport.yaml", "version: 1\nlimits: {time: 5m}\nchecks:\n  - {name: rust, run: cargo test --offline}\n  - {name: node, run: node x.js}\n  - {name: python, run: python3 -c 'import json'}\n")
		w.Commit("three languages")

		said := canary[:6] + "''" + canary[6:] // the command itself must not hold it: that is refused
		script := `for p in node python3 cargo; do echo "$p=$(command -v $p)"; done
echo "path=$PATH"
node -e 'console.log("node-runs=" + process.version[0])'
python3 -c 'import json; print("python-runs=yes")'
cargo --version >/dev/null && echo cargo-runs=yes
echo "found=$(grep -rlas ` + said + ` "$HOME" /run /tmp /etc 2>/dev/null | tr '\n' ,)"
echo "env=$(env | grep -c ` + said + `)"
for f in ` + strings.Join(hidden, " ") + `; do if [ -s "$HOME/$f" ]; then echo "there=$f"; fi; done
(: > "$HOME/.cargo/bin/evil") 2>/dev/null && echo wrote=cargo
(: > "$HOME/.pyenv/shims/evil") 2>/dev/null && echo wrote=pyenv
echo 'pub fn three() -> i32 { 3 }' >> src/lib.rs`
		rep := w.Run("tools", script).Want(0).Report()
		accepted(t, w, rep)
		log := w.Sallyport("logs", string(rep.Attempt)).Want(0).Out
		for _, want := range []string{"node=" + filepath.Join(nvm, "bin/node"), "python3=" + home(".pyenv/shims/python3"), "cargo=" + home(".cargo/bin/cargo"),
			"node-runs=v", "python-runs=yes", "cargo-runs=yes", "found=\n", "env=0"} {
			if !strings.Contains(log, want) {
				t.Errorf("inside, expected %q in\n%s", want, log)
			}
		}
		if strings.Contains(log, "there=") {
			t.Errorf("credential files are inside:\n%s", log)
		}
		for _, f := range []string{home(".cargo/bin/evil"), home(".pyenv/shims/evil")} {
			if _, err := os.Lstat(f); err == nil {
				t.Errorf("the agent wrote into the person's toolchain: %s", f)
			}
		}
		_, inner, _ := strings.Cut(log, "path=")
		inner, _, _ = strings.Cut(inner, "\n")
		at := -1
		for _, dir := range []string{filepath.Join(nvm, "bin"), home(".pyenv/shims"), home(".cargo/bin"), "/usr/bin"} {
			i := strings.Index(inner+":", dir+":")
			if i <= at {
				t.Errorf("PATH inside does not keep the order: %s", inner)
			}
			at = i
		}
	})
}
