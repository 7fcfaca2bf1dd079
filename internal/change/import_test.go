package change

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
)

// model is a tree as a plain map, edited by simple rules.
type model map[string]string

func (m model) apply(changes map[string]string) model {
	out := model{}
	for p, c := range m {
		gone := false
		for q, d := range changes {
			if p == q || strings.HasPrefix(p, q+"/") || (strings.HasPrefix(q, p+"/") && d != "") {
				gone = true
			}
		}
		if !gone {
			out[p] = c
		}
	}
	for p, c := range changes {
		if c != "" {
			out[p] = c
		}
	}
	return out
}

func (m model) gitTree(t testing.TB, format Format) sallyport.ObjectID {
	dir := t.TempDir()
	write(t, dir, m)
	return gitTree(t, format, dir)
}

func TestImportMakesTheTreeThatGitMakes(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		start := f.head().Tree
		base := model(sampleFiles).gitTree(t, format)
		if base != start {
			// .gitattributes normalises what the user's git stored, so begin from the raw tree.
			start = f.importTree(start, map[string]string{"crlf.txt": sampleFiles["crlf.txt"]})
			if start != base {
				t.Fatalf("raw base %s, git says %s", start, base)
			}
		}
		for name, changes := range map[string]map[string]string{
			"nothing": {}, "edit": {"README": "new\n"}, "exec": {"README": "#!hello\n"}, "add deep": {"a/b/c/d/e": "x"},
			"delete": {"README": ""}, "delete folder": {"src": ""}, "delete last in folder": {"src/deep/b.c": ""}, "delete nothing": {"none/at/all": ""},
			"file to folder": {"README/x": "1"}, "folder to file": {"src": "now a file"}, "folder to link": {"src": "-> elsewhere"}, "link to folder": {"dirlink/x": "y"},
			"link": {"link": "-> other"}, "sorting": {"src0": "a", "src-": "b", "src/zz": "c", "src.": "d"}, "odd names": {"-x": "1", "a b": "2", "\x01\x1b": "3", "\xff\xfe": "4", `q"`: "5"},
		} {
			got := f.importTree(start, changes)
			if want := model(sampleFiles).apply(changes).gitTree(t, format); got != want {
				t.Errorf("%s: %s, git makes %s", name, got, want)
			}
			if got != format.emptyTree() {
				if out := f.storeGit("fsck", "--strict", "--no-dangling", string(got)); strings.Contains(out, "error") {
					t.Errorf("%s: fsck: %s", name, out)
				}
			}
		}
	})
}

// Law: for any sequence of changes our tree is the one that git writes from the same files, and the
// difference tells exactly how to get there.
func TestImportRandomly(t *testing.T) {
	f := newFixture(t, SHA1, map[string]string{"a/a": "1", "b": "2", "c/d/e": "#!3", "keep": "k"})
	have, at := model{"a/a": "1", "b": "2", "c/d/e": "#!3", "keep": "k"}, f.head().Tree
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 25 {
		changes := map[string]string{}
		for range 1 + r.IntN(5) {
			parts := make([]string, 1+r.IntN(3))
			for i := range parts {
				parts[i] = []string{"a", "b", "c", "a.", "a-", "a0"}[r.IntN(6)]
			}
			p := strings.Join(parts, "/")
			clash := false
			for q := range changes {
				clash = clash || q == p || strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/")
			}
			if !clash {
				changes[p] = []string{"", "1", "2", "#!3", "-> t"}[r.IntN(5)]
			}
		}
		in, err := f.store.Import(bg, at, bytes.NewReader(stream(t, changes)), collect.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		next := have.apply(changes)
		if want := next.gitTree(t, SHA1); in.Tree != want {
			t.Fatalf("round %d, %q: %s, git makes %s", round, changes, in.Tree, want)
		}
		wantDiff(t, have, next, in.Changes)
		rawDiff(t, f, at, in.Tree, in.Changes)
		have, at = next, in.Tree
	}
}

func wantDiff(t *testing.T, old, new model, changes []sallyport.Change) {
	t.Helper()
	want := map[string]sallyport.ChangeStatus{}
	kind := func(c string) string { return c[:min(len(c), 2)] }
	for p, c := range old {
		switch d, has := new[p]; {
		case !has:
			want[p] = sallyport.ChangeDeleted
		case (kind(c) == "->") != (kind(d) == "->"):
			want[p] = sallyport.ChangeType
		case c != d:
			want[p] = sallyport.ChangeModified
		}
	}
	for p := range new {
		if _, had := old[p]; !had {
			want[p] = sallyport.ChangeAdded
		}
	}
	got := map[string]sallyport.ChangeStatus{}
	last := ""
	for _, c := range changes {
		if c.Path <= last {
			t.Errorf("changes are not in order: %q after %q", c.Path, last)
		}
		last = c.Path
		got[c.Path] = c.Status
		if body, has := new[c.Path]; has && c.Size != int64(len(strings.TrimPrefix(body, "-> "))) {
			t.Errorf("%s: size %d of %q", c.Path, c.Size, body)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("changes %v, want %v", got, want)
	}
}

// rawDiff compares modes and ids with git's own raw diff.
func rawDiff(t *testing.T, f *fixture, from, to sallyport.ObjectID, changes []sallyport.Change) {
	t.Helper()
	var got strings.Builder
	for _, c := range changes {
		old, new := sallyport.Change{OldMode: "000000", OldID: sallyport.ObjectID(SHA1.zero())}, sallyport.Change{NewMode: "000000", NewID: sallyport.ObjectID(SHA1.zero())}
		if c.OldMode != "" {
			old = c
		}
		if c.NewMode != "" {
			new = c
		}
		fmt.Fprintf(&got, ":%s %s %s %s\t%s\n", old.OldMode, new.NewMode, old.OldID, new.NewID, c.Path)
	}
	var want strings.Builder
	lines := strings.Split(f.storeGit("diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", string(from), string(to)), "\n")
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(a[strings.IndexByte(a+"\t", '\t'):], b[strings.IndexByte(b+"\t", '\t'):])
	})
	for _, l := range lines {
		if head, path, ok := strings.Cut(l, "\t"); ok {
			fmt.Fprintf(&want, "%s\t%s\n", head[:len(head)-2], path)
		}
	}
	if got.String() != want.String() {
		t.Errorf("difference\n%s\ngit says\n%s", got.String(), want.String())
	}
}

func TestImportRefusesBadPaths(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	for _, p := range []string{".git", ".git/config", ".GIT/x", "a/.git/hooks/x", "a/.Git", ".g\u200cit/x", ".gi\u200dT", "git~1", "GIT~1/x", ".git./x", ".git /x", ".git::$INDEX_ALLOCATION/x",
		`a\.git\config`, `.git\x`, "\ufeff.git/x"} {
		_, err := f.store.Import(bg, f.head().Tree, bytes.NewReader(stream(t, map[string]string{p: "x"})), collect.DefaultLimits())
		wantCode(t, fmt.Sprintf("%+q", p), err, sallyport.CodeInvalid)
	}
	for _, p := range []string{"", "/x", "a//b", "a/../b", "..", ".", "a/./b", "a\x00", "a/"} {
		wantCode(t, fmt.Sprintf("%+q", p), CheckPath(p), sallyport.CodeInvalid)
	}
	for _, p := range []string{".gitignore", ".github/x", "git", "a.git", ".gitmodules", "git~2", "...", ".git2", "x/.gitattributes", "a b", "-x"} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%+q: %v", p, err)
		}
	}
}

// FuzzCheckPathAgainstFsck: what we let pass, git's own strict check lets pass: our floor is not below git's.
func FuzzCheckPathAgainstFsck(f *testing.F) {
	for _, s := range []string{".git", ".g\u200cit", "git~1", "ok", ".git...", ".GiT:x", `a\.git`, "\u206a.git"} {
		f.Add(s)
	}
	dir := f.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		f.Fatalf("%v %s", err, out)
	}
	blob := runGit(f, dir, "hash-object", "-w", "-t", "blob", "/dev/null")
	f.Fuzz(func(t *testing.T, name string) {
		if strings.ContainsAny(name, "/") || CheckPath(name) != nil {
			return
		}
		tree := formatTree([]treeEntry{{mode: modeFile, name: name, id: sallyport.ObjectID(blob)}})
		cmd := exec.Command("git", "hash-object", "-t", "tree", "--stdin")
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(tree)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%+q: git refuses what we accept: %s", name, out)
		}
		if got, err := parseTree(SHA1, tree); err != nil || len(got) != 1 || got[0].name != name {
			t.Fatalf("%+q: %v %v", name, got, err)
		}
	})
}

// FuzzParseTree: what the tree parser accepts, it writes back as the same bytes, but for padded modes; and no name walks.
func FuzzParseTree(f *testing.F) {
	id := sallyport.ObjectID(strings.Repeat("ab", 20))
	f.Add(formatTree([]treeEntry{{modeFile, "a", id}, {modeTree, "a0", id}, {modeLink, "z", id}}))
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(SHA1, data)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.name == "" || e.name == "." || e.name == ".." || strings.ContainsAny(e.name, "/\x00") {
				t.Fatalf("accepted the name %q", e.name)
			}
		}
		again := formatTree(entries)
		if !bytes.Equal(again, data) && !bytes.Contains(append([]byte{0}, data...), []byte("\x000")) && !strings.HasPrefix(string(data), "0") && len(again) == len(data) {
			t.Fatalf("%q became %q", data, again)
		}
	})
}

func TestImportLeavesNothingAfterAnError(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	before := f.storeGit("count-objects", "-v")
	good := stream(t, map[string]string{"x": "content of x"})
	for name, b := range map[string][]byte{"cut": good[:len(good)-1], "appended": append(bytes.Clone(good), 0)} {
		_, err := f.store.Import(bg, f.head().Tree, bytes.NewReader(b), collect.DefaultLimits())
		wantCode(t, name, err, sallyport.CodeCorrupt)
	}
	limits := collect.DefaultLimits()
	limits.File = 3
	_, err := f.store.Import(bg, f.head().Tree, bytes.NewReader(good), limits)
	wantCode(t, "limit", err, sallyport.CodeExhausted)
	if after := f.storeGit("count-objects", "-v"); after != before {
		t.Errorf("the store changed:\n%s\n%s", before, after)
	}
	left, _ := os.ReadDir(filepath.Join(f.store.dir, "tmp"))
	if len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestImportKeepsClaimsAndCounts(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	var b bytes.Buffer
	w := collect.NewWriter(&b)
	w.Message("I did it\x1b[2J")
	w.LeftOut(collect.LeftIgnored, 7)
	w.Close()
	in, err := f.store.Import(bg, f.head().Tree, &b, collect.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if in.Tree != f.head().Tree || len(in.Changes) != 0 || in.Changes == nil || in.Left["ignored"] != 7 || len(in.Commits) != 1 || in.Commits[0] != "I did it\x1b[2J" {
		t.Errorf("%+v", in)
	}
}

// A tree that names the same folders again and again spells more paths than there are atoms.
func TestTreeBombIsBounded(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	p, err := f.store.newPack()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	blob, _ := p.add(objBlob, 1, strings.NewReader("x"))
	id, mode := blob, uint32(modeFile)
	for range 12 {
		var entries []treeEntry
		for i := range 10 {
			entries = append(entries, treeEntry{mode, fmt.Sprint(i), id})
		}
		data := formatTree(entries)
		if id, err = p.add(objTree, int64(len(data)), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		mode = modeTree
	}
	if err := p.finish(bg, f.store.git); err != nil {
		t.Fatal(err)
	}
	_, err = f.store.Diff(bg, f.head().Tree, id)
	wantCode(t, "diff", err, sallyport.CodeExhausted)
	wantCode(t, "export", f.store.Export(bg, id, filepath.Join(t.TempDir(), "x")), sallyport.CodeExhausted)
	wantCode(t, "layer", f.store.Layer(bg, f.head().Tree, id, filepath.Join(t.TempDir(), "x")), sallyport.CodeExhausted)
}

func TestCompose(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	base := f.head().Tree
	tree := f.importTree(base, map[string]string{"tests/t.sh": "#!/bin/sh\nexit 1\n", "tests/new.sh": "n", "src/a.c": "int z;\n", "src/deep": ""})
	got, err := f.store.Compose(bg, tree, base, []string{"tests/t.sh", "tests/new.sh", "src/deep", "none"})
	if err != nil {
		t.Fatal(err)
	}
	if want := f.importTree(base, map[string]string{"src/a.c": "int z;\n"}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if same, err := f.store.Compose(bg, tree, base, nil); err != nil || same != tree {
		t.Errorf("no paths: %s %v", same, err)
	}
	_, err = f.store.Compose(bg, tree, base, []string{"../x"})
	wantCode(t, "bad path", err, sallyport.CodeInvalid)
}

func TestPatchShowsWhatAttributesHide(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	base := f.head().Tree
	tree := f.importTree(base, map[string]string{".gitattributes": "* -diff binary\n", "src/a.c": "int seen;\n", "bin": "a\x00b"})
	var b bytes.Buffer
	if err := f.store.Patch(bg, &b, base, tree, PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "+int seen;") || strings.Contains(b.String(), "Binary files") {
		t.Errorf("patch:\n%s", b.String())
	}
	for want, o := range map[string]PatchOptions{".gitattributes\nbin\nsrc/a.c\n": {NameOnly: true}, "src/a.c\n": {NameOnly: true, Paths: []string{"src/a.c"}}, "": {Paths: []string{}}} {
		b.Reset()
		if err := f.store.Patch(bg, &b, base, tree, o); err != nil || b.String() != want {
			t.Errorf("%+v: %q %v", o, b.String(), err)
		}
	}
}

// FuzzTreeAgainstGit: a tree that our reader takes has the same names, kinds and ids in the same order as git-ls-tree(1)
// reads of it.
func FuzzTreeAgainstGit(f *testing.F) {
	id := sallyport.ObjectID(strings.Repeat("ab", 20))
	f.Add(formatTree([]treeEntry{{modeFile, "a", id}, {modeTree, "a0", id}, {modeLink, "z", id}}))
	f.Add(formatTree([]treeEntry{{modeTree, "a", id}, {modeFile, "a.b", id}}))
	f.Add([]byte("100664 a\x00aaaaaaaaaaaaaaaaaaaa040000 b\x00aaaaaaaaaaaaaaaaaaaa160000 c\x00aaaaaaaaaaaaaaaaaaaa"))
	dir := f.TempDir()
	runGit(f, dir, "init", "-q", "--bare", ".")
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(SHA1, data)
		if err != nil {
			return
		}
		hash := exec.Command("git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
		hash.Dir, hash.Stdin = dir, bytes.NewReader(data)
		name, err := hash.Output()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		list := exec.Command("git", "ls-tree", "-z", "--full-tree", strings.TrimSpace(string(name)))
		list.Dir = dir
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%q: git cannot read what we accept: %v", data, err)
		}
		var ours strings.Builder
		for _, e := range entries {
			kind, mode := "blob", e.mode
			switch {
			case e.isExec():
				mode = modeExec // git shows every odd mode of a file as one of two
			case e.isFile():
				mode = modeFile
			case e.isTree():
				kind = "tree"
			case e.isGitlink():
				kind = "commit"
			}
			fmt.Fprintf(&ours, "%06o %s %s\t%s\x00", mode, kind, e.id, e.name)
		}
		if ours.String() != string(out) {
			t.Fatalf("%q: we read %q, git %q", data, ours.String(), out)
		}
	})
}
