package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// cacheMounts mounts the chosen caches that exist, copy-on-write.
func (r *resolver) cacheMounts() error {
	for _, name := range r.req.Caches.List {
		if !slices.ContainsFunc(caches, func(c cache) bool { return c.name == name }) {
			return &sallyport.Error{Op: "resolve caches", Code: sallyport.CodeInvalid, Subject: "caches: " + name,
				Message: "is not a known cache; known: " + strings.Join(cacheNames(), ", "), Hint: "for a folder of the repository use deps:"}
		}
	}
	for _, c := range caches {
		if !r.req.Caches.Auto && !slices.Contains(r.req.Caches.List, c.name) {
			continue
		}
		for _, p := range c.places {
			r.cachePlace(c.name, p)
		}
	}
	return nil
}

func cacheNames() []string {
	names := make([]string, 0, len(caches))
	for _, c := range caches {
		names = append(names, c.name)
	}
	return names
}

func (r *resolver) cachePlace(name string, p place) {
	dir := r.placeDir(p)
	fi, err := os.Stat(dir)
	if os.IsNotExist(err) && p.begins && within(dir, r.home) && r.haveRoot(name) {
		r.mounts[dir] = sallyport.Mount{Path: dir, Mode: "cow", Reason: "cache " + name, Hide: []string{}}
		return
	}
	if err != nil || !fi.IsDir() {
		return
	}
	real := realOr(dir)
	if within(real, r.repo) || within(r.repo, real) {
		r.notice("cache %s: %s and the repository lie in one another; it is left out", name, dir)
		return
	}
	if err := r.add(dir, "cow", "cache "+name); err != nil {
		r.notice("cache %s: %v", name, err)
	}
}

// haveRoot reports whether the tool that a cache is named after was found: a cache that does not exist yet
// is of use to nobody else.
func (r *resolver) haveRoot(tool string) bool {
	for _, d := range r.dirs {
		if fi, err := os.Stat(filepath.Join(d.path, tool)); err == nil && fi.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// placeDir is where a cache lies on this host.
func (r *resolver) placeDir(p place) string {
	if p.env != "" {
		if v := r.variable(p.env); v != "" {
			return filepath.Join(v, p.sub)
		}
	}
	return r.expand(p.fallback)
}
