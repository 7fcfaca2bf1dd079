package toolchain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// shellWords are first words of a check that a shell answers itself, so that no program need exist.
var shellWords = map[string]bool{}

func init() {
	for _, w := range strings.Fields(`: . [ alias bg break case cd command continue echo eval exec exit export false fg fi for function getopts hash
		if jobs kill let local printf pwd read readonly return select set shift source test then time times trap true type typeset ulimit umask
		unalias unset until wait while { } ( ) ! [[`) {
		shellWords[w] = true
	}
}

// commands makes every named program reachable, with the interpreters that scripts name.
func (r *resolver) commands() error {
	for _, c := range r.req.Commands {
		if err := r.command(c, true); err != nil {
			return err
		}
	}
	for _, c := range r.req.Checks {
		if err := r.command(c, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) command(name string, operators bool) error {
	if name == "" || strings.ContainsAny(name, "$`=\x00") {
		return nil // an assignment or an expansion: only the shell knows
	}
	if strings.HasPrefix(name, "~/") {
		name = filepath.Join(r.home, name[2:])
	}
	if strings.Contains(name, "/") {
		return r.placedCommand(name, operators)
	}
	err := r.namedCommand(name, "", 0)
	if err != nil && shellWords[name] {
		return nil
	}
	return err
}

// placedCommand is one given by its path: in the repository it needs only its interpreter, elsewhere all.
func (r *resolver) placedCommand(name string, operators bool) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.req.Repo, name)
	}
	path = r.atHome(filepath.Clean(path))
	if within(path, r.req.Repo) || within(path, r.repo) {
		real, _, err := walk(path)
		if err != nil {
			return nil // the base may have it where the work tree has not
		}
		if within(real, r.repo) {
			return r.interpreter(real, name, false, 0)
		}
		path = real
	}
	return r.program(path, name, operators, 0)
}

// namedCommand finds name on the operator's PATH. A place that a sandbox cannot see is passed over where a
// later one can be, and said.
func (r *resolver) namedCommand(name, user string, depth int) error {
	var first error
	for _, d := range r.dirs {
		path := filepath.Join(d.path, name)
		if !executable(path) {
			continue
		}
		err := r.program(path, named(name, user), true, depth)
		if err == nil {
			if first != nil {
				r.notice("%s: %s runs inside instead (%v)", name, path, first)
			}
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	return r.notFound(name, user)
}

func named(name, user string) string {
	if user == "" {
		return name
	}
	return name + " (needed by " + user + ")"
}

// executable reports whether path is a file that somebody may run.
func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// program makes one file reachable. Marked says whether a toolchain unpacked anywhere may be mounted for it:
// not for a path that the repository names.
func (r *resolver) program(path, name string, marked bool, depth int) error {
	if r.programs[path] {
		return nil
	}
	real, links, err := walk(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r.notFound(name, "")
	}
	if err != nil {
		return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: name, Message: "cannot be read", Err: err}
	}
	if snap(path, real) {
		return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: name,
			Message: "is a snap (" + path + "), which needs snapd and cannot run in a sandbox", Hint: "install it from the distribution or upstream"}
	}
	if !r.show(real, marked) {
		return r.outside(name, path, real)
	}
	r.keepLinks(links)
	for _, l := range links {
		r.tableRoot(l.Path) // a shim's own folder, so that its neighbours come along
	}
	r.programs[path] = true
	return r.interpreter(real, name, marked, depth)
}

// show mounts what holds real. It reports false where nothing known does.
func (r *resolver) show(real string, marked bool) bool {
	if r.covered(real) || r.tableRoot(real) {
		return true
	}
	if within(real, r.repo) {
		return r.inDeps(real)
	}
	return marked && r.marked(real, true)
}

func snap(paths ...string) bool {
	for _, p := range paths {
		if within(p, "/snap") || within(p, "/var/lib/snapd") || p == "/usr/bin/snap" {
			return true
		}
	}
	return false
}

const (
	shebangBytes = 512
	maxScripts   = 5 // interpreters that are scripts themselves
)

// interpreter makes reachable what a script's first line names.
func (r *resolver) interpreter(real, name string, marked bool, depth int) error {
	argv := shebang(real)
	if len(argv) == 0 || depth == maxScripts {
		return nil
	}
	if filepath.Base(argv[0]) == "env" {
		if target := envTarget(argv[1:]); target != "" && !strings.Contains(target, "/") {
			return r.namedCommand(target, name, depth+1)
		}
	}
	if !filepath.IsAbs(argv[0]) || !executable(argv[0]) {
		return nil // it does not run outside either
	}
	return r.program(r.atHome(argv[0]), named(argv[0], name), marked, depth+1)
}

// shebang is the interpreter line of a script in words; nil for anything else.
func shebang(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, shebangBytes))
	line, ok := bytes.CutPrefix(b, []byte("#!"))
	if !ok {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	return strings.Fields(string(line))
}

// envTarget is the program that env(1) would start.
func envTarget(args []string) string {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-u" || a == "-C" || a == "--unset" || a == "--chdir":
			i++
		case strings.HasPrefix(a, "-") || strings.Contains(a, "="):
		default:
			return a
		}
	}
	return ""
}

// outside says that a program exists where a sandbox cannot see it, and the line that shows it.
func (r *resolver) outside(name, path, real string) error {
	e := &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: name}
	lies := path
	if real != path {
		lies = fmt.Sprintf("%s (in fact %s)", path, real)
	}
	e.Message = fmt.Sprintf("lies at %s, outside of the folders that a sandbox may see", lies)
	if within(real, r.repo) {
		rel := relTo(r.repo, real)
		if root := packageRoot(real); root != "" {
			rel = relTo(r.repo, root)
		} else {
			rel = filepath.Dir(rel)
		}
		e.Message = fmt.Sprintf("lies at %s, in a folder of the repository that the base does not have", lies)
		e.Hint = "add to sallyport.yaml: deps: [" + rel + "]"
		return e
	}
	folder := r.folderFor(real)
	if why := r.refused(folder); why != "" {
		e.Hint = fmt.Sprintf("install it elsewhere (%s cannot be shown: %s)", folder, why)
		return e
	}
	e.Hint = "add to ~/.config/sallyport/config.yaml: tools: [" + r.keptNames() + folder + "]"
	return e
}

// keptNames is what a tools: line must keep when a folder is added to it.
func (r *resolver) keptNames() string {
	var names []string
	if r.req.Tools.Auto || len(r.req.Tools.List) == 0 {
		names = append(names, "auto")
	}
	if names = append(names, r.req.Tools.List...); len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + ", "
}

// folderFor is the folder to name for a program: the parent of its bin, unless that is too much.
func (r *resolver) folderFor(real string) string {
	if place, _, ok := r.match(real); ok {
		return place
	}
	dir := filepath.Dir(real)
	if base := filepath.Base(dir); base == "bin" || base == "sbin" {
		if up := filepath.Dir(dir); r.refused(up) == "" && up != "/opt" {
			return up
		}
	}
	return dir
}

// elsewhere are folders of programs that are often not on PATH.
var elsewhere = []string{"~/.local/bin", "~/bin", "~/.cargo/bin", "~/go/bin", "~/.volta/bin", "~/.bun/bin", "~/.deno/bin", "~/.npm-global/bin",
	"~/.nvm/versions/node/*/bin", "~/.local/share/fnm/node-versions/*/installation/bin", "~/.pyenv/shims", "~/.asdf/shims", "~/.local/share/mise/shims",
	"~/.sdkman/candidates/*/current/bin", "~/.claude/local", "~/.opencode/bin", "/usr/local/go/bin", "/opt/*/bin", "/opt/*", "/usr/games", "/usr/local/*/bin",
	"/home/linuxbrew/.linuxbrew/bin", "/snap/bin"}

func (r *resolver) notFound(name, user string) error {
	e := &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: named(name, user)}
	if strings.Contains(name, "/") {
		e.Message = "does not exist on this host"
		e.Hint = "correct the path"
		return e
	}
	searched := make([]string, 0, len(r.dirs))
	for _, d := range r.dirs {
		searched = append(searched, d.path)
	}
	e.Message = "is not on PATH (looked in " + strings.Join(searched, ", ") + ")"
	if len(searched) == 0 {
		e.Message = "is not on PATH, which is empty"
	}
	e.Hint = "install " + name + ", or correct the command"
	for _, dir := range elsewhere {
		for _, d := range r.expandAll(dir) {
			if p := filepath.Join(d, name); executable(p) && !slices.Contains(searched, d) {
				e.Message += "; it lies at " + p
				e.Hint = "put " + d + " on PATH"
				if _, known := r.rootOf(realOr(p)); !known && !within(realOr(p), "/usr") {
					e.Hint += " and add to your configuration: tools: [" + r.keptNames() + r.folderFor(realOr(p)) + "]"
				}
				return e
			}
		}
	}
	return e
}
