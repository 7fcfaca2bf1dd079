package inspect

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// names judges the names that a change brings in. A name that the base has already is not this change's
// doing, except where it is dangerous by itself.
func (i *inspection) names(c sallyport.Change) {
	if redact(c.Path) != c.Path {
		i.found.add("secret.in-name", c.Path, "the name of the file contains a credential")
	}
	if gone(c) {
		return
	}
	if !validPath(c.Path) {
		i.found.add("name.invalid", c.Path, "the path is empty, absolute, or has an empty, . or .. component")
	}
	for _, part := range strings.Split(c.Path, "/") {
		if gitLike(part) {
			i.found.add("name.git", c.Path, "a component of the path is .git on some file system")
			break
		}
	}
	if i.added(c) {
		i.newName(c.Path)
	}
}

func validPath(p string) bool {
	return p != "" && p == path.Clean(p) && p[0] != '/' && p != "." && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsRune(p, 0)
}

func (i *inspection) newName(p string) {
	for _, n := range nameRules {
		for _, part := range strings.Split(p, "/") {
			if n.bad(part) {
				i.found.add(n.rule, p, n.message)
				break
			}
		}
	}
}

// nameRules judge one component of a path.
var nameRules = []struct {
	rule, message string
	bad           func(part string) bool
}{
	{"name.control", "the name contains a control character", func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }},
	{"name.backslash", "the name contains a backslash, which separates folders on Windows", func(s string) bool { return strings.Contains(s, `\`) }},
	{"name.bidi", "the name contains characters that reverse how it is shown", func(s string) bool { return strings.ContainsFunc(s, bidi) }},
	{"name.invisible", "the name contains invisible characters", hasInvisible},
	{"name.encoding", "the name is not UTF-8", func(s string) bool { return !utf8.ValidString(s) }},
	{"name.colon", "the name contains a colon, which Windows cannot store", func(s string) bool { return strings.Contains(s, ":") }},
	{"name.trailing", "the name ends in a dot or a space, which Windows drops", func(s string) bool { return strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") }},
	{"name.device", "the name is a device on Windows", device},
	{"name.dash", "the name begins with a dash, which programs take for an option", func(s string) bool { return strings.HasPrefix(s, "-") }},
}

// hasInvisible does not count joiners and variation selectors beside a visible character that they belong to:
// emoji and several scripts need them.
func hasInvisible(s string) bool {
	prev := rune(0)
	for _, r := range s {
		if invisible(r) && !bidi(r) && !(joiner(r) && prev > 0x2FF) {
			return true
		}
		prev = r
	}
	return false
}

func joiner(r rune) bool { return r == 0x200C || r == 0x200D || r == 0xFE0E || r == 0xFE0F }

// device reports whether Windows opens a device under this name, whatever its extension.
func device(s string) bool {
	stem, _, _ := strings.Cut(plain(s), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	if len(stem) < 4 || stem[:3] != "com" && stem[:3] != "lpt" {
		return false
	}
	// ¹²³ count as digits there; plain() has made them ordinary ones.
	return len(stem) == 4 && stem[3] >= '1' && stem[3] <= '9'
}

// gitLike reports whether some file system takes a name for ".git": in any case, with characters that HFS+
// ignores, with the trailing dots and spaces, streams and short names of NTFS.
func gitLike(part string) bool { return special(part, ".git", "git") }

// special reports whether name is base on some file system. short is the first letters of its short name on
// NTFS, which ends in ~1 to ~9.
func special(name, base, short string) bool {
	n := plain(name)
	if at := strings.IndexAny(n, `:\`); at >= 0 {
		n = n[:at]
	}
	n = strings.TrimRight(n, ". ")
	if n == base {
		return true
	}
	rest, ok := strings.CutPrefix(n, short+"~")
	return ok && len(rest) == 1 && rest[0] >= '1' && rest[0] <= '9'
}

// gitFile reports whether a path's last name is one of git's own files (".gitmodules") on some file system.
// The short name of a longer name is its first six letters.
func gitFile(p, base string) bool {
	short := strings.TrimPrefix(base, ".")
	if len(short) > 6 {
		short = short[:6]
	}
	return special(path.Base(p), base, short)
}
