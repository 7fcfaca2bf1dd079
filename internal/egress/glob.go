package egress

import (
	"fmt"
	"strings"
)

// maxPath bounds what is compared; longer paths are refused.
const maxPath = 4096

// canonicalPath is the one form in which a request's path is compared: escapes of characters that need none are
// undone, other escapes are upper case, a star is %2A. ok is false where servers disagree about what is asked:
// no slash first, dot segments however written, an empty segment within, a backslash, control or non-ASCII bytes,
// broken or doubled escapes. A trailing slash stays.
func canonicalPath(path string) (string, bool) {
	if len(path) > maxPath || !strings.HasPrefix(path, "/") {
		return "", false
	}
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' {
			v, ok := unhex(path[i+1:])
			if !ok {
				return "", false
			}
			c, escaped, i = v, true, i+2
		}
		switch {
		case c < ' ' || c == 0x7f || c == '\\':
			return "", false
		case !escaped && (c == ' ' || c > 0x7f || c == '?' || c == '#'):
			return "", false
		case c == '*' || escaped && !isUnreserved(c):
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), !doubled(b.String()) && plainSegments(b.String())
}

func plainSegments(path string) bool {
	rest := strings.ReplaceAll(path[1:], "%2F", "/")
	for more := true; more; {
		var s string
		s, rest, more = strings.Cut(rest, "/")
		// Some servers cut a segment at a semicolon before they look at its dots.
		name, _, _ := strings.Cut(strings.ReplaceAll(s, "%3B", ";"), ";")
		if name == "." || name == ".." || name == "" && more {
			return false
		}
	}
	return true
}

// doubled says that a canonical path has a second layer of escapes, which some servers undo as well. It looks at the
// canonical form, as the digits after %25 may have been escaped themselves.
func doubled(path string) bool {
	for {
		var more bool
		if _, path, more = strings.Cut(path, "%25"); !more {
			return false
		}
		if _, ok := unhex(path); ok {
			return true
		}
	}
}

func unhex(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, s[0]), strings.IndexByte(hexDigits, s[1])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hexValue(hi)<<4 | hexValue(lo)), true
}

const hexDigits = "0123456789abcdefABCDEF"

func hexValue(index int) int {
	if index >= 16 {
		return index - 6
	}
	return index
}

func isUnreserved(c byte) bool { return isAlnum(c) || strings.IndexByte("-._~", c) >= 0 }

// matchPath compares a canonical path with a glob: `*` is any run of characters within one segment, an empty one too, and an
// escape is one character; `**` as a whole segment is any number of segments, none included. An escaped slash (%2F) is
// matched only by one in the glob: a server may take it for a slash, and neither star must reach further than it shows.
func matchPath(glob, path string) bool {
	if strings.Count(path, "%2F") != strings.Count(glob, "%2F") {
		return false
	}
	return matchRun(strings.Split(glob, "/"), strings.Split(path, "/"), func(g string) bool { return g == "**" }, matchSegment)
}

func matchSegment(glob, segment string) bool {
	if !strings.Contains(segment, "%") { // as nearly always
		return matchRun([]byte(glob), []byte(segment), func(c byte) bool { return c == '*' }, func(a, b byte) bool { return a == b })
	}
	return matchRun(escapesWhole(glob), escapesWhole(segment), func(c string) bool { return c == "*" }, func(a, b string) bool { return a == b })
}

// escapesWhole are the characters of a canonical path or glob, an escape as one: `*0` is not what ends in %20.
func escapesWhole(s string) []string {
	out := make([]string, 0, len(s))
	for len(s) > 0 {
		n := 1
		if s[0] == '%' {
			n = min(3, len(s))
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// matchRun matches items with a pattern in which wild stands for any run of them. Only the last wild is ever taken
// back: what an earlier one could take more of, the later one can take too. So the cost is at most pattern × items.
func matchRun[T any](pattern, items []T, wild func(T) bool, same func(T, T) bool) bool {
	p, i, back, mark := 0, 0, -1, 0
	for i < len(items) {
		switch {
		case p < len(pattern) && wild(pattern[p]):
			back, mark = p, i
			p++
		case p < len(pattern) && same(pattern[p], items[i]):
			p, i = p+1, i+1
		case back >= 0:
			mark++
			p, i = back+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && wild(pattern[p]) {
		p++
	}
	return p == len(pattern)
}

// checkGlob says what is wrong with a glob, "" if nothing: without its stars it must be a canonical path.
func checkGlob(glob string) string {
	for s := range strings.SplitSeq(strings.TrimPrefix(glob, "/"), "/") {
		if strings.Contains(s, "**") && s != "**" {
			return "** stands alone between slashes"
		}
	}
	plain := strings.ReplaceAll(glob, "*", "x")
	if c, ok := canonicalPath(plain); !ok || c != plain {
		return "expected a path that begins with /, without //, dot segments, query or needless escapes; a literal star is %2A"
	}
	return ""
}
