package change

import (
	"context"
	"fmt"
	"sort"

	"sallyport.dev/sallyport"
)

// Diff lists every path that differs between two trees, in order of path. A rename is a removal and an
// addition; a folder that became a file is the removal of all below it and an addition. CodeExhausted beyond
// 2,000,000 entries or 128 levels.
func (s *Store) Diff(ctx context.Context, from, to sallyport.ObjectID) ([]sallyport.Change, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	changes := []sallyport.Change{}
	d := &differ{objects: o, budget: &budget{left: maxEntries}, both: func(path string, old, new *treeEntry) error {
		changes = append(changes, changeOf(path, old, new))
		return nil
	}}
	if err := d.walk("", from, to, 0); err != nil {
		return nil, err
	}
	sort.Slice(changes, func(i, j int) bool { return changes[i].Path < changes[j].Path })
	return changes, o.sizes(changes)
}

// sizes asks for the size of each new blob.
func (o *objects) sizes(changes []sallyport.Change) error {
	for i := range changes {
		c := &changes[i]
		if c.NewID == "" || c.NewMode == "160000" || c.Status == sallyport.ChangeMode {
			continue
		}
		_, size, err := o.info(c.NewID)
		if err != nil {
			return err
		}
		c.Size = size
	}
	return nil
}

func changeOf(path string, old, new *treeEntry) sallyport.Change {
	c := sallyport.Change{Path: path}
	if old != nil {
		c.OldMode, c.OldID = fmt.Sprintf("%06o", old.mode), old.id
	}
	if new != nil {
		c.NewMode, c.NewID = fmt.Sprintf("%06o", new.mode), new.id
	}
	switch {
	case old == nil:
		c.Status = sallyport.ChangeAdded
	case new == nil:
		c.Status = sallyport.ChangeDeleted
	case old.mode&modeKind != new.mode&modeKind:
		c.Status = sallyport.ChangeType
	case old.id != new.id:
		c.Status = sallyport.ChangeModified
	default:
		c.Status = sallyport.ChangeMode
	}
	return c
}

// differ walks two trees at once and calls both for every path, other than a folder, that differs.
type differ struct {
	objects *objects
	budget  *budget
	both    func(path string, old, new *treeEntry) error
}

func (d *differ) walk(prefix string, from, to sallyport.ObjectID, depth int) error {
	if from == to {
		return nil
	}
	if depth > maxDepth {
		return tooDeep(prefix)
	}
	old, err := d.objects.tree(from)
	if err != nil {
		return err
	}
	new, err := d.objects.tree(to)
	if err != nil {
		return err
	}
	if err := d.budget.take(len(old) + len(new)); err != nil {
		return err
	}
	olds := make(map[string]*treeEntry, len(old))
	for i := range old {
		olds[old[i].name] = &old[i]
	}
	for i := range new {
		e := &new[i]
		if err := d.pair(prefix+e.name, olds[e.name], e, depth); err != nil {
			return err
		}
		delete(olds, e.name)
	}
	for i := range old {
		if e := olds[old[i].name]; e != nil {
			if err := d.pair(prefix+e.name, e, nil, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair compares what two trees have under one name.
func (d *differ) pair(path string, old, new *treeEntry, depth int) error {
	if old != nil && new != nil && old.id == new.id && old.mode == new.mode {
		return nil
	}
	var from, to sallyport.ObjectID // "": no folder there
	if old != nil && old.isTree() {
		from, old = old.id, nil
	}
	if new != nil && new.isTree() {
		to, new = new.id, nil
	}
	if old != nil || new != nil {
		if err := d.both(path, old, new); err != nil {
			return err
		}
	}
	return d.walk(path+"/", from, to, depth+1)
}
