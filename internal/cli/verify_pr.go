package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/pattern"
	"sallyport.dev/sallyport/internal/screen"
)

// fetchTimeout is for one question to a forge.
const fetchTimeout = 2 * time.Minute

// pullAddress is a pull or merge request's, as browsers show it.
type pullAddress struct {
	repository string // what git fetches from
	head       string // the ref with the request's head
}

// pullForms are where the forges keep the head of a request, by its address.
var pullForms = []struct {
	path pattern.Pattern
	ref  string
}{
	{pattern.New(`^(/.+)/-/merge_requests/([1-9][0-9]*)(?:/.*)?$`), "refs/merge-requests/"},
	{pattern.New(`^(/[^/]+/[^/]+)/pulls?/([1-9][0-9]*)(?:/.*)?$`), "refs/pull/"},
	{pattern.New(`^(/.+/[^/]+/[^/]+)/pulls?/([1-9][0-9]*)(?:/.*)?$`), "refs/pull/"},
}

func parsePullAddress(s string) (pullAddress, error) {
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil {
		for _, f := range pullForms {
			if m := f.path.FindStringSubmatch(u.EscapedPath()); m != nil {
				return pullAddress{u.Scheme + "://" + u.Host + m[1] + ".git", f.ref + m[2] + "/head"}, nil
			}
		}
	}
	return pullAddress{}, invalid("verify", "--pr", "expected the address of a pull or merge request, such as https://forge.example/owner/name/pull/12", "")
}

// verifyPull fetches the head of a pull request and the evidence that is attached to it, with the person's own git and what
// that is logged in to, and verifies them. Nothing of the forge is believed: the commit that git shows is what the evidence
// must be about, by a key that the person gave.
func (a *app) verifyPull(ctx context.Context, address string, files verifyFiles, keys []string, want evidence.Expect) error {
	pr, err := parsePullAddress(address)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sallyport-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := fetcher{ctx, dir}
	head, err := g.tip(pr.repository, pr.head)
	if err != nil {
		return err
	}
	if want.Commit != "" && want.Commit != head {
		return &exitError{code: ExitRejected, err: &sallyport.Error{Op: "verify", Code: sallyport.CodeDenied, Subject: "commit", Message: "the pull request is at " + string(head) + ", expected " + string(want.Commit)}}
	}
	ref := evidence.AttachedRef(head)
	if err := g.fetch(pr.repository, head, ref); err != nil {
		return err
	}
	want.Commit = head
	if want.Tree, err = g.id(string(head) + "^{tree}"); err != nil {
		return err
	}
	files.evidence = filepath.Join(dir, evidence.AttachedEvidence)
	envelope, err := g.run("show", "refs/attached:"+evidence.AttachedEvidence)
	if err != nil {
		return err
	}
	if err := os.WriteFile(files.evidence, envelope, 0o600); err != nil {
		return err
	}
	acceptance, err := g.run("show", "refs/attached:"+evidence.AttachedAcceptance)
	if err != nil {
		return err
	}
	trusted, err := a.publicKeys(keys)
	if err != nil {
		return err
	}
	accepted, err := evidence.ReadAcceptance(acceptance, envelope, trusted)
	if err == nil && strings.TrimSuffix(accepted.Predicate.Target.Repository, ".git") != strings.TrimSuffix(pr.repository, ".git") {
		err = &sallyport.Error{Op: "verify", Code: sallyport.CodeDenied, Subject: "repository", Message: "it was accepted for " + screen.Line(accepted.Predicate.Target.Repository)}
	}
	if err != nil {
		return &exitError{code: ExitRejected, err: err}
	}
	a.say("%s is at commit %s.", screen.Line(address), head)
	a.say("Proved: that key accepted it for %s, to change %s.", screen.Line(accepted.Predicate.Target.Repository), screen.Line(accepted.Predicate.Target.Base))
	return a.verify(files, keys, want)
}

// fetcher is the person's own git in a folder of ours.
type fetcher struct {
	ctx context.Context
	dir string
}

func (g fetcher) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(g.ctx, fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + filepath.Join(g.dir, "git")}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_NO_REPLACE_OBJECTS=1")
	out, errs := &bounded{max: evidence.MaxEnvelopeBytes}, &bounded{max: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if out.over {
		return nil, &sallyport.Error{Op: "verify", Code: sallyport.CodeInvalid, Message: fmt.Sprintf("what is attached is longer than the %d bytes that evidence may have", evidence.MaxEnvelopeBytes)}
	}
	if err != nil {
		for args[0] == "-c" {
			args = args[2:]
		}
		return nil, &sallyport.Error{Op: "verify", Code: sallyport.CodeUnavailable, Message: "git " + args[0] + ": " + screen.Fit(screen.Line(strings.TrimSpace(errs.String())), 300), Err: err,
			Hint: "can you read the repository with git here? `git ls-remote` with its address says"}
	}
	return out.Bytes(), nil
}

// bounded keeps the beginning of what a forge may make as long as it likes.
type bounded struct {
	bytes.Buffer
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.max-b.Len())
	b.over = b.over || keep < len(p)
	_, _ = b.Buffer.Write(p[:keep])
	return len(p), nil
}

// look is a ref's commit at the forge, "" if it is not there.
func (g fetcher) look(repository, ref string) (sallyport.ObjectID, error) {
	out, err := g.run("ls-remote", "--", repository, ref)
	if err != nil {
		return "", err
	}
	id, at, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if at != ref || sallyport.ObjectID(id).Check() != nil {
		return "", nil
	}
	return sallyport.ObjectID(id), nil
}

// tip is the commit that a pull request is at.
func (g fetcher) tip(repository, ref string) (sallyport.ObjectID, error) {
	if _, err := g.run("init", "--quiet", "--bare", filepath.Join(g.dir, "git")); err != nil {
		return "", err
	}
	id, err := g.look(repository, ref)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", &sallyport.Error{Op: "verify", Code: sallyport.CodeNotFound, Subject: ref, Message: "the forge shows no such pull request"}
	}
	if len(id) == 64 { // a bare repository has one format
		if err := os.RemoveAll(filepath.Join(g.dir, "git")); err != nil {
			return "", err
		}
		if _, err := g.run("init", "--quiet", "--bare", "--object-format=sha256", filepath.Join(g.dir, "git")); err != nil {
			return "", err
		}
	}
	return id, nil
}

// fetch brings the head and what is attached to it. Git checks both; of the head's tree only the name counts, so that modes as
// old tools wrote them (040000 for 40000) are no fault.
func (g fetcher) fetch(repository string, head sallyport.ObjectID, attached string) error {
	if _, err := g.run("-c", "fetch.fsckObjects=true", "-c", "fetch.fsck.zeroPaddedFilemode=ignore", "fetch", "--quiet", "--no-tags", "--depth=1", "--", repository, string(head)+":refs/head"); err != nil {
		return err
	}
	switch there, err := g.look(repository, attached); {
	case err != nil:
		return err
	case there == "":
		return &sallyport.Error{Op: "verify", Code: sallyport.CodeNotFound, Subject: attached, Message: "no evidence is attached to the commit that the pull request is at",
			Hint: "somebody may have pushed to it since; or its Publisher attaches none (`attach: false`), or the forge took none: `sallyport verify FILE --commit " + string(head) + "` with the file of evidence from whoever ran it"}
	}
	_, err := g.run("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--depth=1", "--", repository, attached+":refs/attached")
	return err
}

func (g fetcher) id(rev string) (sallyport.ObjectID, error) {
	out, err := g.run("rev-parse", "--verify", "--end-of-options", rev)
	return sallyport.ObjectID(strings.TrimSpace(string(out))), err
}
