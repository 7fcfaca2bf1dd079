package toolchain

import "sallyport.dev/sallyport"

// Choice is a list setting that also knows "auto". The zero value grants nothing.
type Choice struct {
	Auto bool     // the host's defaults: every root or cache of the table that exists
	List []string // names of the table; for tools also folders ("/opt/x", "~/x"). Adds to Auto
}

// Auto is the operator's default for tools and caches.
func Auto() Choice { return Choice{Auto: true} }

// None grants nothing beyond the system's own folders.
func None() Choice { return Choice{} }

// Only grants exactly the named ones. The name "auto" among them means the defaults as well.
func Only(names ...string) Choice {
	var c Choice
	for _, n := range names {
		if n == "auto" {
			c.Auto = true
			continue
		}
		c.List = append(c.List, n)
	}
	return c
}

// Request is what is known of a host and of what shall run on it. Paths are absolute.
type Request struct {
	Home     string   // the invoking user's home; the sandbox gets a fresh folder in its place
	Repo     string   // the repository's work tree, shown at the same path inside
	PathEnv  string   // the operator's PATH
	Commands []string // argv[0] of what the operator runs: the agent, sh, git
	Checks   []string // first words of the repository's checks: a path among them never brings a mount beyond the table
	Tools    Choice
	Caches   Choice
	Deps     []string // git-ignored folders, relative to Repo, slash-separated
	// Env is the operator's environment. Only names in this package's tables are read from it.
	Env map[string]string
	// Never lists folders and files that no mount may show, beyond the built-in ones: Sallyport's own state.
	Never []string
}

// HomeAside is the home inside where the repository holds the user's own: what is left in a home must not become a
// part of the repository.
const HomeAside = "/run/sallyport/home"

// inside is the home that the sandbox has.
func (r *resolver) inside() string {
	if within(r.home, r.repo) {
		return HomeAside
	}
	return r.home
}

// Result is what a sandbox gets. Slices are never nil. Two calls on an unchanged host are equal.
type Result struct {
	// Mounts, parents first. A Mount whose Path is a symbolic link on the host is to be made as that link;
	// its target is below another Mount.
	Mounts []sallyport.Mount
	// Links are all symbolic links that lie outside of every mounted folder, parents first: those among
	// Mounts, and those of parent folders (/home -> var/home) that must never be bound, only made.
	Links []Link
	// Path is PATH inside, in the operator's order, without what is not mounted.
	Path []string
	// Env is the complete environment inside.
	Env map[string]string
	// Home is where the fresh home belongs: Request.Home without symbolic links, or HomeAside.
	Home string
	// Repo is Request.Repo without symbolic links: dependency folders are mounted below it.
	Repo string
	// Notices are one-line facts for a person: what was left out, and what would bring it in.
	Notices []string
}

// Link is a symbolic link to make inside.
type Link struct {
	Path   string // absolute, its parent free of links
	Target string // as on the host: may be relative
}
