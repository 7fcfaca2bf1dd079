package change

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"sort"
	"strconv"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
)

// The kinds of tree entry, as bits of the mode.
const (
	modeTree    = 0o040000
	modeGitlink = 0o160000
	modeLink    = uint32(collect.ModeLink)
	modeFile    = uint32(collect.ModeFile)
	modeExec    = uint32(collect.ModeExec)
	modeKind    = 0o170000
)

// Bounds on what a tree may make us do. A pack of 12 objects can spell 10^10 paths.
const (
	maxTreeBytes = 64 << 20
	maxEntries   = 2_000_000
	maxDepth     = collect.MaxDepth
)

// treeEntry is one line of a tree object.
type treeEntry struct {
	mode uint32
	name string
	id   sallyport.ObjectID
}

func (e treeEntry) isTree() bool    { return e.mode == modeTree }
func (e treeEntry) isLink() bool    { return e.mode == modeLink }
func (e treeEntry) isGitlink() bool { return e.mode == modeGitlink }
func (e treeEntry) isFile() bool    { return e.mode&modeKind == 0o100000 }
func (e treeEntry) isExec() bool    { return e.isFile() && e.mode&0o100 != 0 }

// sortKey is git's order: folders compare as if their name ended in a slash.
func (e treeEntry) sortKey() string {
	if e.isTree() {
		return e.name + "/"
	}
	return e.name
}

// parseTree reads a tree object. It takes what git has ever written (old file modes such as 100664, padded
// modes) but no name that could leave its folder, no doubles and no wrong order.
func parseTree(f Format, data []byte) ([]treeEntry, error) {
	bad := func(why string) error {
		return &sallyport.Error{Op: "read tree", Code: sallyport.CodeCorrupt, Message: why}
	}
	var entries []treeEntry
	seen := map[string]bool{}
	for len(data) > 0 {
		space := bytes.IndexByte(data, ' ')
		nul := bytes.IndexByte(data, 0)
		if space < 1 || space > 7 || nul < space+2 || len(data) < nul+1+f.size() {
			return nil, bad("malformed entry")
		}
		mode, err := strconv.ParseUint(string(data[:space]), 8, 32)
		if err != nil {
			return nil, bad("malformed mode")
		}
		e := treeEntry{mode: uint32(mode), name: string(data[space+1 : nul]),
			id: sallyport.ObjectID(hex.EncodeToString(data[nul+1 : nul+1+f.size()]))}
		data = data[nul+1+f.size():]
		if !e.isTree() && !e.isLink() && !e.isGitlink() && !e.isFile() {
			return nil, bad(fmt.Sprintf("unknown mode %o", mode))
		}
		if e.name == "." || e.name == ".." || bytes.IndexByte([]byte(e.name), '/') >= 0 {
			return nil, bad(fmt.Sprintf("impossible name %+q", e.name))
		}
		if seen[e.name] {
			return nil, bad(fmt.Sprintf("name %+q comes twice", e.name))
		}
		if n := len(entries); n > 0 && entries[n-1].sortKey() >= e.sortKey() {
			return nil, bad("entries out of order")
		}
		seen[e.name] = true
		entries = append(entries, e)
	}
	return entries, nil
}

// formatTree writes entries, in any order, as a tree object.
func formatTree(entries []treeEntry) []byte {
	sort.Slice(entries, func(i, j int) bool { return entries[i].sortKey() < entries[j].sortKey() })
	var b bytes.Buffer
	for _, e := range entries {
		raw, err := hex.DecodeString(string(e.id))
		if err != nil {
			panic("change: not an object id: " + string(e.id)) // ids are ours or parsed from 20 or 32 bytes
		}
		fmt.Fprintf(&b, "%o %s\x00", e.mode, e.name)
		b.Write(raw)
	}
	return b.Bytes()
}

// tree reads one tree. The empty tree is always there.
func (o *objects) tree(id sallyport.ObjectID) ([]treeEntry, error) {
	if id == o.format.emptyTree() || id == "" {
		return nil, nil
	}
	if entries, ok := o.trees[id]; ok {
		return entries, nil
	}
	data, err := o.read(id, "tree", maxTreeBytes)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(o.format, data)
	if err != nil {
		return nil, err
	}
	if o.kept += len(entries) + 1; o.trees == nil || o.kept > maxKept {
		o.trees, o.kept = map[sallyport.ObjectID][]treeEntry{}, len(entries)+1
	}
	o.trees[id] = entries
	return entries, nil
}

// budget counts what a walk may still look at.
type budget struct{ left int }

func (b *budget) take(n int) error {
	if b.left -= n; b.left < 0 {
		return &sallyport.Error{Op: "walk tree", Code: sallyport.CodeExhausted, Message: fmt.Sprintf("more than %d entries", maxEntries)}
	}
	return nil
}

// leaf is a tree entry that is no folder, with its whole path.
type leaf struct {
	path string
	treeEntry
}

// leaves lists all below id, in git's order, and all folders, parents first.
func (o *objects) leaves(id sallyport.ObjectID) (files []leaf, dirs []string, err error) {
	b := &budget{left: maxEntries}
	var walk func(id sallyport.ObjectID, prefix string, depth int) error
	walk = func(id sallyport.ObjectID, prefix string, depth int) error {
		if depth > maxDepth {
			return tooDeep(prefix)
		}
		entries, err := o.tree(id)
		if err != nil {
			return err
		}
		if err := b.take(len(entries)); err != nil {
			return err
		}
		for _, e := range entries {
			if !e.isTree() {
				files = append(files, leaf{prefix + e.name, e})
				continue
			}
			dirs = append(dirs, prefix+e.name)
			if err := walk(e.id, prefix+e.name+"/", depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err = walk(id, "", 0)
	return files, dirs, err
}

func tooDeep(path string) error {
	return &sallyport.Error{Op: "walk tree", Code: sallyport.CodeExhausted, Subject: fmt.Sprintf("%+.200q", path), Message: fmt.Sprintf("more than %d folders deep", maxDepth)}
}
