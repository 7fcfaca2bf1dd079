package manifest

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// Detection is what `sallyport init` found in a work tree. Paths are relative to it, slash-separated; ""
// is its root.
type Detection struct {
	Languages []string   // sorted: "go", "node", "python", …
	Checks    []Detected // in the order of their folders
	Deps      []string   // git-ignored dependency folders that exist
}

// Detected is one test command.
type Detected struct {
	Name string // unique, fit for a check
	Lang string
	Run  string
	Dir  string
}

const (
	detectDepth    = 3       // folders below the root
	detectFolders  = 2000    // looked at, in all
	detectFileSize = 1 << 20 // of one build file
)

// skipped folders hold other people's code or build results.
var skipped = []string{"node_modules", "vendor", "third_party", "testdata", "dist", "build", "target", "__pycache__", "venv"}

// depFolders are the names of folders that package managers fill and git ignores.
var depFolders = []string{"node_modules", ".venv", "venv"}

// Detect looks at dir and up to three levels of folders below it, following no link. What cannot be read
// counts as absent: detection makes a proposal that a person reads.
func Detect(dir string) Detection {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Detection{}
	}
	defer root.Close()
	d := &detector{fsys: root.FS(), covered: map[string][]string{}}
	d.walk("", 0)
	slices.Sort(d.out.Languages)
	d.out.Languages = slices.Compact(d.out.Languages)
	nameChecks(d.out.Checks)
	return d.out
}

type detector struct {
	fsys    fs.FS
	out     Detection
	folders int
	// covered: folder -> languages whose check there also runs what lies below (workspaces, modules).
	covered map[string][]string
	ignore  []ignoreRule
}

// folder is one directory's listing.
type folder struct {
	dir   string
	files map[string]bool // regular files
	dirs  []string
}

func (f folder) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return f.files[n] })
}

func (d *detector) walk(dir string, depth int) {
	if d.folders++; d.folders > detectFolders {
		return
	}
	f, ok := d.list(dir)
	if !ok {
		return
	}
	d.ignore = append(d.ignore, readIgnore(dir, d.read(path.Join(dir, ".gitignore")))...)
	if dir == "" {
		d.ignore = append(d.ignore, readIgnore("", d.read(".git/info/exclude"))...)
	}
	d.deps(f)
	d.tests(f)
	if depth == detectDepth {
		return
	}
	for _, name := range f.dirs {
		sub := path.Join(dir, name)
		if strings.HasPrefix(name, ".") || slices.Contains(skipped, name) || ignored(d.ignore, sub) {
			continue
		}
		if _, err := fs.Stat(d.fsys, path.Join(sub, ".git")); err == nil {
			continue // a repository of its own: a submodule, a checkout
		}
		d.walk(sub, depth+1)
	}
}

func (d *detector) list(dir string) (folder, bool) {
	entries, err := fs.ReadDir(d.fsys, orDot(dir))
	f := folder{dir: dir, files: map[string]bool{}}
	for _, e := range entries {
		switch {
		case e.Type().IsRegular():
			f.files[e.Name()] = true
		case e.IsDir():
			f.dirs = append(f.dirs, e.Name())
		}
	}
	return f, err == nil
}

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// read returns a small regular file's text, or "".
func (d *detector) read(name string) string {
	info, err := fs.Stat(d.fsys, name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := d.fsys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, detectFileSize))
	if err != nil {
		return ""
	}
	return string(b)
}

func (d *detector) deps(f folder) {
	for _, name := range depFolders {
		sub := path.Join(f.dir, name)
		if !slices.Contains(f.dirs, name) || relativeRule(sub) != "" {
			continue
		}
		// A virtual environment may ignore itself with a file of its own.
		if ignored(d.ignore, sub) || ignored(readIgnore(sub, d.read(path.Join(sub, ".gitignore"))), path.Join(sub, "x")) {
			d.out.Deps = append(d.out.Deps, sub)
		}
	}
}

// tests finds the test commands of one folder. `make test` is the last resort: it usually wraps another.
func (d *detector) tests(f folder) {
	before := len(d.out.Checks)
	for _, probe := range probes {
		found, run, wide := probe.look(d, f)
		if !found {
			continue
		}
		d.out.Languages = append(d.out.Languages, probe.lang)
		if run == "" || d.isCovered(f.dir, probe.lang) {
			continue
		}
		d.add(f.dir, probe.lang, run)
		if wide {
			d.covered[f.dir] = append(d.covered[f.dir], probe.lang)
		}
	}
	if len(d.out.Checks) == before && f.has("Makefile", "makefile", "GNUmakefile") && !d.isCovered(f.dir, "make") {
		text := d.read(path.Join(f.dir, "GNUmakefile")) + "\n" + d.read(path.Join(f.dir, "makefile")) + "\n" + d.read(path.Join(f.dir, "Makefile"))
		if makeTest.MatchString(text) {
			d.add(f.dir, "make", "make test")
			d.covered[f.dir] = append(d.covered[f.dir], "make")
		}
	}
}

func (d *detector) add(dir, lang, run string) {
	if dir == "" || relativeRule(dir) == "" {
		d.out.Checks = append(d.out.Checks, Detected{Lang: lang, Run: run, Dir: dir})
	}
}

func (d *detector) isCovered(dir, lang string) bool {
	for up := dir; up != ""; {
		if up = path.Dir(up); up == "." {
			up = ""
		}
		if slices.Contains(d.covered[up], lang) {
			return true
		}
	}
	return false
}

var makeTest = pattern.New(`(?m)^test[ \t]*:([^=]|$)`)

// probe recognises one language. look reports whether the folder is a project of it, the command that runs
// its tests ("": none is defined) and whether that command covers the folders below.
type probe struct {
	lang string
	look func(d *detector, f folder) (found bool, run string, wide bool)
}

var probes = []probe{
	{"go", func(d *detector, f folder) (bool, string, bool) { return f.has("go.mod"), "go test ./...", false }},
	{"node", lookNode},
	{"python", lookPython},
	{"rust", func(d *detector, f folder) (bool, string, bool) {
		return f.has("Cargo.toml"), "cargo test", strings.Contains(d.read(path.Join(f.dir, "Cargo.toml")), "[workspace]")
	}},
	{"maven", func(d *detector, f folder) (bool, string, bool) { return f.has("pom.xml"), "mvn -o test", true }},
	{"gradle", func(d *detector, f folder) (bool, string, bool) {
		run := "gradle --offline test"
		if f.has("gradlew") {
			run = "./gradlew --offline test"
		}
		return f.has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"), run, true
	}},
}

func lookNode(d *detector, f folder) (bool, string, bool) {
	if !f.has("package.json") {
		return false, "", false
	}
	var pkg struct {
		Scripts        map[string]any `json:"scripts"`
		Workspaces     any            `json:"workspaces"`
		PackageManager string         `json:"packageManager"`
	}
	if json.Unmarshal([]byte(d.read(path.Join(f.dir, "package.json"))), &pkg) != nil {
		return true, "", false
	}
	test, _ := pkg.Scripts["test"].(string)
	// `npm init` writes a test script that only fails.
	if test == "" || strings.Contains(test, "no test specified") {
		return true, "", false
	}
	manager, _, _ := strings.Cut(pkg.PackageManager, "@")
	wide := pkg.Workspaces != nil || f.has("pnpm-workspace.yaml")
	return true, d.nodeManager(f.dir, manager) + " test", wide
}

// nodeManager is the package manager named by the package or by the nearest lock file above it.
func (d *detector) nodeManager(dir, named string) string {
	if slices.Contains([]string{"npm", "pnpm", "yarn"}, named) {
		return named
	}
	for {
		for _, lock := range [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"package-lock.json", "npm"}} {
			if _, err := fs.Stat(d.fsys, path.Join(dir, lock[0])); err == nil {
				return lock[1]
			}
		}
		if dir == "" {
			return "npm"
		}
		if dir = path.Dir(dir); dir == "." {
			dir = ""
		}
	}
}

func lookPython(d *detector, f folder) (bool, string, bool) {
	project := f.has("pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini")
	configured := f.has("pytest.ini", "conftest.py") || strings.Contains(d.read(path.Join(f.dir, "pyproject.toml")), "[tool.pytest") ||
		strings.Contains(d.read(path.Join(f.dir, "setup.cfg")), "[tool:pytest]")
	tests := configured || hasPythonTest(f.files) || d.pythonTests(f)
	if !project && !tests {
		return false, "", false
	}
	// pytest fails where there is no test, so a project without any gets no check.
	if !tests {
		return true, "", false
	}
	return true, d.python(f) + " -m pytest", true
}

func hasPythonTest(files map[string]bool) bool {
	for name := range files {
		if strings.HasSuffix(name, ".py") && (strings.HasPrefix(name, "test_") || strings.HasSuffix(name, "_test.py")) {
			return true
		}
	}
	return false
}

// pythonTests looks into tests/, test/ and one level of packages there and below src/.
func (d *detector) pythonTests(f folder) bool {
	for _, name := range []string{"tests", "test"} {
		if !slices.Contains(f.dirs, name) {
			continue
		}
		sub, _ := d.list(path.Join(f.dir, name))
		if hasPythonTest(sub.files) || sub.files["conftest.py"] {
			return true
		}
		for _, inner := range sub.dirs {
			deep, _ := d.list(path.Join(sub.dir, inner))
			if hasPythonTest(deep.files) {
				return true
			}
		}
	}
	return false
}

// python prefers the project's own virtual environment, which holds its dependencies.
func (d *detector) python(f folder) string {
	for _, env := range []string{".venv", "venv"} {
		if _, err := fs.ReadDir(d.fsys, path.Join(f.dir, env, "bin")); err == nil {
			return env + "/bin/python"
		}
	}
	return "python3" // many systems have no "python"
}

// nameChecks gives each check a short unique name: the folder's, the language's, or "test".
func nameChecks(checks []Detected) {
	perDir, used := map[string]int{}, map[string]bool{}
	for _, c := range checks {
		perDir[c.Dir]++
	}
	for i, c := range checks {
		name := c.Lang
		switch {
		case len(checks) == 1:
			name = "test"
		case c.Dir != "" && perDir[c.Dir] == 1:
			name = slug(c.Dir)
		case c.Dir != "":
			name = slug(c.Dir + " " + c.Lang)
		}
		checks[i].Name = unusedName(used, name)
	}
}

func unusedName(used map[string]bool, name string) string {
	for base, n := name, 2; used[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	used[name] = true
	return name
}
