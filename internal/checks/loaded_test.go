package checks

import (
	"strings"
	"testing"
)

func TestLoaded(t *testing.T) {
	for p, runner := range map[string]string{
		"conftest.py": "pytest", "a/b/conftest.py": "pytest", "CONFTEST.PY": "pytest", "sitecustomize.py": "python", "lib/usercustomize.py": "python", "x/evil.pth": "python",
		"lib/evil-1.0.dist-info/entry_points.txt": "python", "lib/evil-1.0.dist-info/RECORD": "python", "evil.egg-info/PKG-INFO": "python", "pytest.ini": "pytest", "tox.ini": "python", "setup.cfg": "python", "pyproject.toml": "python", "setup.py": "setuptools",
		"jest.config.js": "jest", "a/vitest.config.mts": "vitest", "jest.setup.ts": "jest", "package.json": "npm", "sub/.npmrc": "npm", ".mocharc.yml": "mocha",
		"go.mod": "go", "go.work": "go", "x/go.env": "go", ".env": "environment", ".env.test": "environment", ".envrc": "environment",
		"Makefile": "make", "makefile.inc": "make", "rules.mk": "make", "build.rs": "cargo", ".cargo/config.toml": "cargo", "a/.cargo/config": "cargo", "Cargo.toml": "cargo", ".config/nextest.toml": "nextest",
		"./pom.xml": "maven", "gradle/wrapper/x": "gradle", "spec/spec_helper.rb": "ruby", "phpunit.xml": "php",
	} {
		if got, why, ok := Loaded(p); !ok || got != runner || why == "" {
			t.Errorf("%s: %q %q %v, expected %s", p, got, why, ok, runner)
		}
	}
	for _, p := range []string{"", "main.go", "contest.py", "src/conftest.pyx", "gomod", "go.mod.txt", "a/gradle/x", "path.pthx", "buildsrc.md", "xMakefile", "distinfo/x", "a.dist-info.txt", "package.json5"} {
		if got, why, ok := Loaded(p); ok {
			t.Errorf("%q: %s, %s", p, got, why)
		}
	}
	for p, want := range map[string]bool{"build.rs": true, "conftest.py": true, "x.pth": true, ".cargo/config.toml": true, "package.json": false, "Makefile": false, "main.rs": false} {
		if LoadedProgram(p) != want {
			t.Errorf("%s: a program %v, expected %v", p, !want, want)
		}
	}
}

// A mistake in the table stops the program when it starts, and the table is in the form that it says.
func TestLoadedTable(t *testing.T) {
	for _, bad := range []string{"a\tb\tc\n", "go\tother\twhy\tx\n", "go\tconfig\twhy\tX\n", "go\tconfig\twhy\tx x\n", "go\tconfig\twhy\ta/b\n", "go\tconfig\twhy\t*a*\n", "go\tconfig\twhy\t/a*\n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was accepted", bad)
				}
			}()
			readLoads(bad)
		}()
	}
	for _, r := range loaded.rows {
		if r.runner == "" || r.why == "" || strings.HasSuffix(r.why, ".") {
			t.Errorf("%+v", r)
		}
	}
}

func TestLoadedContent(t *testing.T) {
	for _, c := range []struct {
		path, content string
		ok            bool
	}{
		{"a_test.go", "package a\nfunc TestMain(m *testing.M) {}\n", true},
		{"a_test.go", "package a\nfunc init() { os.Exit(0) }\n", true},
		{"a_test.go", "package a\nvar _ = func() int { os.Exit(0); return 0 }()\n", true},
		{"a_test.go", "package a\nvar x = func() int { return 0 }\nfunc TestMainly(t *testing.T) {}\nfunc (T) init() {}\n", false},
		{"a.go", "package a\nfunc init() {}\n", false},
		{"test_a.py", "pytest_plugins = ['evil']\n", true},
		{"test_a.py", "@pytest.fixture(autouse=True)\ndef x(): pass\n", true},
		{"test_a.py", "import os\nos._exit(0)\n", true},
		{"test_a.py", "def load_tests(a, b, c): return a\n", true},
		{"test_a.py", "def test_a():\n    assert True\n", false},
		{"a.test.js", "process.exit(0)\n", true},
		{"a.test.ts", "process.exitCode = 0\n", true},
		{"a.test.js", "expect(process.exitCode).toBe(0)\n", false},
		{"lib.rs", "#[ctor]\nfn x() {}\n", true},
		{"lib.rs", "std::process::exit(0);\n", true},
		{"lib.rs", "std::process::exit(1);\n", false},
		{"a.md", "process.exit(0)\n", false},
	} {
		if runner, why, ok := LoadedContent(c.path, []byte(c.content)); ok != c.ok || ok && (runner == "" || why == "") {
			t.Errorf("%s %q: %q %q %v", c.path, c.content, runner, why, ok)
		}
	}
}
