package review

import (
	"bytes"
	"strings"
)

// Kinds of a patch's lines. Context has none.
const (
	kindFile = "file" // the first line of a file
	kindMeta = "meta"
	kindHunk = "hunk"
	kindAdd  = "add"
	kindDel  = "del"
)

// hunks tells the lines of a patch apart as git apply does: by the counts in a hunk's head, so that a removed
// line "-- x" is not taken for the head of a file. Zero value: before the first line.
type hunks struct{ old, now int } // lines that the hunk still has on each side

// kind takes the next line, of which the beginning is enough.
func (h *hunks) kind(line []byte) string {
	if h.old <= 0 && h.now <= 0 {
		return h.outside(line)
	}
	first := byte(' ')
	if len(line) > 0 {
		first = line[0]
	}
	switch first {
	case '+':
		h.now--
		return kindAdd
	case '-':
		h.old--
		return kindDel
	case '\\':
		return kindMeta
	}
	h.old, h.now = h.old-1, h.now-1
	return ""
}

func (h *hunks) outside(line []byte) string {
	if bytes.HasPrefix(line, []byte("diff --git ")) {
		return kindFile
	}
	f := strings.Fields(string(line[:min(len(line), 100)]))
	if len(f) < 4 || f[0] != "@@" || f[3] != "@@" || f[1][0] != '-' || f[2][0] != '+' {
		return kindMeta
	}
	old, okOld := length(f[1][1:])
	now, okNow := length(f[2][1:])
	if !okOld || !okNow {
		return kindMeta
	}
	h.old, h.now = old, now
	return kindHunk
}

// length is the n of "from,n", and 1 of "from".
func length(s string) (int, bool) {
	_, n, found := strings.Cut(s, ",")
	if !found {
		return 1, true
	}
	v := 0
	for _, r := range n {
		if r < '0' || r > '9' || v > 1<<28 {
			return 0, false
		}
		v = v*10 + int(r-'0')
	}
	return v, n != ""
}

// pathOf is one path of "a/PATH b/PATH", which are the same since renames are not looked for. One that git
// quotes stays quoted.
func pathOf(s string) string {
	half := len(s) / 2
	if len(s)%2 == 0 || s[half] != ' ' {
		return s
	}
	old, now := s[:half], s[half+1:]
	mark := ""
	if strings.HasPrefix(old, `"`) {
		mark = `"`
	}
	old, okOld := strings.CutPrefix(old, mark+"a/")
	now, okNow := strings.CutPrefix(now, mark+"b/")
	if !okOld || !okNow || old != now {
		return s
	}
	return mark + old
}
