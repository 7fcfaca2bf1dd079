package toolchain

import (
	"path/filepath"
	"slices"
	"sort"

	"sallyport.dev/sallyport"
)

// finish puts the answer together: parents first, nothing twice, hidden files with the mount that shows them.
func (r *resolver) finish() Result {
	r.hideSecrets()
	r.hideInTools()
	for _, p := range r.suspected {
		if r.covered(realOr(p)) {
			r.notice("%s is empty inside: it may hold a credential", p)
		}
	}
	if r.inside() == HomeAside {
		r.notice("your home folder lies in the repository: a sandbox has what is tracked of it, and its own home at %s", HomeAside)
	}
	path := r.pathInside()
	env := r.environment(path)
	links := r.linksOutside()
	mounts := r.withLinks(r.kept(), links)
	slices.Sort(r.notices)
	return Result{Mounts: mounts, Links: links, Path: path, Env: env, Home: r.inside(), Repo: r.repo, Notices: append([]string{}, r.notices...)}
}

// hideSecrets hides the credential folders that lie in something mounted.
func (r *resolver) hideSecrets() {
	for _, s := range r.secrets {
		if real, _, err := walk(s); err == nil && r.covered(real) {
			if _, mounted := r.mounts[real]; !mounted {
				r.hidden[real] = true
			}
		}
	}
}

// kept is the mounts without those that a parent of the same mode shows already.
func (r *resolver) kept() []sallyport.Mount {
	paths := make([]string, 0, len(r.mounts))
	for p := range r.mounts {
		paths = append(paths, p)
	}
	sort.Slice(paths, func(i, j int) bool { return lessPath(paths[i], paths[j]) })
	kept := []sallyport.Mount{}
	for _, p := range paths {
		m := r.mounts[p]
		if parent := deepest(kept, p); parent >= 0 && kept[parent].Mode == m.Mode {
			continue
		}
		m.Hide = []string{}
		kept = append(kept, m)
	}
	for h := range r.hidden {
		if i := deepest(kept, h); i >= 0 && kept[i].Path != h {
			kept[i].Hide = append(kept[i].Hide, relTo(kept[i].Path, h))
		}
	}
	for i := range kept {
		slices.Sort(kept[i].Hide)
	}
	return kept
}

// lessPath orders by components, so that a folder comes right before what is in it.
func lessPath(a, b string) bool { return slices.Compare(components(a), components(b)) < 0 }

// deepest is the index of the innermost mount that holds path, -1 if none does.
func deepest(mounts []sallyport.Mount, path string) int {
	best := -1
	for i, m := range mounts {
		if within(path, m.Path) && (best < 0 || len(m.Path) > len(mounts[best].Path)) {
			best = i
		}
	}
	return best
}

// linksOutside are the links that do not come along with a mounted folder and still lead somewhere.
func (r *resolver) linksOutside() []Link {
	out := []Link{}
	for _, l := range r.links {
		if r.covered(l.Path) || within(l.Path, r.repo) && !r.depLink(l) {
			continue
		}
		if real := realOr(l.Path); !r.covered(real) && !r.folderInside(real) && !within(r.home, real) {
			continue
		}
		out = append(out, l)
	}
	sort.Slice(out, func(i, j int) bool { return lessPath(out[i].Path, out[j].Path) })
	return out
}

// depLink reports whether a link in the work tree leads to a dependency folder: being git-ignored as well, it
// would be missing inside.
func (r *resolver) depLink(l Link) bool { return r.inDeps(realOr(l.Path)) }

// withLinks adds the links that a provider may bind as well as make: their targets are mounted. A parent of
// mounts (/home) is not among them, since binding it would show all of it.
func (r *resolver) withLinks(mounts []sallyport.Mount, links []Link) []sallyport.Mount {
	for _, l := range links {
		if !r.covered(realOr(l.Path)) {
			continue
		}
		reason := "link"
		if slices.Contains(systemRoots, l.Path) || within(l.Path, "/etc") {
			reason = "system"
		}
		mounts = append(mounts, sallyport.Mount{Path: filepath.Clean(l.Path), Mode: "ro", Reason: reason, Hide: []string{}})
	}
	sort.SliceStable(mounts, func(i, j int) bool { return lessPath(mounts[i].Path, mounts[j].Path) })
	return mounts
}
