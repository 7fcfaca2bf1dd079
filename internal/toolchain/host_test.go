package toolchain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func hostRequest(t testing.TB) Request {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return Request{Home: home, Repo: t.TempDir(), PathEnv: os.Getenv("PATH"), Tools: Auto(), Caches: Auto(), Env: env}
}

// TestThisHost resolves the real toolchains of the machine that runs the tests.
func TestThisHost(t *testing.T) {
	req := hostRequest(t)
	found := 0
	for _, c := range []string{"sh", "git", "go", "node", "npm", "python3", "cargo"} {
		at, err := exec.LookPath(c)
		if err != nil {
			t.Logf("%s is not installed here: not resolved", c)
			continue
		}
		found++
		req.Commands = []string{c}
		res, err := Resolve(req)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if !shown(res, at) {
			t.Errorf("%s at %s is not shown", c, at)
		}
	}
	if found < 3 {
		t.Fatalf("only %d programs found: sh, git and go are expected where these tests run", found)
	}
	res, err := Resolve(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/etc/shadow", "/etc/ssh", "/etc/machine-id", "/etc/npmrc", "/etc/pip.conf", "/etc/gitconfig", "/etc/ssl/private", req.Home + "/.npmrc", req.Home + "/.gitconfig", req.Home + "/.bashrc", req.Home + "/.claude"} {
		if shown(res, p) {
			t.Errorf("%s is shown", p)
		}
	}
	for _, m := range res.Mounts {
		if _, err := os.Lstat(m.Path); err != nil {
			t.Errorf("mount %s does not exist", m.Path)
		}
		for _, h := range m.Hide {
			if _, err := os.Lstat(filepath.Join(m.Path, h)); err != nil || !filepath.IsLocal(h) {
				t.Errorf("hidden %s of %s: %v", h, m.Path, err)
			}
		}
	}
}

// TestSpeed: the best of ten runs, since other work may share the machine.
func TestSpeed(t *testing.T) {
	req := hostRequest(t)
	req.Commands = []string{"sh", "git"}
	best := time.Hour
	for range 10 {
		start := time.Now()
		if _, err := Resolve(req); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("best of 10: %v", best)
	if best > 20*time.Millisecond {
		t.Errorf("Resolve takes %v, expected at most 20 ms", best)
	}
}

func BenchmarkResolve(b *testing.B) {
	req := hostRequest(b)
	req.Commands = []string{"sh", "git", "go"}
	for b.Loop() {
		if _, err := Resolve(req); err != nil {
			b.Fatal(err)
		}
	}
}
