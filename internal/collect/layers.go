package collect

import (
	"slices"

	"golang.org/x/sys/unix"
)

// layers is one folder of the base: the folders of that path in each read-only layer that shows, topmost
// first.
type layers struct{ fds []int }

type belowKind int

const (
	absent belowKind = iota
	regular
	symlink
	folder
	other
)

// below is what the base has under one name.
type below struct {
	kind belowKind
	dir  int // regular, symlink: the folder it is in; borrowed
	size int64
	mode Mode
	sub  layers // folder; owned
}

func (b below) close() {
	for _, fd := range b.sub.fds {
		unix.Close(fd)
	}
}

// lookup finds name as overlayfs would: the topmost layer that says something decides, and folders merge
// until a layer is opaque or has something else there.
func (l layers) lookup(name string) (below, error) {
	var found below
	for _, dir := range l.fds {
		var st unix.Stat_t
		err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			found.close()
			return below{}, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if found.kind == absent {
				found = leaf(dir, &st)
			}
			break
		}
		fd, err := openDir(dir, name)
		if err != nil {
			found.close()
			return below{}, err
		}
		found.kind = folder
		found.sub.fds = append(found.sub.fds, fd)
		stop, err := isOpaque(fd, name, overlayPrefixes)
		if err != nil {
			found.close()
			return below{}, err
		}
		if stop {
			break
		}
	}
	return found, nil
}

func leaf(dir int, st *unix.Stat_t) below {
	switch {
	case isWhiteout(st):
		return below{}
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return below{kind: regular, dir: dir, size: st.Size, mode: modeOf(st)}
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return below{kind: symlink, dir: dir}
	}
	return below{kind: other}
}

// names lists what shows in the folder, sorted.
func (l layers) names(limit int) ([]string, error) {
	var all []string
	for _, dir := range l.fds {
		names, err := list(dir, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(l.fds) < 2 {
		return all, nil
	}
	shown := all[:0]
	for _, name := range all {
		b, err := l.lookup(name)
		if err != nil {
			return nil, err
		}
		b.close()
		if b.kind != absent {
			shown = append(shown, name)
		}
	}
	return shown, nil
}
