package change

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
)

// handoverOf commits changes upon the fixture's head and hands the commit over.
func handoverOf(t *testing.T, f *fixture, changes map[string]string) (sallyport.ObjectID, []byte) {
	t.Helper()
	head := f.head()
	im, err := f.store.Import(bg, head.Tree, bytes.NewReader(stream(t, changes)), collect.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	commit, err := f.store.Commit(bg, CommitOptions{Tree: im.Tree, Parent: head.Commit, When: when, Message: "x\n"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.store.Handover(bg, commit, head.Commit, &b); err != nil {
		t.Fatal(err)
	}
	return commit, b.Bytes()
}

var handedChanges = map[string]string{"README": "changed\n", "new/deep/x": "x\n", "src/deep/b.c": "", "tests": "-> src", "copy of run.sh": "#!/bin/sh\necho hi\n"}

// A handover is found to be what it is, by its own objects, and by git too.
func TestHandover(t *testing.T) {
	formats(t, func(t *testing.T, format Format) {
		f := newFixture(t, format, sampleFiles)
		commit, pack := handoverOf(t, f, handedChanges)
		got, err := ReadHandover(bytes.NewReader(pack), commit)
		if err != nil {
			t.Fatal(err)
		}
		head := f.head()
		if got.Base != head.Commit || got.BaseTree != head.Tree || got.Commit != commit {
			t.Errorf("%+v", got)
		}
		var have []string
		for _, c := range got.Changes {
			have = append(have, c.Status[:1]+" "+c.Path)
		}
		slices.Sort(have)
		if want := strings.Split(strings.TrimSpace(f.storeGit("diff-tree", "-r", "--no-renames", "--name-status", "-z", string(head.Tree), string(got.Tree))), "\x00"); len(want) != 2*len(have)+1 {
			t.Errorf("%q, git says %q", have, want)
		}
		if want := []string{"a copy of run.sh", "a new/deep/x", "a tests", "d src/deep/b.c", "d tests/t.sh", "m README"}; !slices.Equal(have, want) {
			t.Errorf("%q, expected %q", have, want)
		}
	})
}

// Nothing but the whole of a handover is one, whatever byte of it differs.
func TestHandoverDamage(t *testing.T) {
	f := newFixture(t, SHA1, map[string]string{"a": "1\n", "d/b": "2\n"})
	commit, pack := handoverOf(t, f, map[string]string{"a": "3\n"})
	for i := range pack {
		bad := bytes.Clone(pack)
		bad[i] ^= 0x55
		if _, err := ReadHandover(bytes.NewReader(bad), commit); err == nil {
			t.Fatalf("byte %d of %d changed and nothing was said", i, len(pack))
		}
		if _, err := ReadHandover(bytes.NewReader(pack[:i]), commit); err == nil {
			t.Fatalf("cut to %d of %d bytes and nothing was said", i, len(pack))
		}
	}
	if _, err := ReadHandover(bytes.NewReader(append(bytes.Clone(pack), 0)), commit); err == nil {
		t.Error("a byte too many and nothing was said")
	}
	other := sallyport.ObjectID(strings.Repeat("1", 40))
	_, err := ReadHandover(bytes.NewReader(pack), other)
	wantCode(t, "another commit", err, sallyport.CodeInvalid)
}

type packed struct {
	kind objKind
	data string
}

func (p packed) id() string { return string(SHA1.name(p.kind.String(), []byte(p.data))) }

func packOf(list ...packed) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(list)))
	for _, o := range list {
		n := len(o.data)
		head := []byte{byte(o.kind)<<4 | byte(n&15)}
		for n >>= 4; n > 0; n >>= 7 {
			head[len(head)-1] |= 0x80
			head = append(head, byte(n&0x7f))
		}
		b = append(b, head...)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, _ = w.Write([]byte(o.data))
		_ = w.Close()
		b = append(b, z.Bytes()...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func treeOf(entries ...treeEntry) packed { return packed{objTree, string(formatTree(entries))} }

func commitOf(tree packed, parents ...packed) packed {
	s := "tree " + tree.id() + "\n"
	for _, p := range parents {
		s += "parent " + p.id() + "\n"
	}
	return packed{objCommit, s + "author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n"}
}

// What a Publisher must not take for one commit upon one base.
func TestNoHandover(t *testing.T) {
	blob, extra := packed{objBlob, "1"}, packed{objBlob, "2"}
	file := func(name string, b packed) treeEntry {
		return treeEntry{modeFile, name, sallyport.ObjectID(b.id())}
	}
	before, after := treeOf(), treeOf(file("a", blob))
	base := commitOf(before)
	good := commitOf(after, base)
	// The empty tree is never in a pack.
	sound := []packed{good, base, after, blob}
	if _, err := ReadHandover(bytes.NewReader(packOf(sound...)), sallyport.ObjectID(good.id())); err != nil {
		t.Fatal(err)
	}
	two := commitOf(after, base, good)
	root := commitOf(after)
	git := treeOf(file(".GIT", blob))
	odd := packed{objCommit, strings.Replace(good.data, "author", "parent "+base.id()+"\nauthor", 1)}
	late := packed{objCommit, strings.Replace(good.data, "\n\nx", "\nparent "+base.id()+"\n\nx", 1)}
	asTree := treeOf(file("a", after))
	for name, k := range map[string]struct {
		commit packed
		pack   []packed
	}{
		"an object too many":          {good, append(slices.Clone(sound), extra)},
		"a commit too many":           {good, append(slices.Clone(sound), two)},
		"no base":                     {good, []packed{good, after, blob}},
		"no tree":                     {good, []packed{good, base, blob}},
		"two parents":                 {two, append(slices.Clone(sound), two)},
		"the same parent twice":       {odd, append(slices.Clone(sound[1:]), odd)},
		"a parent after the author":   {late, append(slices.Clone(sound[1:]), late)},
		"no parent":                   {root, []packed{root, base, after, blob}},
		"an object twice":             {good, append(slices.Clone(sound), blob)},
		"a file named like git's own": {commitOf(git, base), []packed{commitOf(git, base), base, git, blob}},
		"a file that is a tree":       {commitOf(asTree, base), []packed{commitOf(asTree, base), base, asTree, after, blob}},
		"a delta":                     {good, append(slices.Clone(sound), packed{7, "x"})},
		"a tag":                       {good, append(slices.Clone(sound), packed{4, "object " + good.id() + "\n"})},
		"a tree that leaves":          {good, []packed{good, base, treeOf(file("..", blob)), blob}},
	} {
		_, err := ReadHandover(bytes.NewReader(packOf(k.pack...)), sallyport.ObjectID(k.commit.id()))
		if code := sallyport.CodeOf(err); code != sallyport.CodeInvalid && code != sallyport.CodeCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzHandover: whatever comes, also under a checksum that fits, there is an answer in bounded room; what is accepted is
// the one commit that was asked for, and git's own index-pack(1) finds the same objects in it.
func FuzzHandover(f *testing.F) {
	blob := packed{objBlob, "1"}
	tree := treeOf(treeEntry{modeFile, "a", sallyport.ObjectID(blob.id())})
	base := commitOf(treeOf())
	commit := commitOf(tree, base)
	f.Add(packOf(commit, base, tree, blob))
	f.Add(packOf(blob, tree, base, commit))
	f.Add(packOf(base, packed{7, "x"}))
	f.Add(packOf(commit, base, tree, blob, blob))
	dir := f.TempDir()
	runGit(f, dir, "init", "-q", "--bare", ".")
	f.Fuzz(func(t *testing.T, b []byte) {
		candidates := [][]byte{b}
		if len(b) > sha1.Size {
			body := b[:len(b)-sha1.Size]
			sum := sha1.Sum(body)
			candidates = append(candidates, append(bytes.Clone(body), sum[:]...))
		}
		for _, b := range candidates {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := ReadHandover(bytes.NewReader(b), sallyport.ObjectID(commit.id()))
			runtime.ReadMemStats(&after)
			// Deflate gives at most 1032 bytes for one, and what is held may be copied while it grows.
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20+4*1032*uint64(len(b)) {
				t.Fatalf("%d bytes of memory for %d", used, len(b))
			}
			if err != nil {
				continue
			}
			if got.Tree != sallyport.ObjectID(tree.id()) || got.Base != sallyport.ObjectID(base.id()) || got.Objects != 4 {
				t.Fatalf("%+v", got)
			}
			cmd := exec.Command("git", "index-pack", "--stdin", "--strict")
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(b)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: git refuses what we accept: %v %s", b, err, out)
			}
			for _, o := range []packed{commit, tree, base, blob} {
				if kind := runGit(t, dir, "cat-file", "-t", o.id()); kind != o.kind.String() {
					t.Fatalf("%s is a %s", o.id(), kind)
				}
			}
		}
	})
}
