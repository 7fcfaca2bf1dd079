package inspect

import (
	"context"
	"path"
	"strings"

	"sallyport.dev/sallyport"
)

// maxTarget is Linux's PATH_MAX, with its NUL.
const maxTarget = 4096

// link judges a symbolic link that the change adds or moves. A target with ".." after a name is refused as
// well: the name may be another link, and then the path ends elsewhere than it reads.
func (i *inspection) link(ctx context.Context, c sallyport.Change) error {
	b, err := i.blob(ctx, c.Path, c.NewID, maxTarget+1)
	if err != nil {
		return err
	}
	if rule, message := judgeTarget(c.Path, string(b)); rule != "" {
		i.found.add(rule, c.Path, message)
	}
	for _, d := range []dotName{dotModules, dotAttributes, dotIgnore, dotMailmap} {
		if d.ends(c.Path) {
			i.found.add("link.special", c.Path, "the file that git reads under this name is a link")
		}
	}
	i.found.add("link.added", c.Path, "the change adds a symbolic link or moves one")
	i.secrets(c, b, nil)
	return nil
}

func judgeTarget(at, target string) (rule, message string) {
	switch {
	case target == "" || len(target) >= maxTarget || strings.ContainsRune(target, 0):
		return "link.invalid", "the link's target is empty, too long or holds a NUL byte"
	case strings.HasPrefix(target, "/") || strings.HasPrefix(target, `\`) || len(target) > 1 && target[1] == ':':
		return "link.absolute", "the link has an absolute target"
	}
	depth := strings.Count(at, "/")
	named := false
	// A backslash separates on Windows, and a link's target is not rewritten there.
	for _, part := range strings.FieldsFunc(target, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch {
		case part == ".":
		case part == ".." && named:
			return "link.outside", "the link's target goes up after a name, so where it ends depends on other links"
		case part == "..":
			if depth--; depth < 0 {
				return "link.outside", "the link's target lies outside of the repository"
			}
		case gitLike(part):
			return "link.git", "the link's target lies in .git"
		default:
			named = true
		}
	}
	if dir := path.Dir(at); dir != "." && gitLike(dir) {
		return "link.git", "the link lies in .git"
	}
	return "", ""
}
