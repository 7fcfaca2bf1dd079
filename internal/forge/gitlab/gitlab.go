// Package gitlab is a forge.Driver for one project on GitLab, over REST.
//
// It uses a bot's token that somebody configured, or makes a project access token for each publication with an owner's.
// Its requests go through forge.REST and not through GitLab's own client: that one repeats a POST after a 5xx of its own
// accord, keeps a rate limit of its own, and reads answers without bound.
//
// Deciding what to publish is elsewhere (internal/publisher).
package gitlab

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const (
	// gitUser is whom a token is the password of: GitLab takes any name that is not empty.
	gitUser = "oauth2"
	// opTimeout is for one method with all its requests: it bounds what pages and repeats add up to.
	opTimeout = 2 * time.Minute
)

// Config names a project and who writes to it. Exactly one of Credential and Owner is set.
type Config struct {
	URL string // https://gitlab.example/group/sub/name; http on loopback only
	// ProjectID pins the project: it keeps its number when it is renamed or moved, and who takes the old path has another.
	// Zero: not pinned; Inspection.RepositoryID tells it.
	ProjectID int64
	// Credential reads the token of a bot. It is asked for each publication, so a file may be replaced.
	Credential func(context.Context) (string, error)
	// Owner reads the personal token of a maintainer or owner, with the scope api: it makes and revokes project access
	// tokens. GitLab.com has those from Premium on.
	Owner  func(context.Context) (string, error)
	Client *http.Client     // nil: forge.NewClient(CAFile)
	CAFile string           // for the forge's HTTPS; "": the system's
	Now    func() time.Time // nil: time.Now
}

// Driver is a forge.Driver. It is safe for concurrent use.
type Driver struct {
	c    Config
	rest forge.REST
	web  string // https://gitlab.example/group/name
	full string // group/name
	at   string // /projects/<id or escaped path>
	// wait and tries are for a branch that was pushed and that GitLab does not see yet.
	wait  time.Duration
	tries int
}

var _ forge.Driver = (*Driver)(nil)

// New checks the configuration and asks nobody. CodeInvalid: what is wrong with it.
func New(c Config) (*Driver, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !forge.Loopback(u.Hostname())) {
		return nil, invalid("the address is no https address without user; expected https://gitlab.example/group/name")
	}
	full := strings.TrimSuffix(strings.Trim(u.EscapedPath(), "/"), ".git")
	if !path(full) {
		return nil, invalid("its path is no group/name; a GitLab below a path of its own is not served")
	}
	if (c.Credential == nil) == (c.Owner == nil) {
		return nil, invalid("expected either a configured token or an owner's that makes tokens")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Client == nil {
		if c.Client, err = forge.NewClient(c.CAFile); err != nil {
			return nil, err
		}
	}
	host := u.Scheme + "://" + u.Host
	d := &Driver{c: c, web: host + "/" + full, full: full, at: "/projects/" + url.PathEscape(full), wait: 500 * time.Millisecond, tries: 5}
	if c.ProjectID != 0 {
		d.at = "/projects/" + strconv.FormatInt(c.ProjectID, 10)
	}
	d.rest = forge.REST{Base: host + "/api/v4", Client: c.Client}
	return d, nil
}

// path tells whether s is what GitLab allows as a project's: two names or more.
func path(s string) bool {
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || p == "-" ||
			strings.Trim(strings.ToLower(p), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return false
		}
	}
	return len(parts) > 1
}

func invalid(message string) error {
	return &sallyport.Error{Op: "read the target", Code: sallyport.CodeInvalid, Subject: "gitlab", Message: message}
}

func (d *Driver) fail(op string, code sallyport.Code, message, hint string) error {
	return &sallyport.Error{Op: op, Code: code, Subject: d.full, Message: message, Hint: hint}
}

// Describe is what this driver can do.
func (d *Driver) Describe() forge.Description {
	return forge.Description{
		Kind: "gitlab", Repository: d.web, PullRequests: true, Mints: d.c.Owner != nil, Drafts: true, Lives: 25 * time.Hour, // see Mint: the next midnight, or the one after it

		Compare: func(head, base string) string {
			q := url.Values{"merge_request[source_branch]": {head}, "merge_request[target_branch]": {base}}
			return d.web + "/-/merge_requests/new?" + q.Encode()
		},
	}
}

// Remote is where git pushes. No push option is ever among it: they could merge.
func (d *Driver) Remote(g forge.Grant) forge.Remote {
	return forge.Remote{URL: d.web + ".git", Header: "Authorization: Basic " + basic(g.Secret), CAFile: d.c.CAFile}
}

func basic(token string) string {
	return base64.StdEncoding.EncodeToString([]byte(gitUser + ":" + token))
}

// ask is one request with a token, which stands in a header only.
func (d *Driver) ask(ctx context.Context, token string, q forge.Request) (http.Header, error) {
	q.Subject = d.full
	q.Header = http.Header{"Private-Token": {token}}
	q.Secrets = []string{token, basic(token)}
	return d.rest.Do(ctx, q)
}

// project is what is read of one.
type project struct {
	ID            int64  `json:"id"`
	Path          string `json:"path_with_namespace"`
	Visibility    string `json:"visibility"`
	Archived      bool   `json:"archived"`
	MergeRequests string `json:"merge_requests_access_level"`
	Permissions   struct {
		Project *access `json:"project_access"`
		Group   *access `json:"group_access"`
	} `json:"permissions"`
}

type access struct {
	Level int `json:"access_level"`
}

func (d *Driver) project(ctx context.Context, op string, g forge.Grant) (p project, err error) {
	_, err = d.ask(ctx, g.Secret, forge.Request{Op: op, Method: http.MethodGet, Path: d.at, Into: &p, Check: func() bool { return p.ID > 0 && p.Path != "" }})
	return p, err
}

// id is the number of the project: the pinned one, or the one that has its path now.
func (d *Driver) id(ctx context.Context, op string, g forge.Grant) (int64, error) {
	if d.c.ProjectID != 0 {
		return d.c.ProjectID, nil
	}
	p, err := d.project(ctx, op, g)
	return p.ID, err
}

// branch is what is read of one.
type branch struct {
	Name   string `json:"name"`
	Commit struct {
		ID string `json:"id"`
	} `json:"commit"`
	Protected          bool `json:"protected"`
	CanPush            bool `json:"can_push"`
	DevelopersCanMerge bool `json:"developers_can_merge"`
}

func (d *Driver) branch(ctx context.Context, op string, g forge.Grant, name string) (b branch, err error) {
	_, err = d.ask(ctx, g.Secret, forge.Request{Op: op, Method: http.MethodGet, Path: d.at + "/repository/branches/" + url.PathEscape(name),
		Into: &b, Check: func() bool { return b.Name == name && objectID(b.Commit.ID) != "" }})
	return b, err
}

// usable tells whether a token can stand in a header and in a password: printable ASCII without space. Nothing is
// assumed of its form beyond that.
func usable(token string) bool {
	return token != "" && len(token) <= 8192 && strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// objectID is a commit's name as the forge told it, "" where it is none.
func objectID(s string) sallyport.ObjectID {
	if id := sallyport.ObjectID(s); id.Check() == nil {
		return id
	}
	return ""
}
