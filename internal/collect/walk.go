package collect

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// walk visits one folder that the base has as well. opaque: nothing of low shows through, so what is not
// here is deleted.
func (c *collector) walk(dir int, path string, low layers, opaque bool) error {
	names, err := list(dir, c.listLimit())
	if err != nil {
		return listError(path, err)
	}
	slices.Sort(names)
	if opaque {
		if err := c.missing(names, path, low); err != nil {
			return err
		}
	}
	for _, name := range names {
		if path == "" && name == ".git" {
			continue
		}
		if err := c.visit(dir, name, join(path, name), low, opaque); err != nil {
			return err
		}
	}
	return nil
}

// missing deletes what low has and names (sorted) has not.
func (c *collector) missing(names []string, path string, low layers) error {
	below, err := low.names(c.listLimit())
	if err != nil {
		return listError(path, err)
	}
	for _, name := range below {
		if _, here := slices.BinarySearch(names, name); here || (path == "" && name == ".git") {
			continue
		}
		if err := c.add(entry{kind: KindDelete, path: join(path, name)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) visit(dir int, name, path string, low layers, opaque bool) error {
	if strings.EqualFold(name, ".git") {
		c.left[LeftNestedGit]++
		return nil
	}
	if err := c.o.Limits.checkPath(opCollect, path); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unreadable(path, err)
	}
	base, err := low.lookup(name)
	if err != nil {
		return unreadable(path, err)
	}
	defer base.close()
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.file(dir, name, path, &st, base)
	case unix.S_IFLNK:
		return c.link(dir, name, path, base)
	case unix.S_IFDIR:
		return c.folder(dir, name, path, base, opaque)
	}
	if reason := special(&st); reason != "" {
		c.left[reason]++
	}
	if base.kind == absent {
		return nil
	}
	return c.add(entry{kind: KindDelete, path: path})
}

// special names what is neither file, link nor folder; "" for a whiteout.
func special(st *unix.Stat_t) string {
	switch {
	case isWhiteout(st):
		return ""
	case st.Mode&unix.S_IFMT == unix.S_IFIFO:
		return LeftFIFO
	case st.Mode&unix.S_IFMT == unix.S_IFSOCK:
		return LeftSocket
	}
	return LeftDevice
}

func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func (c *collector) file(dir int, name, path string, st *unix.Stat_t, base below) error {
	f, now, err := openRegular(dir, name)
	if err == unix.EACCES {
		c.left[LeftUnreadable]++
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	if now.Ino != st.Ino || now.Dev != st.Dev {
		return corrupt(opCollect, path, "file changed between two looks")
	}
	if err := c.refuseMarks(int(f.Fd()), path); err != nil {
		return err
	}
	e := entry{kind: KindFile, path: path, mode: modeOf(now), size: now.Size}
	if base.kind == absent {
		return c.later(pending{entry: e, ask: true})
	}
	if base.kind == regular && base.size == now.Size && base.mode == e.mode {
		lower, _, err := openRegular(base.dir, name)
		if err != nil {
			return unreadable(path, err)
		}
		defer lower.Close()
		same, err := equalContent(f, lower)
		if err != nil {
			return unreadable(path, err)
		}
		if same {
			return nil
		}
	}
	return c.add(e)
}

func (c *collector) link(dir int, name, path string, base below) error {
	target, err := readlink(dir, name)
	if err != nil {
		return unreadable(path, err)
	}
	e := entry{kind: KindLink, path: path, target: target}
	if base.kind == absent {
		return c.later(pending{entry: e, ask: true})
	}
	if base.kind == symlink {
		was, err := readlink(base.dir, name)
		if err != nil {
			return unreadable(path, err)
		}
		if was == target {
			return nil
		}
	}
	return c.add(e)
}

func (c *collector) folder(dir int, name, path string, base below, opaque bool) error {
	if base.kind == absent {
		return c.later(pending{entry: entry{path: path}, dir: true, ask: true})
	}
	if base.kind != folder {
		c.replaced = append(c.replaced, path)
		return c.expand(path, base.kind != symlink)
	}
	fd, err := openDir(dir, name)
	if err == unix.EACCES {
		c.left[LeftUnreadable]++
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	defer unix.Close(fd)
	if err := c.refuseMarks(fd, path); err != nil {
		return err
	}
	own, err := c.opaque(fd, path)
	if err != nil {
		return err
	}
	return c.walk(fd, path, base.sub, opaque || own)
}

// expand lists a folder that the base does not have.
func (c *collector) expand(path string, ask bool) error {
	dirs := chain{root: c.root}
	defer dirs.close()
	fd, err := dirs.open(path)
	if err == unix.EACCES {
		c.left[LeftUnreadable]++
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	if err := c.refuseMarks(fd, path); err != nil {
		return err
	}
	names, err := list(fd, c.listLimit())
	if err != nil {
		return listError(path, err)
	}
	for _, name := range names {
		if err := c.expandOne(fd, name, join(path, name), ask); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) expandOne(dir int, name, path string, ask bool) error {
	if strings.EqualFold(name, ".git") {
		c.left[LeftNestedGit]++
		return nil
	}
	if err := c.o.Limits.checkPath(opCollect, path); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unreadable(path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.later(pending{entry: entry{path: path}, dir: true, ask: ask})
	case unix.S_IFLNK:
		target, err := readlink(dir, name)
		if err != nil {
			return unreadable(path, err)
		}
		return c.later(pending{entry: entry{kind: KindLink, path: path, target: target}, ask: ask})
	case unix.S_IFREG:
		f, now, err := openRegular(dir, name)
		if err == unix.EACCES {
			c.left[LeftUnreadable]++
			return nil
		}
		if err != nil {
			return unreadable(path, err)
		}
		defer f.Close()
		if err := c.refuseMarks(int(f.Fd()), path); err != nil {
			return err
		}
		return c.later(pending{entry: entry{kind: KindFile, path: path, mode: modeOf(now), size: now.Size}, ask: ask})
	}
	if reason := special(&st); reason != "" {
		c.left[reason]++
	}
	return nil
}

// later keeps a new path until its level is asked about. The bound is looser than that of entries, since
// what is ignored does not count as a change.
func (c *collector) later(p pending) error {
	if len(c.pending) >= c.listLimit() {
		return exhausted(opCollect, p.path, "too many new paths")
	}
	c.pending = append(c.pending, p)
	return nil
}

// listLimit bounds one folder and one level of new paths.
func (c *collector) listLimit() int { return int(max(2*c.o.Limits.Entries, 1<<20)) }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
