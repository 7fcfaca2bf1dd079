// Package agenttest brings the real coding agents to tests: exactly the versions named here, installed once
// per user into the cache folder, never into the work tree. For tests only.
package agenttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The versions that the presets are tested with.
const (
	ClaudeCodeVersion = "2.1.197"
	CodexVersion      = "0.171.0"
)

// Install returns the folder with the programs claude and codex, installing both npm packages if this user's
// cache lacks them (about 560 MB, 15 s). Concurrent tests install once. Codex needs node on PATH. A failure
// fails the test with what is missing.
func Install(t testing.TB) string {
	t.Helper()
	bin, err := install()
	if err != nil {
		t.Fatalf("the real agents cannot be tested: %v", err)
	}
	return bin
}

// Programs is Install for programs that are no test.
func Programs() (string, error) { return install() }

func install() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for the npm packages (set HOME): %w", err)
	}
	parent := filepath.Join(cache, "sallyport-test", "npm")
	final := filepath.Join(parent, "claude-code-"+ClaudeCodeVersion+"_codex-"+CodexVersion)
	bin := filepath.Join(final, "node_modules", ".bin")
	if complete(bin) {
		return bin, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(final + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(bin) { // another test process was faster
		return bin, nil
	}
	return bin, installInto(parent, final)
}

// installInto makes the folder under another name first: what has the final name is complete.
func installInto(parent, final string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not on PATH: install Node.js 18 or later")
	}
	temp, err := os.MkdirTemp(parent, "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	// Scripts are off: which of them npm runs by itself differs between its versions. The one that is needed
	// puts Claude Code's binary in its place and is run below.
	cmd := exec.Command(npm, "install", "--prefix", temp, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts",
		"@anthropic-ai/claude-code@"+ClaudeCodeVersion, "@openai/codex@"+CodexVersion)
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm could not install the packages (is its registry reachable?): %w\n%s", err, out)
	}
	cmd = exec.Command("node", "install.cjs")
	cmd.Dir = filepath.Join(temp, "node_modules", "@anthropic-ai", "claude-code")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the installed Claude Code could not be set up: %w\n%s", err, out)
	}
	if !complete(filepath.Join(temp, "node_modules", ".bin")) {
		return errors.New("npm reported success, but claude or codex is missing")
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	return os.Rename(temp, final)
}

func complete(bin string) bool {
	for _, name := range []string{"claude", "codex"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return false
		}
	}
	return true
}

func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
