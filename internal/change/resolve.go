package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// Rev is a revision resolved.
type Rev struct {
	Commit sallyport.ObjectID
	Tree   sallyport.ObjectID
	Ref    string // full ref name; "" where the revision named none
}

// Resolve finds the commit of a revision; "" is HEAD. CodeNotFound: there is none, or HEAD is unborn.
func (r *Repo) Resolve(ctx context.Context, rev string) (Rev, error) {
	if rev == "" {
		rev = "HEAD"
	}
	notFound := &sallyport.Error{Op: "resolve revision", Code: sallyport.CodeNotFound, Subject: printable(rev), Message: "no such commit", Hint: "list what there is: git branch -a"}
	if rev == "HEAD" {
		notFound.Message, notFound.Hint = "the branch has no commit yet", "make a first commit: git add -A && git commit"
	}
	found, err := r.resolve(ctx, rev)
	if err == nil && found == nil {
		err = notFound
	}
	if err != nil {
		return Rev{}, err
	}
	return *found, nil
}

// resolve is the first of the revisions that there is; nil: none. One git answers for all of them, since
// starting git is most of what this costs, and another one meanwhile names the ref of the likeliest.
func (r *Repo) resolve(ctx context.Context, revs ...string) (*Rev, error) {
	var ask strings.Builder
	for _, rev := range revs {
		if strings.ContainsAny(rev, "\x00\n") {
			return nil, nil
		}
		fmt.Fprintf(&ask, "%s^{commit}\n%s^{tree}\n", rev, rev)
	}
	type named struct {
		ref string
		err error
	}
	last := revs[len(revs)-1]
	guess := make(chan named, 1)
	go func() {
		ref, err := r.refOf(ctx, last)
		guess <- named{ref, err}
	}()
	out, err := r.git.run(ctx, strings.NewReader(ask.String()), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	name := <-guess
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(out), "\n")
	for i, rev := range revs {
		if len(lines) < 2*i+2 {
			break
		}
		commit, ok := strings.CutSuffix(lines[2*i], " commit")
		tree, okTree := strings.CutSuffix(lines[2*i+1], " tree")
		if !ok || !okTree {
			continue
		}
		if rev != last {
			name.ref, name.err = r.refOf(ctx, rev)
		}
		found := &Rev{Commit: sallyport.ObjectID(commit), Tree: sallyport.ObjectID(tree), Ref: name.ref}
		return found, errors.Join(name.err, found.Commit.Check(), found.Tree.Check())
	}
	return nil, nil
}

func (r *Repo) refOf(ctx context.Context, rev string) (string, error) {
	ref, err := r.git.line(ctx, "rev-parse", "--symbolic-full-name", "--end-of-options", rev)
	if exit, _ := exitOf(err); exit > 0 {
		return "", nil
	}
	// git 2.39 echoes --end-of-options here.
	ref = strings.TrimPrefix(ref, "--end-of-options\n")
	if ref == "HEAD" || strings.Contains(ref, "\n") || !strings.HasPrefix(ref, "refs/") {
		return "", err
	}
	return ref, err
}

// Protected is the revision whose policy counts: the configured one; else the remote's default branch
// (refs/remotes/origin/HEAD); else the current branch. CodeNotFound as for Resolve.
func (r *Repo) Protected(ctx context.Context, configured string) (Rev, error) {
	if configured != "" {
		return r.Resolve(ctx, configured)
	}
	found, err := r.resolve(ctx, "refs/remotes/origin/HEAD", "HEAD")
	if err == nil && found == nil {
		return r.Resolve(ctx, "") // for its words
	}
	if err != nil {
		return Rev{}, err
	}
	return *found, nil
}

// IsAncestor reports whether old can be reached from new; a commit is its own ancestor.
func (r *Repo) IsAncestor(ctx context.Context, old, new sallyport.ObjectID) (bool, error) {
	for _, id := range []sallyport.ObjectID{old, new} {
		if err := id.Check(); err != nil {
			return false, err
		}
	}
	_, err := r.git.run(ctx, nil, "merge-base", "--is-ancestor", string(old), string(new))
	if exit, _ := exitOf(err); exit == 1 {
		return false, nil
	}
	return err == nil, err
}

// Tip is the commit of a full ref name. CodeNotFound if the ref does not exist.
func (r *Repo) Tip(ctx context.Context, ref string) (sallyport.ObjectID, error) {
	out, err := r.git.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if exit, _ := exitOf(err); exit > 0 || (err == nil && !strings.HasPrefix(ref, "refs/")) {
		return "", &sallyport.Error{Op: "read ref", Code: sallyport.CodeNotFound, Subject: printable(ref), Message: "no such branch"}
	}
	return sallyport.ObjectID(out), err
}

// Tips are the commits of all refs below a prefix ("refs/heads/sallyport/"), by full name.
func (r *Repo) Tips(ctx context.Context, prefix string) (map[string]sallyport.ObjectID, error) {
	out, err := r.git.run(ctx, nil, "for-each-ref", "--format=%(refname)%00%(objectname)", "--", prefix)
	if err != nil {
		return nil, err
	}
	tips := map[string]sallyport.ObjectID{}
	for line := range strings.Lines(string(out)) {
		if name, id, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00"); ok {
			tips[name] = sallyport.ObjectID(id)
		}
	}
	return tips, nil
}

// ReadFile is the raw content of a file in a commit. CodeNotFound: the path is not there. CodeInvalid: it
// is no regular file. CodeExhausted: larger than max bytes.
func (r *Repo) ReadFile(ctx context.Context, commit sallyport.ObjectID, path string, max int64) ([]byte, error) {
	o, err := r.git.objects(ctx, r.ObjectFormat)
	if err != nil {
		return nil, err
	}
	defer o.close()
	tree, err := o.treeOf(commit)
	if err != nil {
		return nil, err
	}
	e, err := o.find(tree, path)
	if err != nil {
		return nil, err
	}
	if !e.isFile() {
		return nil, &sallyport.Error{Op: "read file", Code: sallyport.CodeInvalid, Subject: path, Message: "expected a regular file in " + commit.Short()}
	}
	data, err := o.read(e.id, "blob", max)
	return data, absent(err)
}

// treeOf is the tree of a commit.
func (o *objects) treeOf(commit sallyport.ObjectID) (sallyport.ObjectID, error) {
	data, err := o.read(commit, "commit", 1<<20)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	id, ok := strings.CutPrefix(line, "tree ")
	if !ok || sallyport.ObjectID(id).Check() != nil {
		return "", damaged(commit)
	}
	return sallyport.ObjectID(id), nil
}

// parentsOf are the parents of a commit.
func (o *objects) parentsOf(commit sallyport.ObjectID) ([]sallyport.ObjectID, error) {
	data, err := o.read(commit, "commit", 1<<20)
	if err != nil {
		return nil, err
	}
	head, _, _ := strings.Cut(string(data), "\n\n")
	var parents []sallyport.ObjectID
	for line := range strings.SplitSeq(head, "\n") {
		if id, ok := strings.CutPrefix(line, "parent "); ok {
			parents = append(parents, sallyport.ObjectID(id))
		}
	}
	return parents, nil
}

// find is the entry at path below tree; CodeNotFound.
func (o *objects) find(tree sallyport.ObjectID, path string) (treeEntry, error) {
	notFound := &sallyport.Error{Op: "read tree", Code: sallyport.CodeNotFound, Subject: printable(path), Message: "no such path"}
	at := treeEntry{mode: modeTree, id: tree}
	for name := range strings.SplitSeq(path, "/") {
		if !at.isTree() {
			return treeEntry{}, notFound
		}
		entries, err := o.tree(at.id)
		if err != nil && at.id != tree {
			err = absent(err)
		}
		if err != nil {
			return treeEntry{}, err
		}
		found := false
		for _, e := range entries {
			if e.name == name {
				at, found = e, true
			}
		}
		if !found {
			return treeEntry{}, notFound
		}
	}
	return at, nil
}

// Remote is the address of one remote, as git resolves it for fetching. CodeNotFound: there is none of that name.
func (r *Repo) Remote(ctx context.Context, name string) (string, error) {
	out, err := r.user.run(ctx, nil, "remote", "get-url", name)
	if exit, _ := exitOf(err); exit > 0 {
		return "", &sallyport.Error{Op: "read remotes", Code: sallyport.CodeNotFound, Subject: name, Message: "the repository has no remote of this name"}
	}
	return strings.TrimSpace(string(out)), err
}

// Remotes are the addresses of the repository's remotes as git would use them, for fetching and for pushing; a
// password that stands in one is in it. None where there is no remote.
func (r *Repo) Remotes(ctx context.Context) ([]string, error) {
	out, err := r.user.run(ctx, nil, "remote", "-v")
	var urls []string
	for line := range strings.Lines(string(out)) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if at := strings.LastIndex(rest, " ("); ok && at > 0 && !slices.Contains(urls, rest[:at]) {
			urls = append(urls, rest[:at])
		}
	}
	return urls, err
}
