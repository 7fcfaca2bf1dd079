package inspect

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// sample is one class of what a tree can carry: the rule, how bad it is unless policy says otherwise, a change
// that must be reported, and a near one that must not be by this rule.
type sample struct {
	rule     string
	severity sallyport.Severity
	bad      []*tree
	good     []*tree
}

func files(paths ...string) []*tree {
	var out []*tree
	for _, p := range paths {
		out = append(out, newTree("other").add(p, modeFile, "x\n"))
	}
	return out
}

func texts(path string, contents ...string) []*tree {
	var out []*tree
	for _, c := range contents {
		out = append(out, newTree("other").add(path, modeFile, c))
	}
	return out
}

func edits(path, before string, contents ...string) []*tree {
	var out []*tree
	for _, c := range contents {
		out = append(out, newTree("other").edit(path, before, c))
	}
	return out
}

func goTest(body string) string {
	return "package a\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {\n\t" + body + "\n}\n"
}

func links(at string, targets ...string) []*tree {
	var out []*tree
	for _, x := range targets {
		out = append(out, newTree("other").add(at, modeLink, x))
	}
	return out
}

func raw(c sallyport.Change) *tree {
	t := newTree("other")
	c.Path, c.NewID, c.OldID = "f", t.put("new"), t.put("old")
	if c.Status == sallyport.ChangeDeleted {
		c.NewID = ""
	}
	t.in.Changes = []sallyport.Change{c}
	return t
}

func all(lists ...[]*tree) []*tree { return slices.Concat(lists...) }

func (t *tree) limits(l Limits) *tree { t.in.Limits = l; return t }

func (t *tree) toLFS(paths ...string) *tree {
	t.in.ToLFS = map[string]bool{}
	for _, p := range paths {
		t.in.ToLFS[p] = true
	}
	return t
}
func (t *tree) lfs(has bool) *tree { t.in.HasLFS = func(string) bool { return has }; return t }

func (t *tree) scope(s sallyport.Scope) *tree { t.in.Scope = s; return t }

// nested is the shape of a bare repository below a folder, without the named part.
func nested(dir, without string) *tree {
	t := newTree("other")
	for _, p := range []string{"HEAD", "config", "objects/pack/p.pack", "refs/heads/main"} {
		if !strings.HasPrefix(p, without) || without == "" {
			t.add(dir+p, modeFile, "x\n")
		}
	}
	return t
}

// gz and zipped say of themselves that they unpack to n bytes; a header is all that is read.
func gz(n int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte("x"))
	w.Close()
	return b.String()[:b.Len()-4] + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

func zipped(name string, n int) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateRaw(&zip.FileHeader{Name: name, UncompressedSize64: uint64(n), CompressedSize64: 20 << 10})
	if err != nil {
		panic(err)
	}
	f.Write(make([]byte, 20<<10))
	w.Close()
	return b.String()
}

func tarred(headers ...tar.Header) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		w.Write(make([]byte, h.Size))
	}
	w.Close()
	return b.String()
}

const oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"

const goodPointer = pointerVersion + "\noid sha256:" + oid + "\nsize 12345\n"

func gitmodules(name string, lines ...string) string {
	return "[submodule \"" + name + "\"]\n\t" + strings.Join(lines, "\n\t") + "\n"
}

func npm(packages string) string {
	return `{"lockfileVersion":3,"packages":{"":{"name":"x","dependencies":{"a":"^1"}},` + packages + `}}`
}

const npmA = `"node_modules/a":{"version":"1.0.0","resolved":"https://reg.example/a.tgz","integrity":"sha512-AAAA","dependencies":{"b":"1"},"funding":{"url":"https://fund.example/a"}}`

var docs = []string{"docs/**"}

// classes follows the list of what a tree can carry: names, links, nested repositories, modes, submodules,
// LFS, attributes, files that others run, dependencies, binaries, text, weight.
var classes = []sample{
	{"scope.outside", block, []*tree{newTree("other").add("a", modeFile, "x").scope(sallyport.Scope{Allow: &docs})}, []*tree{newTree("other").add("docs/a", modeFile, "x").scope(sallyport.Scope{Allow: &docs})}},
	{"scope.denied", block, []*tree{newTree("other").add("A/b", modeFile, "x").scope(sallyport.Scope{Deny: []string{"a/**"}})}, []*tree{newTree("other").add("ab", modeFile, "x").scope(sallyport.Scope{Deny: []string{"a/**"}})}},

	{"link.absolute", block, links("l", "/etc/passwd", `\\host\share`, "C:/x"), links("l", "etc/passwd")},
	{"link.outside", block, links("d/l", "../../etc/passwd", "a/../../x", `..\..\x`), links("d/l", "../etc/passwd")},
	{"link.git", block, links("l", ".git/hooks/pre-commit", ".G\u200cIT/config", "git~1"), links("l", ".github/x", ".gitignore")},
	{"link.invalid", block, links("l", "", "a\x00b", strings.Repeat("a/", 2100)), links("l", "a")},
	{"link.special", block, all(links(".gitmodules", "a"), links("d/.gitattributes", "a"), links(".GITIGNORE", "a"), links("gitatt~1", "a"), links(".mailmap", "x")), all(links("gitattributes", "a"), files(".gitattributes", ".mailmap"))},
	{"link.added", info, links("l", "a"), files("l")},

	{"name.invalid", block, files("a/../b", "/a", "a//b"), files("a..b")},
	{"name.git", block, files(".git/config", "a/.GIT", ".g\u200cit", ".git\u200d/x", ".\ufeffgit", "git~1", ".git. .", ".git::$INDEX_ALLOCATION", `a\.git`, ".gi\u2060t", ".ｇit", ".git\xff"), files(".gitkeep", "git", "digit~1", "git~10", ".gitt", ".git2/x")},
	{"name.control", block, files("a\nb", "a\x1b]52;c;x\x07", "x\x7f", "a\u009bb", "sub\r"), files("a b")},
	{"name.backslash", block, files(`a\..\..\x`), files("a/b")},
	{"name.bidi", block, files("gnp\u202e.exe"), files("שלום.txt")},
	{"name.invisible", block, files("a\u200bb", "\u3164"), files("👩\u200d💻.md")},
	{"name.homoglyph", warn, files("аdmin.go", "src/pаth/x", "Μain.py"), files("привет.txt", "μm.txt", "Ωmega.md", "файл2.go", "über.go", "日本go.txt")},
	{"name.encoding", warn, files("caf\xe9"), files("café")},
	{"name.colon", warn, files("a:b"), files("a;b")},
	{"name.windows", warn, files("what?", "a|b", "<x>"), files("what!")},
	{"name.trailing", warn, files("a.", "d /x"), files("a.b")},
	{"name.device", warn, files("aux.c", "x/CON", "com¹"), files("console", "auxiliary.c")},
	{"name.dash", warn, files("--output=pwn", "d/-x"), files("a-b")},
	{"name.twin", warn, []*tree{newTree("README").add("readme", modeFile, "x"), newTree("caf\u00e9").add("cafe\u0301", modeFile, "x"), newTree("Src/a").add("src/b", modeFile, "x")}, []*tree{newTree().remove("README").add("readme", modeFile, "x")}},
	{"name.twin-folder", block, []*tree{newTree("A/x").add("a", modeLink, "b"), newTree("a").add("A/x", modeFile, "x"), newTree().add("D", modeLink, "x").add("d/hooks", modeFile, "x")}, []*tree{newTree("A/x").add("a/y", modeFile, "x"), newTree("A/x").add("b", modeLink, "c")}},

	{"repo.nested", block, []*tree{nested("vendor/x.git/", ""), nested("", ""), newTree("v/HEAD", "v/objects/x").add("v/Refs/heads/main", modeFile, "x"), newTree("v/HEAD", "v/objects/x", "v/refs/x").edit("v/config", "a", "b"), newTree("v/HEAD").add("v/commondir", modeFile, "../x")},
		[]*tree{nested("v/", "HEAD"), nested("v/", "refs"), newTree("v/HEAD", "v/objects/x", "v/refs/x").add("v/readme", modeFile, "x"), newTree("v/HEAD", "v/objects/x").remove("v/refs/y").add("v/config", modeFile, "x")}},

	{"mode.unusual", block, []*tree{raw(sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "104755"}), raw(sallyport.Change{Status: sallyport.ChangeAdded, NewMode: "100664"})}, files("a")},
	{"mode.executable", info, []*tree{newTree("o").add("a", modeExecutable, "x")}, files("a")},
	{"mode.type", info, []*tree{raw(sallyport.Change{Status: sallyport.ChangeType, OldMode: modeFile, NewMode: modeLink})}, []*tree{raw(sallyport.Change{Status: sallyport.ChangeMode, OldMode: modeFile, NewMode: modeExecutable})}},

	{"submodule.added", block, []*tree{raw(sallyport.Change{Status: sallyport.ChangeAdded, NewMode: modeSubmodule})}, []*tree{raw(sallyport.Change{Status: sallyport.ChangeModified, OldMode: modeSubmodule, NewMode: modeSubmodule})}},
	{"submodule.moved", block, []*tree{raw(sallyport.Change{Status: sallyport.ChangeModified, OldMode: modeSubmodule, NewMode: modeSubmodule})}, []*tree{raw(sallyport.Change{Status: sallyport.ChangeDeleted, OldMode: modeSubmodule})}},
	{"submodule.removed", warn, []*tree{raw(sallyport.Change{Status: sallyport.ChangeDeleted, OldMode: modeSubmodule})}, []*tree{newTree().remove("f")}},
	{"submodule.config", block, all(files(".gitmodules", ".GITMODULES", "gitmod~1", "gi7eba~1"), []*tree{newTree().remove(".gitmodules")}), files("gitmodules")},
	{"submodule.url", block, edits(".gitmodules", gitmodules("a", "path = a", "url = https://h/a"), gitmodules("a", "path = a", "url = https://evil/a"), gitmodules("b", "path = b", "url = https://h/a"), "[submodule.a]\nURL=\"https://evil/\"a"), edits(".gitmodules", gitmodules("a", "path = a", "url = https://h/a"), "# other\n[submodule \"a\"] url = \"https://h/a\" ; x\npath=b\n")},
	{"submodule.unsafe", block, texts(".gitmodules",
		gitmodules("../../hooks", "path = a"), gitmodules(`a\\..\\..`, "path = a"), gitmodules("", "path = a"), gitmodules("a", "path = -x"), gitmodules("a", "path = ../x"), gitmodules("a", "path = /x"), gitmodules("a", "path = .GIT/x"),
		gitmodules("a", "path = \"sub\r\""), gitmodules("a", "url = -u./x"), gitmodules("a", "url = --upload-pack=x"), gitmodules("a", "url = ext::sh -c x"), gitmodules("a", "url = file:///etc"), gitmodules("a", "url = /srv/x"), gitmodules("a", "url = ssh://-oProxyCommand=x/y"),
		gitmodules("a", "url = ssh://u@-oX/y"), gitmodules("a", "url = -oX:y"), gitmodules("a", "url = u@-oX:y"), gitmodules("a", "url = https://h/%0ahost=x"), gitmodules("a", "url = \"https://h/\\n\""), gitmodules("a", "url = fd::7"), gitmodules("a", "url = C:/x"), gitmodules("a", "url = ../:x"),
		gitmodules("a", "update = !cmd"), gitmodules("a", "update = \"!\"cmd"), "[submodule \"a\"\n", gitmodules("a", "path = a")+gitmodules("A", "path = b"), gitmodules("a", "path = a")+gitmodules("a/modules/b", "path = b")),
		texts(".gitmodules", gitmodules("a", "path = a", "url = https://h/a.git", "update = rebase", "branch = main"), gitmodules("libs/a b", "path = libs/a", "url = ../a.git"), gitmodules("a..b", "url = git@h.example:o/a.git"), gitmodules("a", "url = ssh://git@h:22/a"), "")},

	{"lfs.pointer", warn, []*tree{newTree("o").add("a.psd", modeFile, goodPointer), newTree("o").add("a.psd", modeFile, goodPointer).lfs(true)}, all(texts("a.md", "see version https://git-lfs.github.com/spec/v1\n"), []*tree{newTree("o").add("a.psd", modeFile, goodPointer).lfs(false)})},
	{"lfs.missing", block, []*tree{newTree("o").add("a.psd", modeFile, goodPointer).lfs(false)}, []*tree{newTree("o").add("a.psd", modeFile, goodPointer).lfs(true), newTree("o").add("a.psd", modeFile, goodPointer)}},
	{"lfs.malformed", warn, texts("a.psd", strings.ReplaceAll(goodPointer, "\n", "\r\n"), pointerVersion+"\nsize 1\noid sha256:"+oid+"\n", pointerVersion+"\noid sha256:"+oid[:63]+"\nsize 1\n", pointerVersion+"\noid sha256:"+strings.ToUpper(oid)+"\nsize 1\n", strings.Replace(goodPointer, "12345", "-1", 1), strings.Replace(goodPointer, "12345", "012", 1), strings.TrimSuffix(goodPointer, "\n"), "\ufeff"+goodPointer, "version https://hawser.github.com/spec/v1\n"), texts("a.psd", goodPointer, pointerVersion+"\next-0-case sha256:"+oid+"\noid sha256:"+oid+"\nsize 1\n")},
	{"lfs.raw", block, []*tree{newTree("o").add("a.psd", modeFile, "raw").toLFS("a.psd"), newTree("o").add("a.psd", modeFile, strings.Repeat("raw", maxPointer)).toLFS("a.psd")},
		[]*tree{newTree("o").add("a.psd", modeFile, goodPointer).toLFS("a.psd"), newTree("o").add("a.psd", modeFile, "").toLFS("a.psd"), newTree("o").add("b.psd", modeFile, "raw").toLFS("a.psd"), newTree("o").remove("a.psd").toLFS("a.psd")}},
	{"lfs.replaced", info, edits("a.psd", goodPointer, "real content"), edits("a.psd", "real content", "other")},
	{"lfs.config", warn, files(".lfsconfig", ".LfsConfig"), files("lfsconfig")},
	{"lfs.url", block, all(texts(".lfsconfig", "[lfs]\n url = https://evil\n", "[LFS]URL=x", "[remote \"origin\"]\nlfsurl = x\n", "[lfs]\npushurl=x", "[lfs \"https://h\"]\naccess = basic\n", "[lfs\n"), edits(".lfsconfig", "[lfs]\nurl = a\n", "[lfs]\nurl = b\n")), all(texts(".lfsconfig", "[lfs]\nfetchexclude = *.psd\n"), edits(".lfsconfig", "[lfs]\nurl = a\n", "[lfs]\n\turl = \"a\" # same\n"))},

	{"git.attributes", warn, files(".gitattributes", "a/.gitattributes", ".GitAttributes", "gi7d29~1"), files("gitattributes")},
	{"attributes.hides", warn, []*tree{newTree("src/secret.js").add(".gitattributes", modeFile, "secret.js -diff\n"), newTree("o").add(".gitattributes", modeFile, "*.js linguist-generated\n").add("a.js", modeFile, "x"), newTree("d/a.x").add("d/.gitattributes", modeFile, "/a.x binary\n"), newTree("a").add(".gitattributes", modeFile, "[attr]calm -diff\n* calm\n"), newTree("x/y/a.go").add(".gitattributes", modeFile, "x/**/a.g[a-z] gitlab-generated=true\n")},
		[]*tree{newTree("a.go").add(".gitattributes", modeFile, "*.js -diff\n"), newTree("a.js").add(".gitattributes", modeFile, "*.js -diff\n*.js diff\n"), newTree("a.js").add(".gitattributes", modeFile, "*.js linguist-generated=false\n"), newTree("a.js").edit(".gitattributes", "*.js -diff\n", "# same\n*.js -diff\n"), newTree("o/a.x").add("d/.gitattributes", modeFile, "a.x -diff\n"), newTree("a.js").add(".gitattributes", modeFile, "a.js -diff bad$name\n"), newTree("a.js").add(".gitattributes", modeFile, "!a.js -diff\n")}},
	{"attributes.export", warn, []*tree{newTree("tests/a").add(".gitattributes", modeFile, "tests/* export-ignore\n"), newTree("v").add(".gitattributes", modeFile, "v export-subst\n")}, []*tree{newTree("src/a").add(".gitattributes", modeFile, "tests/* export-ignore\n")}},
	{"attributes.bytes", warn, []*tree{newTree("a").add(".gitattributes", modeFile, "* ident\n"), newTree("a").add(".gitattributes", modeFile, "* eol=crlf\n"), newTree("a").add(".gitattributes", modeFile, "* working-tree-encoding=UTF-16\n"), newTree("a").add(".gitattributes", modeFile, "* text=auto\n")}, []*tree{newTree("a").add(".gitattributes", modeFile, "* -text whitespace=trailing-space\n"), newTree("a").add(".gitattributes", modeFile, "* text=auto eol=lf\n")}},
	{"attributes.driver", warn, []*tree{newTree("a").add(".gitattributes", modeFile, "* filter=x\n"), newTree("a").add(".gitattributes", modeFile, "a merge=ours\n"), newTree("a").add(".gitattributes", modeFile, "\"\\141\" diff=x\n")}, []*tree{newTree("a").add(".gitattributes", modeFile, "* -filter -merge\n")}},

	{"ci.changed", warn, files(".github/workflows/x.yml", ".GITHUB/x", "a/.gitlab-ci.yml", "Jenkinsfile", "action.yml", "CODEOWNERS", ".readthedocs.yaml"), files("github/x.yml", "docs/ci.md")},
	{"hook.changed", warn, files(".husky/pre-commit", ".githooks/x", ".pre-commit-config.yaml", ".gitconfig", ".lefthook/x"), files("hooks.go", "husky.md")},
	{"agent.config", warn, files(".claude/settings.json", ".codex/config.toml", ".mcp.json", "AGENTS.md", "x/CLAUDE.md", ".cursor/rules/a.mdc", ".openhands/microagents/x", ".clau\u200bde/x"), files("agents/a.go", "claude.go")},
	{"editor.config", warn, files(".envrc", ".vscode/tasks.json", ".vscode/settings.json", ".devcontainer/devcontainer.json", ".idea/x.xml", ".Rprofile", ".pdbrc", ".helix/languages.toml", "desktop.ini", "x.lnk"), files(".editorconfig", "vscode/tasks.json", "envrc")},
	{"container.config", info, files("Dockerfile", "a/Dockerfile.dev", "docker-compose.yml", "main.tf"), files("docker.md", "tf.go")},
	{"lock.changed", warn, files("go.sum", "a/yarn.lock", "requirements-dev.txt"), files("lock.go", "sum.go")},
	{"vendored.changed", warn, files("vendor/x/y.go", "node_modules/a/index.js", "third_party/z"), files("vendors.go", "src/node.js")},

	{"deps.config", warn, files(".npmrc", "pip.conf", "NuGet.Config", ".mvn/settings.xml"), files("npmrc.md")},
	{"deps.source", warn, all(
		edits("package-lock.json", npm(npmA), npm(strings.Replace(npmA, "https://reg.example", "https://evil.example", 1))),
		edits("yarn.lock", "a@1:\n  resolved \"https://reg.example/a.tgz\"\n", "a@1:\n  resolved \"https://evil.example/a.tgz\"\n"),
		edits("package.json", `{"dependencies":{"a":"^1.0.0"}}`, `{"dependencies":{"a":"git+ssh://git@h.example/o/a.git"}}`, `{"dependencies":{"a":"owner/a"}}`, `{"dependencies":{"a":"file:../a"}}`, `{"overrides":{"x":{"a":"npm:evil@1"}}}`, `{"dependencies":{"a":"git@h.example:o/a"}}`, `{"dependencies":{"a":"https:\u002f/evil.example/a.tgz"}}`),
		edits(".npmrc", "registry=https://reg.example/\n", "registry=https://evil.example/\n"),
		texts("requirements.txt", "a @ https://evil.example/a.whl\n", "-e git+https://h.example/o/a#egg=a\n", "--extra-index-url https://evil.example/simple\n"),
		edits("Cargo.toml", "[dependencies]\na = \"1\"\n", "[dependencies]\na = { git = \"https://h.example/o/a\" }\n", "[dependencies.a]\ngit = \"https://h.example/o/a\"\n"),
		edits("Cargo.lock", "source = \"git+https://h.example/o/a?rev=1#1\"\n", "source = \"git+https://h.example/evil/a?rev=1#1\"\n"),
		edits("pyproject.toml", "[project]\n", "[[tool.uv.index]]\nurl = \"https://evil.example/simple\"\n", "[project]\ndependencies = [\"a @ git+https://h.example/o/a\"]\n"),
		edits("composer.lock", `{"packages":[]}`, `{"packages":[{"dist":{"url":"https:\/\/evil.example\/a.zip"}}]}`)),
		all(
			edits("package-lock.json", npm(npmA), npm(strings.NewReplacer("1.0.0", "1.0.1", "fund.example", "other.example").Replace(npmA))),
			edits("package.json", `{"dependencies":{"a":"^1.0.0"}}`, `{"dependencies":{"a":"^1.1.0"},"homepage":"https://x.example"}`, `{"dependencies":{"a":">=1 <2 || 3.x","@o/b":"workspace:*"}}`),
			edits("Cargo.toml", "[dependencies]\na = \"1\"\n", "[package]\nhomepage = \"https://x.example\"\n[dependencies]\na = \"2\"\n"),
			edits("pyproject.toml", "[project]\n", "[project.urls]\nHomepage = \"https://x.example\"\n"),
			edits(".npmrc", "registry=https://reg.example/\n", "registry=https://reg.example/\nsave-exact=true\n"))},
	{"deps.insecure", warn, all(edits("requirements.txt", "a==1\n", "a==1\n--index-url http://i.example/simple\n", "a==1\n--trusted-host i.example\n"), edits(".npmrc", "", "strict-ssl = false\n"), edits("yarn.lock", "resolved \"https://r.example/a\"\n", "resolved \"http://r.example/a\"\n"), texts("Gemfile.lock", "remote: git://h.example/a.git\n"), texts("build.gradle", "maven { allowInsecureProtocol = true }\n")),
		all(texts("requirements.txt", "--index-url https://i.example/simple\n"), texts(".npmrc", "strict-ssl=true\n# strict-ssl=false\n"), texts("x.go", "strict-ssl=false\n"))},
	{"deps.integrity", warn, all(
		edits("go.sum", "a.example/m v1.0.0 h1:AAA=\n", "a.example/m v1.0.0 h1:BBB=\n"),
		edits("package-lock.json", npm(npmA), npm(strings.Replace(npmA, "sha512-AAAA", "sha512-BBBB", 1)), npm(strings.Replace(npmA, `,"integrity":"sha512-AAAA"`, "", 1)), npm(npmA+`,"node_modules/b":{"version":"1","resolved":"https://reg.example/b.tgz"}`)),
		edits("package-lock.json", `{"dependencies":{"a":{"version":"1","integrity":"sha512-A","dependencies":{"b":{"version":"1","integrity":"sha512-B"}}}}}`, `{"dependencies":{"a":{"version":"1","integrity":"sha512-A","dependencies":{"b":{"version":"1","integrity":"sha512-C"}}}}}`),
		edits("yarn.lock", "a@^1:\n  version \"1.0.0\"\n  resolved \"https://r/a\"\n  integrity sha512-A\n", "a@^1:\n  version \"1.0.0\"\n  resolved \"https://r/a\"\n", "a@^1:\n  version \"1.0.0\"\n  integrity sha512-B\n"),
		edits("pnpm-lock.yaml", "packages:\n\n  a@1:\n    resolution: {integrity: sha512-A}\n", "packages:\n\n  a@1:\n    resolution: {tarball: x}\n", "packages:\n  'a@1':\n    resolution: {integrity: sha512-B}\n"),
		edits("Cargo.lock", "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"registry+https://r\"\nchecksum = \"aa\"\n", "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"registry+https://r\"\n", "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"registry+https://r\"\nchecksum = \"bb\"\n"),
		edits("uv.lock", "[[package]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ url = \"https://f/a\", hash = \"sha256:aa\" }]\n", "[[package]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ url = \"https://f/a\", hash = \"sha256:bb\" }]\n"),
		edits("requirements.txt", "a==1 \\\n    --hash=sha256:aa\n", "a==1\n", "a==1 --hash=sha256:bb\n")),
		all(
			edits("go.sum", "a.example/m v1.0.0 h1:AAA=\n", "a.example/m v1.0.0 h1:AAA=\na.example/m v1.1.0 h1:BBB=\n", ""),
			edits("package-lock.json", npm(npmA), npm(npmA+`,"node_modules/b":{"version":"1","resolved":"https://reg.example/b.tgz","integrity":"sha512-B"}`), npm(strings.Replace(npmA, "1.0.0", "1.0.1", 1))),
			edits("package-lock.json", npm(strings.Replace(npmA, "sha512", "sha1", 1)), npm(npmA)),
			edits("requirements.txt", "a==1\n", "a==2\nb==1\n"),
			edits("uv.lock", "[[package]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ hash = \"sha256:aa\" }]\n", "[[package]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ hash = \"sha256:aa\" },\n { hash = \"sha256:bb\" }]\n"))},
	{"deps.install-script", warn, edits("package-lock.json", npm(npmA), npm(strings.Replace(npmA, `"version"`, `"hasInstallScript":true,"version"`, 1))), edits("package-lock.json", npm(strings.Replace(npmA, `"version"`, `"hasInstallScript":true,"version"`, 1)), npm(strings.NewReplacer(`"version"`, `"hasInstallScript":true,"version"`, "1.0.0", "1.0.1").Replace(npmA)))},

	{"runner.config", info, files("Makefile", "conftest.py", "go.mod"), files("main.go")},
	{"runner.script", warn, all(files("build.rs", "x.pth"), edits("package.json", `{}`, `{"scripts":{"postinstall":"x"}}`)), edits("package.json", `{}`, `{"scripts":{"test":"x"}}`)},
	{"runner.replace", warn, edits("go.mod", "module x\n", "module x\nreplace a => ../b\n"), edits("go.mod", "module x\n", "module x\nrequire a v1.0.0\n")},
	{"tests.edited", info, edits("a_test.go", "x", "y"), files("a_test.go")},
	{"tests.weakened", warn,
		edits("a_test.go", goTest("if x() != 1 { t.Fatal() }"), goTest("t.Skip()"), "package a\n"),
		edits("a_test.go", goTest("if x() != 1 { t.Fatal() }"), goTest("if x() != 1 { t.Fatal() }\n\tif x() == 2 { t.Fatal() }"))},
	{"tests.expectation", info, edits("a_test.go", goTest("if x() != 1 { t.Fatal() }"), goTest("if x() != 2 { t.Fatal() }")), edits("a_test.go", goTest("if x() != 1 { t.Fatal() }"), goTest("if  x() != 1 { t.Fatal() }"))},
	{"tests.removed", info, []*tree{newTree().remove("a_test.go")}, []*tree{newTree().remove("a.go")}},

	{"size.file", warn, []*tree{newTree("o").add("a", modeFile, "0123456789\n").limits(Limits{FileSize: 10})}, []*tree{newTree("o").add("a", modeFile, "012345678\n").limits(Limits{FileSize: 10})}},
	{"size.total", warn, []*tree{newTree("o").add("a", modeFile, "01234\n").add("b", modeFile, "56789\n").limits(Limits{ChangeSize: 11})}, []*tree{newTree("o").add("a", modeFile, "01234\n").limits(Limits{ChangeSize: 11})}},
	{"size.count", warn, []*tree{newTree("o").add("a", modeFile, "x").add("b", modeFile, "x").limits(Limits{Files: 1})}, []*tree{newTree("o").add("a", modeFile, "x").limits(Limits{Files: 1})}},
	{"size.path", warn, files(strings.Repeat("d/", 32)+"f", strings.Repeat("n", 256), strings.Repeat(strings.Repeat("n", 250)+"/", 17)), files(strings.Repeat("d/", 31)+"f", strings.Repeat("n", 255))},

	{"binary.added", info, texts("a.png", "\x89PNG\x00"), texts("a.txt", "text")},
	{"binary.changed", info, edits("a.png", "\x89PNG\x00", "\x89PNG\x00\x01"), texts("a.png", "\x89PNG\x00")},
	{"binary.executable", warn, all(texts("a.png", "\x7fELF\x00", "MZ\x00", "\x00asm"), texts("model.pkl", "\x80\x04\x00"), texts("a.jar", zipped("A.class", 1))), all(texts("a.png", "\x89PNG\x00"), texts("a.pth", "path\n"))},
	{"archive.added", warn, texts("a", zipped("x", 1), gz(1), tarred(tar.Header{Name: "x", Size: 1}), "7z\xbc\xaf\x27\x1c\x00", "\xfd7zXZ\x00\x00", "\x28\xb5\x2f\xfd\x00"), texts("a", "PK\x00", "text")},
	{"archive.bomb", block, texts("a", zipped("x", 80<<20), gz(80<<20), "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), texts("a", zipped("x", 1<<20), gz(1<<20))},
	{"archive.escape", block, texts("a", zipped("../x", 1), zipped("/x", 1), zipped(`a/../../x`, 1), tarred(tar.Header{Name: "../x"}), tarred(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../../etc"}), tarred(tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), tarred(tar.Header{Name: "d", Typeflag: tar.TypeChar})),
		texts("a", zipped("d/x", 1), zipped("d/", 0), tarred(tar.Header{Name: "./x"}, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../x"}))},
	{"generated.changed", info, all(files("a.pb.go", "app.min.js"), texts("a.go", "// Code generated by x. DO NOT EDIT.\n"), texts("a.js", "/** @generated */\n")), all(files("a.go", "min.js"), texts("a.go", "// code that was generated once; edit freely\n"))},

	{"text.bidi", block, texts("a.go", "x \u202e y\n"), texts("a.go", "שלום\n")},
	{"text.bidi-prose", warn, texts("a.md", "x \u202e y\n"), texts("a.md", "שלום\u200f\n")},
	{"text.invisible", warn, texts("a.go", "a\u200bb\n", "x\u3164\n"), texts("a.go", "👩\u200d💻\n")},
	{"text.homoglyph", warn, texts("a.go", "func isАdmin() {}\n", "pаssword := 1\n", "user_а = x\n", "sсоре\n", "Χmax = 1\n", "ｅval(x)\n"),
		all(texts("a.go", "// Это обычный комментарий про HTTP-запрос и URLа, API\n", "x := \"\\nОшибка: %sо\"\n", "re := `[a-zа-яA-ZА-Я0-9]`\n", "Δx := σ2 * dν + μs // Ελληνικά κείμενο\n", "// cтрока с опечаткой\n", "сору := 1 // целиком кириллица\n", "naïve café Ångström\n", "変数name = 1\n", "x₂ + xⁿ + ª\n", "legacy p\xe0\xb0 pаss\n"), texts("a.md", "pаssword\n"))},
	{"text.escape", warn, texts("a.sh", "echo \x1b]52;c;eA==\x07\n"), texts("a.sh", `echo '\x1b[2K'`+"\n")},
	{"text.control", warn, texts("a.sh", "safe\rrm -rf x\n", "a\bb\n", "x\u2028y\n", "x\u0085y\n", "a\x7fb\n"), texts("a.sh", "dos line\r\n", "tab\there\n", "form\ffeed\n", "last\r")},
	{"text.far", warn, texts("a.js", "x"+strings.Repeat(" ", 201)+"evil()\n"), texts("a.js", strings.Repeat(" ", 190)+"deep()\n", "x"+strings.Repeat(" ", 400)+"\r\n")},

	{"scan.incomplete", warn, []*tree{newTree("o").add("a", modeFile, "long text\n").limits(Limits{BlobBytes: 3})}, files("a")},
}

func TestEveryClassIsFoundAndItsNeighbourIsNot(t *testing.T) {
	have := map[string]bool{}
	for _, k := range classes {
		have[k.rule] = true
		if len(k.bad) == 0 || len(k.good) == 0 {
			t.Errorf("%s has no example or no near miss", k.rule)
		}
		for n, tr := range k.bad {
			found := tr.inspect(t)
			at := slices.IndexFunc(found, func(f sallyport.Finding) bool { return f.Rule == k.rule })
			if at < 0 {
				t.Errorf("%s: example %d (%s): %v", k.rule, n, tr, rulesOf(found))
				continue
			}
			if f := found[at]; f.Severity != k.severity || f.Message == "" || f.Todo == "" {
				t.Errorf("%s: example %d: %+v, expected %s and what to do", k.rule, n, f, k.severity)
			}
		}
		for n, tr := range k.good {
			for _, f := range tr.inspect(t) {
				if f.Rule == k.rule {
					t.Errorf("%s: near miss %d (%s): %+v", k.rule, n, tr, f)
				}
			}
		}
	}
	for _, r := range Rules() {
		// lock.setup is Mission Control's, which knows what setup does.
		if !have[r.ID] && !strings.HasPrefix(r.ID, "secret.") && r.ID != "lock.setup" {
			t.Errorf("rule %s has no class in this table", r.ID)
		}
	}
}

// TestGitsOwnFilesAreReadFirst: other files cannot use up the limits before them.
func TestGitsOwnFilesAreReadFirst(t *testing.T) {
	tr := newTree("o").add(".a", modeFile, "weight\n").add(".gitmodules", modeFile, gitmodules("../x", "path = a")).add("d/.lfsconfig", modeFile, "[lfs]\nurl=x\n")
	tr.in.Limits.TotalBytes = 40
	got := rulesOf(tr.inspect(t))
	for _, rule := range []string{"submodule.unsafe", "lfs.url", "scan.incomplete"} {
		if !slices.Contains(got, rule) {
			t.Errorf("%s is not found: %v", rule, got)
		}
	}
}

// TestMessagesSayWhat: the sentence names what was found, neutralised.
func TestMessagesSayWhat(t *testing.T) {
	for _, c := range []struct {
		tree       *tree
		rule, says string
	}{
		{newTree("o").add(".gitmodules", modeFile, gitmodules("a", "url = --upload-pack=x")), "submodule.unsafe", "option"},
		{newTree("o").add(".gitmodules", modeFile, gitmodules("a", "url = ext::sh")), "submodule.unsafe", "program"},
		{newTree("o").add(".gitmodules", modeFile, gitmodules("a", "path = a\n[x")), "submodule.unsafe", "line 3"},
		{newTree("o").add(".gitmodules", modeFile, gitmodules("a\u202eb", "url = https://h/a")), "submodule.url", `"a<U+202E>b"`},
		{newTree("a.js", "b.js", "c.go").add(".gitattributes", modeFile, "*.js -diff\n").edit("b.js", "x", "y"), "attributes.hides", `2 files are no longer shown in differences: "b.js", "a.js"`},
		{newTree("o").edit(".npmrc", "registry=https://a.example\n", "registry=https://b.example\n"), "deps.source", `"b.example"`},
		{newTree("o").edit("go.mod", "module x\n", "module x\nreplace a => ../b\n"), "runner.replace", "folder"},
		{newTree("o").edit("go.mod", "module x\n", "module x\nreplace a => b v1.0.0\n"), "runner.replace", "another module"},
		{newTree("o").add("a.psd", modeFile, goodPointer), "lfs.pointer", "not known"},
		{newTree("o").add("a.zip", modeFile, zipped("x", 3<<20)), "archive.added", "unpacks to 3.0 MiB in 1 entries"},
		{newTree("o").add(".gitattributes", modeFile, "* -diff\n").add("a\x1b.js", modeFile, "x"), "attributes.hides", "a<U+001B>.js"},
	} {
		found := c.tree.inspect(t)
		if !slices.ContainsFunc(found, func(f sallyport.Finding) bool { return f.Rule == c.rule && strings.Contains(f.Message, c.says) }) {
			t.Errorf("%s: %q is not said: %+v", c.rule, c.says, found)
		}
	}
}

func (t *tree) String() string {
	var b strings.Builder
	for _, c := range t.in.Changes {
		fmt.Fprintf(&b, "%s %.40q %.60q ", c.Status, c.Path, t.blobs[c.NewID])
	}
	return b.String()
}
