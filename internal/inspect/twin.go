package inspect

import (
	"strings"
)

// twins finds names that the change adds beside another that differs only in case or in Unicode form: on
// many machines only one of them survives a checkout, and which one is chance. Folders count too.
func (i *inspection) twins() {
	wanted := map[string]string{} // folded -> first spelling
	removed := map[string]bool{}
	report := func(path string) {
		i.found.add("name.twin", path, "another name differs from it only in case or Unicode form")
	}
	added := []string{}
	for _, c := range i.Changes {
		if gone(c) {
			removed[c.Path] = true
		} else if i.added(c) {
			added = append(added, c.Path)
			for _, p := range prefixes(c.Path) {
				if f := fold(p); wanted[f] == "" {
					wanted[f] = p
				}
			}
		}
	}
	if len(added) == 0 {
		return
	}
	others, known := i.spellings(wanted, removed)
	for _, p := range added {
		for _, pre := range prefixes(p) {
			if known[pre] {
				continue // the base has this very folder
			}
			if f := fold(pre); wanted[f] != pre || others[f] != "" {
				report(p)
				break
			}
		}
	}
}

// spellings looks the wanted folded names up in the base: another spelling of each, and which of the
// change's own spellings it has already.
func (i *inspection) spellings(wanted map[string]string, removed map[string]bool) (others map[string]string, known map[string]bool) {
	others, known = map[string]string{}, map[string]bool{}
	if i.BasePaths == nil {
		return others, known
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
			f := fold(pre)
			own, ok := wanted[f]
			if !ok {
				continue
			}
			known[pre] = true
			if pre != own {
				others[f] = pre
			}
		}
	}
	return others, known
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
