package toolchain

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// resolver collects one answer.
type resolver struct {
	req        Request
	home, repo string // without links
	env        map[string]string
	roots      []rootAt
	secrets    []string
	extraNever []string
	wholesale  []string

	mounts    map[string]sallyport.Mount // by real path
	links     map[string]Link
	hidden    map[string]bool // real paths
	suspected []string        // hidden for their content
	deps      []string        // mounted dependency folders, as paths below repo
	programs  map[string]bool // done, by path as named
	dirs      []pathDir
	notices   []string
}

// Resolve answers a Request. It only reads the host. CodeInvalid: a command that is found nowhere a sandbox
// may see, a dependency folder outside of the repository, an unknown name; CodeDenied: a folder that is
// never mounted.
func Resolve(req Request) (Result, error) {
	r, err := newResolver(req)
	if err != nil {
		return Result{}, err
	}
	for _, step := range []func() error{r.system, r.namedTools, r.dependencies, r.pathEntries, r.commands, r.cacheMounts} {
		if err := step(); err != nil {
			return Result{}, err
		}
	}
	return r.finish(), nil
}

func newResolver(req Request) (*resolver, error) {
	r := &resolver{req: req, mounts: map[string]sallyport.Mount{}, links: map[string]Link{}, hidden: map[string]bool{}, programs: map[string]bool{}}
	var err error
	if r.home, err = realFolder("home", req.Home); err != nil {
		return nil, err
	}
	if r.home == "/" {
		return nil, &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: "home", Message: "the home is the root folder; a home of its own was expected", Hint: "set HOME"}
	}
	if r.repo, err = realFolder("repository", req.Repo); err != nil {
		return nil, err
	}
	r.env = operatorEnv(r.home, req.Env)
	r.req.Home, r.req.Repo = filepath.Clean(req.Home), filepath.Clean(req.Repo)
	r.homeLinks()
	r.roots = r.expandRoots()
	for _, s := range secrets {
		r.secrets = append(r.secrets, r.forms(r.expand(s))...)
	}
	for _, s := range req.Never {
		r.extraNever = append(r.extraNever, r.forms(filepath.Clean(s))...)
	}
	r.secrets = append(r.secrets, r.extraNever...)
	for _, s := range wholesale {
		r.wholesale = append(r.wholesale, r.forms(r.expand(s))...)
	}
	return r, nil
}

// forms are a path as written and without links.
func (r *resolver) forms(p string) []string {
	if real := realOr(p); real != p {
		return []string{p, real}
	}
	return []string{p}
}

func realFolder(what, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: what, Message: fmt.Sprintf("%q is not an absolute path", path)}
	}
	real, _, err := walk(path)
	if err != nil {
		return "", &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: what, Message: "cannot be read", Err: err}
	}
	return real, nil
}

// homeLinks keeps the home reachable under the name that scripts were installed with.
func (r *resolver) homeLinks() {
	if _, links, err := walk(r.req.Home); err == nil {
		r.keepLinks(links)
	}
}

func (r *resolver) keepLinks(links []Link) {
	for _, l := range links {
		r.links[l.Path] = l
	}
}

// add mounts path's real place and keeps the links that lead to it. A refusal is CodeDenied.
func (r *resolver) add(path, mode, reason string) error {
	real, links, err := walk(path)
	if err != nil {
		return err
	}
	for _, p := range []string{path, real} {
		if why := r.refused(p); why != "" {
			return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeDenied, Subject: path,
				Message: "is never shown to a sandbox: " + why, Hint: "name the smallest folder that the program needs"}
		}
	}
	r.keepLinks(links)
	if old, ok := r.mounts[real]; ok && old.Mode == "cow" {
		return nil // writable already; a second reason does not take that away
	}
	r.mounts[real] = sallyport.Mount{Path: real, Mode: mode, Reason: reason}
	return nil
}

// covered reports whether a path lies in a mounted folder.
func (r *resolver) covered(path string) bool {
	for p := path; ; p = filepath.Dir(p) {
		if _, ok := r.mounts[p]; ok {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

func (r *resolver) notice(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(r.notices, n) {
		r.notices = append(r.notices, n)
	}
}

// system mounts the distribution's folders. They are not subject to the list of refused folders: the table
// is ours, and its entries are narrower.
func (r *resolver) system() error {
	for _, p := range systemRoots {
		r.addSystem(p)
	}
	for _, e := range systemEtc {
		for _, p := range glob(pattern("/etc/" + e)) {
			r.addSystem(p)
		}
	}
	for _, s := range systemSuspect {
		r.suspects(glob(pattern(s)))
	}
	for _, s := range systemHide {
		r.hide(glob(pattern(s)))
	}
	return nil
}

func (r *resolver) addSystem(p string) {
	real, links, err := walk(p)
	if err != nil {
		return
	}
	if r.refusedIn(r.secrets, real) != "" {
		return // /etc/localtime -> ~/.ssh/x: not ours to follow
	}
	r.keepLinks(links)
	if !r.covered(real) && (systemPlace(real) || r.tableRoot(real)) {
		r.mounts[real] = sallyport.Mount{Path: real, Mode: "ro", Reason: "system"}
	}
}

// systemPlace is where a distribution keeps what /etc points to.
func systemPlace(p string) bool {
	for _, d := range []string{"/usr", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt"} {
		if within(p, d) && p != "/etc" && p != "/opt" {
			return true
		}
	}
	return within(p, "/var/lib/ca-certificates") // openSUSE
}

// tableRoot mounts the table's folder that holds p, if one does and the operator's choice has it.
func (r *resolver) tableRoot(p string) bool {
	place, t, ok := r.match(p)
	return ok && r.allowed(t.tool) && r.addRoot(place, t) == nil
}

func (r *resolver) allowed(tool string) bool {
	return r.req.Tools.Auto || slices.Contains(r.req.Tools.List, tool)
}

// addRoot mounts one folder of the table with what belongs to it.
func (r *resolver) addRoot(place string, t *root) error {
	real := realOr(place)
	if _, done := r.mounts[real]; done {
		return nil
	}
	if err := r.add(place, "ro", "tool "+t.tool); err != nil {
		return err
	}
	for _, w := range t.with {
		for _, p := range r.expandAll(w) {
			if err := r.add(p, "ro", "tool "+t.tool); err != nil {
				r.notice("%s is not shown to the sandbox: %v", p, err)
			}
		}
	}
	r.companions(t.tool)
	return nil
}

// anywhere are the credential files to expect in a folder that the table does not describe.
var anywhere = root{
	hide:    []string{".netrc", ".pypirc", ".git-credentials"},
	suspect: append([]string{"pip.conf", "conf/settings.xml", ".git/config", ".env", ".yarnrc", ".yarnrc.yml"}, npmPrefixFiles...),
}

// hideInTools hides what the table names in every tool's folder that is shown, whatever it was mounted for: a
// variable or a named folder may have brought it in under another tool's name.
func (r *resolver) hideInTools() {
	for _, at := range r.roots {
		for _, p := range glob("/" + strings.Join(at.pattern, "/")) {
			real := realOr(p)
			if !r.covered(real) {
				continue
			}
			r.hideIn(real, at.root)
			if !at.fixed {
				r.hideIn(real, &anywhere)
			}
		}
	}
}

func (r *resolver) hideIn(dir string, t *root) {
	for _, h := range t.hide {
		r.hide(glob(filepath.Join(dir, pattern(h))))
	}
	for _, h := range t.suspect {
		r.suspects(glob(filepath.Join(dir, pattern(h))))
	}
}

func (r *resolver) hide(paths []string) {
	for _, p := range paths {
		if real, _, err := walk(p); err == nil {
			r.hidden[real] = true
		}
	}
}

func (r *resolver) suspects(paths []string) {
	for _, p := range paths {
		if fileLooksSecret(p) {
			r.hide([]string{p})
			r.suspected = append(r.suspected, p)
		}
	}
}

func (r *resolver) companions(tool string) {
	for _, c := range companions {
		if c.tool != tool {
			continue
		}
		for _, p := range r.expandAll(c.path) {
			if fileLooksSecret(p) {
				r.notice("%s is not shown to the sandbox: it may hold a credential", p)
			} else if err := r.add(p, "ro", "tool "+tool); err != nil {
				r.notice("%s is not shown to the sandbox: %v", p, err)
			}
		}
	}
}

// namedTools mounts what the operator listed: names of the table, or folders.
func (r *resolver) namedTools() error {
	for _, name := range r.req.Tools.List {
		if strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~/") {
			if err := r.namedFolder(name); err != nil {
				return err
			}
			continue
		}
		if !knownTool(name) {
			return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: "tools: " + name,
				Message: "is neither a folder nor a known tool; known: " + strings.Join(toolNames(), ", "), Hint: "give the folder: tools: [auto, /opt/" + filepath.Base(name) + "]"}
		}
	}
	return nil
}

func (r *resolver) namedFolder(name string) error {
	path := r.atHome(r.expand(name))
	if within(realOr(path), r.repo) {
		return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: "tools: " + name,
			Message: "lies in the repository, which the sandbox has anyway", Hint: "for a git-ignored folder: deps: [" + relTo(r.repo, realOr(path)) + "]"}
	}
	err := r.add(path, "ro", "tool "+name)
	if errors.Is(err, fs.ErrNotExist) {
		return &sallyport.Error{Op: "resolve tools", Code: sallyport.CodeInvalid, Subject: "tools: " + name, Message: "does not exist on this host", Hint: "correct the path or remove the entry"}
	}
	if err != nil {
		return err
	}
	r.hideIn(realOr(path), &anywhere)
	if t, ok := r.tableTool(path); ok {
		r.companions(t.tool)
	}
	return nil
}

func (r *resolver) tableTool(path string) (*root, bool) {
	place, t, ok := r.match(path)
	return t, ok && place == path
}

func knownTool(name string) bool { return slices.Contains(toolNames(), name) }

func toolNames() []string {
	names := slices.Clone(markerTools)
	for _, t := range roots {
		if !slices.Contains(names, t.tool) {
			names = append(names, t.tool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func relTo(base, path string) string {
	if rel, err := filepath.Rel(base, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}
