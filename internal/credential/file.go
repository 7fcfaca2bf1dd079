package credential

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

const maxFile = 64 << 10

func (s *Set) fromFile(e *entry) (Secret, error) {
	b, _, err := readOwn(e.Name, inHome(s.deps.Home, e.Source.File), maxFile)
	if err != nil {
		return Secret{}, err
	}
	return usable(e.Name, b)
}

func inHome(home, p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return p
}

// readOwn reads a regular file that is this user's (or root's) and that nobody else can read or write. Its last name
// is followed nowhere, and none of the kernel's magic links is. What was checked is what is read: one descriptor.
func readOwn(name, path string, limit int64) ([]byte, fs.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, nil, failure(sallyport.CodeInvalid, name, path+": expected an absolute path, or one below ~/", "")
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY, // a pipe or terminal in its place makes nobody wait
		Resolve: unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil, failure(sallyport.CodeNotFound, name, "the file "+path+" does not exist", "write the secret there with mode 0600, or take the credential out of this run")
	case errors.Is(err, unix.ELOOP):
		return nil, nil, failure(sallyport.CodeDenied, name, path+" is a symbolic link; expected the file itself", "give the path that the link leads to")
	case err != nil:
		return nil, nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot open %s: %v", path, err), "")
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot look at %s: %v", path, err), "")
	}
	if err := private(name, path, fi); err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot read %s: %v", path, err), "")
	case int64(len(b)) > limit:
		return nil, nil, failure(sallyport.CodeInvalid, name, fmt.Sprintf("%s has more than %d bytes", path, limit), "expected a file that holds a secret and nothing else")
	}
	return b, fi, nil
}

func private(name, path string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return failure(sallyport.CodeUnavailable, name, "the owner of "+path+" is not known", "")
	case !fi.Mode().IsRegular():
		return failure(sallyport.CodeInvalid, name, path+" is no regular file", "")
	case st.Uid != uint32(os.Geteuid()) && st.Uid != 0:
		return failure(sallyport.CodeDenied, name, fmt.Sprintf("%s belongs to user %d; expected your own file", path, st.Uid), "")
	case fi.Mode().Perm()&0o077 != 0:
		return failure(sallyport.CodeDenied, name, fmt.Sprintf("%s has mode %04o: others can read or change it", path, fi.Mode().Perm()), "chmod 600 "+path)
	}
	return nil
}
