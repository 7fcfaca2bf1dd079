package forge

import (
	"context"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

const (
	// pushDeadline is for a large change over a slow line; a server that stops is noticed before it.
	pushDeadline = 15 * time.Minute
	tipDeadline  = time.Minute
)

// Push makes the branch (short name) point at commit if it points at expect now; expect "": if it is not there. gitDir is
// a repository that has the commit. A branch that is at commit already: nil, so a repeat is harmless.
//
//	CodeConflict     the branch is somebody else's now; both tips are in the message
//	CodeDenied       the credential or the server's rules forbid it
//	CodeNotFound     no such repository, or not for this credential
//	CodeUnavailable  nothing has changed; *Later in the chain says until when
//	CodeUnknown      neither success nor failure is known: ask Tip
//
// Any other way to push overwrites: a lease without an explicit value does after a fetch.
func Push(ctx context.Context, gitDir string, r Remote, commit, expect sallyport.ObjectID, branch string) error {
	return PushRef(ctx, gitDir, r, commit, expect, "refs/heads/"+branch)
}

// PushRef is Push for any ref, by its full name.
func PushRef(ctx context.Context, gitDir string, r Remote, commit, expect sallyport.ObjectID, ref string) error {
	g := git{op: "push a branch", dir: gitDir, remote: r, deadline: pushDeadline}
	for _, err := range []error{checkRef(g, ref), checkID(g, commit, false), checkID(g, expect, true)} {
		if err != nil {
			return err
		}
	}
	if r.PushSSH != "" {
		g.remote.SSH = r.PushSSH
	}
	s, err := g.run(ctx, "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--no-progress", "--recurse-submodules=no",
		"--force-with-lease="+ref+":"+string(expect), "--", r.URL, string(commit)+":"+ref)
	if err != nil {
		return err
	}
	p := pushed{git: g, said: s, ref: ref, commit: commit, expect: expect}
	// What counts is what the server shows afterwards, not what it said. The push may have taken all the caller's patience.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), tipDeadline)
	defer cancel()
	tip, tipErr := Tip(after, r, ref)
	return p.judge(after, tip, tipErr)
}

// pushed is a push that has ended.
type pushed struct {
	git
	said
	ref            string
	commit, expect sallyport.ObjectID
}

func (p pushed) judge(ctx context.Context, tip sallyport.ObjectID, tipErr error) error {
	flag, why := verdict(p.out, p.ref)
	switch {
	case tipErr != nil && flag == '!':
		return p.fail(sallyport.CodeDenied, "the server refused: "+p.reason(why), "", nil)
	case tipErr != nil && flag == 0:
		return p.fail(worse(sallyport.CodeOf(tipErr)), "it failed, and the branch cannot be looked at: "+p.words(p.said), "", tipErr)
	case tipErr != nil:
		return p.fail(sallyport.CodeUnknown, "the server took it, and the branch cannot be looked at", "look at the branch before anything else", tipErr)
	case tip == p.commit:
		return nil
	case tip != p.expect:
		return p.fail(sallyport.CodeConflict, "the branch is at "+name(tip)+", expected "+name(p.expect)+": somebody else wrote there",
			"nothing of theirs was touched: look at the branch", nil)
	case flag == '!':
		return p.fail(sallyport.CodeDenied, "the server refused: "+p.reason(why), "", nil)
	case flag != 0:
		return p.fail(sallyport.CodeUnknown, "the server took it, and the branch does not show it", "look at the branch before anything else", nil)
	case p.exit < 0:
		// A server that has everything may yet move the branch.
		return p.fail(sallyport.CodeUnknown, "it was interrupted", "look at the branch before anything else", p.err)
	}
	return p.unreached(ctx, p.said, receive)
}

// worse is a failure of the look afterwards, as the failure of the push: what kept us from looking kept us from pushing,
// unless it is of the moment.
func worse(code sallyport.Code) sallyport.Code {
	if code == sallyport.CodeDenied || code == sallyport.CodeNotFound || code == sallyport.CodeInvalid {
		return code
	}
	return sallyport.CodeUnknown
}

// reason is why a ref was refused: the word beside it, and what the server's hooks had to say.
func (p pushed) reason(why string) string {
	text := why
	for line := range strings.Lines(p.errs) {
		if hook, ok := strings.CutPrefix(line, "remote:"); ok && strings.TrimSpace(hook) != "" {
			text += " " + strings.TrimSpace(hook)
		}
	}
	return Words(text, p.remote.secrets()...)
}

// verdict reads git-push(1)'s porcelain: flag, tab, from:to, tab, summary. 0: there is no line for the ref.
func verdict(out, ref string) (flag byte, why string) {
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) == 3 && len(fields[0]) == 1 && strings.HasSuffix(fields[1], ":"+ref) && strings.Contains(" +-*!=", fields[0]) {
			return fields[0][0], fields[2]
		}
	}
	return 0, ""
}

// name is a tip for people.
func name(id sallyport.ObjectID) string {
	if id == "" {
		return "nothing (no such branch)"
	}
	return string(id)
}

// Tip is where a ref of the remote points, by its full name; "": it is not there. Errors are those of Push.
func Tip(ctx context.Context, r Remote, ref string) (sallyport.ObjectID, error) {
	g := git{op: "look at a branch", remote: r, deadline: tipDeadline}
	if err := checkRef(g, ref); err != nil {
		return "", err
	}
	s, err := g.run(ctx, "ls-remote", "--refs", "--", r.URL, ref)
	if err != nil {
		return "", err
	}
	if s.exit != 0 {
		return "", g.unreached(ctx, s, upload)
	}
	for line := range strings.Lines(s.out) {
		// The pattern matches the end of names too: refs/x/refs/heads/main.
		id, at, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if at == ref {
			if sallyport.ObjectID(id).Check() != nil {
				return "", g.fail(sallyport.CodeUnavailable, "the server's list of refs makes no sense", "", nil)
			}
			return sallyport.ObjectID(id), nil
		}
	}
	return "", nil
}

// harmless are faults by git-fsck(1) that histories have from old or foreign tools, and that no one can mend any more. Of what
// is fetched we ask what is an ancestor of what, and a push builds upon it: no file of it is written anywhere. Every other
// fault ends a fetch: names such as .git or .., trees out of order, objects that are none. What we push is not checked here
// but read by our own code before git has it.
var harmless = [][2]string{
	// Who and when, which nobody reads here. A date orders the walk through history and does not decide where it leads.
	{"fetch.fsck.missingNameBeforeEmail", "ignore"},
	{"fetch.fsck.missingSpaceBeforeEmail", "ignore"},
	{"fetch.fsck.missingEmail", "ignore"},
	{"fetch.fsck.badName", "ignore"},
	{"fetch.fsck.badEmail", "ignore"},
	{"fetch.fsck.missingSpaceBeforeDate", "ignore"},
	{"fetch.fsck.badDate", "ignore"},
	{"fetch.fsck.badDateOverflow", "ignore"},
	{"fetch.fsck.zeroPaddedDate", "ignore"},
	{"fetch.fsck.badTimezone", "ignore"},
	// Two authors, of a conversion; parents come before them and are what counts.
	{"fetch.fsck.multipleAuthors", "ignore"},
	// A message with a NUL: it is shown to nobody.
	{"fetch.fsck.nulInCommit", "ignore"},
	// 040000 in place of 40000 is the same mode.
	{"fetch.fsck.zeroPaddedFilemode", "ignore"},
}

// Fetch brings a ref of the remote, by its full name, into the repository gitDir, where it lies below refs/sallyport/forge/,
// and tells what came: the ref may move meanwhile. Git checks it (fsck, but for what is harmless), and no other ref is
// touched. CodeNotFound: it is not there.
func Fetch(ctx context.Context, gitDir string, r Remote, ref string) (sallyport.ObjectID, error) {
	g := git{op: "fetch a branch", dir: gitDir, remote: r, deadline: pushDeadline, config: harmless}
	tip, err := Tip(ctx, r, ref)
	if err != nil {
		return "", err
	}
	if tip == "" {
		return "", g.fail(sallyport.CodeNotFound, "there is no "+Words(ref), "", nil)
	}
	ours := "refs/sallyport/forge/" + strings.TrimPrefix(ref, "refs/")
	s, err := g.run(ctx, "fetch", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--no-progress",
		"--force", "--", r.URL, ref+":"+ours)
	if err != nil {
		return "", err
	}
	if s.exit != 0 {
		return "", g.unreached(ctx, s, upload)
	}
	s, err = git{op: g.op, dir: gitDir, remote: r, deadline: tipDeadline}.run(ctx, "rev-parse", "--verify", "--end-of-options", ours)
	id := sallyport.ObjectID(strings.TrimSpace(s.out))
	if err != nil || s.exit != 0 || id.Check() != nil {
		return "", g.fail(sallyport.CodeUnavailable, "what was fetched is not there: "+g.words(s), "", err)
	}
	return id, nil
}

func checkID(g git, id sallyport.ObjectID, mayBeEmpty bool) error {
	if id == "" && mayBeEmpty || id.Check() == nil {
		return nil
	}
	return g.fail(sallyport.CodeInvalid, "expected a commit's full name", "", nil)
}

// checkRef takes what git-check-ref-format(1) takes, without what a pattern could mean.
func checkRef(g git, ref string) error {
	bad := !strings.HasPrefix(ref, "refs/") || len(ref) > 250 || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") ||
		strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
	for _, part := range strings.Split(ref, "/") {
		bad = bad || part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return g.fail(sallyport.CodeInvalid, "no name for a branch: "+Words(ref), "", nil)
	}
	return nil
}
