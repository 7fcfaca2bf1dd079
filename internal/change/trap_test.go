package change

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

var when = time.Unix(1_700_000_000, 0).UTC()

func ownerOf(fi os.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

func chown(t testing.TB, dir string, uid int) {
	t.Helper()
	if err := filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, uid)
	}); err != nil {
		t.Fatal(err)
	}
}

// trap makes every program that the repository's configuration can name leave a mark. It returns what reads
// and removes the mark.
func trap(t testing.TB, f *fixture) func() string {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "trap.sh")
	os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> '"+mark+"'\ncat\n"), 0o755)
	for key, value := range map[string]string{
		"core.fsmonitor": script, "core.hooksPath": filepath.Join(f.top, ".git/hooks"), "filter.evil.clean": script, "filter.evil.smudge": script,
		"filter.evil.process": script, "diff.external": script, "diff.evil.command": script, "diff.evil.textconv": script,
		"core.pager": script, "core.editor": script, "gpg.program": script, "commit.gpgSign": "true", "log.showSignature": "true", "core.sshCommand": script,
		"core.askPass": script, "credential.helper": script, "uploadpack.packObjectsHook": script, "core.alternateRefsCommand": script,
	} {
		f.git("config", key, value)
	}
	for _, h := range []string{"reference-transaction", "post-index-change", "pre-commit", "post-checkout", "update", "pre-receive", "post-receive", "post-update"} {
		body, _ := os.ReadFile(script)
		os.MkdirAll(filepath.Join(f.top, ".git/hooks"), 0o755)
		os.WriteFile(filepath.Join(f.top, ".git/hooks", h), body, 0o755)
	}
	return func() string {
		b, _ := os.ReadFile(mark)
		os.Remove(mark)
		return string(b)
	}
}

// The user's configuration is trusted, but nothing in it may run because we looked.
func TestNothingOfTheConfigurationRuns(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	check := trap(t, f)
	// The traps work: plain git springs them.
	if out, err := tryGit(f.top, "status"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if check() == "" {
		t.Fatal("the trap does not work, so this test would prove nothing")
	}
	write(t, f.top, map[string]string{"src/a.c": "int changed;\n", "untracked": "u", "crlf.txt": "x\r\n"})
	f.open()
	head := f.head()
	if _, _, err := f.repo.Dirty(bg); err != nil {
		t.Error(err)
	}
	tree, _, _, err := f.store.Snapshot(bg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.store.Checkout(bg, CheckoutOptions{Commit: head.Commit, BaseRef: head.Ref, Branch: "sallyport/x", Identity: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	commit, err := f.store.Commit(bg, CommitOptions{Tree: tree, Parent: head.Commit, AuthorName: "n", AuthorEmail: "e@x", When: when, Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Publish(bg, f.repo, "refs/heads/sallyport/x", commit, ""); err != nil {
		t.Fatal(err)
	}
	f.repo.Identity(bg)
	f.repo.Protected(bg, "")
	if ran := check(); ran != "" {
		t.Errorf("a program of the repository's configuration ran: %s", ran)
	}
}
