package change

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
)

// Submodule is one that a tree's .gitmodules lists and that the tree has.
type Submodule struct {
	Path   string
	Commit sallyport.ObjectID
	Here   bool // the user's work tree has it, with that commit: a Checkout shows its files

	tree    sallyport.ObjectID
	objects string // folder of its objects
}

// Submodules lists those of tree, and of those that are here theirs, a submodule before those inside of it.
// Nothing is fetched, and no configuration of a submodule is read.
func (s *Store) Submodules(ctx context.Context, tree sallyport.ObjectID) ([]Submodule, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	return s.submodules(ctx, s.git, o, "", tree, 0)
}

// submodules reads through g and o, which have the objects of the tree; prefix is where in the work tree it lies.
func (s *Store) submodules(ctx context.Context, g git, o *objects, prefix string, tree sallyport.ObjectID, depth int) ([]Submodule, error) {
	if depth > maxDepth {
		return nil, tooDeep(prefix)
	}
	paths, err := listed(ctx, g, o, tree)
	if err != nil {
		return nil, err
	}
	var all []Submodule
	for _, path := range paths {
		e, err := o.find(tree, path)
		if sallyport.CodeOf(err) == sallyport.CodeNotFound || err == nil && !e.isGitlink() {
			continue
		}
		if err != nil {
			return nil, err
		}
		within, err := s.enter(ctx, Submodule{Path: prefix + path, Commit: e.id}, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, within...)
	}
	return all, nil
}

// enter is the submodule, looked for beside its files in the user's work tree, and those inside of it.
func (s *Store) enter(ctx context.Context, sub Submodule, depth int) ([]Submodule, error) {
	objects, err := s.repo.submoduleObjects(sub.Path)
	if err != nil {
		return []Submodule{sub}, nil
	}
	g := s.git.with(objects)
	o, err := g.objects(ctx, s.format())
	if err != nil {
		return nil, err
	}
	defer o.close()
	sub.tree, err = o.treeOf(sub.Commit)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return []Submodule{sub}, nil
	}
	if err != nil {
		return nil, err
	}
	sub.Here, sub.objects = true, objects
	within, err := s.submodules(ctx, g, o, sub.Path+"/", sub.tree, depth+1)
	return append([]Submodule{sub}, within...), err
}

// listed are the paths that a tree's .gitmodules names, as git reads it.
func listed(ctx context.Context, g git, o *objects, tree sallyport.ObjectID) ([]string, error) {
	e, err := o.find(tree, ".gitmodules")
	if sallyport.CodeOf(err) == sallyport.CodeNotFound || err == nil && !e.isFile() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := g.run(ctx, nil, "config", "--blob", string(e.id), "-z", "--get-regexp", `^submodule\..*\.path$`)
	if exit, _ := exitOf(err); exit > 0 {
		return nil, nil // it lists none, or git itself cannot read it
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	seen := map[string]bool{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		_, path, _ := strings.Cut(entry, "\n")
		if path = strings.TrimSuffix(path, "/"); CheckPath(path) == nil && !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// with is g with one more folder of objects.
func (g git) with(objects string) git {
	g.env = append(g.env[:len(g.env):len(g.env)], "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteC(objects))
	return g
}

// filesOf is what a checkout of tree has: files, and folders, parents first.
func (s *Store) filesOf(ctx context.Context, tree sallyport.ObjectID) ([]leaf, []string, error) {
	o, err := s.git.objects(ctx, s.format())
	if err != nil {
		return nil, nil, err
	}
	defer o.close()
	return o.leaves(tree)
}

// submoduleObjects is the folder of objects of the repository that the work tree has at path, which must belong
// to the owner of ours: under sudo the reader has more rights than that.
func (r *Repo) submoduleObjects(path string) (string, error) {
	dir := filepath.Join(r.Top, path, ".git")
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if fi.Mode().IsRegular() {
		b, err := os.ReadFile(dir)
		if err != nil {
			return "", err
		}
		at := strings.TrimSuffix(strings.TrimPrefix(string(b), "gitdir: "), "\n")
		if !filepath.IsAbs(at) {
			at = filepath.Join(r.Top, path, at)
		}
		dir = at
	}
	objects, err := filepath.EvalSymlinks(filepath.Join(dir, "objects"))
	if err != nil {
		return "", err
	}
	if fi, err = os.Stat(objects); err != nil {
		return "", err
	}
	if owner := int(fi.Sys().(*syscall.Stat_t).Uid); owner != r.Owner {
		return "", deniedOwner(objects, owner)
	}
	return objects, nil
}

// filesKey names the files of a tree in the cache: what is here of its submodules is part of them.
func filesKey(tree sallyport.ObjectID, subs []Submodule) string {
	key, h := "files-"+string(tree), sha256.New()
	shown := false
	for _, sub := range subs {
		if sub.Here {
			shown = true
			h.Write([]byte(sub.Path + "\x00" + string(sub.Commit) + "\n"))
		}
	}
	if !shown {
		return key
	}
	return key + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// laySubmodules writes the files of those that are here into a checkout of the tree that names them.
func (s *Store) laySubmodules(ctx context.Context, subs []Submodule, dir string, when time.Time) error {
	for _, sub := range subs {
		if !sub.Here {
			continue
		}
		in := &Store{repo: s.repo, dir: s.dir, git: s.git.with(sub.objects)}
		files, dirs, err := in.filesOf(ctx, sub.tree)
		if err != nil {
			return err
		}
		if err := in.materialise(ctx, filepath.Join(dir, sub.Path), fileSet{dirs: dirs, files: files, stamp: func(leaf) time.Time { return when }}); err != nil {
			return err
		}
	}
	return nil
}
