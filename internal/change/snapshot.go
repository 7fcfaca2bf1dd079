package change

import (
	"context"
	"slices"

	"sallyport.dev/sallyport"
)

// Snapshot is the user's working tree as a tree in our store: HEAD, with what is staged, what is not, and
// what is untracked but not ignored. Files are taken as git would commit them, without running any filter; the
// user's index, objects and files are only read. changed and untracked count as Dirty does. The tree may be equal
// to HEAD's. CodeInvalid: a submodule is staged at another commit than HEAD's.
func (s *Store) Snapshot(ctx context.Context) (tree sallyport.ObjectID, changed, untracked int, err error) {
	fail := func(err error) (sallyport.ObjectID, int, int, error) { return "", 0, 0, err }
	head, err := s.repo.Resolve(ctx, "")
	if err != nil {
		return fail(err)
	}
	w, err := s.repo.lookAtWorktree(ctx, head.Commit)
	if err != nil {
		return fail(err)
	}
	g, err := s.repo.withoutFilters(ctx)
	if err != nil {
		return fail(err)
	}
	d, err := s.repo.newDraft(g)
	if err != nil {
		return fail(err)
	}
	defer d.close()
	if err := d.take(ctx, slices.Concat(w.unstaged, w.untracked)); err != nil {
		return fail(err)
	}
	all, err := d.git.staged(ctx, head.Commit)
	if err != nil {
		return fail(err)
	}
	tree, err = s.lay(ctx, d, head.Tree, all)
	if err != nil {
		return fail(err)
	}
	changed, untracked = w.count()
	return tree, changed, untracked, nil
}

// lay is base with the entries given, whose blobs the draft has; mode 0: deleted.
func (s *Store) lay(ctx context.Context, d *draft, base sallyport.ObjectID, all map[string]treeEntry) (sallyport.ObjectID, error) {
	var blobs []sallyport.ObjectID
	for path, e := range all {
		if e.isGitlink() {
			return "", &sallyport.Error{Op: "take the work tree", Code: sallyport.CodeInvalid, Subject: printable(path), Message: "a submodule is staged at another commit than the base's",
				Hint: "commit it first, or run without --include-dirty"}
		}
		if err := CheckPath(path); err != nil {
			return "", err
		}
		if e.mode != 0 {
			blobs = append(blobs, e.id)
		}
	}
	if err := s.copyBlobs(ctx, d, blobs); err != nil {
		return "", err
	}
	return s.edit(ctx, base, func(b *builder) error {
		// Removals first: a file may have become a folder.
		for path, e := range all {
			if e.mode == 0 {
				if err := b.remove(path); err != nil {
					return err
				}
			}
		}
		for path, e := range all {
			if e.mode != 0 {
				if err := b.set(path, e); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
