package change

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"sallyport.dev/sallyport"
)

// worktree is how the user's files differ from HEAD, by git's own word and without running any filter. Files that
// the index calls unchanged keep the index's blob, so a pointer that a filter expanded stays a pointer.
type worktree struct {
	staged    map[string]treeEntry // index against HEAD; mode 0: deleted
	unstaged  []string             // tracked, and otherwise than in the index
	untracked []string
}

// lookAtWorktree runs only plumbing that starts no driver, monitor or submodule git: diff-index and
// diff-files compare stat data, ls-files names. Filters are switched off, since diff-files reads a file that
// is as young as the index.
func (r *Repo) lookAtWorktree(ctx context.Context, head sallyport.ObjectID) (*worktree, error) {
	// Side by side: with 50,000 files each of these looks at all of them.
	var w worktree
	var others []byte
	err := atOnce(
		func() (err error) {
			others, err = r.user.run(ctx, nil, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ":/")
			return err
		},
		func() error {
			g, err := r.withoutFilters(ctx)
			if err != nil {
				return err
			}
			return atOnce(
				func() (err error) { w.staged, err = g.staged(ctx, head); return err },
				func() (err error) { w.unstaged, err = r.unstaged(ctx, g); return err })
		})
	if err != nil {
		return nil, err
	}
	for p := range strings.SplitSeq(string(others), "\x00") {
		// An untracked folder with a repository of its own comes with a slash; it is not ours to look into.
		if p != "" && !strings.HasSuffix(p, "/") {
			w.untracked = append(w.untracked, p)
		}
	}
	return &w, nil
}

// diffOptions are the options of git's plumbing that lists differences.
var diffOptions = []string{"--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv"}

// staged is the index against head.
func (g git) staged(ctx context.Context, head sallyport.ObjectID) (map[string]treeEntry, error) {
	out, err := g.run(ctx, nil, slices.Concat([]string{"diff-index", "--cached", "--ignore-submodules=dirty"}, diffOptions, []string{string(head), "--"})...)
	if err != nil {
		return nil, err
	}
	staged := map[string]treeEntry{}
	eachRaw(out, func(new treeEntry, path string) { staged[path] = new })
	return staged, nil
}

// unstaged are the tracked files that are otherwise than in the index. A touch makes a file look so: then git
// compares content, with what it does to line ends and encodings, on an index of ours.
func (r *Repo) unstaged(ctx context.Context, g git) ([]string, error) {
	look := func(g git) (paths []string, err error) {
		out, err := g.run(ctx, nil, slices.Concat([]string{"diff-files", "--ignore-submodules=all"}, diffOptions, []string{"--"})...)
		eachRaw(out, func(_ treeEntry, path string) { paths = append(paths, path) })
		return paths, err
	}
	paths, err := look(g)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	d, err := r.newDraft(g)
	if err != nil {
		return nil, err
	}
	defer d.close()
	_, err = d.git.run(ctx, nil, "update-index", "-q", "--refresh", "--ignore-submodules")
	if exit, _ := exitOf(err); err != nil && exit != 1 { // 1: some do differ
		return nil, err
	}
	return look(d.git)
}

// atOnce does all of it side by side and returns the first error in the given order.
func atOnce(do ...func() error) error {
	errs := make([]error, len(do))
	var wg sync.WaitGroup
	for i, f := range do {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// withoutFilters is the owner's git without the filters that its configuration defines. The names that attributes
// may use are endless, but only a configured one has a program. What is configured of line ends counts.
func (r *Repo) withoutFilters(ctx context.Context) (git, error) {
	out, err := r.user.run(ctx, nil, "config", "-z", "--name-only", "--get-regexp", `^filter\.`)
	if exit, _ := exitOf(err); err != nil && exit != 1 {
		return git{}, err
	}
	off := map[string]string{}
	for key := range strings.SplitSeq(string(out), "\x00") {
		if i := strings.LastIndexByte(key, '.'); i > len("filter") {
			name := key[:i]
			off[name+".clean"], off[name+".smudge"], off[name+".process"], off[name+".required"] = "", "", "", "false"
		}
	}
	g := r.user
	g.env = append(g.env[:len(g.env):len(g.env)], fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(off)))
	n := 0
	for key, value := range off {
		g.env = append(g.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return g, nil
}

// eachRaw reads the -z form of git's raw diff: ":oldmode newmode oldid newid status NUL path NUL".
func eachRaw(out []byte, f func(new treeEntry, path string)) {
	parts := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		h := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(h) != 5 || h[4] == "U" { // unmerged: the file's own line follows
			continue
		}
		f(treeEntry{mode: octal(h[1]), id: sallyport.ObjectID(h[3])}, parts[i+1])
	}
}

func octal(s string) uint32 {
	var n uint32
	for _, c := range s {
		n = n<<3 | uint32(c-'0')
	}
	return n
}

// Dirty counts the tracked files that differ from HEAD, staged or not, and the untracked ones that no
// ignore rule covers.
func (r *Repo) Dirty(ctx context.Context) (changed, untracked int, err error) {
	head, err := r.Resolve(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	w, err := r.lookAtWorktree(ctx, head.Commit)
	if err != nil {
		return 0, 0, err
	}
	changed, untracked = w.count()
	return changed, untracked, nil
}

func (w *worktree) count() (changed, untracked int) {
	changed = len(w.staged)
	for _, p := range w.unstaged {
		if _, both := w.staged[p]; !both {
			changed++
		}
	}
	return changed, len(w.untracked)
}

// Identity is the user's name and mail address for commits, from git's configuration of the owner; made up
// from the login name where it is not set.
func (r *Repo) Identity(ctx context.Context) (name, email string) {
	get := func(key string) string {
		v, _ := r.user.line(ctx, "config", "--get", key)
		return strings.TrimSpace(v)
	}
	login := loginOf(r.Owner)
	if name = get("user.name"); name == "" {
		name = login
	}
	if email = get("user.email"); email == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "localhost"
		}
		email = login + "@" + host
	}
	return name, email
}
