// Package publish runs accepted changes through the real programs to a real forge.
package publish

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/test/world"
)

// gitea is one for all tests of the package: each has a repository of its own.
var gitea *forgetest.Gitea

// stage is a person's clone of a repository at a real forge, and a Publisher of theirs.
type stage struct {
	*world.World
	forge  *forgetest.Gitea
	repo   string // owner/name
	config string // publisher.yaml
}

// pull is what the forge says of one.
type pull struct {
	Number int64  `json:"number"`
	URL    string `json:"html_url"`
	State  string `json:"state"`
	Draft  bool   `json:"draft"`
	Merged bool   `json:"merged"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Head   struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

// asOwner lets git read a private repository.
var asOwner = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+forgetest.Password))

// open makes owner/NAME at a forge, and a clone of it whose Publisher acts as bot. credential is of the target, in YAML.
func open(t *testing.T, g *forgetest.Gitea, name string) *stage {
	t.Helper()
	w := world.New(t)
	s := &stage{World: w, forge: g, repo: "owner/" + name}
	g.Repository(t, s.repo, map[string]string{"bot": "write"})
	owner := "http.extraHeader=" + asOwner
	w.Git("remote", "add", "origin", g.URL+"/"+s.repo+".git")
	w.Git("-c", owner, "fetch", "-q", "origin")
	w.Git("reset", "-q", "--hard", "origin/main")
	w.Git("branch", "-q", "--set-upstream-to=origin/main")
	w.Small()
	w.Git("-c", owner, "push", "-q", "origin", "main")
	g.Protect(t, s.repo, "main", map[string]any{"enable_push": false, "required_approvals": 1})
	w.Folder(filepath.Join(w.Home, ".config", "sallyport"))
	s.config = filepath.Join(w.Home, ".config", "sallyport", "publisher.yaml")
	s.secret("bot.token", g.Token(t, "bot", "write:repository", "write:issue"))
	w.File(filepath.Join(filepath.Dir(s.config), "mission-control.pub"), w.Sallyport("keys").Want(0).Out)
	s.target("credential: {token-file: bot.token}")
	return s
}

// target is the one of the configuration, with more lines of its own.
func (s *stage) target(lines ...string) {
	s.T.Helper()
	s.File(s.config, fmt.Sprintf("version: 1\nmission-control: [mission-control.pub]\ntargets:\n  - repository: %s\n    kind: gitea\n    bases: [main]\n    allow: [long-lived, too-wide]\n    %s\n",
		s.forge.URL+"/"+s.repo, strings.Join(lines, "\n    ")))
}

// secret is a file beside the configuration that nobody else can read.
func (s *stage) secret(name, value string) {
	s.T.Helper()
	path := s.File(filepath.Join(filepath.Dir(s.config), name), value+"\n")
	s.Must(os.Chmod(path, 0o600))
}

// pulls are all that the forge has, whatever their state.
func (s *stage) pulls() (list []pull) {
	s.T.Helper()
	s.forge.Do(s.T, "", http.MethodGet, "/repos/"+s.repo+"/pulls?state=all&limit=50", nil, &list)
	return list
}

// tip of a branch at the forge.
func (s *stage) tip(branch string) string {
	s.T.Helper()
	var b struct {
		Commit struct {
			ID string `json:"id"`
		} `json:"commit"`
	}
	status, said := s.forge.Ask(s.T, "", http.MethodGet, "/repos/"+s.repo+"/branches/"+strings.ReplaceAll(branch, "/", "%2F"), nil, nil)
	if status == http.StatusNotFound {
		return ""
	}
	s.Must(json.Unmarshal([]byte(said), &b))
	return b.Commit.ID
}
