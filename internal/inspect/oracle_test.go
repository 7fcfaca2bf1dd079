package inspect

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oracle is real git in an empty repository of its own, with no configuration but ours.
type oracle struct {
	tb  testing.TB
	dir string
}

func newOracle(tb testing.TB) *oracle {
	tb.Helper()
	o := &oracle{tb, tb.TempDir()}
	if _, err := o.git("", "init", "-q"); err != nil {
		tb.Fatalf("these tests need git: %v", err)
	}
	return o
}

func (o *oracle) git(stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = o.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(o.dir), "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	return string(out), err
}

func (o *oracle) write(name, content string) {
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(content), 0o644); err != nil {
		o.tb.Fatal(err)
	}
}

// config is what git reads in a file, one "name\nvalue" per setting; false: it refuses the file.
func (o *oracle) config(content string) (string, bool) {
	o.write("config-file", content)
	out, err := o.git("", "config", "-f", "config-file", "--list", "-z", "--no-includes")
	return out, err == nil
}

// sameConfig compares our reading with git's. Blanks within a value are kept by newer versions and made spaces
// by older ones; a key without a value is shown without one.
func sameConfig(t *testing.T, o *oracle, content string) {
	t.Helper()
	want, ok := o.config(content)
	got, bad := parseConfig([]byte(content))
	if ok != (bad == 0) {
		t.Fatalf("%q: git reads it: %v; we stop at line %d", content, ok, bad)
	}
	if !ok {
		return
	}
	var mine, gits []string
	for _, s := range got {
		mine = append(mine, s.full+"\n"+s.value)
	}
	for item := range strings.SplitSeq(strings.TrimSuffix(want, "\x00"), "\x00") {
		if item == "" {
			continue
		}
		if !strings.Contains(item, "\n") {
			item += "\ntrue"
		}
		gits = append(gits, item)
	}
	blanks := strings.NewReplacer("\t", " ", "\r", " ")
	if blanks.Replace(fmt.Sprint(mine)) != blanks.Replace(fmt.Sprint(gits)) {
		t.Fatalf("%q:\n  we  %q\n  git %q", content, mine, gits)
	}
}

// configPieces are what matters to the format; random rows of them are files that git reads or refuses.
var configPieces = []string{"[submodule \"a\"]", "[submodule \"a.b c\"]", "[SubModule.X.y]", "[submodule \"a\\\"b\\\\\"]", "[core]", "[submodule\t\"\"]", "[a-b \"x\"", "]", "[", "[x\n", "[x \n\"y\"]", "\n", "\r\n", "\r", " ", "\t", "path = a", "URL=b", "key", "k-1 = ", "\\\n", "\"", "\"a b\"", "\\n", "\\t", "\\x", "\\\"", "#c", ";d", " = ", "=", "é", "1", "_", "\ufeff", "update = !x ; y", "path = \"sub\r\""}

func randomOf(r *rand.Rand, pieces []string, most int) string {
	var b strings.Builder
	for range 1 + r.IntN(most) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func TestConfigIsReadLikeGit(t *testing.T) {
	o := newOracle(t)
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 400 {
		content := "[s \"x\"]\n" + randomOf(r, configPieces, 12) + "\n"
		if r.IntN(2) == 0 {
			content = strings.TrimSuffix(content, "\n")
		}
		sameConfig(t, o, content)
		if _, bad := parseConfig([]byte(content)); bad == 0 {
			read++
		}
	}
	if read < 40 {
		t.Errorf("only %d of 400 files are read at all: the pieces no longer fit together", read)
	}
}

// FuzzConfig: our reader of git configuration reads the settings that git-config(1) lists of the same file, or says that git cannot read it.
func FuzzConfig(f *testing.F) {
	for _, p := range configPieces {
		f.Add("[s \"x\"]\n" + p + "\n")
	}
	f.Add("[submodule \"../x\"]\n\tpath = \"sub\r\"\n\turl = -u\n\tupdate = !x\n")
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, content string) {
		if strings.ContainsRune(content, 0) || len(content) > 4096 {
			if _, bad := parseConfig([]byte(content)); strings.ContainsRune(content, 0) && bad == 0 {
				t.Fatal("NUL is read")
			}
			return
		}
		sameConfig(t, o, content)
	})
}

// FuzzSubmodules: whatever is in the file there is a verdict, and another spelling of the same settings has
// the same one.
func FuzzSubmodules(f *testing.F) {
	for _, k := range classes {
		if strings.HasPrefix(k.rule, "submodule.") {
			for _, tr := range slices.Concat(k.bad, k.good) {
				for _, c := range tr.in.Changes {
					f.Add(string(tr.blobs[c.NewID]), string(tr.blobs[c.OldID]))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, now, before string) {
		if now == before {
			return // no change
		}
		list, bad := parseConfig([]byte(now))
		a := newTree().edit(".gitmodules", before, now).inspect(t)
		if bad > 0 {
			if !slices.Contains(rulesOf(a), "submodule.unsafe") {
				t.Fatal("a file that git cannot read is let pass")
			}
			return
		}
		if slices.ContainsFunc(list, func(s setting) bool { section, _, _, _ := s.split(); return section == "" }) {
			return // a key before any header, or "[.x]", has no other spelling
		}
		other := respelled(list)
		if again, bad := parseConfig([]byte(other)); bad != 0 || !slices.Equal(again, list) {
			t.Fatalf("%q is not another spelling of %q: %q, %q", other, now, again, list)
		}
		b := newTree().edit(".gitmodules", before, other).inspect(t)
		keep := func(r string) bool { return !strings.HasPrefix(r, "submodule.") }
		ra, rb := slices.DeleteFunc(rulesOf(a), keep), slices.DeleteFunc(rulesOf(b), keep)
		if other != before && !slices.Equal(ra, rb) {
			t.Fatalf("%q: %v, but spelled %q: %v", now, ra, other, rb)
		}
	})
}

// respelled writes settings in quotes, with comments and other blanks.
func respelled(list []setting) string {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	for _, s := range list {
		section, name, key, named := s.split()
		head := section
		if named {
			head += ` "` + quote.Replace(name) + `"`
		}
		fmt.Fprintf(&b, "; comment\r\n[%s] %s\t=  \"%s\" # end\n", head, strings.ToUpper(key), value.Replace(s.value))
	}
	return b.String()
}

var attrPatterns = []string{"*", "*.js", "a", "/a", "a/b", "a/*", "**/b", "a/**", "a/**/b.js", "foo**/bar", "foo/**bar", "a**b", "***", "?", "[a-c]*", "[!a]*", "[^/]", "[]a]", "[a", "[[:alpha:]]*", "[[:nope:]]", "[[:alpha]b", "\\a", "a\\", "\\*", "\"a b\"", "\"\\141\"", "\"a", "!a", "a/", "[attr]m", "[attr]", "#x", "b.js", "*a*b", "a*/b", "**", "/**/", "/**", "**/a/**", "a?b", "d/[a-]", "[\\]]", "x[b-a]", "*[!.]js", "**/", "**\\/b"}

var attrStates = []string{"-diff", "diff", "!diff", "diff=x", "binary", "-binary", "!binary", "m", "-m", "export-ignore", "text=auto", "eol=crlf", "-eol=x", "bad$", "a.b_c-1", "--x", "=v", "filter=lfs", "merge=", "linguist-generated"}

var attrPaths = []string{"a", "b", "ab", "a.js", "b.js", "a b", "a/b", "a/b.js", "a/c/b.js", "a/c/d/b.js", "foo/bar", "foox/bar", "foo/x/bar", "foo/xbar", "x", "]", "*", "[a", "d/a", "d/-", "a/b/c", "ü", "[attr]", "xb", ".js", "a/.js"}

func randomAttributes(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString([]string{"", "", " ", "\t"}[r.IntN(4)] + attrPatterns[r.IntN(len(attrPatterns))])
		for range 1 + r.IntN(3) {
			b.WriteString([]string{" ", "\t", "  "}[r.IntN(3)] + attrStates[r.IntN(len(attrStates))])
		}
		b.WriteString([]string{"\n", "\r\n", "\n\n"}[r.IntN(3)])
	}
	return b.String()
}

// attributes is what git says of the paths.
func (o *oracle) attributes(content string, paths []string) map[string]map[string]string {
	o.write(".gitattributes", content)
	out, err := o.git(strings.Join(paths, "\x00")+"\x00", "check-attr", "-z", "--stdin", "--all")
	if err != nil {
		o.tb.Fatalf("git check-attr: %v", err)
	}
	said := map[string]map[string]string{}
	items := strings.Split(out, "\x00")
	for at := 0; at+2 < len(items); at += 3 {
		if said[items[at]] == nil {
			said[items[at]] = map[string]string{}
		}
		v := items[at+2]
		switch v {
		case "set":
			v = attrSet
		case "unset":
			v = attrUnset
		}
		said[items[at]][items[at+1]] = v
	}
	return said
}

func sameAttributes(t *testing.T, o *oracle, content string, paths []string) {
	t.Helper()
	want := o.attributes(content, paths)
	mine := parseAttributes([]byte(content), true)
	for _, p := range paths {
		got := mine.of(p)
		maps.DeleteFunc(got, func(_, v string) bool { return v == attrClear })
		if !maps.Equal(got, want[p]) && len(got)+len(want[p]) > 0 {
			t.Fatalf("%q for %q:\n  we  %q\n  git %q", content, p, got, want[p])
		}
	}
}

func TestAttributesAreReadLikeGit(t *testing.T) {
	o := newOracle(t)
	for _, p := range attrPatterns {
		sameAttributes(t, o, p+" diff=x\n", attrPaths)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 250 {
		sameAttributes(t, o, randomAttributes(r), attrPaths)
	}
}

// FuzzAttributes: our reader of attributes says of a path what git-check-attr(1) says of it.
func FuzzAttributes(f *testing.F) {
	for _, p := range attrPatterns {
		f.Add(p+" -diff x=y\n", "a/b.js")
	}
	f.Add("[attr]a a b\n* a\n", "x")
	f.Add(strings.Repeat("*a", 40)+"b -diff\n", strings.Repeat("a", 200))
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, content, path string) {
		a := parseAttributes([]byte(content), true)
		effectOf(a.of(path))
		plain := path != "" && validPath(path) && !strings.HasSuffix(path, "/") && len(path) < 200 && len(content) < 1500 && !strings.ContainsRune(content+path, 0)
		// A macro that names itself through others, or a value that looks like a state, is shown differently.
		if !plain || strings.Contains(content, "[attr]") || strings.Contains(content, "=set") || strings.Contains(content, "=unset") || strings.Contains(content, "=unspecified") || strings.Count(content, "*") > 8 {
			return
		}
		sameAttributes(t, o, content, []string{path})
	})
}

// TestNamesAreRefusedLikeGit: a tree entry that git's strict fsck calls .git, or a link in the place of one of
// its own files, is a finding that blocks.
func TestNamesAreRefusedLikeGit(t *testing.T) {
	o := newOracle(t)
	empty, err := o.git("", "hash-object", "-w", "-t", "blob", "/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	type entry struct{ mode, name string }
	var entries []entry
	var in strings.Builder
	words := []string{"git", ".git", ".GIT", "git~1", "GIT~1", ".gitmodules", ".GitModules", "gitmod~1", "gitmod~4", "gi7eba~1", "gi7eb~12", "gi~12345", "~1000000", "GI7EBA~9", ".gitattributes", ".gitignore", ".mailmap"}
	marks := []string{"", ".", " ", " . .", ":x", "::$INDEX_ALLOCATION", "\u200c", "\u200f", "\u202a", "\u206a", "\u206f", "\ufeff", "\xff", `\x`, "x", "~", "\u00ad"}
	for _, w := range words {
		for _, m := range marks {
			for _, name := range []string{w + m, m + w, w[:2] + m + w[2:], w + m + "."} {
				for _, mode := range []string{modeFile, modeLink} {
					entries = append(entries, entry{mode, name})
					fmt.Fprintf(&in, "%s blob %s\t%s\x00\x00", mode, strings.TrimSpace(empty), name)
				}
			}
		}
	}
	out, err := o.git(in.String(), "mktree", "-z", "--batch")
	ids := strings.Fields(out)
	if err != nil || len(ids) != len(entries) {
		t.Fatalf("git mktree made %d trees of %d: %v", len(ids), len(entries), err)
	}
	fsck := exec.Command("git", "fsck", "--strict", "--no-dangling")
	fsck.Dir = o.dir
	report, _ := fsck.CombinedOutput() // it ends with the number of a complaint
	refused := map[string]bool{}
	for line := range strings.Lines(string(report)) {
		var level, id, kind string
		if n, _ := fmt.Sscanf(line, "%s in tree %s %s", &level, &id, &kind); n == 3 && (strings.HasPrefix(kind, "hasDot") || strings.HasSuffix(kind, "Symlink:")) {
			refused[strings.TrimSuffix(id, ":")] = true
		}
	}
	for n, e := range entries {
		if refused[ids[n]] {
			if found := newTree("other").add(e.name, e.mode, "x").inspect(t); Worst(found) != block {
				t.Errorf("git refuses %s %q; we say %v", e.mode, e.name, rulesOf(found))
			}
		}
	}
	if len(refused) < 100 {
		t.Errorf("git refused %d names only: nothing was compared:\n%.500s", len(refused), report)
	}
}

// FuzzPointer: what is read is exactly what git-lfs would write.
func FuzzPointer(f *testing.F) {
	f.Add([]byte(goodPointer))
	for _, k := range classes {
		if strings.HasPrefix(k.rule, "lfs.") {
			for _, tr := range slices.Concat(k.bad, k.good) {
				for _, b := range tr.blobs {
					f.Add(b)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parsePointer(b)
		if !ok {
			return
		}
		if !pointerLike(b) {
			t.Fatalf("%q is read and not looked at", b)
		}
		want := fmt.Sprintf("%s\noid sha256:%s\nsize %d\n", pointerVersion, p.oid, p.size)
		var plain []byte
		for line := range bytes.Lines(b) {
			if !bytes.HasPrefix(line, []byte("ext-")) {
				plain = append(plain, line...)
			}
		}
		if string(plain) != want {
			t.Fatalf("%q is read as %q", b, want)
		}
		if _, ok := parsePointer(append(slices.Clone(b), '\n')); ok {
			t.Fatal("a second spelling is read as well")
		}
	})
}

// FuzzArchive: headers are read without a panic, and no size is negative.
func FuzzArchive(f *testing.F) {
	for _, k := range classes {
		if strings.HasPrefix(k.rule, "archive.") {
			for _, tr := range slices.Concat(k.bad, k.good) {
				for _, b := range tr.blobs {
					if len(b) < 1<<16 {
						f.Add(b, true)
					}
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		for _, k := range archiveKinds {
			if k.read == nil {
				continue
			}
			if in := k.read(b, whole); in.size < -1 || in.entries < -1 {
				t.Fatalf("%s: %+v", k.what, in)
			}
		}
	})
}
