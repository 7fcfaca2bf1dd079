package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBrokenTestsFail: with the real runners, a file that passes fails once it is broken.
func TestBrokenTestsFail(t *testing.T) {
	for _, c := range []struct {
		need, file, content string
		more                map[string]string
		run                 []string
	}{
		{"go", "x_test.go", "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {}\n", map[string]string{"go.mod": "module x\n\ngo 1.21\n", "x.go": "package x\n"}, []string{"go", "test", "./..."}},
		{"python3", "test_x.py", "import unittest\n\n\nclass X(unittest.TestCase):\n    def test_x(self):\n        pass\n", nil, []string{"python3", "-B", "-m", "unittest"}},
		{"node", "x.test.js", "require('node:test')('x', () => {});\n", nil, []string{"node", "--test"}},
		{"cargo", "tests/x.rs", "#[test]\nfn x() {}\n", map[string]string{"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": ""}, []string{"cargo", "test", "--offline", "-q"}},
		{"sh", "x_test.sh", "#!/bin/sh\nexit 0\n", nil, []string{"sh", "x_test.sh"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			if _, err := exec.LookPath(c.need); err != nil {
				t.Skipf("missing capability: %s is not installed", c.need)
			}
			dir := t.TempDir()
			write := func(name, content string) {
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run := func() ([]byte, error) {
				cmd := exec.Command(c.run[0], c.run[1:]...)
				cmd.Dir = dir
				return cmd.CombinedOutput()
			}
			for name, content := range c.more {
				write(name, content)
			}
			write(c.file, c.content)
			if out, err := run(); err != nil {
				t.Fatalf("before: %v\n%s", err, out)
			}
			broken, ok := Broken(c.file, []byte(c.content))
			if !ok {
				t.Fatal("it does not know how")
			}
			write(c.file, string(broken))
			out, err := run()
			if err == nil {
				t.Errorf("it passes all the same:\n%s", out)
			}
		})
	}
	for _, c := range [][2]string{{"x.go", "package x\n"}, {"x_test.go", "package x\n\nimport te \"testing\"\n"}, {"x_test.go", "//go:build linux\n\npackage x\n\nimport \"testing\"\n"}, {"x_test.zig", ""}} {
		if _, ok := Broken(c[0], []byte(c[1])); ok {
			t.Errorf("%s: %q is broken", c[0], c[1])
		}
	}
}
