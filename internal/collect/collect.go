package collect

import (
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

const opCollect = "collect changes"

// The reasons for which something is left out and counted.
const (
	LeftIgnored    = "ignored"    // the base's ignore rules say so; an ignored folder counts once
	LeftNestedGit  = "nested-git" // an entry called .git, in any letter case, below the top
	LeftDevice     = "device"
	LeftFIFO       = "fifo"
	LeftSocket     = "socket"
	LeftUnreadable = "unreadable" // no permission to open it; a folder counts once
)

// Options say what is walked and against what. Every process that could write to the folders must be dead.
// All files are borrowed, none is closed.
type Options struct {
	// Dir is the folder to walk: overlayfs's upper layer (Overlay) or the merged workspace (Tree).
	Dir *os.File
	// Lower are the read-only layers of the base below it, topmost first; whiteouts and opaque folders in
	// them count.
	Lower []*os.File
	// Xattr is the prefix under which overlayfs keeps its marks in Dir: "user.overlay." (mounted with
	// userxattr) or "trusted.overlay."; empty: both. Reading "trusted." takes CAP_SYS_ADMIN in the initial
	// user namespace; without it use Tree on the merged folder.
	Xattr string
	// Ignored says which of these new paths the base's rules ignore. Folders carry a trailing slash, in the
	// question and in the answer. Nil: nothing is ignored. It is asked once per level of new folders.
	Ignored func(paths []string) (map[string]bool, error)
	Limits  Limits
	// Messages are the agent's own commit messages, oldest first: claims.
	Messages []string
}

// Overlay writes what an overlayfs upper layer changes against its lower layers. It does not close w.
//
// A file that was copied up and is equal (bytes and owner's executable bit) is no change. The top-level
// ".git" is skipped. Setuid and all other mode bits are dropped. A renamed folder or a metadata-only copy
// (redirect_dir, metacopy) is CodeUnsupported: mount without them. A limit met is CodeExhausted, a file
// that is not as long as it said CodeCorrupt.
func Overlay(o Options, w *Writer) error { return collect(o, w, false) }

// Tree writes the same by a full walk of a merged workspace: what is absent there is deleted.
func Tree(o Options, w *Writer) error { return collect(o, w, true) }

func collect(o Options, w *Writer, whole bool) error {
	c := &collector{o: o, root: int(o.Dir.Fd()), left: map[string]int64{}, whole: whole}
	low := layers{}
	for _, f := range o.Lower {
		low.fds = append(low.fds, int(f.Fd()))
	}
	if err := c.walk(c.root, "", low, whole); err != nil {
		return err
	}
	if err := c.settle(); err != nil {
		return err
	}
	c.deleteReplaced()
	sort.Slice(c.entries, func(i, j int) bool { return c.entries[i].path < c.entries[j].path })
	return c.write(w)
}

// entry is one change, found by the walk and not yet written.
type entry struct {
	kind   Kind
	path   string
	mode   Mode
	size   int64
	target string
}

type collector struct {
	o       Options
	root    int
	whole   bool // Dir is merged: it carries no marks of overlayfs
	entries []entry
	count   int64
	total   int64
	// replaced are paths where the base has something else than a folder and Dir has a folder.
	replaced []string
	pending  []pending
	left     map[string]int64
}

// pending is a path that the base does not have.
type pending struct {
	entry
	dir bool
	// ask is false below a folder that stands where the base has a link: git cannot be asked about paths
	// beyond a link, and taking too much is the safe answer.
	ask bool
}

func (c *collector) add(e entry) error {
	if c.count++; c.count > c.o.Limits.Entries {
		return exhausted(opCollect, e.path, "too many changed paths")
	}
	if e.kind == KindFile && e.size > c.o.Limits.File {
		return exhausted(opCollect, e.path, "file is larger than the limit")
	}
	if c.total += e.size + int64(len(e.path)); c.total > c.o.Limits.Total {
		return exhausted(opCollect, e.path, "the changes together are larger than the limit")
	}
	c.entries = append(c.entries, e)
	return nil
}

// settle asks about the new paths level by level, so that an ignored folder is never walked.
func (c *collector) settle() error {
	for len(c.pending) > 0 {
		level := c.pending
		c.pending = nil
		ignored, err := c.ask(level)
		if err != nil {
			return err
		}
		for _, p := range level {
			if p.ask && ignored[p.key()] {
				c.left[LeftIgnored]++
				continue
			}
			if p.dir {
				err = c.expand(p.path, p.ask)
			} else {
				err = c.add(p.entry)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (p pending) key() string {
	if p.dir {
		return p.path + "/"
	}
	return p.path
}

func (c *collector) ask(level []pending) (map[string]bool, error) {
	if c.o.Ignored == nil {
		return nil, nil
	}
	var paths []string
	for _, p := range level {
		if p.ask {
			paths = append(paths, p.key())
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return c.o.Ignored(paths)
}

// deleteReplaced deletes what the base has at the path of a folder from which nothing was taken; where
// something was, its path says already that a folder is there.
func (c *collector) deleteReplaced() {
	if len(c.replaced) == 0 {
		return
	}
	paths := make([]string, 0, len(c.entries))
	for _, e := range c.entries {
		paths = append(paths, e.path)
	}
	slices.Sort(paths)
	for _, p := range c.replaced {
		i, _ := slices.BinarySearch(paths, p+"/")
		if i == len(paths) || !strings.HasPrefix(paths[i], p+"/") {
			c.entries = append(c.entries, entry{kind: KindDelete, path: p})
		}
	}
}

func (c *collector) write(w *Writer) error {
	dirs := chain{root: c.root}
	defer dirs.close()
	for _, e := range c.entries {
		var err error
		switch e.kind {
		case KindDelete:
			err = w.Delete(e.path)
		case KindLink:
			err = w.Link(e.path, e.target)
		default:
			err = c.writeFile(w, &dirs, e)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range c.o.Messages {
		if err := w.Message(m); err != nil {
			return err
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(c.left)) {
		if err := w.LeftOut(reason, c.left[reason]); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) writeFile(w *Writer, dirs *chain, e entry) error {
	dir, name, err := dirs.parent(e.path)
	if err != nil {
		return unreadable(e.path, err)
	}
	f, st, err := openRegular(dir, name)
	if err != nil {
		return unreadable(e.path, err)
	}
	defer f.Close()
	if st.Size != e.size {
		return corrupt(opCollect, e.path, "file changed between two looks")
	}
	return w.File(e.path, e.mode, e.size, f)
}

func unreadable(path string, err error) error {
	return &sallyport.Error{Op: opCollect, Code: sallyport.CodeUnavailable, Subject: quote(path), Message: "cannot read", Err: err}
}

func modeOf(st *unix.Stat_t) Mode {
	if st.Mode&0o100 != 0 {
		return ModeExec
	}
	return ModeFile
}

// equalContent compares two open files of the same size.
func equalContent(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		if n != m || string(bufA[:n]) != string(bufB[:m]) {
			return false, nil
		}
		if errA == io.EOF || errA == io.ErrUnexpectedEOF {
			return errB == io.EOF || errB == io.ErrUnexpectedEOF, nil
		}
		if errA != nil {
			return false, errA
		}
		if errB != nil {
			return false, errB
		}
	}
}
