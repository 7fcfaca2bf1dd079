package inspect

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport.dev/sallyport"
)

// checkPatterns refuses a scope that cannot be judged: a pattern that matches nothing by mistake would let
// everything through where it denies.
func checkPatterns(s sallyport.Scope) error {
	if err := checkGlobs("scope.deny", s.Deny); err != nil || s.Allow == nil {
		return err
	}
	return checkGlobs("scope.allow", *s.Allow)
}

func checkGlobs(field string, globs []string) error {
	for _, g := range globs {
		if g == "" || strings.HasPrefix(g, "/") || !doublestar.ValidatePattern(g) {
			return &sallyport.Error{Op: "inspect change", Code: sallyport.CodeInvalid, Subject: field + ": " + Display(g),
				Message: "is not a pattern of paths relative to the repository", Hint: `write it like "src/**"`}
		}
	}
	return nil
}

// scope judges one path of the tree diff. A rename is two changes, so both of its sides are judged.
func (i *inspection) scope(c sallyport.Change) {
	if Denied(i.Scope, c.Path) {
		i.found.add("scope.denied", c.Path, "the change touches a path that policy denies")
	}
	if !allowed(i.Scope, c.Path) {
		i.found.add("scope.outside", c.Path, "the change touches a path outside of its scope")
	}
}

// Denied reports whether scope.deny covers a path. It is read widely: a pattern also covers what lies below
// its match, a file or link put where a folder on its way would be, and names that differ only in case or
// Unicode form, since those are the same file on some machines.
func Denied(s sallyport.Scope, path string) bool {
	folded := fold(path)
	for _, g := range s.Deny {
		g = strings.TrimSuffix(g, "/")
		if matches(g, path) || deniedFolded(fold(g), folded) {
			return true
		}
	}
	return false
}

func deniedFolded(glob, path string) bool {
	if matches(glob, path) || strings.HasPrefix(glob, path+"/") {
		return true
	}
	if strings.HasSuffix(glob, "*") {
		return false // it says by itself how deep it goes
	}
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
		if path = path[:at]; matches(glob, path) {
			return true
		}
	}
	return false
}

// allowed is read narrowly: exactly what the patterns match.
func allowed(s sallyport.Scope, path string) bool {
	if s.Allow == nil {
		return true
	}
	for _, g := range *s.Allow {
		if matches(g, path) {
			return true
		}
	}
	return false
}

func matches(glob, path string) bool {
	ok, err := doublestar.Match(glob, path)
	return ok && err == nil
}
