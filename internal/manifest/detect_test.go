package manifest

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// plant makes files (name -> content; a name ending in / is a folder) in a new folder.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else if err == nil {
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDetect(t *testing.T) {
	const npm = `{"scripts":{"test":"vitest run"}}`
	for _, w := range []struct {
		name  string
		files map[string]string
		want  Detection
	}{
		{"nothing", map[string]string{"README": ""}, Detection{}},
		{"go", map[string]string{"go.mod": "module x", "vendor/y/go.mod": "", "Makefile": "test:\n\tgo test\n"},
			Detection{Languages: []string{"go"}, Checks: []Detected{{"test", "go", "go test ./...", ""}}}},
		{"monorepo", map[string]string{"go.mod": "", "web/package.json": npm, "web/pnpm-lock.yaml": "", "web/node_modules/x/package.json": npm, ".gitignore": "node_modules/\n",
			"svc/py/pyproject.toml": "[tool.pytest.ini_options]\n", "svc/py/.venv/bin/": "", "svc/py/.venv/.gitignore": "*\n", "a/b/c/d/go.mod": ""},
			Detection{Languages: []string{"go", "node", "python"}, Deps: []string{"svc/py/.venv", "web/node_modules"}, Checks: []Detected{
				{"go", "go", "go test ./...", ""}, {"svc-py", "python", ".venv/bin/python -m pytest", "svc/py"}, {"web", "node", "pnpm test", "web"}}}},
		{"workspaces", map[string]string{"package.json": `{"workspaces":["p/*"],"scripts":{"test":"x"}}`, "yarn.lock": "", "p/a/package.json": npm, "p/a/Makefile": "all:\n"},
			Detection{Languages: []string{"node"}, Checks: []Detected{{"test", "node", "yarn test", ""}}}},
		{"no test script", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`, "node_modules/": ""},
			Detection{Languages: []string{"node"}}}, // and node_modules is not ignored by git
		{"named manager", map[string]string{"package.json": `{"packageManager":"yarn@4.1.0","scripts":{"test":"x"}}`, "package-lock.json": ""},
			Detection{Languages: []string{"node"}, Checks: []Detected{{"test", "node", "yarn test", ""}}}},
		{"damaged package.json", map[string]string{"package.json": `{`}, Detection{Languages: []string{"node"}}},
		{"python by tests", map[string]string{"tests/unit/test_a.py": ""},
			Detection{Languages: []string{"python"}, Checks: []Detected{{"test", "python", "python3 -m pytest", ""}}}},
		{"python without tests", map[string]string{"setup.py": ""}, Detection{Languages: []string{"python"}}},
		{"rust workspace", map[string]string{"Cargo.toml": "[workspace]\nmembers = [\"a\"]\n", "a/Cargo.toml": "[package]\n", "a/tests/x.rs": ""},
			Detection{Languages: []string{"rust"}, Checks: []Detected{{"test", "rust", "cargo test", ""}}}},
		{"maven and gradle", map[string]string{"m/pom.xml": "", "m/sub/pom.xml": "", "g/build.gradle.kts": "", "g/gradlew": "", "g/app/build.gradle.kts": ""},
			Detection{Languages: []string{"gradle", "maven"}, Checks: []Detected{{"g", "gradle", "./gradlew --offline test", "g"}, {"m", "maven", "mvn -o test", "m"}}}},
		{"make", map[string]string{"Makefile": "test-all:\n\ntest: build\n\t./t\n"},
			Detection{Checks: []Detected{{"test", "make", "make test", ""}}}},
		{"make variable", map[string]string{"Makefile": "test := x\nall:\n"}, Detection{}},
		{"two in one folder", map[string]string{"x/go.mod": "", "x/package.json": npm},
			Detection{Languages: []string{"go", "node"}, Checks: []Detected{{"x-go", "go", "go test ./...", "x"}, {"x-node", "node", "npm test", "x"}}}},
		{"names that fold", map[string]string{"a b/go.mod": "", "a_b/go.mod": ""},
			Detection{Languages: []string{"go"}, Checks: []Detected{{"a-b", "go", "go test ./...", "a b"}, {"a-b-2", "go", "go test ./...", "a_b"}}}},
		{"submodule", map[string]string{"lib/go.mod": "", "lib/.git": "gitdir: ../.git/modules/lib"}, Detection{}},
	} {
		got := Detect(plant(t, w.files))
		slices.SortStableFunc(got.Checks, func(a, b Detected) int { return strings.Compare(a.Dir, b.Dir) })
		if !reflect.DeepEqual(got, w.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", w.name, got, w.want)
		}
	}
	outside := plant(t, map[string]string{"package.json": npm})
	inside := t.TempDir()
	if err := os.Symlink(filepath.Join(outside, "package.json"), filepath.Join(inside, "package.json")); err != nil {
		t.Fatal(err)
	}
	if got := Detect(inside); len(got.Languages) != 0 {
		t.Errorf("a link out of the folder was followed: %+v", got)
	}
}

// Detection's reading of .gitignore agrees with git about dependency folders.
func TestIgnoreAgreesWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("this test needs git")
	}
	for _, text := range []string{"node_modules", "node_modules/", "/node_modules", "web/node_modules", "/web/*", "**/node_modules", "node_*", "*\n!web\n", "node_modules\n!node_modules",
		"# node_modules", "  node_modules", "web", "node_modules/x", "", "web/\n!web/node_modules", "nod?_modules/\r"} {
		dir := plant(t, map[string]string{".gitignore": text, "node_modules/x": "", "web/node_modules/x": ""})
		if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		for _, sub := range []string{"node_modules", "web/node_modules"} {
			want := exec.Command(git, "-C", dir, "check-ignore", "-q", sub).Run() == nil
			if got := ignored(readIgnore("", text), sub); got != want {
				t.Errorf("%q on %s: got %v, git says %v", text, sub, got, want)
			}
		}
	}
}

func TestWriteInit(t *testing.T) {
	dir := plant(t, map[string]string{"go.mod": "", "web/package.json": `{"scripts":{"test":"x"}}`, "web/node_modules/": "", ".gitignore": "node_modules\n", "we ird: [1]/go.mod": ""})
	path, err := WriteInit(dir)
	if err != nil || path != filepath.Join(dir, "sallyport.yaml") {
		t.Fatal(path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := ParseRepository("sallyport.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	var dirs []string
	for _, c := range rep.Checks {
		dirs = append(dirs, c.Dir+" "+c.Run)
	}
	if want := []string{" go test ./...", "we ird: [1] go test ./...", "web npm test"}; !reflect.DeepEqual(dirs, want) || !reflect.DeepEqual(rep.Deps, []string{"web/node_modules"}) {
		t.Errorf("got %q %q\n%s", dirs, rep.Deps, data)
	}
	if _, err := Compile(input(&rep)); err != nil {
		t.Error(err)
	}
	if _, err := WriteInit(dir); sallyport.CodeOf(err) != sallyport.CodeConflict {
		t.Errorf("second time: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
		t.Error("the file was changed")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".sallyport-init-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	dangling := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dangling, "sallyport.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteInit(dangling); sallyport.CodeOf(err) != sallyport.CodeConflict {
		t.Errorf("dangling link: %v", err)
	}
}

// The way without hard links does not overwrite either, and a folder that takes no file is an error.
func TestWriteNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sallyport.yaml")
	if err := writeNew(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, []byte("two")); sallyport.CodeOf(err) != sallyport.CodeConflict {
		t.Errorf("second time: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "one" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := WriteInit(filepath.Join(t.TempDir(), "absent")); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Errorf("absent folder: %v", err)
	}
}

// Law: whatever is detected, the file parses and says the same.
func TestInitFileParses(t *testing.T) {
	dir := rapid.Custom(func(t *rapid.T) string {
		return rapid.OneOf(rapid.StringMatching(`[a-z0-9.:#&*!|>'"%@{}\[\], -]{1,12}`), rapid.String()).Filter(func(s string) bool { return relativeRule(s) == "" }).Draw(t, "dir")
	})
	rapid.Check(t, func(t *rapid.T) {
		d := Detection{Deps: rapid.SliceOfNDistinct(dir, 0, 3, rapid.ID[string]).Draw(t, "deps")}
		for _, name := range rapid.SliceOfNDistinct(dir, 0, 3, rapid.ID[string]).Draw(t, "dirs") {
			run := rapid.String().Filter(func(s string) bool { return textRule(s) == "" }).Draw(t, "run")
			d.Checks = append(d.Checks, Detected{Lang: "go", Run: run, Dir: name})
		}
		nameChecks(d.Checks)
		rep, err := ParseRepository("s", InitFile(d))
		if err != nil {
			t.Fatalf("%v\n%s", err, InitFile(d))
		}
		if !slices.Equal(rep.Deps, d.Deps) {
			t.Fatalf("deps %q, want %q", rep.Deps, d.Deps)
		}
		for i, c := range rep.Checks {
			if c.Run != d.Checks[i].Run || c.Dir != d.Checks[i].Dir || c.Name != d.Checks[i].Name {
				t.Fatalf("check %+v, want %+v", c, d.Checks[i])
			}
		}
	})
}
