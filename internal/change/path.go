package change

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
)

// CheckPath is the floor under every path that enters a tree of ours: relative, no empty, "." or ".."
// component, no NUL, and no component that git, HFS+ or NTFS could take for ".git". CodeInvalid. What else
// is suspicious about a name is internal/inspect's.
func CheckPath(p string) error {
	bad := func(why string) error {
		return &sallyport.Error{Op: "check path", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("%+.200q", p), Message: why}
	}
	if p == "" || strings.IndexByte(p, 0) >= 0 {
		return bad("expected a path without NUL")
	}
	for c := range strings.SplitSeq(p, "/") {
		switch {
		case c == "":
			return bad("expected a relative path without empty components")
		case c == "." || c == "..":
			return bad(`"." and ".." are no names`)
		case looksLikeGit(c):
			return bad("a component is, or is taken on some system for, .git")
		}
	}
	return nil
}

// looksLikeGit covers what `git fsck --strict` calls hasDotgit: any letter case; HFS+ ignoring some code
// points; NTFS ignoring trailing dots and spaces and a stream after ":", its short name GIT~1, and "\" as a
// separator.
func looksLikeGit(name string) bool {
	if strings.EqualFold(dropIgnorable(name), ".git") {
		return true
	}
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, " .")
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return false
}

// dropIgnorable removes the code points that HFS+ ignores in names (Apple TN1150).
func dropIgnorable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, s)
}
