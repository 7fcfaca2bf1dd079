package collect

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// openDir opens a folder by one name, following nothing.
func openDir(dir int, name string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// openRegular opens a file by one name, following nothing and never waiting for a writer.
func openRegular(dir int, name string) (*os.File, *unix.Stat_t, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, nil, errNotRegular
	}
	return os.NewFile(uintptr(fd), ""), &st, nil
}

var errNotRegular = errors.New("not a regular file any more")

func retry(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, maxTarget+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

var errTooMany = errors.New("too many names")

// list names what is in a folder, in no order; errTooMany beyond limit.
func list(dir, limit int) ([]string, error) {
	fd, err := openDir(dir, ".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	var all []string
	for {
		names, err := f.Readdirnames(1024)
		all = append(all, names...)
		if len(all) > limit {
			return nil, errTooMany
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func listError(path string, err error) error {
	if err == errTooMany {
		return exhausted(opCollect, path, "too many names in one folder")
	}
	return unreadable(path, err)
}

// chain opens folders below root component by component and keeps the last ones open, since paths that
// come in order share them.
type chain struct {
	root  int
	names []string
	fds   []int
}

// parent is the open folder of path and the last name. The descriptor is the chain's.
func (c *chain) parent(path string) (int, string, error) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return c.root, path, nil
	}
	fd, err := c.open(path[:i])
	return fd, path[i+1:], err
}

// open is the open folder at path. The descriptor is the chain's.
func (c *chain) open(path string) (int, error) {
	names := strings.Split(path, "/")
	n := 0
	for n < len(names) && n < len(c.names) && names[n] == c.names[n] {
		n++
	}
	c.cut(n)
	fd := c.root
	if n > 0 {
		fd = c.fds[n-1]
	}
	for _, name := range names[n:] {
		next, err := openDir(fd, name)
		if err != nil {
			return -1, err
		}
		c.names, c.fds = append(c.names, name), append(c.fds, next)
		fd = next
	}
	return fd, nil
}

func (c *chain) cut(n int) {
	for _, fd := range c.fds[n:] {
		unix.Close(fd)
	}
	c.names, c.fds = c.names[:n], c.fds[:n]
}

func (c *chain) close() { c.cut(0) }

// prefixes are where overlayfs keeps its marks.
func (c *collector) prefixes() []string {
	if c.o.Xattr != "" {
		return []string{c.o.Xattr}
	}
	return overlayPrefixes
}

var overlayPrefixes = []string{"user.overlay.", "trusted.overlay."}

// refuseMarks refuses what an upper layer may only show as a pointer to other content.
func (c *collector) refuseMarks(fd int, path string) error {
	if c.whole {
		return nil
	}
	for _, prefix := range c.prefixes() {
		for _, mark := range []string{"redirect", "metacopy"} {
			has, _, err := xattr(fd, prefix+mark)
			if err != nil {
				return unreadable(path, err)
			}
			if has {
				return &sallyport.Error{Op: opCollect, Code: sallyport.CodeUnsupported, Subject: quote(path),
					Message: "overlayfs keeps this as a pointer (" + prefix + mark + "), not as content",
					Hint:    "mount the workspace with redirect_dir=off,metacopy=off"}
			}
		}
	}
	return nil
}

func (c *collector) opaque(fd int, path string) (bool, error) {
	if c.whole {
		return false, nil
	}
	return isOpaque(fd, path, c.prefixes())
}

// isOpaque reports whether a folder hides the layers below it. Any value but "y" ("x" announces whiteouts
// kept as attributes) is one that the kernels we mount with do not write.
func isOpaque(fd int, path string, prefixes []string) (bool, error) {
	for _, prefix := range prefixes {
		has, value, err := xattr(fd, prefix+"opaque")
		if err != nil {
			return false, unreadable(path, err)
		}
		if has && value != "y" {
			return false, &sallyport.Error{Op: opCollect, Code: sallyport.CodeUnsupported, Subject: quote(path),
				Message: "an overlay mark of an unknown kind", Hint: "report this with the kernel's version"}
		}
		if has {
			return true, nil
		}
	}
	return false, nil
}

func xattr(fd int, name string) (bool, string, error) {
	var buf [16]byte
	n, err := unix.Fgetxattr(fd, name, buf[:])
	switch err {
	case nil:
		return true, string(buf[:n]), nil
	case unix.ERANGE:
		return true, "", nil
	case unix.ENODATA, unix.ENOTSUP:
		return false, "", nil
	}
	return false, "", err
}
