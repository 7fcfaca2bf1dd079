package forgetest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// appINI has no more in it than makes it quick, alone and quiet.
const appINI = `APP_NAME = test
RUN_USER = {user}
RUN_MODE = prod
WORK_PATH = {dir}
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {http}
ROOT_URL = http://127.0.0.1:{http}/
DOMAIN = 127.0.0.1
STATIC_ROOT_PATH = {static}
OFFLINE_MODE = true
START_SSH_SERVER = true
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = {ssh}
SSH_PORT = {ssh}
SSH_DOMAIN = 127.0.0.1
BUILTIN_SSH_SERVER_USER = git
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {dir}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = test-secret-key
PASSWORD_COMPLEXITY = off
[api]
MAX_RESPONSE_ITEMS = 5 # so that a second page is cheap, and a server's own limit is met
[oauth2]
ENABLED = false
[service]
DISABLE_REGISTRATION = true
[repository]
ROOT = {dir}/repos
DEFAULT_BRANCH = main
[log]
MODE = file
LEVEL = Warn
ROOT_PATH = {dir}/log
[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false
[mailer]
ENABLED = false
[cron.update_checker]
ENABLED = false
[actions]
ENABLED = false
[packages]
ENABLED = false
`

// User makes one, with Password.
func (g *Gitea) User(t testing.TB, name string) {
	t.Helper()
	g.Do(t, "", http.MethodPost, "/admin/users", map[string]any{
		"username": name, "email": name + "@example.test", "password": Password, "must_change_password": false,
	}, nil)
}

// Repository makes a private one, owner/name, with a commit on main; and everyone else named is given what stands beside
// the name: read, write or admin.
func (g *Gitea) Repository(t testing.TB, repo string, rights map[string]string) {
	t.Helper()
	owner, name, _ := strings.Cut(repo, "/")
	g.Do(t, "", http.MethodPost, "/admin/users/"+owner+"/repos", map[string]any{
		"name": name, "private": true, "auto_init": true, "default_branch": "main",
	}, nil)
	for who, right := range rights {
		g.Do(t, "", http.MethodPut, "/repos/"+repo+"/collaborators/"+who, map[string]string{"permission": right}, nil)
	}
}

// Token makes one for the user with these scopes.
func (g *Gitea) Token(t testing.TB, user string, scopes ...string) string {
	t.Helper()
	var made struct {
		Token string `json:"sha1"`
	}
	g.Do(t, user, http.MethodPost, "/users/"+user+"/tokens", map[string]any{"name": unique("token"), "scopes": scopes}, &made)
	return made.Token
}

// DeployKey lets whoever has the private key read the repository, and write unless readOnly.
func (g *Gitea) DeployKey(t testing.TB, repo, public string, readOnly bool) {
	t.Helper()
	g.Do(t, "", http.MethodPost, "/repos/"+repo+"/keys", map[string]any{"title": unique("key"), "key": public, "read_only": readOnly}, nil)
}

// Protect makes a rule for a branch; settings are those of Gitea's branch_protections.
func (g *Gitea) Protect(t testing.TB, repo, branch string, settings map[string]any) {
	t.Helper()
	rule := map[string]any{"rule_name": branch}
	for k, v := range settings {
		rule[k] = v
	}
	g.Do(t, "", http.MethodPost, "/repos/"+repo+"/branch_protections", rule, nil)
}

// Commit makes a branch from main with one commit, or adds a commit to it, and tells its tip.
func (g *Gitea) Commit(t testing.TB, as, repo, branch string) sallyport.ObjectID {
	t.Helper()
	file := map[string]any{"content": base64.StdEncoding.EncodeToString([]byte("hello\n")), "message": "Say hello", "branch": branch}
	status, _ := g.Ask(t, as, http.MethodGet, "/repos/"+repo+"/branches/"+url.PathEscape(branch), nil, nil)
	if status == http.StatusNotFound {
		file["branch"], file["new_branch"] = "main", branch
	}
	var made struct {
		Commit struct {
			SHA sallyport.ObjectID `json:"sha"`
		} `json:"commit"`
	}
	g.Do(t, as, http.MethodPost, "/repos/"+repo+"/contents/"+unique("file"), file, &made)
	return made.Commit.SHA
}

// DeleteBranch deletes one and waits until what Gitea does of it later is done: it closes the pull requests that have that
// branch then, also one that was opened since.
func (g *Gitea) DeleteBranch(t testing.TB, as, repo, branch string) {
	t.Helper()
	g.Do(t, as, http.MethodDelete, "/repos/"+repo+"/branches/"+url.PathEscape(branch), nil, nil)
	g.manage(t, "manager", "flush-queues")
}

// ForkPull opens a pull request to base from a branch of the user's own fork, and tells its number.
func (g *Gitea) ForkPull(t testing.TB, user, repo, head, base string) int64 {
	t.Helper()
	_, name, _ := strings.Cut(repo, "/")
	if status, said := g.Ask(t, user, http.MethodPost, "/repos/"+repo+"/forks", map[string]any{}, nil); status != http.StatusAccepted && status != http.StatusConflict {
		t.Fatalf("fork: %d %s", status, said)
	}
	g.Commit(t, user, user+"/"+name, head)
	var made struct {
		Number int64 `json:"number"`
	}
	g.Do(t, user, http.MethodPost, "/repos/"+repo+"/pulls", map[string]string{"head": user + ":" + head, "base": base, "title": "Mine"}, &made)
	return made.Number
}

// ClosePull closes a pull request.
func (g *Gitea) ClosePull(t testing.TB, repo string, number int64) {
	t.Helper()
	g.Do(t, "", http.MethodPatch, pullPath(repo, number), map[string]string{"state": "closed"}, nil)
}

// MergePull merges one. Gitea refuses that (405) until it has looked at the branch after a push.
func (g *Gitea) MergePull(t testing.TB, repo string, number int64) {
	t.Helper()
	suite{}.until(t, fmt.Sprintf("pull request %d is merged", number), func() bool {
		status, said := g.Ask(t, "", http.MethodPost, pullPath(repo, number)+"/merge", map[string]string{"Do": "merge"}, nil)
		if status != http.StatusOK && status != http.StatusMethodNotAllowed {
			t.Fatalf("merge: %d %s", status, said)
		}
		return status == http.StatusOK
	})
}

// Label makes a label, which is exclusive of its scope where exclusive says so, and puts it on a pull request; 0: on none.
func (g *Gitea) Label(t testing.TB, repo string, number int64, name string, exclusive bool) {
	t.Helper()
	var made struct {
		ID int64 `json:"id"`
	}
	g.Do(t, "", http.MethodPost, "/repos/"+repo+"/labels", map[string]any{"name": name, "color": "#00aabb", "exclusive": exclusive}, &made)
	if number != 0 {
		g.Do(t, "", http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/labels", repo, number), map[string]any{"labels": []int64{made.ID}}, nil)
	}
}

// Labels are the names of those that are on a pull request, in order.
func (g *Gitea) Labels(t testing.TB, repo string, number int64) (names []string) {
	t.Helper()
	var there []struct{ Name string }
	g.Do(t, "", http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/labels", repo, number), nil, &there)
	for _, l := range there {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}

// Comments are the texts of a pull request's comments.
func (g *Gitea) Comments(t testing.TB, repo string, number int64) []string {
	t.Helper()
	var there []struct {
		Body string `json:"body"`
	}
	g.Do(t, "", http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/comments", repo, number), nil, &there)
	var out []string
	for _, c := range there {
		out = append(out, c.Body)
	}
	return out
}

func pullPath(repo string, number int64) string {
	return fmt.Sprintf("/repos/%s/pulls/%d", repo, number)
}
