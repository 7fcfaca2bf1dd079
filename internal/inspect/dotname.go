package inspect

import (
	"path"
	"strings"
	"unicode/utf8"
)

// dotName is a name that git treats specially, and how NTFS may shorten it: by its first six letters, or by
// two letters and a hash of the name.
type dotName struct{ name, short, hashed string }

var (
	dotGit        = dotName{".git", "git", ""}
	dotModules    = dotName{".gitmodules", "gitmod", "gi7eba"}
	dotAttributes = dotName{".gitattributes", "gitatt", "gi7d29"}
	dotIgnore     = dotName{".gitignore", "gitign", "gi250a"}
	dotMailmap    = dotName{".mailmap", "mailma", "maba30"}
	dotLFS        = dotName{".lfsconfig", "lfscon", ""}
)

// gitLike reports whether some file system takes a name for ".git": in any case, with characters that HFS+
// ignores, with the trailing dots and spaces, streams and short names of NTFS.
func gitLike(part string) bool { return dotGit.is(part) }

// ends reports whether a path's last name is d on some file system.
func (d dotName) ends(p string) bool { return d.is(path.Base(p)) }

func (d dotName) is(name string) bool {
	if d.same(validHead(name)) {
		return true
	}
	if strings.IndexByte(name, '\\') >= 0 {
		for part := range strings.SplitSeq(name, `\`) {
			if d.same(validHead(part)) {
				return true
			}
		}
	}
	return false
}

// validHead is a name up to its first byte that is not UTF-8, where HFS+ ends it.
func validHead(s string) string {
	if ascii(s) || utf8.ValidString(s) {
		return s
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return s[:i]
		}
	}
	return s
}

func (d dotName) same(name string) bool {
	n, _, _ := strings.Cut(plain(name), ":")
	n = strings.TrimRight(n, ". ")
	if n == d.name {
		return true
	}
	head, number, short := strings.Cut(n, "~")
	if !short || number == "" || number[0] < '1' || number[0] > '9' {
		return false
	}
	if head == d.short {
		return len(number) == 1
	}
	return d.hashed != "" && len(n) == 8 && strings.HasPrefix(d.hashed, head) && strings.Trim(number, "0123456789") == ""
}
