package checks

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
)

//go:embed loaded.tsv
var loadedTable string

// load is one row of the table.
type load struct {
	runner, why string
	program     bool
}

// loads is the table made fast to ask: a change may touch many thousands of paths. Rows stay in order: the
// first that holds is the answer.
type loads struct {
	rows    []load
	names   map[string]int
	folders map[string]int
	roots   map[string]int
	stars   []star
}

// star is a name, or with folder that of a folder, with one "*" in it.
type star struct {
	head, tail string
	folder     bool
	row        int
}

var loaded = readLoads(loadedTable)

// readLoads reads the table; a mistake in it is the program's.
func readLoads(table string) loads {
	t := loads{names: map[string]int{}, folders: map[string]int{}, roots: map[string]int{}}
	n := 0
	for line := range strings.Lines(table) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[1] != "program" && f[1] != "config" {
			panic(fmt.Sprintf("loaded.tsv:%d: expected runner, program or config, why, patterns", n))
		}
		t.rows = append(t.rows, load{f[0], f[2], f[1] == "program"})
		for p := range strings.FieldsSeq(f[3]) {
			if !t.add(p, len(t.rows)-1) {
				panic(fmt.Sprintf("loaded.tsv:%d: the pattern %s is there already, or is no pattern", n, p))
			}
		}
	}
	return t
}

func (t *loads) add(p string, row int) bool {
	at := t.names
	name, folder := strings.CutSuffix(p, "/")
	root := strings.HasPrefix(name, "/")
	switch {
	case root:
		at, name = t.roots, name[1:]
	case folder:
		at = t.folders
	}
	if head, tail, ok := strings.Cut(name, "*"); ok {
		t.stars = append(t.stars, star{head, tail, folder, row})
		return !root && !strings.Contains(tail, "*")
	}
	_, twice := at[name]
	at[name] = row
	return !twice && name == strings.ToLower(name) && (root || !strings.Contains(name, "/"))
}

// find is the row for a path; -1: there is none.
func (t *loads) find(p string) int {
	p = strings.ToLower(strings.Trim(path.Clean("/"+p), "/"))
	name := path.Base(p)
	row := len(t.rows)
	best := func(m map[string]int, key string) {
		if r, ok := m[key]; ok {
			row = min(row, r)
		}
	}
	best(t.names, name)
	for rest := p; ; {
		best(t.roots, rest)
		best(t.folders, path.Base(rest))
		for _, s := range t.stars {
			if (s.folder || rest == p) && s.matches(path.Base(rest)) {
				row = min(row, s.row)
			}
		}
		at := strings.LastIndexByte(rest, '/')
		if at < 0 {
			break
		}
		rest = rest[:at]
	}
	if row == len(t.rows) {
		return -1
	}
	return row
}

func (s star) matches(name string) bool {
	return len(name) >= len(s.head)+len(s.tail) && strings.HasPrefix(name, s.head) && strings.HasSuffix(name, s.tail)
}

// Loaded reports whether a build tool or test runner loads a file by itself, because of its place: which one,
// and what the file can do there. path is slash-separated from the repository's root; case does not matter.
func Loaded(path string) (runner, why string, ok bool) {
	row := loaded.find(path)
	if row < 0 {
		return "", "", false
	}
	return loaded.rows[row].runner, loaded.rows[row].why, true
}

// LoadedProgram reports whether a loaded file is itself a program that building, installing or testing runs.
func LoadedProgram(path string) bool {
	row := loaded.find(path)
	return row >= 0 && loaded.rows[row].program
}
