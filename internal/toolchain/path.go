package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pathDir is one folder of the operator's PATH.
type pathDir struct {
	path string // as it will be inside, if it will be
}

// pathEntries mounts what PATH names where the table knows it, and notes the order. An entry that only leads
// to a known place (fnm's folder of links below /run) stands for that place.
func (r *resolver) pathEntries() error {
	for _, e := range filepath.SplitList(r.req.PathEnv) {
		if !filepath.IsAbs(e) {
			continue // "." on PATH would mean the untrusted tree
		}
		e = r.atHome(filepath.Clean(e))
		fi, err := os.Stat(e)
		if err != nil || !fi.IsDir() {
			continue
		}
		r.pathEntry(e)
	}
	return nil
}

func (r *resolver) pathEntry(e string) {
	real, links, err := walk(e)
	if err != nil {
		return
	}
	entry := e
	if !within(real, r.repo) && (r.covered(real) || r.tableRoot(real) || r.marked(real, false)) {
		_, known := r.rootOf(e)
		if known || r.covered(filepath.Dir(e)) || r.systemLink(e) {
			r.keepLinks(links)
		} else {
			entry = real
		}
	}
	if d := (pathDir{entry}); !slices.Contains(r.dirs, d) {
		r.dirs = append(r.dirs, d)
	}
}

// systemLink reports whether e is or lies below a link that the system's folders keep: /bin.
func (r *resolver) systemLink(e string) bool {
	for p := e; p != "/"; p = filepath.Dir(p) {
		if _, ok := r.links[p]; ok {
			return true
		}
	}
	return false
}

// pathInside is PATH as far as it exists inside. What goes is said once.
func (r *resolver) pathInside() []string {
	path, gone := []string{}, []string{}
	for _, d := range r.dirs {
		if r.visible(d.path) {
			path = append(path, d.path)
		} else {
			gone = append(gone, d.path)
		}
	}
	if len(gone) > 0 {
		r.notice("not on PATH inside: %s%s", strings.Join(gone, ", "), r.pathHint(gone))
	}
	for _, d := range []string{"/usr/bin", "/bin"} {
		if len(path) == 0 && r.visible(d) {
			path = append(path, d)
		}
	}
	return append(path, r.ownBin())
}

// pathHint is the line that brings the first of the missing folders in that may come in.
func (r *resolver) pathHint(gone []string) string {
	for _, dir := range gone {
		if real := realOr(dir); !within(real, r.repo) && r.refused(real) == "" {
			return " (to show one: tools: [" + r.keptNames() + r.folderFor(filepath.Join(dir, "x")) + "])"
		}
	}
	return ""
}

// visible reports whether a folder will exist inside with what it holds, or with links that were followed.
func (r *resolver) visible(dir string) bool {
	real := realOr(dir)
	if within(real, r.repo) {
		return r.inDeps(real)
	}
	if r.covered(real) {
		return real == dir || r.covered(dir) || r.systemLink(dir)
	}
	for l := range r.links {
		if filepath.Dir(l) == dir && r.covered(realOr(l)) {
			return true
		}
	}
	return false
}

// own is a folder in the fresh home for what is installed inside (npm -g, go install): the operator's own
// folders for that are mounted read-only. It comes last on PATH, so that nothing installed can take the
// place of a program of the host.
func (r *resolver) own() string { return filepath.Join(r.inside(), ".sallyport") }

func (r *resolver) ownBin() string { return filepath.Join(r.own(), "bin") }
