package inspect

import (
	"strings"
)

// shape is which parts of a bare repository a folder has. Git asks for HEAD with objects and refs, or for HEAD
// with a commondir file that names where those are.
type shape struct{ head, objects, refs, common bool }

func (s shape) repository() bool { return s.head && (s.objects && s.refs || s.common) }

func (s *shape) add(part string) {
	switch part {
	case "head":
		s.head = true
	case "objects":
		s.objects = true
	case "refs":
		s.refs = true
	case "commondir":
		s.common = true
	}
}

// repositoryPart reports whether a change to this name in a folder can make a repository of it, or change
// what one does.
func repositoryPart(part string) bool {
	switch part {
	case "head", "objects", "refs", "commondir", "config", "hooks":
		return true
	}
	return false
}

// nested finds folders that the change makes into bare repositories, or in which it edits one: git obeys the
// configuration it finds there, with programs in it, for everybody who stands in the folder.
func (i *inspection) nested() {
	found := map[string]*shape{} // by folder in plain form; "" is the root
	spelled := map[string]string{}
	removed := map[string]bool{}
	for _, c := range i.Changes {
		if gone(c) {
			removed[c.Path] = true
			continue
		}
		eachPart(c.Path, func(folder, part string) {
			if f := plain(folder); repositoryPart(plain(part)) && found[f] == nil {
				found[f], spelled[f] = &shape{}, folder
			}
		})
	}
	if len(found) == 0 {
		return
	}
	look := func(path string) {
		eachPart(path, func(folder, part string) {
			if s := found[plain(folder)]; s != nil {
				s.add(plain(part))
			}
		})
	}
	for _, c := range i.Changes {
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
	for f, s := range found {
		if s.repository() {
			i.found.add("repo.nested", spelled[f], "the folder has HEAD, objects and refs, so git takes it for a repository")
		}
	}
}

// eachPart calls f for every component of a path, with the folder that it is in.
func eachPart(p string, f func(folder, part string)) {
	for start := 0; start <= len(p); {
		end := strings.IndexByte(p[start:], '/')
		if end < 0 {
			end = len(p) - start
		}
		f(p[:max(start-1, 0)], p[start:start+end])
		start += end + 1
	}
}
