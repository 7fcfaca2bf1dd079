package change

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// worktree is how the user's files differ from HEAD: raw bytes, without running any filter. Files that the
// index calls unchanged keep the index's blob, so a pointer that a filter expanded stays a pointer.
type worktree struct {
	staged    map[string]treeEntry // index against HEAD; mode 0: deleted
	unstaged  map[string]unstaged
	untracked []string
}

// unstaged is a tracked file whose stat data differ from the index. A touch does that, so it may be equal.
type unstaged struct {
	index treeEntry // mode 0: announced with `add -N` only
	gone  bool      // deleted on disk
}

// lookAtWorktree runs only plumbing that starts no driver, monitor or submodule git: diff-index and
// diff-files compare stat data, ls-files names. Filters are switched off, since diff-files reads a file that
// is as young as the index.
func (r *Repo) lookAtWorktree(ctx context.Context, head sallyport.ObjectID) (*worktree, error) {
	// Side by side: with 50,000 files each of these looks at all of them.
	var staged, changed, others []byte
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
			raw := []string{"--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"}
			return atOnce(
				func() (err error) {
					staged, err = g.run(ctx, nil, slices.Concat([]string{"diff-index", "--cached"}, raw, []string{string(head), "--"})...)
					return err
				},
				func() (err error) {
					changed, err = g.run(ctx, nil, slices.Concat([]string{"diff-files"}, raw, []string{"--"})...)
					return err
				})
		})
	if err != nil {
		return nil, err
	}
	w := &worktree{staged: map[string]treeEntry{}, unstaged: map[string]unstaged{}}
	eachRaw(staged, func(_, new treeEntry, path string) { w.staged[path] = new })
	eachRaw(changed, func(old, new treeEntry, path string) {
		w.unstaged[path] = unstaged{index: old, gone: new.mode == 0}
	})
	for p := range strings.SplitSeq(string(others), "\x00") {
		// An untracked folder with a repository of its own comes with a slash; it is not ours to look into.
		if p != "" && !strings.HasSuffix(p, "/") {
			w.untracked = append(w.untracked, p)
		}
	}
	return w, nil
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

// withoutFilters overrides every filter that the repository's configuration defines. The names that
// attributes may use are endless, but only a configured one has a program.
func (r *Repo) withoutFilters(ctx context.Context) (git, error) {
	out, err := r.git.run(ctx, nil, "config", "-z", "--name-only", "--get-regexp", `^filter\.`)
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
	g := r.git
	g.env = append(g.env[:len(g.env):len(g.env)], fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(off)))
	n := 0
	for key, value := range off {
		g.env = append(g.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return g, nil
}

// eachRaw reads the -z form of git's raw diff: ":oldmode newmode oldid newid status NUL path NUL".
func eachRaw(out []byte, f func(old, new treeEntry, path string)) {
	parts := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		h := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(h) != 5 || h[4] == "U" { // unmerged: the file's own line follows
			continue
		}
		f(treeEntry{mode: octal(h[0]), id: sallyport.ObjectID(h[2])}, treeEntry{mode: octal(h[1]), id: sallyport.ObjectID(h[3])}, parts[i+1])
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
	paths := map[string]bool{}
	for p := range w.staged {
		paths[p] = true
	}
	for p, u := range w.unstaged {
		if !paths[p] && r.reallyChanged(p, u) {
			paths[p] = true
		}
	}
	return len(paths), len(w.untracked), nil
}

// reallyChanged reads the file where that is what tells. Submodules do not count.
func (r *Repo) reallyChanged(path string, u unstaged) bool {
	if u.gone || u.index.isGitlink() {
		return u.gone
	}
	now, err := r.hashFile(path, nil)
	return err != nil || now.id != u.index.id || now.isExec() != u.index.isExec() || now.mode&modeKind != u.index.mode&modeKind
}

// hashFile reads a file or link of the work tree by its raw bytes. With sink it is written there as well.
// It follows no link on the way: under sudo the reader has more rights than the owner of the tree.
func (r *Repo) hashFile(path string, sink *packWriter) (treeEntry, error) {
	bad := func(err error) error {
		return &sallyport.Error{Op: "read work tree", Code: sallyport.CodeUnavailable, Subject: printable(path), Message: "cannot read", Err: err}
	}
	top, err := unix.Open(r.Top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return treeEntry{}, bad(err)
	}
	defer unix.Close(top)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	// O_PATH|O_NOFOLLOW opens a final link itself, which RESOLVE_NO_SYMLINKS allows.
	at, err := unix.Openat2(top, path, &how)
	if err != nil {
		return treeEntry{}, bad(err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return treeEntry{}, bad(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(at, "", buf)
		if err != nil {
			return treeEntry{}, bad(err)
		}
		id, err := r.keep(sink, strings.NewReader(string(buf[:n])), int64(n))
		return treeEntry{mode: modeLink, id: id}, err
	case unix.S_IFREG:
		how.Flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
		fd, err := unix.Openat2(top, path, &how)
		if err != nil {
			return treeEntry{}, bad(err)
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		e := treeEntry{mode: modeFile}
		if st.Mode&0o100 != 0 {
			e.mode = modeExec
		}
		e.id, err = r.keep(sink, f, st.Size)
		return e, err
	}
	return treeEntry{}, &sallyport.Error{Op: "read work tree", Code: sallyport.CodeInvalid, Subject: printable(path), Message: "neither a file nor a link"}
}

func (r *Repo) keep(sink *packWriter, body io.Reader, size int64) (sallyport.ObjectID, error) {
	if sink != nil {
		return sink.add(objBlob, size, body)
	}
	h := r.ObjectFormat.hasher("blob", size)
	n, err := io.Copy(h, io.LimitReader(body, size+1))
	if err == nil && n != size {
		err = &sallyport.Error{Op: "read work tree", Code: sallyport.CodeUnavailable, Message: "a file changed while it was read", Hint: "try again"}
	}
	return idOf(h), err
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
