package forge

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// here is a Remote that is none: git runs in a repository of ours and speaks to nobody.
var here = Remote{URL: "file:///"}

// Init makes an empty bare repository with the object format sha1 or sha256.
func Init(ctx context.Context, dir, format string) error {
	g := git{op: "make a repository", remote: here, deadline: tipDeadline}
	s, err := g.run(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--object-format="+format, "--", dir)
	if err == nil && s.exit != 0 {
		err = g.fail(sallyport.CodeUnavailable, g.words(s), "", s.err)
	}
	return err
}

// Contains says whether base is tip or in its history, in the repository gitDir.
func Contains(ctx context.Context, gitDir string, tip, base sallyport.ObjectID) (bool, error) {
	g := git{op: "look at history", dir: gitDir, remote: here, deadline: pushDeadline}
	for _, id := range []sallyport.ObjectID{tip, base} {
		if err := checkID(g, id, false); err != nil {
			return false, err
		}
	}
	s, err := g.run(ctx, "cat-file", "-e", string(base)+"^{commit}")
	if err != nil {
		return false, err
	}
	if s.exit == 1 || s.exit == 128 && strings.Contains(s.errs, "Not a valid object name") {
		return false, nil // what is not there is in no history
	}
	if s.exit != 0 {
		return false, g.fail(sallyport.CodeUnavailable, g.words(s), "", s.err)
	}
	if s, err = g.run(ctx, "merge-base", "--is-ancestor", string(base), string(tip)); err != nil {
		return false, err
	}
	if s.exit != 0 && s.exit != 1 {
		return false, g.fail(sallyport.CodeUnavailable, g.words(s), "", s.err)
	}
	return s.exit == 0, nil
}

// Unpack puts the objects of a pack, read from its beginning, into the repository gitDir.
func Unpack(ctx context.Context, gitDir string, pack *os.File) error {
	g := git{op: "unpack a change", dir: gitDir, remote: here, deadline: pushDeadline, in: pack}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return g.fail(sallyport.CodeUnavailable, "", "", err)
	}
	s, err := g.run(ctx, "index-pack", "--stdin", "--threads=1")
	if err == nil && s.exit != 0 {
		err = g.fail(sallyport.CodeUnavailable, g.words(s), "", s.err)
	}
	return err
}

// Attach writes a commit of its own, without parents, whose tree is these files, into the repository gitDir. Equal files and
// time give the same commit.
func Attach(ctx context.Context, gitDir string, when time.Time, files map[string][]byte) (sallyport.ObjectID, error) {
	g := git{op: "attach evidence", dir: gitDir, remote: here, deadline: tipDeadline}
	one := func(in []byte, args ...string) (string, error) {
		f, err := spooled(in)
		if err != nil {
			return "", g.fail(sallyport.CodeUnavailable, "", "", err)
		}
		defer f.Close()
		g.in = f
		s, err := g.run(ctx, args...)
		if err == nil && s.exit != 0 {
			err = g.fail(sallyport.CodeUnavailable, g.words(s), "", s.err)
		}
		return strings.TrimSpace(s.out), err
	}
	var tree strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		id, err := one(files[name], "hash-object", "-w", "--stdin", "--no-filters")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&tree, "100644 blob %s\t%s\n", id, name)
	}
	id, err := one([]byte(tree.String()), "mktree")
	if err != nil {
		return "", err
	}
	commit := fmt.Sprintf("tree %s\nauthor Sallyport <sallyport@localhost> %d +0000\ncommitter Sallyport <sallyport@localhost> %d +0000\n\nEvidence\n", id, when.Unix(), when.Unix())
	id, err = one([]byte(commit), "hash-object", "-t", "commit", "-w", "--stdin")
	return sallyport.ObjectID(id), err
}

// spooled is a file without a name, at its beginning.
func spooled(b []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "sallyport-*.tmp")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
