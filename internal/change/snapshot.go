package change

import (
	"context"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
)

// Snapshot is the user's working tree as a tree in our store: HEAD, with what is staged, what is not, and
// what is untracked but not ignored. Bytes are taken raw; the user's index, objects and files are only read.
// changed and untracked count as Dirty does. The tree may be equal to HEAD's.
func (s *Store) Snapshot(ctx context.Context) (tree sallyport.ObjectID, changed, untracked int, err error) {
	head, err := s.repo.Resolve(ctx, "")
	if err != nil {
		return "", 0, 0, err
	}
	w, err := s.repo.lookAtWorktree(ctx, head.Commit)
	if err != nil {
		return "", 0, 0, err
	}
	o, err := s.objects(ctx)
	if err != nil {
		return "", 0, 0, err
	}
	defer o.close()
	p, err := s.newPack()
	if err != nil {
		return "", 0, 0, err
	}
	defer p.close()
	b := newBuilder(o, p, head.Tree, maxEntries)
	changed, err = s.layTracked(b, w)
	if err != nil {
		return "", 0, 0, err
	}
	for _, path := range w.untracked {
		took, err := s.layFile(b, path)
		if err != nil {
			return "", 0, 0, err
		}
		if took {
			untracked++
		}
	}
	if tree, err = b.write(); err != nil {
		return "", 0, 0, err
	}
	return tree, changed, untracked, p.finish(ctx, s.git)
}

func (s *Store) layTracked(b *builder, w *worktree) (int, error) {
	paths := map[string]bool{}
	for path, e := range w.staged {
		paths[path] = true
		var err error
		if e.mode == 0 {
			err = b.remove(path)
		} else {
			err = b.set(path, e)
		}
		if err != nil {
			return 0, err
		}
	}
	// Removals first: a file may have become a folder.
	for path, u := range w.unstaged {
		if u.gone {
			paths[path] = true
			if err := b.remove(path); err != nil {
				return 0, err
			}
		}
	}
	for path, u := range w.unstaged {
		if u.gone || !s.repo.reallyChanged(path, u) {
			continue
		}
		paths[path] = true
		if _, err := s.layFile(b, path); err != nil {
			return 0, err
		}
	}
	return len(paths), nil
}

// layFile takes one file of the work tree; false if it is neither file nor link, or gone by now.
func (s *Store) layFile(b *builder, path string) (bool, error) {
	if err := CheckPath(path); err != nil {
		return false, err
	}
	fi, err := os.Lstat(filepath.Join(s.repo.Top, path))
	if err != nil || (!fi.Mode().IsRegular() && fi.Mode()&os.ModeSymlink == 0) {
		return false, nil
	}
	e, err := s.repo.hashFile(path, b.pack)
	if err != nil {
		return false, err
	}
	return true, b.set(path, e)
}
