package control

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/screen"
)

// holdsHome reports whether the home folder is the work tree or lies in it.
func holdsHome(repo *change.Repo, home string) bool {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	rel, err := filepath.Rel(repo.Top, home)
	return err == nil && filepath.IsLocal(rel)
}

// missesNothing refuses a base whose files are not all there: nothing is fetched on the trusted side, and nobody
// can say what was checked of a tree whose bytes nobody has.
func missesNothing(ctx context.Context, repo *change.Repo, base manifest.Base) error {
	if !repo.Partial() {
		return nil
	}
	n, err := repo.Missing(ctx, base.Tree)
	if err != nil || n == 0 {
		return err
	}
	return &sallyport.Error{Op: "run", Code: sallyport.CodeUnsupported, Subject: repo.Top, Message: fmt.Sprintf("the repository is a partial clone and lacks %d objects of the base's files", n),
		Hint: fmt.Sprintf("fetch them: git rev-list --objects --missing=print %s | sed -n 's/^?//p' | git fetch --no-filter --stdin origin", base.Tree)}
}

// tellRepository says what of the repository the sandboxes have otherwise than the person's work tree has it.
func (d *driver) tellRepository(ctx context.Context) error {
	subs, err := d.store.Submodules(ctx, d.m.BaseTree)
	if err != nil {
		return err
	}
	pointers, err := d.pointers(ctx)
	if err != nil {
		return err
	}
	var here, away []string
	for _, s := range subs {
		if s.Here {
			here = append(here, s.Path+" at "+s.Commit.Short())
		} else {
			away = append(away, s.Path)
		}
	}
	for _, say := range []struct {
		list []string
		text string
	}{
		{here, "the sandboxes have the files of these submodules, and nothing inside of them is taken into the change: %s"},
		{away, "these submodules are empty folders in the sandboxes, since your work tree lacks the commits that the base names (`git submodule update --init`): %s"},
	} {
		if len(say.list) > 0 {
			if err := d.notice(ctx, "%s", screen.Line(fmt.Sprintf(say.text, strings.Join(say.list, ", ")))); err != nil {
				return err
			}
		}
	}
	if d.repo.Partial() {
		if err := d.notice(ctx, "the repository is a partial clone: git inside shows its history without what you never fetched of it"); err != nil {
			return err
		}
	}
	if pointers > 0 {
		return d.notice(ctx, "%d files are kept by Git LFS: the sandboxes have their pointers, not their content", pointers)
	}
	return nil
}

// pointers counts the base's files that Git LFS keeps. Attributes at the root say whether it keeps any.
func (d *driver) pointers(ctx context.Context) (int, error) {
	b, err := d.store.File(ctx, d.m.BaseTree, ".gitattributes", maxPolicy)
	if err != nil || !bytes.Contains(b, []byte("filter=lfs")) {
		if code := sallyport.CodeOf(err); code == sallyport.CodeNotFound || code == sallyport.CodeInvalid || code == sallyport.CodeExhausted {
			err = nil
		}
		return 0, err
	}
	paths, err := d.store.Paths(ctx, d.m.BaseTree)
	if err != nil {
		return 0, err
	}
	found, err := d.store.Filtered(ctx, d.m.BaseTree, "lfs", slices.Collect(paths))
	return len(found), err
}
