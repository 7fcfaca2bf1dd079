package e2e

import (
	"os"
	"testing"
	"time"

	"sallyport.dev/sallyport/test/world"
)

// TestLineEnds: the agent has a blob's bytes, whatever the work tree makes of them, and gives them back; nothing
// converts a line that it did not edit.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.File(".gitattributes", "*.bat text eol=crlf\n*.txt text=auto\nraw.* -text\n*.utf16 text working-tree-encoding=UTF-16LE eol=crlf\n$Id$.c ident\n")
	w.File("a.bat", "one\r\ntwo\r\nthree\r\n")
	w.File("b.txt", "one\ntwo\n")
	w.File("raw.dat", "one\r\ntwo\nthree\r\n")
	w.File("old.c", "caf\xe9\r\n")
	w.File("c.utf16", "o\x00n\x00e\x00\r\x00\n\x00")
	w.File("t.sh", "#!/bin/sh\nset -e\n[ \"$(head -c 4 a.bat)\" = one ] && grep -q good b.txt || grep -q two b.txt\n")
	w.File("sallyport.yaml", world.Policy("sh t.sh"))
	w.Commit("line ends")
	if got := w.Command("", "git", "cat-file", "blob", "HEAD:c.utf16").Want(0).Out; got != "one\n" {
		t.Fatalf("git itself stores %q", got)
	}
	before := w.Fingerprint()
	rep := w.Run("edit", `set -e
		[ -z "$(git status --porcelain)" ]
		[ "$(od -An -c a.bat | tr -d ' \n')" = 'one\ntwo\nthree\n' ]
		[ "$(od -An -c raw.dat | tr -d ' \n')" = 'one\r\ntwo\nthree\r\n' ]
		[ "$(cat c.utf16)" = one ]
		sed -i s/two/2/ a.bat raw.dat; echo good >> b.txt; echo two >> c.utf16; printf 'th\351\r\n' >> old.c
		rm sallyport.yaml; git checkout -q sallyport.yaml; rm b.txt; git checkout -q b.txt; echo good >> b.txt
		git stash -q; git stash pop -q; git add -A; git commit -qm mine; git checkout -q HEAD~1; git checkout -q sallyport/edit`).Want(0).Report()
	took(w, rep, map[string]string{"a.bat": "one\n2\nthree\n", "raw.dat": "one\r\n2\nthree\r\n", "b.txt": "one\ntwo\ngood\n", "c.utf16": "one\ntwo\n", "old.c": "caf\xe9\r\nth\xe9\r\n"})
	w.Untouched(before, rep.Branch)
}

// TestDirtyLineEnds: where git converts on the way in, an uncommitted file is taken as git would commit it, and a
// touched one is no change.
func TestDirtyLineEnds(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File(".gitattributes", "*.utf16 text working-tree-encoding=UTF-16LE\n")
	w.File("touched", "one\r\ntwo\r\n")
	w.File("edited", "one\r\ntwo\r\n")
	w.File("c.utf16", "o\x00n\x00e\x00\n\x00")
	w.Git("config", "core.autocrlf", "true")
	w.Commit("from another system")
	if got := w.Command("", "git", "cat-file", "blob", "HEAD:edited").Want(0).Out; got != "one\ntwo\n" {
		t.Fatalf("git itself stores %q", got)
	}
	w.Must(os.Chtimes(w.Path("touched"), time.Time{}, time.Now().Add(-time.Hour)))
	w.File("edited", "one\r\n2\r\n")
	w.File("new", "1\r\n2\r\n")
	w.File("c.utf16", "t\x00w\x00o\x00\n\x00")
	w.Run("count", "echo good > a").Want(0).Says("2 changed, 1 untracked")
	rep := w.Run("dirty", "[ \"$(od -An -c edited | tr -d ' \\n')\" = 'one\\n2\\n' ] && echo good > a", "--include-dirty").Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n", "edited": "one\n2\n", "new": "1\n2\n", "c.utf16": "two\n"})
}
