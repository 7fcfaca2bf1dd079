package change

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"sallyport.dev/sallyport"
)

// A handover is the pack that goes to a Publisher: the one commit and its base, the trees in which the two differ, of both,
// and each blob that is new. So it is read without the rest of the repository, without git, and before any credential
// exists. Entries are whole objects, never deltas.

// Bounds of a handover.
const (
	maxHandover     = 1 << 30 // what a change may add is bounded far below by its own limits
	maxHandoverBlob = 512 << 20
	maxHeld         = 256 << 20 // commits and trees, kept while they are compared
	maxPackObjects  = 1_000_000
)

// Handover writes the handover of commit, whose one parent is base, to w.
func (s *Store) Handover(ctx context.Context, commit, base sallyport.ObjectID, w io.Writer) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	p, err := s.newPack()
	if err != nil {
		return err
	}
	defer p.close()
	for _, id := range []sallyport.ObjectID{commit, base} {
		data, err := o.read(id, "commit", 1<<20)
		if err != nil {
			return err
		}
		if _, err := p.add(objCommit, int64(len(data)), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	tree, err := o.treeOf(commit)
	if err != nil {
		return err
	}
	baseTree, err := o.treeOf(base)
	if err != nil {
		return err
	}
	h := &handing{o: o, p: p}
	if err := h.trees(baseTree, tree, 0); err != nil {
		return err
	}
	return p.copyPack(w)
}

// handing writes what two trees differ in.
type handing struct {
	o *objects
	p *packWriter
}

func (h *handing) trees(old, now sallyport.ObjectID, depth int) error {
	if old == now {
		return nil
	}
	if depth > maxDepth {
		return &sallyport.Error{Op: "hand over", Code: sallyport.CodeExhausted, Message: "folders are too deep"}
	}
	before, err := h.tree(old)
	if err != nil {
		return err
	}
	after, err := h.tree(now)
	if err != nil {
		return err
	}
	return pairs(before, after, func(was, is treeEntry) error {
		if was == is {
			return nil
		}
		if was.isTree() || is.isTree() {
			if err := h.trees(folderID(was), folderID(is), depth+1); err != nil {
				return err
			}
		}
		if is.id == "" || is.id == was.id || is.isTree() || is.isGitlink() {
			return nil
		}
		data, err := h.o.read(is.id, "blob", maxHandoverBlob)
		if err != nil {
			return err
		}
		_, err = h.p.add(objBlob, int64(len(data)), bytes.NewReader(data))
		return err
	})
}

// folderID is an entry's tree, "" for one that is none.
func folderID(e treeEntry) sallyport.ObjectID {
	if e.isTree() {
		return e.id
	}
	return ""
}

// pairs calls do for each name of two folders, with the entry of either; one that is not there is zero.
func pairs(before, after []treeEntry, do func(was, is treeEntry) error) error {
	was := map[string]treeEntry{}
	for _, e := range before {
		was[e.name] = e
	}
	for _, e := range after {
		if err := do(was[e.name], e); err != nil {
			return err
		}
		delete(was, e.name)
	}
	for _, e := range before {
		if _, gone := was[e.name]; gone {
			if err := do(e, treeEntry{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *handing) tree(id sallyport.ObjectID) ([]treeEntry, error) {
	if id == "" || id == h.o.format.emptyTree() {
		return nil, nil
	}
	data, err := h.o.read(id, "tree", maxTreeBytes)
	if err != nil {
		return nil, err
	}
	if _, err := h.p.add(objTree, int64(len(data)), bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return parseTree(h.o.format, data)
}

// Handed is what a handover was found to be.
type Handed struct {
	Commit, Tree, Base, BaseTree sallyport.ObjectID
	Changes                      []HandedChange // by path
	Objects                      int
}

// HandedChange is a path that is not in both trees alike.
type HandedChange struct {
	Path   string
	Status string // added | modified | deleted, as in a report
}

// ReadHandover reads all of a handover and finds out what it is: exactly one commit upon one base, by the names of the
// objects themselves. CodeInvalid: it is anything else, holds an object too many or lacks one, has names that no tree of
// ours has. What a blob holds is not looked at, only hashed.
func ReadHandover(r io.Reader, commit sallyport.ObjectID) (Handed, error) {
	if err := commit.Check(); err != nil {
		return Handed{}, err
	}
	f := SHA1
	if len(commit) == 2*SHA256.size() {
		f = SHA256
	}
	p := &packReader{format: f, sum: f.new(), held: map[sallyport.ObjectID]heldObject{}}
	p.in = bufio.NewReaderSize(&summed{r, p}, 256<<10)
	if err := p.read(); err != nil {
		return Handed{}, err
	}
	return p.judge(commit)
}

func notHandover(format string, args ...any) error {
	return &sallyport.Error{Op: "read handover", Code: sallyport.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// heldObject is one of a pack. Blobs have no data.
type heldObject struct {
	kind objKind
	data []byte
	used bool
}

type packReader struct {
	format Format
	in     *bufio.Reader
	sum    hash.Hash
	size   int64
	held   map[sallyport.ObjectID]heldObject
	bytes  int64
	zip    io.ReadCloser
}

// summed bounds what is read.
type summed struct {
	r io.Reader
	p *packReader
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if s.p.size += int64(n); s.p.size > maxHandover {
		return n, notHandover("expected at most %d bytes", maxHandover)
	}
	return n, err
}

func (p *packReader) read() error {
	var head [12]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return notHandover("the pack ends in its header")
	}
	if string(head[:8]) != "PACK\x00\x00\x00\x02" {
		return notHandover("expected a git pack of version 2")
	}
	p.sum.Write(head[:])
	n := binary.BigEndian.Uint32(head[8:])
	if n < 2 || n > maxPackObjects {
		return notHandover("expected 2 to %d objects, found %d", maxPackObjects, n)
	}
	for range n {
		if err := p.object(); err != nil {
			return err
		}
	}
	want := p.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.in, got); err != nil || !bytes.Equal(got, want) {
		return notHandover("the pack's sum is not that of its bytes")
	}
	if _, err := p.in.ReadByte(); err != io.EOF {
		return notHandover("expected nothing after the pack's sum")
	}
	return nil
}

// ReadByte and Read feed what they give into the pack's sum: zlib reads from a ByteReader no more than it needs.
func (p *packReader) ReadByte() (byte, error) {
	b, err := p.in.ReadByte()
	if err == nil {
		p.sum.Write([]byte{b})
	}
	return b, err
}

func (p *packReader) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.sum.Write(b[:n])
	return n, err
}

func (p *packReader) object() error {
	b, err := p.ReadByte()
	if err != nil {
		return notHandover("the pack ends before its last object")
	}
	kind, size := objKind(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = p.ReadByte(); err != nil || shift > 46 {
			return notHandover("an object's length cannot be read")
		}
		size |= int64(b&0x7f) << shift
	}
	limit := int64(maxHandoverBlob)
	switch kind {
	case objCommit:
		limit = 1 << 20
	case objTree:
		limit = maxTreeBytes
	case objBlob:
	default:
		return notHandover("expected whole commits, trees and blobs, found an object of kind %d", kind)
	}
	if size > limit || kind != objBlob && p.bytes+size > maxHeld {
		return notHandover("a %s of %d bytes is too much", kind, size)
	}
	return p.content(kind, size)
}

func (p *packReader) content(kind objKind, size int64) error {
	var err error
	if p.zip == nil {
		p.zip, err = zlib.NewReader(p)
	} else {
		err = p.zip.(zlib.Resetter).Reset(p, nil)
	}
	if err != nil {
		return notHandover("an object is not compressed as it should be")
	}
	h := p.format.hasher(kind.String(), size)
	var data bytes.Buffer
	into := io.Writer(h)
	if kind != objBlob {
		into = io.MultiWriter(h, &data)
		p.bytes += size
	}
	n, err := io.Copy(into, io.LimitReader(p.zip, size+1))
	var own *sallyport.Error
	if errors.As(err, &own) {
		return own
	}
	if err != nil || n != size {
		return notHandover("a %s is not as long as it says", kind)
	}
	id := idOf(h)
	if _, twice := p.held[id]; twice {
		return notHandover("object %s comes twice", id)
	}
	p.held[id] = heldObject{kind: kind, data: data.Bytes()}
	return nil
}

// use is an object of the pack that something names.
func (p *packReader) use(id sallyport.ObjectID, kind objKind) ([]byte, error) {
	o, ok := p.held[id]
	if !ok || o.kind != kind {
		return nil, notHandover("expected the %s %s in the pack", kind, id)
	}
	o.used = true
	p.held[id] = o
	return o.data, nil
}

// judge finds the one commit and its base, compares their trees, and demands that the pack holds no more than that takes.
func (p *packReader) judge(commit sallyport.ObjectID) (Handed, error) {
	out := Handed{Commit: commit, Objects: len(p.held)}
	data, err := p.use(commit, objCommit)
	if err != nil {
		return Handed{}, err
	}
	var parents []sallyport.ObjectID
	if out.Tree, parents, err = commitHeader(data); err != nil {
		return Handed{}, err
	}
	if len(parents) != 1 {
		return Handed{}, notHandover("expected a commit upon one base, found %d parents", len(parents))
	}
	out.Base = parents[0]
	if data, err = p.use(out.Base, objCommit); err != nil {
		return Handed{}, err
	}
	if out.BaseTree, _, err = commitHeader(data); err != nil {
		return Handed{}, err
	}
	left := maxEntries
	if err := p.differ(&out, out.BaseTree, out.Tree, "", 0, &left); err != nil {
		return Handed{}, err
	}
	for id, o := range p.held {
		if !o.used {
			return Handed{}, notHandover("the %s %s belongs to no difference of the two commits", o.kind, id)
		}
	}
	return out, nil
}

// commitHeader reads tree and parents in the one order in which git writes them.
func commitHeader(data []byte) (tree sallyport.ObjectID, parents []sallyport.ObjectID, err error) {
	head, _, ok := strings.Cut(string(data), "\n\n")
	for i, line := range strings.Split(head, "\n") {
		id, isTree := strings.CutPrefix(line, "tree ")
		parent, isParent := strings.CutPrefix(line, "parent ")
		switch {
		case i == 0 && isTree:
			tree = sallyport.ObjectID(id)
		case i == 0 || isTree:
			return "", nil, notHandover("expected a commit that begins with its one tree")
		case isParent && i == len(parents)+1:
			parents = append(parents, sallyport.ObjectID(parent))
		case isParent:
			return "", nil, notHandover("a commit names a parent out of its place")
		}
	}
	for _, id := range append(parents[:len(parents):len(parents)], tree) {
		if !ok || id.Check() != nil {
			return "", nil, notHandover("expected a commit with a header of whole object names")
		}
	}
	return tree, parents, nil
}

func (p *packReader) entries(id sallyport.ObjectID) ([]treeEntry, error) {
	if id == "" || id == p.format.emptyTree() {
		return nil, nil
	}
	data, err := p.use(id, objTree)
	if err != nil {
		return nil, err
	}
	return parseTree(p.format, data)
}

// differ lists the paths below two trees that differ. left bounds the entries looked at.
func (p *packReader) differ(out *Handed, old, now sallyport.ObjectID, at string, depth int, left *int) error {
	if old == now {
		return nil
	}
	if depth > maxDepth {
		return notHandover("folders are more than %d deep", maxDepth)
	}
	before, err := p.entries(old)
	if err != nil {
		return err
	}
	after, err := p.entries(now)
	if err != nil {
		return err
	}
	if *left -= len(before) + len(after); *left < 0 {
		return notHandover("the difference is too large")
	}
	return pairs(before, after, func(was, is treeEntry) error {
		if was == is {
			return nil
		}
		name := max(was.name, is.name)
		if strings.EqualFold(is.name, ".git") {
			return notHandover("a path is named %+q", at+name)
		}
		if was.isTree() || is.isTree() {
			if err := p.differ(out, folderID(was), folderID(is), at+name+"/", depth+1, left); err != nil {
				return err
			}
		}
		return p.file(out, was, is, at+name)
	})
}

// file lists a path that is a file, a link or a submodule on one side or both.
func (p *packReader) file(out *Handed, was, is treeEntry, at string) error {
	had, has := was.id != "" && !was.isTree(), is.id != "" && !is.isTree()
	// A blob that is not in the pack must be one of the base: the forge demands that when it is pushed.
	if o, ok := p.held[is.id]; ok && has && !is.isGitlink() {
		if o.kind != objBlob {
			return notHandover("%+q is not a blob", at)
		}
		o.used = true
		p.held[is.id] = o
	}
	switch {
	case had && has:
		out.Changes = append(out.Changes, HandedChange{at, "modified"})
	case had:
		out.Changes = append(out.Changes, HandedChange{at, "deleted"})
	case has:
		out.Changes = append(out.Changes, HandedChange{at, "added"})
	}
	return nil
}
