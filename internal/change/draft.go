package change

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sallyport.dev/sallyport"
)

// draft is a copy of the user's index with a folder for new objects, for git to work on as the owner: what it does
// there, the user's own index and objects do not see.
type draft struct {
	git git
	dir string
}

func (r *Repo) newDraft(g git) (*draft, error) {
	// Under sudo git runs as the owner, who cannot reach the state folder.
	dir, err := os.MkdirTemp("", "sallyport-draft-")
	if err != nil {
		return nil, unwritable(err)
	}
	d := &draft{git: g, dir: dir}
	index := filepath.Join(dir, "index")
	if err := errors.Join(copyIndex(filepath.Join(r.GitDir, "index"), index), os.Mkdir(d.objects(), 0o700)); err != nil {
		d.close()
		return nil, unwritable(err)
	}
	if r.git.cred != nil {
		for _, p := range []string{dir, index, d.objects()} {
			if err := os.Lchown(p, r.Owner, int(r.git.cred.Gid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.close()
				return nil, unwritable(err)
			}
		}
	}
	// A sparse index is written with the objects of its folders: a full one needs none.
	d.git.dir = append([]string{"-c", "index.sparse=false"}, g.dir...)
	d.git.env = append(g.env[:len(g.env):len(g.env)], "GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+d.objects(),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteC(filepath.Join(r.CommonDir, "objects")))
	return d, nil
}

func (d *draft) objects() string { return filepath.Join(d.dir, "objects") }

func (d *draft) close() { _ = os.RemoveAll(d.dir) }

// copyIndex keeps the time: by it git knows which files may have changed without looking so. No index is an empty
// one.
func copyIndex(from, to string) error {
	b, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, fi.ModTime(), fi.ModTime())
}

// take lays files of the work tree into the index, as git would commit them but for filters.
func (d *draft) take(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := d.git.run(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", "--add", "--remove", "-z", "--stdin")
	return err
}

// copyBlobs brings the draft's blobs into the store.
func (s *Store) copyBlobs(ctx context.Context, d *draft, ids []sallyport.ObjectID) error {
	if len(ids) == 0 {
		return nil
	}
	pack, err := s.spool()
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := d.git.stream(ctx, bytes.NewReader([]byte(lines(ids))), pack, "pack-objects", "--stdout", "--quiet", "--window=0", "--threads=1"); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return unwritable(err)
	}
	_, err = s.git.run(ctx, pack, "index-pack", "--stdin", "--threads=1")
	return err
}
