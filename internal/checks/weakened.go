package checks

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of weakening.
const (
	TestRemoved       = "test-removed"
	TestDisabled      = "test-disabled"      // skipped, ignored, or left out because another is focused
	FewerAssertions   = "fewer-assertions"   // or none in a new test
	FewerCases        = "fewer-cases"        // of a table, or parameters
	WeakerAssertion   = "weaker-assertion"   // another comparison or matcher that more values satisfy
	LooserBound       = "looser-bound"       // tolerance or time limit
	ExpectedChanged   = "expected-changed"   // a value that is compared with, or goes in
	TrivialAssertion  = "trivial-assertion"  // one that nothing can fail
	SwallowedFailure  = "swallowed-failure"  // an exception or exit status that no longer fails the test
	RewrittenExpected = "rewritten-expected" // a golden file or snapshot
)

// Weakening is one place where tests became easier to pass. It is for a reviewer: many have good reasons.
type Weakening struct {
	Path   string
	Test   string // as its file names it, " > " between levels; empty: the file as a whole
	Kind   string // one of the kinds
	Detail string // one line for a person; may quote the file, not neutralised
	Line   int    // 1-based, in the changed file; in the base for what is gone; 0: the file as a whole
}

// Edit is one test file on both sides of a change; nil is a side where it does not exist.
type Edit struct {
	Path          string
	Base, Changed []byte
}

// Weakened compares one test file.
func Weakened(path string, base, changed []byte) []Weakening {
	return WeakenedBy([]Edit{{path, base, changed}})
}

// WeakenedBy compares all test files of one change, so that a test that moved to another file is not gone.
// It goes by names and lines, not by what tests do: it misses what is done cleverly, and a reviewer will find
// harmless edits in it. At most one Weakening per test and kind; ordered by path and line.
func WeakenedBy(edits []Edit) []Weakening {
	var w weigher
	var gone, added []unit
	for _, e := range edits {
		switch {
		case bytes.Equal(e.Base, e.Changed) && (e.Base == nil) == (e.Changed == nil):
		case len(e.Base) > maxSource || len(e.Changed) > maxSource:
		case golden(e.Path):
			w.golden(e)
		default:
			g, a := w.file(e)
			gone, added = append(gone, g...), append(added, a...)
		}
	}
	w.moved(gone, added)
	slices.SortStableFunc(w.out, func(a, b Weakening) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(a.Kind, b.Kind))
	})
	return w.out
}

type weigher struct {
	out  []Weakening
	more map[[3]string]int // where in out a path, test and kind stand
}

// add keeps the first of a kind per test.
func (w *weigher) add(u unit, kind string, line int, detail string) {
	key := [3]string{u.path, u.name, kind}
	if w.more == nil {
		w.more = map[[3]string]int{}
	}
	if _, ok := w.more[key]; ok {
		return
	}
	w.more[key] = len(w.out)
	w.out = append(w.out, Weakening{Path: u.path, Test: u.name, Kind: kind, Detail: detail, Line: line})
}

func (w *weigher) golden(e Edit) {
	u := unit{path: e.Path}
	switch {
	case e.Changed == nil:
		w.add(u, RewrittenExpected, 0, "what tests expect is gone")
	case e.Base != nil:
		n, first := 0, 0
		for i, f := range fresh(e.Base, e.Changed) {
			if f {
				if n++; n == 1 {
					first = i + 1
				}
			}
		}
		gone := 0
		for _, at := range pair(splitLines(e.Base), splitLines(e.Changed)).a {
			if at < 0 {
				gone++
			}
		}
		w.add(u, RewrittenExpected, first, fmt.Sprintf("what tests expect was rewritten: %d lines new, %d gone", n, gone))
	}
}

// file compares the tests that have one name on both sides, and returns the others.
func (w *weigher) file(e Edit) (gone, added []unit) {
	before, after := units(e.Path, e.Base), units(e.Path, e.Changed)
	if e.Changed != nil && len(after) == 0 {
		after = []unit{{path: e.Path}}
	}
	byName := map[string][]unit{}
	for _, u := range after {
		byName[u.name] = append(byName[u.name], u)
	}
	for _, b := range before {
		if same := byName[b.name]; len(same) > 0 {
			w.compare(b, same[0])
			byName[b.name] = same[1:]
		} else {
			gone = append(gone, b)
		}
	}
	for _, u := range after {
		if rest := byName[u.name]; len(rest) > 0 && rest[0].line() == u.line() {
			added, byName[u.name] = append(added, u), rest[1:]
		}
	}
	return gone, added
}

// moved finds the tests that are gone among those that are new, by their last name or by their body; what is
// left is gone, or new.
func (w *weigher) moved(gone, added []unit) {
	used := make([]bool, len(added))
	for _, g := range gone {
		find := func(same func(a unit) bool) int {
			for i, a := range added {
				if !used[i] && a.test == g.test && same(a) {
					return i
				}
			}
			return -1
		}
		at := find(func(a unit) bool { return a.name != "" && leaf(a.name) == leaf(g.name) })
		if at < 0 {
			at = find(func(a unit) bool { return alike(g, a) })
		}
		switch {
		case at >= 0:
			used[at] = true
			w.compare(g, added[at])
		case g.test:
			w.add(g, TestRemoved, g.line(), "the test is gone")
		}
	}
	for i, a := range added {
		if !used[i] {
			w.compare(unit{path: a.path, name: a.name, test: a.test}, a)
		}
	}
}

func leaf(name string) string { return name[strings.LastIndex(name, " > ")+1:] }

// alike reports whether most lines of a test, without its head, are in another.
func alike(a, b unit) bool {
	if len(a.lines) < 3 || len(b.lines) < 2 {
		return false
	}
	have := map[string]int{}
	for _, c := range b.lines[1:] {
		have[c.text]++
	}
	n, of := 0, 0
	for _, c := range a.lines[1:] {
		if len(c.toks) < 2 {
			continue
		}
		of++
		if have[c.text] > 0 {
			have[c.text]--
			n++
		}
	}
	return of > 0 && n*10 >= of*6
}

// compare weighs one test against what it was; a unit without lines is one that was not there.
func (w *weigher) compare(was, now unit) {
	l := dialect(now.path)
	hunks, newLines := changes(was, now)
	if was.test && !now.test {
		w.add(now, TestRemoved, now.line(), "it is no test any more")
	}
	w.marks(was, now)
	w.counts(l, was, now)
	for i, c := range now.lines {
		if !newLines[i] {
			continue
		}
		if trivial(l, c) {
			w.add(now, TrivialAssertion, c.number, "nothing can fail this: "+quote(c))
		}
		if swallowing.MatchString(c.text) || i+1 < len(now.lines) && swallowHead.MatchString(c.text) && swallowBody.MatchString(now.lines[i+1].text) && !expects(was, now) {
			w.add(now, SwallowedFailure, c.number, "a failure here is passed over: "+quote(c))
		}
	}
	for _, h := range hunks {
		w.hunk(l, now, h)
	}
}

// expects reports whether a test had as many handlers before.
func expects(was, now unit) bool { return handlers(was) >= handlers(now) }

func handlers(u unit) int {
	n := 0
	for i, c := range u.lines {
		if i+1 < len(u.lines) && swallowHead.MatchString(c.text) && swallowBody.MatchString(u.lines[i+1].text) {
			n++
		}
	}
	return n
}

func quote(c codeLine) string { return short(c.text) }

func short(s string) string {
	if len(s) > 90 {
		s = strings.ToValidUTF8(s[:87], "") + "..."
	}
	return strings.ReplaceAll(s, "\n", " ")
}

// marks compares what takes tests out of the run.
func (w *weigher) marks(was, now unit) {
	count := func(u unit, f func(string) bool) (n int, last codeLine) {
		for _, c := range u.lines {
			if f(c.text) {
				n, last = n+1, c
			}
		}
		return n, last
	}
	before, _ := count(was, disabling.MatchString)
	if n, c := count(now, disabling.MatchString); n > before {
		w.add(now, TestDisabled, c.number, "it may no longer run: "+quote(c))
	}
	before, _ = count(was, focusing.MatchString)
	if n, c := count(now, focusing.MatchString); n > before {
		w.add(now, TestDisabled, c.number, "all other tests of its file are left out: "+quote(c))
	}
}

// counts compares assertions and rows.
func (w *weigher) counts(l *language, was, now unit) {
	if !now.test && now.name != "" && len(was.lines) == 0 {
		return
	}
	a, b := total(was, func(c codeLine) int { return assertions(l, c) }), total(now, func(c codeLine) int { return assertions(l, c) })
	switch {
	case len(was.lines) == 0 && now.test && b == 0 && !handsOn(l, now):
		w.add(now, FewerAssertions, now.line(), "the new test asserts nothing")
	case b < a:
		w.add(now, FewerAssertions, now.line(), fmt.Sprintf("%d assertions became %d", a, b))
	}
	if a, b := total(was, row), total(now, row); b < a {
		w.add(now, FewerCases, now.line(), fmt.Sprintf("%d cases became %d", a, b))
	}
}

// handsOn reports whether a test calls something that may assert for it.
func handsOn(l *language, u unit) bool {
	for _, c := range u.lines[1:] {
		if l == goLanguage && (strings.Contains(c.text, "( t ,") || strings.Contains(c.text, "( t )") || strings.Contains(c.text, ". Run (")) {
			return true
		}
		for _, t := range c.toks {
			if t.kind == tokenWord && (strings.Contains(strings.ToLower(t.text), "assert") || strings.Contains(strings.ToLower(t.text), "expect") || strings.Contains(strings.ToLower(t.text), "verif")) {
				return true
			}
		}
	}
	return false
}

func total(u unit, f func(codeLine) int) int {
	n := 0
	for _, c := range u.lines {
		n += f(c)
	}
	return n
}

// row is 1 for a line that is a row of a table.
func row(c codeLine) int {
	first, last := c.toks[0], c.toks[len(c.toks)-1]
	if oneOf(first.text, "{ [ (") && (last.text == "," && len(c.toks) > 2 || len(c.toks) == 1) || strings.HasPrefix(c.text, "# [ case") || strings.HasPrefix(c.text, "pytest . param (") {
		return 1
	}
	return 0
}

// hunk is a stretch of lines that took the place of another.
type hunk struct{ was, now []codeLine }

func changes(was, now unit) (hunks []hunk, newLines []bool) {
	a, b := texts(was), texts(now)
	p := pair(a, b)
	newLines = make([]bool, len(b))
	for i := range b {
		newLines[i] = p.b[i] < 0
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		var h hunk
		for ; i < len(a) && p.a[i] < 0; i++ {
			h.was = append(h.was, was.lines[i])
		}
		for ; j < len(b) && p.b[j] < 0; j++ {
			h.now = append(h.now, now.lines[j])
		}
		if len(h.was) > 0 && len(h.now) > 0 {
			hunks = append(hunks, h)
		}
		if i < len(a) {
			i++
		}
		if j < len(b) {
			j++
		}
	}
	return hunks, newLines
}

func texts(u unit) []string {
	var out []string
	for _, c := range u.lines {
		out = append(out, c.text)
	}
	return out
}
