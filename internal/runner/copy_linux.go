package runner

import (
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// copyLayers makes in dst what an overlay of lowers (topmost first) would show, for where none can be mounted:
// reflinked where the file system can, else copied. Links are never followed on either side. Owner is the
// command; times are kept, since caches and git go by them.
func copyLayers(dst string, lowers []string, uid, gid int) error {
	to, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer to.Close()
	for i := len(lowers) - 1; i >= 0; i-- {
		from, err := os.OpenRoot(lowers[i])
		if err != nil {
			return err
		}
		c := copier{from: from, to: to, uid: uid, gid: gid}
		err = c.folder(".")
		from.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

type copier struct {
	from, to *os.Root
	uid, gid int
}

func (c copier) folder(dir string) error {
	d, err := c.from.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := c.entry(path.Join(dir, n)); err != nil {
			return err
		}
	}
	return nil
}

func (c copier) entry(p string) error {
	fi, err := c.from.Lstat(p)
	if err != nil {
		return err
	}
	if fi.Mode().IsDir() {
		if old, err := c.to.Lstat(p); err == nil && !old.IsDir() {
			if err := c.to.Remove(p); err != nil {
				return err
			}
		}
		if err := c.to.Mkdir(p, fi.Mode().Perm()|0o700); err != nil && !os.IsExist(err) {
			return err
		}
		if err := c.folder(p); err != nil {
			return err
		}
	} else {
		if err := c.to.RemoveAll(p); err != nil {
			return err
		}
		switch m := fi.Mode(); {
		case m&os.ModeCharDevice != 0: // a whiteout: the lower one is gone
			return nil
		case m&os.ModeSymlink != 0:
			target, err := c.from.Readlink(p)
			if err != nil {
				return err
			}
			if err := c.to.Symlink(target, p); err != nil {
				return err
			}
			return c.to.Lchown(p, c.uid, c.gid)
		case m.IsRegular():
			if err := c.file(p, fi); err != nil {
				return err
			}
		default:
			return fmt.Errorf("copy %q: neither file, folder nor link", p)
		}
	}
	if err := c.to.Lchown(p, c.uid, c.gid); err != nil {
		return err
	}
	return c.to.Chtimes(p, fi.ModTime(), fi.ModTime())
}

func (c copier) file(p string, fi os.FileInfo) error {
	in, err := c.from.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fi.Mode().Perm())
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		_, err = io.Copy(out, in)
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
