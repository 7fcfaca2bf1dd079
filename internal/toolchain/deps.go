package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// dependencies mounts git-ignored folders of the repository copy-on-write. A folder must really lie in the
// work tree: a link out of it would show the rest of the host under an innocent name.
func (r *resolver) dependencies() error {
	for _, d := range r.req.Deps {
		if err := r.dependency(d); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) dependency(dep string) error {
	bad := func(code sallyport.Code, message string) error {
		return &sallyport.Error{Op: "resolve deps", Code: code, Subject: "deps: " + dep, Message: message, Hint: "name a git-ignored folder relative to the repository, such as node_modules"}
	}
	clean := path.Clean(dep)
	if dep == "" || clean == "." || !filepath.IsLocal(dep) || strings.ContainsAny(dep, "\x00\\") {
		return bad(sallyport.CodeInvalid, "is not a folder inside of the repository")
	}
	if slices.ContainsFunc(strings.Split(clean, "/"), func(c string) bool { return strings.EqualFold(c, ".git") }) {
		return bad(sallyport.CodeDenied, "is the repository's own data, which is never shared")
	}
	real, links, err := walk(filepath.Join(r.repo, clean))
	if errors.Is(err, fs.ErrNotExist) {
		r.notice("deps: %s does not exist here; the sandbox starts without it", dep)
		return nil
	}
	if err != nil {
		return &sallyport.Error{Op: "resolve deps", Code: sallyport.CodeInvalid, Subject: "deps: " + dep, Message: "cannot be read", Err: err}
	}
	if real == r.repo || !within(real, r.repo) || within(real, filepath.Join(r.repo, ".git")) {
		return bad(sallyport.CodeDenied, "is a link that leaves the work tree (to "+real+")")
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return bad(sallyport.CodeInvalid, "is not a folder")
	}
	if why := r.refusedIn(r.extraNever, real); why != "" {
		return bad(sallyport.CodeDenied, "is never shown to a sandbox: "+why)
	}
	r.keepLinks(links)
	r.deps = append(r.deps, real)
	r.mounts[real] = sallyport.Mount{Path: real, Mode: "cow", Reason: "deps " + clean}
	return nil
}

func (r *resolver) inDeps(real string) bool {
	return slices.ContainsFunc(r.deps, func(d string) bool { return within(real, d) })
}
