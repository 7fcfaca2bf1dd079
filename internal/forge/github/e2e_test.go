package github

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

// TestRealGitHub goes the whole way on the real GitHub. It runs only with
//
//	SALLYPORT_E2E_GITHUB=owner/repo           a repository to spare, whose default branch is SALLYPORT_E2E_GITHUB_BASE (main)
//	SALLYPORT_E2E_GITHUB_REPOSITORY_ID=…      its number: gh api repos/owner/repo --jq .id
//	SALLYPORT_E2E_GITHUB_APP=…                client id or app id of an App installed on it with contents: write and pull_requests: write
//	SALLYPORT_E2E_GITHUB_KEY=/path/key.pem    the App's private key
//	SALLYPORT_E2E_GITHUB_INSTALLATION=…       optional: else it is looked up
//	SALLYPORT_E2E_GITHUB_URL=https://…        optional: an Enterprise Server; else https://github.com
//
// It leaves one closed draft behind for each run, and no branch: GitHub deletes no pull request.
func TestRealGitHub(t *testing.T) {
	name := os.Getenv("SALLYPORT_E2E_GITHUB")
	if name == "" {
		// No skip: nothing is missing on this machine.
		t.Log("not asked for: SALLYPORT_E2E_GITHUB is not set")
		return
	}
	d := realDriver(t, name)
	base := or(os.Getenv("SALLYPORT_E2E_GITHUB_BASE"), "main")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	g, err := d.Mint(ctx, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("minted for %s: %v, until %v", g.Identity, g.Scope, g.Expires)
	revoked := false
	t.Cleanup(func() {
		if !revoked {
			_ = d.Revoke(context.WithoutCancel(ctx), g)
		}
	})
	in, err := d.Inspect(ctx, g, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range in.Findings {
		t.Logf("finding %s (blocking %v): %s", f.Code, f.Blocking, f.Message)
	}
	remote := d.Remote(g)
	head := "sallyport/e2e-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	tip, push := realCommit(t, remote, base, head)
	t.Cleanup(func() {
		if !revoked {
			_, _ = push(":refs/heads/" + head)
		}
	})
	if out, err := push(string(tip) + ":refs/heads/" + head); err != nil {
		t.Fatalf("push: %v: %s", err, out)
	}
	n := forge.NewPullRequest{Head: head, Base: base, Draft: true,
		Text: forge.Text{Title: "Sallyport's own test", Body: "Opened and closed by a test."}}
	pr, err := d.Create(ctx, g, n)
	if err != nil {
		t.Fatal(err)
	}
	if pr.Tip != tip || !pr.Draft || pr.State != forge.Open || pr.Author != g.Identity || pr.Text != n.Text {
		t.Errorf("opened %+v", pr)
	}
	if _, err := d.Create(ctx, g, n); sallyport.CodeOf(err) != sallyport.CodeConflict || err == nil {
		t.Errorf("opened twice: %v", err)
	}
	found(t, ctx, d, g, n, pr.Number, forge.Open)
	if put, err := d.Label(ctx, g, pr.Number, []string{"no-such-label-of-sallyport"}); err != nil || len(put) > 0 {
		t.Errorf("labels %q, %v", put, err)
	}
	if err := d.Edit(ctx, g, pr.Number, forge.Text{Title: "Sallyport's own test, edited", Body: "b"}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := d.Close(ctx, g, pr.Number, "Closed by the test that opened it."); err != nil {
			t.Error(err)
		}
	}
	found(t, ctx, d, g, n, pr.Number, forge.Closed)
	now, err := d.Get(ctx, g, pr.Number)
	if err != nil || now.ClosedBy != g.Identity || now.Text.Body != "b" {
		t.Errorf("%+v, %v", now, err)
	}
	if out, err := push(":refs/heads/" + head); err != nil {
		t.Errorf("delete the branch: %v: %s", err, out)
	}
	for range 2 {
		if err := d.Revoke(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	revoked = true
	isGone(t, ctx, d, g, base)
	if out, err := push(string(tip) + ":refs/heads/" + head); err == nil {
		t.Errorf("pushed with a revoked token: %s", out)
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func realDriver(t *testing.T, name string) *Driver {
	t.Helper()
	number := func(variable string) int64 {
		n, err := strconv.ParseInt(or(os.Getenv(variable), "0"), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return n
	}
	d, err := New(Config{URL: or(os.Getenv("SALLYPORT_E2E_GITHUB_URL"), "https://github.com") + "/" + name, RepositoryID: number("SALLYPORT_E2E_GITHUB_REPOSITORY_ID"),
		App: &App{ID: os.Getenv("SALLYPORT_E2E_GITHUB_APP"), KeyFile: os.Getenv("SALLYPORT_E2E_GITHUB_KEY"), Installation: number("SALLYPORT_E2E_GITHUB_INSTALLATION")}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// realCommit makes a commit on top of base in a repository of the test, and gives a way to push from there.
func realCommit(t *testing.T, r forge.Remote, base, head string) (sallyport.ObjectID, func(refspec string) (string, error)) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(host.Env(), "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+r.Header,
			"GIT_CONFIG_KEY_1=http.followRedirects", "GIT_CONFIG_VALUE_1=false")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	must := func(args ...string) string {
		out, err := git(args...)
		if err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
		return out
	}
	must("init", "--quiet")
	must("fetch", "--quiet", "--depth=1", r.URL, "refs/heads/"+base)
	must("checkout", "--quiet", "FETCH_HEAD")
	if err := os.WriteFile(filepath.Join(dir, "sallyport-e2e.txt"), []byte(head+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must("add", "sallyport-e2e.txt")
	must("commit", "--quiet", "--message", "A change of Sallyport's own test")
	return sallyport.ObjectID(must("rev-parse", "HEAD")), func(refspec string) (string, error) {
		return git("push", "--porcelain", r.URL, refspec)
	}
}

// found waits until a list shows it so: GitHub's lists may be a moment behind.
func found(t *testing.T, ctx context.Context, d *Driver, g forge.Grant, n forge.NewPullRequest, number int64, state forge.State) {
	t.Helper()
	until(t, ctx, "the pull request is listed as "+string(state), func() bool {
		prs, err := d.Find(ctx, g, n.Head, n.Base)
		return err == nil && len(prs) == 1 && prs[0].Number == number && prs[0].State == state
	})
}

// isGone waits for the end of a revoked token, and says how long that took: no document says whether it ends at once.
func isGone(t *testing.T, ctx context.Context, d *Driver, g forge.Grant, base string) {
	t.Helper()
	began := time.Now()
	until(t, ctx, "the revoked token is refused", func() bool {
		_, err := d.Inspect(ctx, g, base)
		return sallyport.CodeOf(err) == sallyport.CodeDenied && err != nil
	})
	t.Logf("refused %v after it was revoked", time.Since(began))
}

func until(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	err := again(ctx, 8, time.Second/2, func() (bool, error) {
		if ok() {
			return false, nil
		}
		return true, errors.New("not in time")
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
