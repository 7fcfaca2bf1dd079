package toolchain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the kernel's own bound on links in one path.
const maxLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

// walk resolves an absolute path as the kernel does and returns the links it met, in order, each with a
// parent free of links. The last component must exist. On error the links so far are returned.
func walk(path string) (real string, links []Link, err error) {
	real, todo := "/", components(path)
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		if c == ".." {
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, c)
		fi, err := os.Lstat(next)
		if err != nil {
			return "", links, err
		}
		if fi.Mode()&os.ModeSymlink == 0 {
			real = next
			continue
		}
		if len(links) == maxLinks {
			return "", links, errTooManyLinks
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", links, err
		}
		links = append(links, Link{Path: next, Target: target})
		if filepath.IsAbs(target) {
			real = "/"
		}
		todo = append(components(target), todo...)
	}
	return real, links, nil
}

func components(path string) []string {
	var out []string
	for _, c := range strings.Split(path, "/") {
		if c != "" && c != "." {
			out = append(out, c)
		}
	}
	return out
}

// realOr is path without links, or path itself where that cannot be told.
func realOr(path string) string {
	if real, _, err := walk(path); err == nil {
		return real
	}
	return path
}
