package change

import (
	"bytes"
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
)

// builder edits a tree by paths and writes what changed. Folders are read when a path leads through them.
type builder struct {
	objects *objects
	pack    *packWriter
	root    *node
	nodes   int
	max     int // folders and edits it may hold
}

// node is one folder. id is the tree it was, "" for a new one; kids is nil until it is read.
type node struct {
	id   sallyport.ObjectID
	kids map[string]*kid
}

// kid is what a folder has under one name: an entry, and once a path led there its folder.
type kid struct {
	entry treeEntry
	dir   *node
}

func newBuilder(o *objects, p *packWriter, tree sallyport.ObjectID, max int) *builder {
	return &builder{objects: o, pack: p, root: &node{id: tree}, max: max}
}

func (b *builder) load(n *node) error {
	if n.kids != nil {
		return nil
	}
	if b.nodes++; b.nodes > b.max {
		return &sallyport.Error{Op: "build tree", Code: sallyport.CodeExhausted, Message: fmt.Sprintf("more than %d folders are touched", b.max)}
	}
	entries, err := b.objects.tree(n.id)
	if err != nil {
		return err
	}
	n.kids = make(map[string]*kid, len(entries))
	for _, e := range entries {
		k := &kid{entry: e}
		if e.isTree() {
			k.dir = &node{id: e.id}
		}
		n.kids[e.name] = k
	}
	return nil
}

// parent is the folder of path, made if make is set (whatever stood in its way is gone then); nil if it is
// not there.
func (b *builder) parent(path string, make bool) (*node, string, error) {
	at := b.root
	names := strings.Split(path, "/")
	if len(names) > maxDepth {
		return nil, "", tooDeep(path)
	}
	for _, name := range names[:len(names)-1] {
		if err := b.load(at); err != nil {
			return nil, "", err
		}
		k := at.kids[name]
		if k == nil || k.dir == nil {
			if !make {
				return nil, "", nil
			}
			k = &kid{dir: &node{}}
			at.kids[name] = k
		}
		at = k.dir
	}
	return at, names[len(names)-1], b.load(at)
}

// inSubmodule reports whether path lies below a submodule.
func (b *builder) inSubmodule(path string) (bool, error) {
	at := b.root
	for rest := path; ; {
		name, below, more := strings.Cut(rest, "/")
		if !more {
			return false, nil
		}
		if err := b.load(at); err != nil {
			return false, err
		}
		k := at.kids[name]
		if k == nil || k.dir == nil {
			return k != nil && k.entry.isGitlink(), nil
		}
		at, rest = k.dir, below
	}
}

// set puts an entry (a file, link, submodule or whole folder) at path.
func (b *builder) set(path string, e treeEntry) error {
	n, name, err := b.parent(path, true)
	if err != nil {
		return err
	}
	e.name = name
	k := &kid{entry: e}
	if e.isTree() {
		k.dir = &node{id: e.id}
	}
	n.kids[name] = k
	return nil
}

// remove takes away what is at path; nothing there is fine.
func (b *builder) remove(path string) error {
	n, name, err := b.parent(path, false)
	if err != nil || n == nil {
		return err
	}
	delete(n.kids, name)
	return nil
}

// write adds the changed trees to the pack and returns the root. Folders without content vanish, as in git.
func (b *builder) write() (sallyport.ObjectID, error) {
	id, _, err := b.writeNode(b.root)
	return id, err
}

func (b *builder) writeNode(n *node) (sallyport.ObjectID, bool, error) {
	if n.kids == nil {
		return n.id, n.id == "" || n.id == b.objects.format.emptyTree(), nil
	}
	entries := make([]treeEntry, 0, len(n.kids))
	for name, k := range n.kids {
		e := k.entry
		if k.dir != nil {
			id, empty, err := b.writeNode(k.dir)
			if err != nil {
				return "", false, err
			}
			if empty {
				continue
			}
			e = treeEntry{mode: modeTree, id: id}
		}
		e.name = name
		entries = append(entries, e)
	}
	data := formatTree(entries)
	id := b.objects.format.name("tree", data)
	if id == n.id {
		return id, len(entries) == 0, nil
	}
	if len(entries) == 0 && n != b.root {
		return "", true, nil
	}
	_, err := b.pack.add(objTree, int64(len(data)), bytes.NewReader(data))
	return id, len(entries) == 0, err
}
