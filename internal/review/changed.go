package review

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"sallyport.dev/sallyport"
)

// Bounds of a page that a person reads; the rest is counted and said. Judges have none: nothing that judges the
// change may hide behind a number.
const (
	maxFolders = 60
	maxFiles   = 20 // of one folder
)

// Changed is the changed files: those that judge the change first, the rest by folder.
type Changed struct {
	Totals  string // "4 files: 3 in 2 folders, 1 that judges it"
	Judges  []File
	Folders []Folder
	More    int // folders that are not listed
}

// Folder is the changed files of one folder that judge nothing.
type Folder struct {
	Name  string // "./" for the root
	Files []File // by their names in it
	More  int    // files that are not listed
}

// File is one changed file.
type File struct{ Name, Status, Detail string }

func changed(r sallyport.Report, judges func(string) bool) Changed {
	if r.Tree == "" {
		return Changed{Totals: sofar(r, "nothing was collected")}
	}
	if len(r.Changes) == 0 {
		return Changed{Totals: "nothing"}
	}
	var c Changed
	folders := map[string][]File{}
	for _, ch := range r.Changes {
		f := File{Name: name(ch.Path), Status: line(string(ch.Status)), Detail: detail(ch)}
		if judges != nil && judges(ch.Path) {
			c.Judges = append(c.Judges, f)
			continue
		}
		dir, base := path.Split(ch.Path)
		f.Name = name(base)
		folders[dir] = append(folders[dir], f)
	}
	// A judge that is new adds; one that is edited may take away.
	slices.SortStableFunc(c.Judges, func(a, b File) int { return rank(a) - rank(b) })
	c.Totals = totals(len(r.Changes), len(folders), len(c.Judges))
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		f := Folder{Name: name(dir), Files: folders[dir]}
		if dir == "" {
			f.Name = "./"
		}
		if n := len(f.Files); n > maxFiles {
			f.Files, f.More = f.Files[:maxFiles], n-maxFiles
		}
		c.Folders = append(c.Folders, f)
	}
	if len(c.Folders) > maxFolders {
		c.Folders, c.More = c.Folders[:maxFolders], len(c.Folders)-maxFolders
	}
	return c
}

func rank(f File) int {
	if f.Status == string(sallyport.ChangeAdded) {
		return 1
	}
	return 0
}

func totals(files, folders, judges int) string {
	s := count(files, "file") + ": "
	if judges == files {
		return s + "all of them judge it"
	}
	s += fmt.Sprintf("%d in %s", files-judges, count(folders, "folder"))
	switch {
	case judges == 1:
		s += ", 1 that judges it"
	case judges > 1:
		s += fmt.Sprintf(", %d that judge it", judges)
	}
	return s
}

// detail says what the status alone does not: an executable bit, a link, a submodule.
func detail(c sallyport.Change) string {
	kinds := map[string]string{"100755": "executable", "120000": "a link", "160000": "a submodule"}
	was, now := kinds[c.OldMode], kinds[c.NewMode]
	switch {
	case was == now, c.OldMode == "":
		return now
	case c.NewMode == "":
		return "was " + was
	case now == "":
		return "no longer " + was
	case was == "":
		return "now " + now
	}
	return "was " + was + ", now " + now
}
