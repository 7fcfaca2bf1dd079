package change

import (
	"context"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Layer writes into dir (made, or empty) what turns a checkout of baseTree into tree: as a layer of
// overlayfs, above that checkout, it shows exactly tree. What tree lacks is a whiteout (character device
// 0:0, which any user may make since Linux 5.8). No attributes are needed.
func (s *Store) Layer(ctx context.Context, baseTree, tree sallyport.ObjectID, dir string) error {
	if err := emptyDir(dir); err != nil {
		return err
	}
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	l := &layering{objects: o, budget: &budget{left: maxEntries}}
	if err := l.walk("", baseTree, tree, 0); err != nil {
		return err
	}
	l.set.stamp = blobStamp
	if err := s.materialise(ctx, dir, l.set); err != nil {
		return err
	}
	return whiteout(dir, l.gone)
}

type layering struct {
	objects *objects
	budget  *budget
	set     fileSet
	gone    []string
}

func (l *layering) walk(prefix string, from, to sallyport.ObjectID, depth int) error {
	if depth > maxDepth {
		return tooDeep(prefix)
	}
	old, err := l.objects.tree(from)
	if err != nil {
		return err
	}
	new, err := l.objects.tree(to)
	if err != nil {
		return err
	}
	if err := l.budget.take(len(old) + len(new)); err != nil {
		return err
	}
	olds := make(map[string]treeEntry, len(old))
	for _, e := range old {
		olds[e.name] = e
	}
	for _, e := range new {
		was, had := olds[e.name]
		delete(olds, e.name)
		if had && was.id == e.id && was.mode == e.mode {
			continue
		}
		if err := l.put(prefix+e.name, was, e, depth); err != nil {
			return err
		}
	}
	for _, e := range old {
		if _, left := olds[e.name]; left {
			l.gone = append(l.gone, prefix+e.name)
		}
	}
	return nil
}

// put lays e over whatever the base has there: a file hides a folder, a folder hides a file and merges with
// a folder.
func (l *layering) put(path string, was, e treeEntry, depth int) error {
	if !e.isTree() {
		l.set.files = append(l.set.files, leaf{path, e})
		return nil
	}
	l.set.dirs = append(l.set.dirs, path)
	from := sallyport.ObjectID("")
	if was.isTree() {
		from = was.id
	}
	return l.walk(path+"/", from, e.id, depth+1)
}

func whiteout(dir string, paths []string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unwritable(at(dir, err))
	}
	defer unix.Close(fd)
	for _, p := range paths {
		if err := CheckPath(p); err != nil {
			return err
		}
		if err := unix.Mknodat(fd, p, unix.S_IFCHR, 0); err != nil {
			return unwritable(at(p, err))
		}
	}
	return nil
}
