package change

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// Repo is a user's repository, read as its owner. Only Store.Publish ever writes to it. Safe for concurrent
// use; the repository may change at any time.
type Repo struct {
	Top          string // absolute path of the work tree
	GitDir       string // absolute
	CommonDir    string // absolute; differs from GitDir in a linked worktree
	Subfolder    string // of the folder given to Open, relative to Top; "" is Top
	ObjectFormat Format
	Owner        int // uid

	git  git // without anybody's configuration
	user git // with the owner's configuration: for ignore rules and identity only
}

// Open finds the repository that dir is in. CodeInvalid: no repository, a bare one, a submodule, or inside
// a .git folder. CodeDenied: it belongs to neither the caller nor, under sudo, the one who called sudo.
// CodeUnsupported: git is missing or too old.
func Open(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, &sallyport.Error{Op: "open repository", Code: sallyport.CodeInvalid, Subject: dir, Err: err}
	}
	as, err := actAs(dir)
	if err != nil {
		return nil, err
	}
	g := git{cred: as.cred, cwd: dir}
	place := lookAround(ctx, g)
	f, err := ask(ctx, g, "--is-bare-repository", "--is-inside-git-dir", "--absolute-git-dir", "--git-common-dir", "--show-object-format", "--show-prefix")
	if err != nil {
		return nil, explainOpen(dir, err)
	}
	switch {
	case f[0] == "true":
		return nil, refuse(dir, "the repository is bare: it has no work tree", "run this in a clone that has files")
	case f[1] == "true":
		return nil, refuse(dir, "this is inside the .git folder", "change to the work tree")
	}
	r := &Repo{GitDir: f[2], CommonDir: f[3], ObjectFormat: Format(f[4]), Subfolder: strings.TrimSuffix(f[5], "/")}
	if !filepath.IsAbs(r.CommonDir) {
		r.CommonDir = filepath.Join(dir, r.CommonDir)
	}
	return r, r.complete(dir, <-place, as)
}

// ask has git rev-parse answer each question: in one go, or one by one where an answer has a line break.
func ask(ctx context.Context, g git, questions ...string) ([]string, error) {
	out, err := g.line(ctx, append([]string{"rev-parse"}, questions...)...)
	if err != nil {
		return nil, err
	}
	answers := strings.Split(out, "\n")
	if len(answers) == len(questions) {
		return answers, nil
	}
	answers = answers[:0]
	for _, q := range questions {
		a, err := g.line(ctx, "rev-parse", q)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// place is where a work tree lies.
type place struct {
	top, outer       string
	topErr, outerErr error
}

// lookAround asks for the two facts that git refuses to tell in one answer with the rest where there is no
// work tree; it does so at the same time, as each takes a git of its own.
func lookAround(ctx context.Context, g git) <-chan place {
	done := make(chan place, 1)
	var p place
	var wg sync.WaitGroup
	wg.Go(func() { p.top, p.topErr = g.line(ctx, "rev-parse", "--show-toplevel") })
	wg.Go(func() { p.outer, p.outerErr = g.line(ctx, "rev-parse", "--show-superproject-working-tree") })
	go func() {
		wg.Wait()
		done <- p
	}()
	return done
}

func (r *Repo) complete(dir string, at place, as identity) error {
	if r.ObjectFormat != SHA1 && r.ObjectFormat != SHA256 {
		return refuse(dir, "unknown object format "+string(r.ObjectFormat), "")
	}
	if at.topErr != nil {
		return explainOpen(dir, at.topErr)
	}
	if at.outerErr != nil {
		return explainOpen(dir, at.outerErr)
	}
	if at.outer != "" {
		return refuse(dir, "this is a submodule of "+at.outer, "run in "+at.outer+", or in a clone of its own")
	}
	r.Top = at.top
	switch {
	case r.Top == "/":
		return refuse(r.Top, "the repository is the root of the file system, which a sandbox needs for itself", "work in a clone elsewhere")
	case !utf8.ValidString(r.Top):
		return refuse(printable(r.Top), "the path of the repository is not UTF-8", "move it to a plain path")
	}
	// A folder inside may belong to somebody else; what counts is who owns the repository.
	for _, p := range []string{r.Top, r.GitDir, r.CommonDir} {
		owner, err := actAs(p)
		if err != nil {
			return err
		}
		if owner.uid != as.uid {
			return deniedOwner(p, owner.uid)
		}
	}
	r.Owner = as.uid
	r.git = git{cred: as.cred, cwd: r.Top, dir: []string{"--git-dir=" + r.GitDir, "--work-tree=" + r.Top}}
	r.user = r.git
	r.user.home = as.home
	return nil
}

func refuse(dir, message, hint string) error {
	return &sallyport.Error{Op: "open repository", Code: sallyport.CodeInvalid, Subject: dir, Message: message, Hint: hint}
}

func explainOpen(dir string, err error) error {
	exit, text := exitOf(err)
	switch {
	case exit < 0:
		return err
	case strings.Contains(text, "not a git repository"):
		return refuse(dir, "not a git repository", "change to one, or make one: git init && git add -A && git commit")
	case strings.Contains(text, "dubious ownership"):
		return &sallyport.Error{Op: "open repository", Code: sallyport.CodeDenied, Subject: dir, Message: "the repository belongs to another user", Hint: "run sallyport as its owner"}
	case strings.Contains(text, "must be run in a work tree"):
		return refuse(dir, "this folder is in no work tree", "change to the work tree of the repository")
	}
	return &sallyport.Error{Op: "open repository", Code: sallyport.CodeInvalid, Subject: dir, Err: err}
}

// identity is whom git runs as.
type identity struct {
	uid  int
	cred *syscall.Credential
	home string
}

// actAs decides under whose uid git may run on path: ours if we own it; under sudo also that of the one who
// called it, with our privileges dropped. Anybody else's repository could make git do things in our name.
func actAs(path string) (identity, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return identity{}, &sallyport.Error{Op: "open repository", Code: sallyport.CodeInvalid, Subject: path, Message: "cannot look at it", Err: err}
	}
	st := fi.Sys().(*syscall.Stat_t)
	uid := int(st.Uid)
	if uid == os.Geteuid() {
		return identity{uid: uid, home: homeOf(uid)}, nil
	}
	sudo, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if os.Geteuid() != 0 || err != nil || sudo != uid {
		return identity{}, deniedOwner(path, uid)
	}
	gid, err := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 32)
	if err != nil {
		gid = uint64(st.Gid)
	}
	return identity{uid: uid, home: homeOf(uid), cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func deniedOwner(path string, uid int) error {
	return &sallyport.Error{Op: "open repository", Code: sallyport.CodeDenied, Subject: path,
		Message: fmt.Sprintf("it belongs to uid %d, you are uid %d", uid, os.Geteuid()), Hint: "run sallyport as the owner of the repository"}
}

func homeOf(uid int) string {
	if uid == os.Geteuid() && os.Getenv("HOME") != "" && os.Getenv("SUDO_UID") == "" {
		return os.Getenv("HOME")
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.HomeDir != "" {
		return u.HomeDir
	}
	return "/nonexistent"
}
