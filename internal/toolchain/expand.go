package toolchain

import (
	"os"
	"path/filepath"
	"strings"
)

// expand turns a table's path into an absolute one: "~" is the home, "$NAME" a variable of the operator,
// star stays. It returns "" where a variable is unset or not absolute.
func (r *resolver) expand(s string) string {
	switch {
	case s == "~":
		return r.home
	case strings.HasPrefix(s, "~/"):
		return filepath.Join(r.home, s[2:])
	case strings.HasPrefix(s, "$"):
		name, rest, _ := strings.Cut(s[1:], "/")
		v := r.variable(name)
		if v == "" {
			return ""
		}
		return filepath.Join(v, rest)
	}
	return filepath.Clean(s)
}

// variable is an operator's variable that holds a folder, with the usual default; "" if unset or relative.
func (r *resolver) variable(name string) string {
	v := r.env[name]
	switch name {
	case "GOPATH":
		v = filepath.SplitList(v + ":")[0]
		if v == "" {
			v = filepath.Join(r.home, "go")
		}
	case "XDG_CACHE_HOME":
		if v == "" {
			v = filepath.Join(r.home, ".cache")
		}
	}
	if !filepath.IsAbs(v) {
		return ""
	}
	return r.atHome(filepath.Clean(v))
}

// atHome moves a path below the home as the operator writes it to the home without links.
func (r *resolver) atHome(path string) string {
	if within(path, r.req.Home) {
		return filepath.Join(r.home, path[len(r.req.Home):])
	}
	return path
}

// star stands for "*" once a table's entry has met a path of the host, which may have "*" and "[" in its
// names: a pattern that silently matches nothing would show a credential file, one that matches more would
// mount a stranger's folder. No path holds NUL.
const star = "\x00"

func pattern(s string) string { return strings.ReplaceAll(s, "*", star) }

// expandAll is expand with "*" filled in by what exists.
func (r *resolver) expandAll(s string) []string {
	p := r.expand(pattern(s))
	if p == "" {
		return nil
	}
	return glob(p)
}

// glob lists what exists for a path with star in its components.
func glob(p string) []string {
	found := []string{"/"}
	for _, c := range components(p) {
		var next []string
		for _, dir := range found {
			next = append(next, children(dir, c)...)
		}
		found = next
	}
	return found
}

func children(dir, pattern string) []string {
	if !strings.Contains(pattern, star) {
		p := filepath.Join(dir, pattern)
		if _, err := os.Lstat(p); err != nil {
			return nil
		}
		return []string{p}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if starMatch(pattern, e.Name()) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// starMatch matches a name against a pattern whose only special character is star.
func starMatch(pattern, name string) bool {
	head, rest, found := strings.Cut(pattern, star)
	if !found {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for i := 0; i <= len(name); i++ {
		if starMatch(rest, name[i:]) {
			return true
		}
	}
	return false
}

// rootAt is one base of the table on this host.
type rootAt struct {
	*root
	pattern []string // components of the base
	fixed   bool     // not moved by a variable, which a repository's .envrc could set
}

// expandRoots keeps the bases whose fixed part exists, as written and without links: a path may be met in
// either form.
func (r *resolver) expandRoots() []rootAt {
	var out []rootAt
	for i := range roots {
		for _, b := range roots[i].base {
			p := r.expand(pattern(b))
			if p == "" {
				continue
			}
			fixed, rest := fixedPart(p)
			real, _, err := walk(fixed)
			if err != nil {
				continue
			}
			own := !strings.HasPrefix(b, "$")
			out = append(out, rootAt{&roots[i], components(p), own})
			if real != fixed {
				out = append(out, rootAt{&roots[i], components(filepath.Join(real, rest)), own})
			}
		}
	}
	return out
}

// fixedPart splits a pattern before its first component with star.
func fixedPart(p string) (fixed, rest string) {
	at := strings.Index(p, star)
	if at < 0 {
		return p, ""
	}
	cut := strings.LastIndexByte(p[:at], '/')
	return filepath.Clean(p[:cut+1]), p[cut+1:]
}

// rootOf is the folder of the table that holds path, the deepest if several do.
func (r *resolver) rootOf(path string) (place string, known bool) {
	place, _, known = r.match(path)
	return place, known
}

func (r *resolver) match(path string) (string, *root, bool) {
	return matchRoots(r.roots, path, false)
}

func matchRoots(roots []rootAt, path string, fixedOnly bool) (string, *root, bool) {
	parts := components(path)
	best, length := (*root)(nil), 0
	for _, at := range roots {
		if (at.fixed || !fixedOnly) && len(at.pattern) > length && len(at.pattern) <= len(parts) && matchParts(at.pattern, parts) {
			best, length = at.root, len(at.pattern)
		}
	}
	if best == nil {
		return "", nil, false
	}
	return "/" + strings.Join(parts[:length], "/"), best, true
}

func matchParts(pattern, parts []string) bool {
	for i, p := range pattern {
		if !starMatch(p, parts[i]) {
			return false
		}
	}
	return true
}
