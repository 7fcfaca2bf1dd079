package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// TestInside is what the agent sees: the history of its base and nothing else of the person's repository, its
// own identity, a fresh home, a private /tmp, no hook, no network, one sentence from apt and sudo.
func TestInside(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		inside(t, w)
	})
}

func inside(t *testing.T, w *world.World) {
	w.Small()
	w.File("hist", "one\n")
	w.Commit("second commit")
	w.File("hist", "one\ntwo\n")
	w.Commit("third commit")
	w.Git("tag", "v1")
	w.Git("checkout", "-q", "-b", "private")
	w.File("secret", "of another branch\n")
	w.Commit("private work")
	secret := w.Git("rev-parse", "private:secret")
	w.Git("checkout", "-q", "main")
	lost := w.CommandWith(w.Repo, nil, "an unreachable object\n", "git", "hash-object", "-w", "--stdin").Want(0)
	unreachable := strings.TrimSpace(lost.Out)
	w.Git("remote", "add", "origin", "https://user:token@forge.invalid/x.git")
	w.Git("config", "http.extraheader", "Authorization: planted-in-config")
	mark := filepath.Join(w.Dir, "hook-ran")
	for _, h := range []string{"pre-commit", "post-commit", "commit-msg", "post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"} {
		w.File(".git/hooks/"+h, "#!/bin/sh\necho "+h+" >> "+mark+"\n")
	}
	w.File(filepath.Join(w.Home, ".gitconfig"), "[user]\n\tname = Una Home\n[core]\n\thooksPath = "+filepath.Join(w.Repo, ".git/hooks")+"\n[commit]\n\tgpgsign = true\n")
	w.File(filepath.Join(w.Home, "note"), "in the person's home\n")
	outside := filepath.Join(os.TempDir(), filepath.Base(w.Dir)+"-outside")
	w.File(outside, "on the host\n")
	t.Cleanup(func() { os.Remove(outside) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	before := w.Fingerprint()

	script := `set -u
say() { printf '%s=%s\n' "$1" "$2"; }
yes_no() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }
say pwd "$PWD"
say log "$(git log --format=%s | tr '\n' ,)"
say blame "$(git blame -s hist | wc -l)"
say main "$(git rev-parse main 2>&1)"
say status "$(git status --porcelain)"
say unreachable "$(yes_no git cat-file -e UNREACHABLE)"
say private "$(yes_no git cat-file -e SECRET)"
say refs "$(git for-each-ref --format='%(refname)' | tr '\n' ,)"
say remotes "$(git remote -v | tr '\n' ,)"
say header "$(grep -rc planted-in-config .git 2>/dev/null | grep -v ':0' | tr '\n' ,)"
say home "$HOME $(ls -A "$HOME" | tr '\n' ,)"
say note "$(yes_no cat "$HOME/note")"
say tmp "$(yes_no cat OUTSIDE)"
say uid "$(id -u)"
say root "$(yes_no test "$(id -u)" = 0)"
say caps "$(grep CapEff /proc/self/status | tr -d '\t ')"
say apt "$(apt install x 2>&1 | wc -l) $(apt install x 2>&1)"
say sudo "$(sudo ls 2>&1 | wc -l) $(sudo ls 2>&1)"
say net "$(yes_no sh -c 'exec 3<>/dev/tcp/127.0.0.1/PORT')$(yes_no bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT')"
echo good > a
say diff "$(git diff --name-only main | tr '\n' ,)"
git add a && git commit -qm 'agent commit' || say commit failed
say ident "$(git log -1 --format='%an <%ae>|%cn')"
say signed "$(git log -1 --format=%G?)"
git branch agents-own; git tag agents-tag; git config core.hooksPath /tmp/evil
printf '#!/bin/sh\ntouch HOOK\n' > .git/hooks/post-checkout 2>/dev/null || true
touch "$HOME/left" /tmp/left
`
	script = strings.NewReplacer("UNREACHABLE", unreachable, "SECRET", secret, "OUTSIDE", outside, "PORT", port, "HOOK", mark+"2").Replace(script)
	r := w.Run("inside", script).Want(0)
	rep := r.Report()
	accepted(t, w, rep)
	got := map[string]string{}
	for line := range strings.Lines(w.Sallyport("logs", string(rep.Attempt)).Want(0).Out) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			got[k] = v
		}
	}
	base := w.Git("rev-parse", "main")
	for k, want := range map[string]string{
		"pwd": w.Repo, "log": "third commit,second commit,a small repository,", "blame": "2", "main": base, "status": "",
		"unreachable": "no", "private": "no", "remotes": "", "header": "", "note": "no", "tmp": "no", "root": "no",
		"caps": "CapEff:0000000000000000", "net": "nono", "diff": "a,", "signed": "N",
	} {
		if v, ok := got[k]; !ok || v != want {
			t.Errorf("%s: %q, want %q", k, v, want)
		}
	}
	for k, prefix := range map[string]string{"apt": "1 ", "sudo": "1 ", "home": w.Home, "ident": "command (sallyport) <"} {
		if !strings.HasPrefix(got[k], prefix) || len(got[k]) < len(prefix)+0 {
			t.Errorf("%s: %q, want the beginning %q", k, got[k], prefix)
		}
	}
	if strings.Contains(got["home"], "note") || strings.Contains(got["refs"], "private") {
		t.Errorf("home %q, refs %q", got["home"], got["refs"])
	}
	for _, f := range []string{mark, mark + "2", filepath.Join(w.Home, "left"), filepath.Join(w.Repo, ".git/refs/heads/agents-own")} {
		if _, err := os.Lstat(f); err == nil {
			t.Errorf("%s exists: %s", f, w.Read(f))
		}
	}
	w.Untouched(before, "sallyport/inside")
	body := w.Git("log", "-1", "--format=%B", "sallyport/inside")
	for _, part := range []string{"Task of inside", "> agent commit", "WorkOrder: " + string(rep.WorkOrder), "Attempt: " + string(rep.Attempt), "Manifest: " + string(rep.Manifest)} {
		if !strings.Contains(body, part) {
			t.Errorf("the commit message lacks %q:\n%s", part, body)
		}
	}
	if got := w.Git("ls-tree", "-r", "--name-only", "sallyport/inside"); strings.Contains(got, "left") {
		t.Errorf("tree: %s", got)
	}
}
