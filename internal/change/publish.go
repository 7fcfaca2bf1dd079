package change

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// PublishPrefix is where branches of ours live; nothing else is ever written.
const PublishPrefix = "refs/heads/sallyport/"

// Publish moves one branch of the user's repository to commit, if its tip is expect ("": the branch must not
// exist), by compare-and-swap. It runs as the owner and writes the objects that are missing and that ref,
// nothing else: no FETCH_HEAD, no reflog, no work tree, index or HEAD.
//
// The tip is commit already: nil. CodeConflict: the tip is something else (named in the message), a work
// tree has the branch checked out, or another branch is in the way. CodeInvalid: a ref outside
// PublishPrefix.
func (s *Store) Publish(ctx context.Context, repo *Repo, ref string, commit, expect sallyport.ObjectID) error {
	if err := s.checkRef(ctx, ref); err != nil {
		return err
	}
	if err := commit.Check(); err != nil {
		return err
	}
	tip, err := repo.Tip(ctx, ref)
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	if tip == commit {
		return nil
	}
	if tip != expect {
		return conflict(ref, tip, expect)
	}
	if err := repo.refuseCheckedOut(ctx, ref); err != nil {
		return err
	}
	if err := s.copyObjects(ctx, repo, commit); err != nil {
		return err
	}
	old := string(expect)
	if old == "" {
		old = s.format().zero()
	}
	// Commit point: before it the repository has objects that nothing names, after it the branch.
	_, err = repo.git.run(ctx, nil, "-c", "core.fsync=committed,reference", "update-ref", "--no-deref", ref, string(commit), old)
	if exit, text := exitOf(err); exit > 0 {
		return repo.explainRefused(ctx, ref, commit, expect, text)
	}
	return err
}

func (r *Repo) explainRefused(ctx context.Context, ref string, commit, expect sallyport.ObjectID, text string) error {
	tip, err := r.Tip(ctx, ref)
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	if tip == commit {
		return nil
	}
	if tip != expect {
		return conflict(ref, tip, expect)
	}
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: ref, Message: "git refuses to write the branch: " + text,
		Hint: "a branch named like one of its folders is in the way, or another git holds the lock: git branch --list 'sallyport*'"}
}

func conflict(ref string, tip, expect sallyport.ObjectID) error {
	m := fmt.Sprintf("the branch is at %s, expected %s", tip, expect)
	switch {
	case tip == "":
		m = fmt.Sprintf("the branch is gone, expected it at %s", expect)
	case expect == "":
		m = fmt.Sprintf("the branch exists already, at %s", tip)
	}
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: ref, Message: m,
		Hint: "somebody else moved it; look at it, then rename or delete it and publish again"}
}

func (s *Store) checkRef(ctx context.Context, ref string) error {
	bad := &sallyport.Error{Op: "publish", Code: sallyport.CodeInvalid, Subject: printable(ref), Message: "expected a valid branch below " + PublishPrefix}
	if !strings.HasPrefix(ref, PublishPrefix) || len(ref) > 250 {
		return bad
	}
	if _, err := s.git.run(ctx, nil, "check-ref-format", ref); err != nil {
		if exit, _ := exitOf(err); exit > 0 {
			return bad
		}
		return err
	}
	return nil
}

// refuseCheckedOut keeps the branch from moving under a work tree that stands on it.
func (r *Repo) refuseCheckedOut(ctx context.Context, ref string) error {
	out, err := r.git.run(ctx, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return err
	}
	where := ""
	for field := range strings.SplitSeq(string(out), "\x00") {
		if path, ok := strings.CutPrefix(field, "worktree "); ok {
			where = path
		}
		if field == "branch "+ref {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: ref, Message: "the branch is checked out in " + printable(where), Hint: "check out another branch there, then publish again"}
		}
	}
	return nil
}

// copyObjects packs what commit has and its parents have not, and lets git in the user's repository hash and
// index it as the owner.
func (s *Store) copyObjects(ctx context.Context, repo *Repo, commit sallyport.ObjectID) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	parents, err := o.parentsOf(commit)
	o.close()
	if err != nil {
		return err
	}
	revs := string(commit) + "\n"
	for _, p := range parents {
		revs += "^" + string(p) + "\n"
	}
	pack, err := s.spool()
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := s.git.stream(ctx, strings.NewReader(revs), pack, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet", "--threads=1"); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return unwritable(err)
	}
	_, err = repo.git.run(ctx, pack, "index-pack", "--stdin", "--threads=1")
	return err
}

// spool is a file without a name. A pack goes through one instead of a pipe, so that git comes to its end by
// itself when this process is killed: half a pack would stay in the user's repository.
func (s *Store) spool() (*os.File, error) { return Spool(s.dir) }

// Spool is a file without a name in dir, for what must be whole before anybody reads it.
func Spool(dir string) (*os.File, error) {
	// Where the file system can, it never has one: a crash between making and removing would leave it.
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	f, err := os.CreateTemp(dir, "spool-*.tmp")
	if err != nil {
		return nil, unwritable(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, unwritable(err)
	}
	return f, nil
}
