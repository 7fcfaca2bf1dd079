package checks

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Fault is one small change of meaning that a check of this file should notice.
type Fault struct {
	Path     string
	Line     int    // 1-based
	Was, Now string // the line before and after, without the space around it
	Content  []byte // the whole file with the fault in it
}

const (
	// MaxFaults is how many faults one file gets at most.
	MaxFaults = 20
	// maxSource is the largest file that is read for faults and weakenings.
	maxSource = 4 << 20
)

// Faults lists faults in the lines that changed adds to base or modifies, best first and at most MaxFaults.
// A nil base means that all lines are new. Each fault changes exactly one line and is meant to compile. A
// language that is not known, a file that does not parse, or a Go file that is not built on this machine has
// none. Which files are tests or generated is the caller's to know.
//
// The best faults are those that a test of the code can hardly miss: a condition turned around comes before a
// number changed by one, and every line gets its best before any line gets its second.
func Faults(path string, base, changed []byte) []Fault {
	if len(changed) > maxSource {
		return nil
	}
	var edits []edit
	compiles := func([]byte) bool { return true }
	if strings.HasSuffix(path, ".go") {
		edits, compiles = goEdits(path, changed)
	} else if l, ok := languageOf(path); ok {
		edits = l.edits(changed)
	}
	var out []Fault
	for _, e := range inOrder(edits, changed, fresh(base, changed)) {
		f := plant(path, changed, e)
		if compiles(f.Content) {
			out = append(out, f)
		}
		if len(out) == MaxFaults {
			break
		}
	}
	return out
}

// edit is one fault as bytes to be replaced. It lies within one line.
type edit struct {
	from, to int // byte offsets
	with     string
	rank     rank
	line     int // 0-based
	round    int // how many better ones its line has
}

// rank orders faults: the lower, the more surely a test notices.
type rank int

const (
	turned     rank = iota // a condition means its opposite
	compared               // a comparison or a logical operator
	answered               // what is returned
	calculated             // arithmetic
	left                   // a statement is not run
	shifted                // a number is off by one
	looped                 // the condition of a loop: may never end
	unseen                 // in what is printed or logged, or in main
)

// maxTried is how many faults are tried for whether they compile.
const maxTried = 3 * MaxFaults

// inOrder gives the edits of fresh lines: the best of each line first, then the second best, and so on.
func inOrder(edits []edit, content []byte, fresh []bool) []edit {
	starts := lineStarts(content)
	byLine := map[int][]edit{}
	for _, e := range edits {
		e.line = lineOf(starts, e.from)
		if e.line == lineOf(starts, e.to) && e.line < len(fresh) && fresh[e.line] && string(content[e.from:e.to]) != e.with {
			byLine[e.line] = append(byLine[e.line], e)
		}
	}
	var all []edit
	for _, line := range byLine {
		slices.SortFunc(line, func(a, b edit) int { return cmp.Or(cmp.Compare(a.rank, b.rank), before(a, b)) })
		for i := range line {
			line[i].round = i
		}
		all = append(all, line...)
	}
	slices.SortFunc(all, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.rank, b.rank), before(a, b))
	})
	return all[:min(len(all), maxTried)]
}

func before(a, b edit) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), strings.Compare(a.with, b.with))
}

func plant(name string, content []byte, e edit) Fault {
	now := slices.Concat(content[:e.from], []byte(e.with), content[e.to:])
	return Fault{Path: name, Line: e.line + 1, Was: lineAt(content, e.from), Now: lineAt(now, e.from), Content: now}
}

func lineAt(text []byte, at int) string {
	from := bytes.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := bytes.Cut(text[from:], []byte("\n"))
	return string(bytes.TrimSpace(line))
}

func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func lineOf(starts []int, at int) int {
	i, found := slices.BinarySearch(starts, at)
	if !found {
		i--
	}
	return i
}
