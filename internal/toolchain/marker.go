package toolchain

import (
	"os"
	"path/filepath"
	"strings"
)

// markerTools are recognised by what lies beside their programs, wherever they were unpacked.
var markerTools = []string{"go", "node", "jdk", "venv", "npm-package"}

// marker says which file beside bin/ tells that a folder is the root of one toolchain.
var markers = []struct{ tool, file string }{
	{"venv", "pyvenv.cfg"},
	{"go", "src/runtime/runtime.go"},
	{"node", "include/node/node.h"},
	{"jdk", "lib/modules"},
	{"jdk", "jre/lib/rt.jar"},
}

// markedRoot is the root of an unpacked toolchain or environment around a folder named "bin" that holds
// path, or that path is.
func markedRoot(path string) (dir, tool string) {
	for d := path; d != "/"; d = filepath.Dir(d) {
		if filepath.Base(d) != "bin" {
			continue
		}
		top := filepath.Dir(d)
		for _, m := range markers {
			if fi, err := os.Stat(filepath.Join(top, m.file)); err == nil && fi.Mode().IsRegular() {
				return top, m.tool
			}
		}
	}
	return "", ""
}

// packageRoot is the outermost node_modules that holds a program installed by npm: the program's package
// needs the packages beside it.
func packageRoot(path string) string {
	const dir = "/node_modules/"
	if i := strings.Index(path, dir); i > 0 {
		return path[:i+len(dir)-1]
	}
	return ""
}

// marked mounts the toolchain around path, if it is one and the operator's choice has it. Packages counts
// node_modules as one.
func (r *resolver) marked(path string, packages bool) bool {
	dir, tool := markedRoot(path)
	if dir == "" && packages {
		dir, tool = packageRoot(path), "npm-package"
	}
	if dir == "" || !r.allowed(tool) || within(dir, r.repo) || r.add(dir, "ro", "tool "+tool) != nil {
		return false
	}
	r.hideIn(dir, &anywhere)
	if tool == "venv" {
		r.interpreterOf(dir)
	}
	return true
}

// interpreterOf makes the Python that a virtual environment links to reachable.
func (r *resolver) interpreterOf(venv string) {
	if real, links, err := walk(filepath.Join(venv, "bin", "python")); err == nil && r.show(real, false) {
		r.keepLinks(links)
	}
}
