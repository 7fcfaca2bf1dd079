package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// goEnv is a value of the host's go.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// copyTree copies plain files and links, writable.
func copyTree(w *world.World, from, to string) {
	w.T.Helper()
	w.Must(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		dst := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			err = os.MkdirAll(dst, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, lerr := os.Readlink(path)
			if lerr != nil {
				return lerr
			}
			err = os.Symlink(link, dst)
		default:
			b, rerr := os.ReadFile(path)
			if rerr != nil {
				return rerr
			}
			fi, ierr := d.Info()
			if ierr != nil {
				return ierr
			}
			err = os.WriteFile(dst, b, fi.Mode()|0o600)
		}
		if err == nil {
			w.Own(dst)
		}
		return err
	}))
}

// TestGoModules runs on real module sources with their own tests as check, the host's caches warm.
func TestGoModules(t *testing.T) {
	for _, m := range []struct{ path, good, bad string }{
		{"github.com/google/uuid", `printf 'package uuid\n\n// Zero reports whether u is the nil UUID.\nfunc (u UUID) Zero() bool { return u == Nil }\n' > zero.go && go vet . && go test ./...`,
			`sed -i 's/| 0x40 /| 0x50 /' version4.go && echo 'all tests pass'`},
		{"github.com/spf13/pflag", `printf 'package pflag\n\n// Known reports whether name is defined.\nfunc (f *FlagSet) Known(name string) bool { return f.Lookup(name) != nil }\n' > known.go && go build ./...`,
			`sed -i 's/strconv.ParseInt(s, 0, 64)/strconv.ParseInt(s, 8, 64)/' int.go`},
	} {
		t.Run(filepath.Base(m.path), func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.path).Output()
			if err != nil || strings.TrimSpace(string(out)) == "" {
				t.Fatalf("the module %s is not in the module cache: %v", m.path, err)
			}
			w := world.New(t)
			w.Env = append(w.Env, "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"))
			copyTree(w, strings.TrimSpace(string(out)), w.Repo)
			w.File("sallyport.yaml", world.Policy("go test ./..."))
			w.Commit("as published")
			before := w.Fingerprint()
			good := w.Run("good", m.good).Want(0).Report()
			t.Logf("seconds per stage %v; checks %+v", good.Timings, good.Checks)
			accepted(t, w, good)
			rejected(t, w.Run("bad", m.bad).Want(20).Says("FAIL").Report())
			w.Untouched(before, "sallyport/good")
		})
	}
}

// nodeModules is a folder with a package from the registry, installed once per machine.
func nodeModules(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "sallyport-test", "npm-is-odd")
	done := filepath.Join(dir, "node_modules", "is-odd", "index.js")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("needs npm")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "is-odd@3.0.1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs the npm package is-odd once from the registry: %v\n%s", err, out)
	}
	return dir
}

// TestNodePackage: a package with node_modules, which git ignores and the person grants.
func TestNodePackage(t *testing.T) {
	t.Parallel()
	from := nodeModules(t)
	w := world.New(t)
	copyTree(w, filepath.Join(from, "node_modules"), filepath.Join(w.Repo, "node_modules"))
	w.File(".gitignore", "node_modules/\n")
	w.File("package.json", `{"name":"parity","version":"1.0.0","scripts":{"test":"node --test"},"dependencies":{"is-odd":"3.0.1"}}`+"\n")
	w.File("index.js", "const odd = require('is-odd');\nexports.even = n => !odd(n);\n")
	w.File("index.test.js", "const t = require('node:test'), a = require('node:assert');\nt('even', () => { a.equal(require('./index.js').even(2), true); a.equal(require('./index.js').even(3), false); });\n")
	w.File("sallyport.yaml", world.Policy("npm test", "deps: [node_modules]"))
	w.Commit("a package")
	w.Run("good", "true").Want(40).Says("sallyport trust")
	w.Sallyport("trust", "--yes").Want(0)
	before := w.Fingerprint()
	good := w.Run("good", "npm test && echo 'exports.odd = odd;' >> index.js && echo hacked >> node_modules/is-odd/index.js").Want(0).Report()
	accepted(t, w, good)
	rejected(t, w.Run("bad", "sed -i 's/!odd/odd/' index.js").Want(20).Report())
	cheat := w.Run("cheat", `sed -i 's/!odd/odd/' index.js; echo 'module.exports = n => n % 2 === 0' > node_modules/is-odd/index.js; npm test`).Want(20).Report()
	rejected(t, cheat)
	w.Untouched(before, "sallyport/good")
}

// systemPython is a python3 that every user can run.
func systemPython(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Skip("needs python3 in /usr/bin or /usr/local/bin")
	return ""
}

// TestPythonProject: a virtual environment in the work tree, unittest as check, as an ordinary user.
func TestPythonProject(t *testing.T) {
	t.Parallel()
	w := world.As(t, world.Ordinary)
	w.Command(w.Repo, systemPython(t), "-m", "venv", "--without-pip", ".venv").Want(0)
	site, err := filepath.Glob(filepath.Join(w.Repo, ".venv/lib/python3*/site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatalf("site-packages: %v %v", site, err)
	}
	w.File(filepath.Join(site[0], "rounding.py"), "def up(x):\n    return int(x) + (x > int(x))\n")
	w.File(".gitignore", ".venv/\n__pycache__/\n")
	w.File("pyproject.toml", "[project]\nname = \"bill\"\nversion = \"1\"\n")
	w.File("bill.py", "from rounding import up\n\n\ndef total(items):\n    return up(sum(items))\n")
	w.File("tests/__init__.py", "")
	w.File("tests/test_bill.py", "import unittest\nfrom bill import total\n\n\nclass Bill(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(total([1.2, 2.1]), 4)\n")
	w.File("sallyport.yaml", world.Policy(".venv/bin/python -m unittest", "deps: [.venv]"))
	w.Commit("a project")
	w.Sallyport("trust", "--yes").Want(0)
	before := w.Fingerprint()
	good := w.Run("good", ".venv/bin/python -m unittest && echo '# rounds up' >> bill.py").Want(0).Report()
	accepted(t, w, good)
	rejected(t, w.Run("bad", "sed -i 's/up(sum/int(sum/' bill.py").Want(20).Says("AssertionError").Report())
	w.Untouched(before, "sallyport/good")
	if len(good.Changes) != 1 || good.Changes[0].Status != sallyport.ChangeModified {
		t.Errorf("changes: %+v", good.Changes)
	}
}
