package inspect

import (
	"strings"
)

// spellings are the names that fall together on a file system that ignores case and Unicode form.
type spellings struct {
	first        string
	several      bool // another one than first
	folder, leaf bool // what the names are
}

func (s *spellings) add(name string, folder bool) {
	if s.first == "" {
		s.first = name
	}
	s.several = s.several || s.first != name
	s.folder, s.leaf = s.folder || folder, s.leaf || !folder
}

// twins finds names that the change adds beside another that differs only in case or in Unicode form: on
// many machines only one of them survives a checkout, and which one is chance. Folders count too.
func (i *inspection) twins() {
	all := map[string]*spellings{} // by folded name, for the names that the change adds
	removed := map[string]bool{}
	added := []string{}
	for _, c := range i.Changes {
		if gone(c) {
			removed[c.Path] = true
		} else if i.added(c) {
			added = append(added, c.Path)
			for _, p := range prefixes(c.Path) {
				f := fold(p)
				if all[f] == nil {
					all[f] = &spellings{}
				}
				all[f].add(p, p != c.Path)
			}
		}
	}
	if len(added) == 0 {
		return
	}
	known := i.spell(all, removed)
	for _, p := range added {
		for _, pre := range prefixes(p) {
			s := all[fold(pre)]
			if known[pre] || !s.several {
				continue // the base has this very folder, or there is one spelling
			}
			if s.folder && s.leaf {
				i.found.add("name.twin-folder", p, "a folder and a file or link differ only in case or Unicode form")
			} else {
				i.found.add("name.twin", p, "another name differs from it only in case or Unicode form")
			}
			break
		}
	}
}

// spell adds the base's spellings of the folded names, and returns which of the change's own it has already.
func (i *inspection) spell(all map[string]*spellings, removed map[string]bool) (known map[string]bool) {
	known = map[string]bool{}
	if i.BasePaths == nil {
		return known
	}
	lastDir := ""
	for p := range i.BasePaths {
		if removed[p] {
			continue
		}
		list := prefixes(p)
		dir := p[:max(strings.LastIndexByte(p, '/'), 0)]
		if dir == lastDir && dir != "" {
			list = list[len(list)-1:] // its folders were looked at with the file before
		}
		lastDir = dir
		for _, pre := range list {
			if s := all[fold(pre)]; s != nil {
				known[pre] = true
				s.add(pre, pre != p)
			}
		}
	}
	return known
}

// prefixes are a path's folders, outermost first, and itself.
func prefixes(p string) []string {
	var out []string
	for at, c := range p {
		if c == '/' && at > 0 {
			out = append(out, p[:at])
		}
	}
	return append(out, p)
}
