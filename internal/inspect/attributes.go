package inspect

import (
	"bytes"
	"path"
	"strings"

	"sallyport.dev/sallyport"
)

// attrLine is one line of a .gitattributes that git would obey.
type attrLine struct {
	base    bool // the pattern is compared with the last component
	pattern wildmatch
	sets    []assign
}

type assign struct{ attr, value string }

// The values that are no text.
const (
	attrSet   = "\x00set"
	attrUnset = "\x00unset"
	attrClear = "\x00unspecified"
)

// attributes are the lines of one file and the macros that it may define.
type attributes struct {
	lines  []attrLine
	macros map[string][]assign
}

// Bounds of git's own: longer lines are ignored.
const maxAttrLine = 2048

// parseAttributes reads a .gitattributes as git does. Macros count in the root's file alone. Lines that git
// ignores are left out.
func parseAttributes(b []byte, root bool) attributes {
	a := attributes{macros: map[string][]assign{"binary": {{"diff", attrUnset}, {"merge", attrUnset}, {"text", attrUnset}}}}
	for line := range bytes.SplitSeq(bytes.TrimPrefix(b, []byte("\ufeff")), []byte{'\n'}) {
		line, _, _ := bytes.Cut(line, []byte{0})
		if len(line) < maxAttrLine {
			a.add(strings.TrimLeft(string(line), attrBlank), root)
		}
	}
	return a
}

const attrBlank = " \t\r\n"

func (a *attributes) add(line string, root bool) {
	if line == "" || line[0] == '#' {
		return
	}
	name, states, ok := unquote(line)
	if !ok {
		at := strings.IndexAny(line, attrBlank)
		if at < 0 {
			at = len(line)
		}
		name, states = line[:at], line[at:]
	}
	macro := ""
	if rest, is := strings.CutPrefix(name, "[attr]"); is && rest != "" {
		if at := strings.IndexAny(rest, attrBlank); at >= 0 {
			rest = rest[:at]
		}
		if !root || !validAttr(rest) {
			return
		}
		macro = rest
	}
	var sets []assign
	for _, word := range strings.FieldsFunc(states, func(r rune) bool { return strings.ContainsRune(attrBlank, r) }) {
		s, ok := parseAssign(word)
		if !ok {
			return // git drops the whole line
		}
		sets = append(sets, s)
	}
	if macro != "" {
		a.macros[macro] = sets
		return
	}
	if l, ok := newAttrLine(name, sets); ok {
		a.lines = append(a.lines, l)
	}
}

func newAttrLine(pattern string, sets []assign) (attrLine, bool) {
	if strings.HasPrefix(pattern, "!") || strings.HasSuffix(pattern, "/") || pattern == "" {
		return attrLine{}, false // negative ones are ignored; one that means a folder never meets a file
	}
	base := !strings.Contains(pattern, "/")
	return attrLine{base: base, pattern: compileWild(strings.TrimPrefix(pattern, "/")), sets: sets}, true
}

func parseAssign(word string) (assign, bool) {
	name, value, text := strings.Cut(word, "=")
	s := assign{name, attrSet}
	switch {
	case strings.HasPrefix(name, "-"):
		s = assign{name[1:], attrUnset}
	case strings.HasPrefix(name, "!"):
		s = assign{name[1:], attrClear}
	case text:
		s.value = value
	}
	return s, validAttr(s.attr)
}

func validAttr(s string) bool {
	return s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return r > 'z' || !keyByte(byte(r)) && r != '_' && r != '.' }) < 0
}

// unquote reads a C-style quoted pattern at the beginning of a line.
func unquote(line string) (name, rest string, ok bool) {
	if line[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch c := line[i]; c {
		case '"':
			return b.String(), line[i+1:], true
		case '\\':
			if i++; i >= len(line) {
				return "", "", false
			}
			if at := strings.IndexByte(`abfnrtv"\`, line[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\"\\"[at])
				continue
			}
			if i+2 >= len(line) || line[i] > '3' {
				return "", "", false
			}
			n := 0
			for _, d := range []byte(line[i : i+3]) {
				if d < '0' || d > '7' {
					return "", "", false
				}
				n = n*8 + int(d-'0')
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// of is what the file says of a path below its own folder: the last line wins, and a macro that is set says
// what it stands for.
func (a attributes) of(p string) map[string]string {
	out := map[string]string{}
	name := path.Base(p)
	for at := len(a.lines) - 1; at >= 0; at-- {
		l := a.lines[at]
		text := p
		if l.base {
			text = name
		}
		if l.pattern.match(text) {
			a.fill(out, l.sets)
		}
	}
	return out
}

func (a attributes) fill(out map[string]string, sets []assign) {
	for at := len(sets) - 1; at >= 0; at-- {
		s := sets[at]
		if _, said := out[s.attr]; said {
			continue
		}
		out[s.attr] = s.value
		if s.value == attrSet {
			a.fill(out, a.macros[s.attr])
		}
	}
}

// effect is what attributes do to a file that a reviewer should know of, by rule; "" where they do nothing.
type effect struct{ hides, export, bytes, driver string }

func effectOf(attrs map[string]string) (e effect) {
	on := func(a string) bool { v := attrs[a]; return v != "" && v != attrUnset && v != attrClear && v != "false" }
	text := func(a string) string {
		if on(a) {
			return attrs[a]
		}
		return ""
	}
	if attrs["diff"] == attrUnset {
		e.hides = "diff"
	}
	for _, a := range []string{"linguist-generated", "linguist-vendored", "linguist-documentation", "gitlab-generated"} {
		if on(a) {
			e.hides += " " + a
		}
	}
	for _, a := range []string{"export-ignore", "export-subst"} {
		if on(a) {
			e.export += " " + a
		}
	}
	e.bytes = text("ident") + text("working-tree-encoding")
	if attrs["eol"] != "lf" { // which keeps the bytes of every text file that has no CR
		e.bytes += text("eol") + text("text") + text("crlf")
	}
	e.driver = text("filter")
	for _, a := range []string{"diff", "merge"} {
		if v := attrs[a]; v != attrSet && v != attrUnset && v != attrClear {
			e.driver += v
		}
	}
	return e
}

// relevant reports whether the file sets an attribute that has an effect at all.
func (a attributes) relevant() bool {
	all := map[string]string{}
	for _, l := range a.lines {
		a.fill(all, l.sets)
		for _, s := range l.sets {
			if effectOf(map[string]string{s.attr: s.value}) != (effect{}) {
				return true
			}
		}
		if effectOf(all) != (effect{}) {
			return true
		}
	}
	return false
}

// attrFile is a .gitattributes that the change edits.
type attrFile struct {
	path        string
	dir         string // with its slash; "" is the root
	now, before attributes
	hits        [4][]string // paths per rule; those that the change touches first
}

// attributeFile keeps a .gitattributes until all are known: the base's paths are walked once.
func (i *inspection) attributeFile(c sallyport.Change, now, before []byte) {
	dir := c.Path[:strings.LastIndexByte(c.Path, '/')+1]
	f := &attrFile{path: c.Path, dir: dir, now: parseAttributes(now, dir == ""), before: parseAttributes(before, dir == "")}
	if f.now.relevant() {
		i.attrs = append(i.attrs, f)
	}
}

// maxAttrWork bounds how many lines are compared with paths.
const maxAttrWork = 4 << 20

// attributeEffects says which files the changed attributes hide, leave out or rewrite. Each file of
// attributes is judged by itself, as the change found it and as it left it.
func (i *inspection) attributeEffects() {
	if len(i.attrs) == 0 {
		return
	}
	work, cut := 0, false
	removed := map[string]bool{}
	look := func(p string) {
		for _, f := range i.attrs {
			below, in := strings.CutPrefix(p, f.dir)
			if !in || cut {
				continue
			}
			if work += len(f.now.lines) + len(f.before.lines); work > maxAttrWork {
				cut = true
				return
			}
			f.judge(p, below)
		}
	}
	for _, c := range i.Changes {
		removed[c.Path] = true // looked at here, or gone
		if !gone(c) {
			look(c.Path)
		}
	}
	if i.BasePaths != nil {
		for p := range i.BasePaths {
			if !removed[p] {
				look(p)
			}
		}
	}
	for _, f := range i.attrs {
		f.report(i, cut)
	}
}

func (f *attrFile) judge(p, below string) {
	said := f.now.of(below)
	if len(said) == 0 {
		return
	}
	now, before := effectOf(said), effectOf(f.before.of(below))
	for n, pair := range [...][2]string{{now.hides, before.hides}, {now.export, before.export}, {now.bytes, before.bytes}, {now.driver, before.driver}} {
		if pair[0] != "" && pair[0] != pair[1] {
			f.hits[n] = append(f.hits[n], p)
		}
	}
}

func (f *attrFile) report(i *inspection, cut bool) {
	for n, r := range [...]struct{ rule, does string }{
		{"attributes.hides", "are no longer shown in differences"}, {"attributes.export", "are left out of archives or rewritten in them"},
		{"attributes.bytes", "may get other bytes at checkout"}, {"attributes.driver", "are given to a driver that git configuration names"},
	} {
		if hits := f.hits[n]; len(hits) > 0 {
			least := ""
			if cut {
				least = "at least "
			}
			i.found.add(r.rule, f.path, least+plural(len(hits), "file")+" "+r.does+": "+quoted(hits))
		}
	}
	if cut {
		i.found.add("scan.incomplete", f.path, "not every file was compared with the attributes: there are too many of both")
	}
}
