package inspect

import (
	"fmt"
	"path"
	"slices"
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

// maxName and maxPath are what Linux stores of one name and of a whole path.
const maxName, maxPath = 255, 4095

func validPath(p string) bool {
	return p != "" && p == path.Clean(p) && p[0] != '/' && p != "." && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsRune(p, 0)
}

func (i *inspection) newName(p string) {
	parts := strings.Split(p, "/")
	if len(parts) > i.Limits.Depth || len(p) > maxPath || slices.ContainsFunc(parts, func(s string) bool { return len(s) > maxName }) {
		i.found.add("size.path", p, fmt.Sprintf("the path has %s in %s", plural(len(p), "byte"), plural(len(parts), "component")))
	}
	for _, n := range nameRules {
		for _, part := range parts {
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
	{"name.homoglyph", "the name mixes Latin letters with ones of another script that look like them", func(s string) bool { return !ascii(s) && homoglyph(s) }},
	{"name.encoding", "the name is not UTF-8", func(s string) bool { return !utf8.ValidString(s) }},
	{"name.colon", "the name contains a colon, which Windows cannot store", func(s string) bool { return strings.Contains(s, ":") }},
	{"name.windows", "the name contains one of < > \" | ? *, which Windows cannot store", func(s string) bool { return strings.ContainsAny(s, `<>"|?*`) }},
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
