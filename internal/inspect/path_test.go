package inspect

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// TestPathRules: each rule about paths with a name that breaks it and a near one that does not.
func TestPathRules(t *testing.T) {
	for _, c := range []struct {
		rule      string
		bad, good []string
	}{
		{"name.git", []string{".git", "a/.GIT/config", ".g\u200cit", ".git.", ".git ", ".git::$INDEX_ALLOCATION", "git~1", "GIT~2/x", ".\uff47it", "x/.git\ufeff", `.git\x`},
			[]string{".gitignore", "git", ".github2", "a.git", "git~", "git~10", "gitx~1", "digit~1"}},
		{"name.invalid", []string{"", "/a", "a//b", "./a", "a/../b", "..", "a/", "."}, []string{"a/b", "...", "a..b"}},
		{"name.control", []string{"a\nb", "a\x1b[31m", "x/\x7f"}, []string{"a b"}},
		{"name.backslash", []string{`a\b`}, []string{"a/b"}},
		{"name.bidi", []string{"gnp\u202e.exe", "a\u2066b"}, []string{"שלום.txt"}},
		{"name.invisible", []string{"a\u200bb", "\u3164", "a\u00adb", "e\U000E0041", "a\u200d"}, []string{"a\u00e9", "👩\u200d💻.md", "❤\ufe0f"}},
		{"name.encoding", []string{"caf\xe9"}, []string{"café"}},
		{"name.colon", []string{"a:b"}, []string{"a;b"}},
		{"name.trailing", []string{"a.", "d /x"}, []string{"a.b", " a"}},
		{"name.device", []string{"con", "src/AUX.c", "nul.tar.gz", "com1", "LPT9.txt", "COM¹.x", "con .txt"}, []string{"console", "com", "com0", "com10", "auxiliary", "xcon"}},
		{"name.dash", []string{"-rf", "a/--help"}, []string{"a-b"}},
		{"submodule.config", []string{"gi7eba~1", "gi7e~123", ".gitmodules\xff", ".gitmodules", ".GitModules", "gitmod~1", ".gitmodules."}, []string{"gitmodules", ".gitmodules.md", "gi7eba~12", "gi7ebb~1"}},
		{"git.attributes", []string{".gitattributes", "sub/.gitattributes", "gitatt~1", "gi7d29~1"}, []string{"gitattributes"}},
		{"ci.changed", []string{".github/workflows/a.yml", ".GitHub/x", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", ".github"}, []string{"docs/.github/x", "github/x", "jenkins.md"}},
		{"hook.changed", []string{".husky/pre-commit", ".pre-commit-config.yaml", "tools/.githooks/x", "lefthook.yml"}, []string{"hooks/x", "husky/x"}},
		{"agent.config", []string{".claude/settings.json", "sub/CLAUDE.md", "AGENTS.md", ".mcp.json", ".cursor/rules/x", ".codex/config.toml"}, []string{"claude.go", "agents/a.go"}},
		{"editor.config", []string{".vscode/tasks.json", ".envrc", ".devcontainer/devcontainer.json", "a/.idea/x", ".env.local"}, []string{".editorconfig", "env", "vscode/x"}},
		{"lock.changed", []string{"go.sum", "web/package-lock.json", "pnpm-lock.yaml", "yarn.lock", "Cargo.lock", "poetry.lock", "uv.lock", "requirements-dev.txt"}, []string{"lock.go", "requirements.md"}},
		{"runner.config", []string{"Makefile", "a/makefile", "pkg/package.json", "conftest.py", "pytest.ini", "jest.config.ts", "vitest.config.mjs", "go.mod", ".cargo/config.toml", "build.rs", "setup.py", "gradle/wrapper/gradle-wrapper.jar"}, []string{"main.go", "package.jsonl", "x.py", "gradle.md"}},
		{"runner.script", []string{"build.rs", "a/conftest.py", ".cargo/config", "x.pth"}, []string{"Makefile", "rs"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, p := range c.bad {
				if got := rulesOf(newTree("other").add(p, modeFile, "x\n").inspect(t)); !slices.Contains(got, c.rule) {
					t.Errorf("%q: %v, expected %s", p, got, c.rule)
				}
			}
			for _, p := range c.good {
				if got := rulesOf(newTree("other").add(p, modeFile, "x\n").inspect(t)); slices.Contains(got, c.rule) {
					t.Errorf("%q: %s is not expected", p, c.rule)
				}
			}
		})
	}
}

func TestNamesOfTheBaseAreNotTheChangesDoing(t *testing.T) {
	if got := rulesOf(newTree().edit("a:b", "x\n", "y\n").inspect(t)); slices.Contains(got, "name.colon") {
		t.Errorf("an old name is reported: %v", got)
	}
	if got := rulesOf(newTree().edit("x/.git/config", "x\n", "y\n").inspect(t)); !slices.Contains(got, "name.git") {
		t.Errorf("a dangerous old name is not reported: %v", got)
	}
}

func TestTwins(t *testing.T) {
	for _, c := range []struct {
		name string
		tree *tree
		twin bool
	}{
		{"case", newTree("README.md").add("readme.md", modeFile, "x"), true},
		{"NFD beside NFC", newTree("caf\u00e9").add("cafe\u0301", modeFile, "x"), true},
		{"folder", newTree("Src/a.go").add("src/b.go", modeFile, "x"), true},
		{"two added", newTree().add("A", modeFile, "x").add("a", modeFile, "x"), true},
		{"sharp s", newTree("STRASSE").add("straße", modeFile, "x"), true},
		{"rename of case", newTree().remove("README").add("readme", modeFile, "x"), false},
		{"same folder", newTree("src/a.go", "Src/old.go").add("src/b.go", modeFile, "x"), false},
		{"none", newTree("a/b", "a/c").add("a/d", modeFile, "x"), false},
	} {
		if got := slices.Contains(rulesOf(c.tree.inspect(t)), "name.twin"); got != c.twin {
			t.Errorf("%s: twin reported: %v", c.name, got)
		}
	}
}

func TestScope(t *testing.T) {
	nothing, billing := []string{}, []string{"billing/**", "*.md"}
	for _, c := range []struct {
		name  string
		scope sallyport.Scope
		path  string
		rules string
	}{
		{"all", sallyport.Scope{}, "x", ""},
		{"nothing", sallyport.Scope{Allow: &nothing}, "x", "scope.outside"},
		{"inside", sallyport.Scope{Allow: &billing}, "billing/a/b.go", ""},
		{"root glob", sallyport.Scope{Allow: &billing}, "README.md", ""},
		{"glob does not cross", sallyport.Scope{Allow: &billing}, "docs/README.md", "scope.outside"},
		{"case is another path for allow", sallyport.Scope{Allow: &billing}, "Billing/a", "scope.outside"},
		{"denied below", sallyport.Scope{Deny: []string{".github/**"}}, ".github/workflows/x.yml", "scope.denied"},
		{"denied in other case", sallyport.Scope{Deny: []string{".github/**"}}, ".GITHUB/x", "scope.denied"},
		{"denied folder itself", sallyport.Scope{Deny: []string{".github/**"}}, ".github", "scope.denied"},
		{"file in the way of a denied folder", sallyport.Scope{Deny: []string{"a/b/**"}}, "a", "scope.denied"},
		{"denied folder by name", sallyport.Scope{Deny: []string{"vendor"}}, "vendor/x/y", "scope.denied"},
		{"folder with slash", sallyport.Scope{Deny: []string{"vendor/"}}, "vendor/x", "scope.denied"},
		{"capitals in a class", sallyport.Scope{Deny: []string{"[!a-z]*"}}, "Xy", "scope.denied"},
		{"shallow star", sallyport.Scope{Deny: []string{"a/*"}}, "a/b/c", ""},
		{"neighbour", sallyport.Scope{Deny: []string{".github/**"}}, ".github2/x", ""},
		{"both", sallyport.Scope{Allow: &billing, Deny: []string{"**/*.go"}}, "cmd/x.go", "scope.denied scope.outside"},
	} {
		tr := newTree("other").add(c.path, modeFile, "x")
		tr.in.Scope = c.scope
		var got []string
		for _, r := range rulesOf(tr.inspect(t)) {
			if strings.HasPrefix(r, "scope.") {
				got = append(got, r)
			}
		}
		if strings.Join(got, " ") != c.rules {
			t.Errorf("%s: %v, expected %q", c.name, got, c.rules)
		}
	}
}

func TestScopeJudgesBothSidesOfARename(t *testing.T) {
	tr := newTree().remove(".github/ci.yml").add("docs/ci.yml", modeFile, "x")
	tr.in.Scope.Deny = []string{".github/**"}
	found := tr.inspect(t)
	if found[0].Rule != "scope.denied" || found[0].Path != ".github/ci.yml" || Worst(found) != block {
		t.Errorf("findings: %+v", found)
	}
}

func TestBadPatternIsNoVerdict(t *testing.T) {
	for _, g := range []string{"[", "", "/abs", "{a"} {
		for _, s := range []sallyport.Scope{{Deny: []string{g}}, {Allow: &[]string{g}}} {
			_, err := Inspect(context.Background(), Input{Scope: s})
			if sallyport.CodeOf(err) != sallyport.CodeInvalid {
				t.Errorf("%q: %v", g, err)
			}
		}
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		change sallyport.Change
		rule   string
	}{
		{sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "100755"}, "mode.executable"},
		{sallyport.Change{Status: sallyport.ChangeMode, OldMode: "100644", NewMode: "100755"}, "mode.executable"},
		{sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "100664"}, "mode.unusual"},
		{sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "104755"}, "mode.unusual"},
		{sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "40000"}, "mode.unusual"},
		{sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "160000"}, "submodule.added"},
		{sallyport.Change{Status: sallyport.ChangeModified, OldMode: "160000", NewMode: "160000"}, "submodule.moved"},
		{sallyport.Change{Status: sallyport.ChangeDeleted, OldMode: "160000"}, "submodule.removed"},
		{sallyport.Change{Status: sallyport.ChangeType, OldMode: "120000", NewMode: "100644"}, "mode.type"},
		{sallyport.Change{Status: sallyport.ChangeModified, OldMode: "100755", NewMode: "100755"}, ""},
		{sallyport.Change{Status: sallyport.ChangeMode, OldMode: "100755", NewMode: "100644"}, ""},
	} {
		tr := newTree()
		c.change.Path, c.change.NewID, c.change.OldID = "f", tr.put("text"), tr.put("older")
		tr.in.Changes = []sallyport.Change{c.change}
		if got := strings.Join(rulesOf(tr.inspect(t)), " "); got != c.rule {
			t.Errorf("%+v: %q, expected %q", c.change, got, c.rule)
		}
	}
}

func TestLinks(t *testing.T) {
	for _, c := range []struct{ at, target, rule string }{
		{"l", "a/b", ""}, {"d/l", "../a", ""}, {"a/b/l", "../../c/d", ""}, {"l", "./a", ""}, {"l", "a//b", ""}, {"l", "..a", ""},
		{"l", "/etc/passwd", "link.absolute"}, {"l", `\x`, "link.absolute"}, {"l", "C:x", "link.absolute"},
		{"l", "../a", "link.outside"}, {"d/l", "../../a", "link.outside"}, {"l", "a/../../b", "link.outside"}, {"l", "a/../b", "link.outside"}, {"l", `..\x`, "link.outside"}, {"l", "./..", "link.outside"},
		{"l", ".git/config", "link.git"}, {"d/l", "../.GIT", "link.git"}, {"l", "a/git~1/hooks", "link.git"},
		{"l", "", "link.invalid"}, {"l", "a\x00b", "link.invalid"}, {"l", strings.Repeat("a/", 2100), "link.invalid"},
	} {
		got := rulesOf(newTree("other").add(c.at, modeLink, c.target).inspect(t))
		want := []string{"link.added"}
		if c.rule != "" {
			want = append(want, c.rule)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s -> %.40q: %v, expected %v", c.at, c.target, got, want)
		}
	}
}

func TestIsTest(t *testing.T) {
	for _, p := range []string{"a_test.go", "x/testdata/y", "test_x.py", "src/__tests__/a.js", "a.test.tsx", "src/test/java/FooTest.java", "FooIT.java", "spec/a_spec.rb", "tests/it.rs", "t/00.t", "A.SPEC.TS"} {
		if !IsTest(p, nil) {
			t.Errorf("%s is a test", p)
		}
	}
	for _, p := range []string{"main.go", "latest.go", "attestation/x.go", "contest.py", "Unit.java", "testing.go", "src/protest.ts"} {
		if IsTest(p, nil) {
			t.Errorf("%s is no test", p)
		}
	}
	if IsTest("a_test.go", []string{"checks/**"}) || !IsTest("checks/a", []string{"checks/**"}) {
		t.Error("globs do not take the place of the defaults")
	}
}

func TestTestsEditedAndRemoved(t *testing.T) {
	got := rulesOf(newTree().edit("a_test.go", "x", "y").remove("b_test.go").add("c_test.go", modeFile, "z").inspect(t))
	if !slices.Equal(got, []string{"tests.edited", "tests.removed"}) {
		t.Errorf("%v", got)
	}
}
