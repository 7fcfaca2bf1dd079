package forge

import (
	"context"
	"io"
	"os"
	"strings"

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
