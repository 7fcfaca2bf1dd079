package inspect

import "sallyport.dev/sallyport"

// modes judges what kinds of thing the change makes.
func (i *inspection) modes(c sallyport.Change) {
	if c.OldMode == modeSubmodule && c.NewMode != modeSubmodule {
		i.found.add("submodule.removed", c.Path, "the change removes a submodule")
	}
	if gone(c) {
		return
	}
	switch c.NewMode {
	case modeFile, modeLink:
	case modeExecutable:
		if c.OldMode != modeExecutable {
			i.found.add("mode.executable", c.Path, "the file becomes executable")
		}
	case modeSubmodule:
		if c.OldMode == modeSubmodule {
			i.found.add("submodule.moved", c.Path, "the submodule points to another commit, whose content was not inspected")
		} else {
			i.found.add("submodule.added", c.Path, "the change adds a submodule, whose content was not inspected")
		}
	default:
		i.found.add("mode.unusual", c.Path, "the entry is neither a file nor a link")
	}
	if c.OldMode != "" && isFile(c.OldMode) != isFile(c.NewMode) {
		i.found.add("mode.type", c.Path, "a file becomes a link, or a link or submodule becomes something else")
	}
}

// sizes judges the change's weight.
func (i *inspection) sizes() {
	total := int64(0)
	for _, c := range i.Changes {
		if gone(c) || c.NewID == c.OldID && c.OldID != "" {
			continue
		}
		total += max(c.Size, 0)
		if c.Size > i.Limits.FileSize {
			i.found.add("size.file", c.Path, "the file has "+megabytes(c.Size))
		}
	}
	if len(i.Changes) > i.Limits.Files {
		i.found.add("size.count", "", "the change touches "+plural(len(i.Changes), "path"))
	}
	if total > i.Limits.ChangeSize {
		i.found.add("size.total", "", "the change brings "+megabytes(total))
	}
}
