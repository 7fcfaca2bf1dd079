// Package github is a forge.Driver for one repository on GitHub or a GitHub Enterprise Server, over REST.
//
// It mints an App's installation token for each publication, for one repository and for what opens a pull request,
// or uses one that a person made. What is tried and known of GitHub's behaviour is in forgetest/github, which follows
// it. Deciding what to publish is elsewhere (internal/publisher).
package github

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/githubapp"
)

const (
	publicHost = "github.com"
	publicAPI  = "https://api.github.com/"
	// gitUser is whom a token is the password of, whoever it belongs to.
	gitUser = "x-access-token"
	// opTimeout is for one method with all its requests: it bounds what pages and repeats add up to.
	opTimeout = 2 * time.Minute
	// maxKey is several times the largest key.
	maxKey = 64 << 10
)

// Config names a repository and who writes to it. Exactly one of App and Credential is set.
type Config struct {
	URL string // https://github.com/owner/name; http on loopback only
	// RepositoryID pins the repository: it keeps its number when it is renamed, and who takes the old name has another.
	// Zero: not pinned; Inspection.RepositoryID tells it.
	RepositoryID int64
	API          string // "": GitHub's own, or https://<host>/api/v3/ of an Enterprise Server
	App          *App
	// Credential reads a fine-grained personal access token. It is asked for each publication, so a file may be replaced.
	Credential func(context.Context) (string, error)
	// Attestations: an App's token is to store attestations too.
	Attestations bool
	Client       *http.Client     // nil: forge.NewClient(CAFile)
	CAFile       string           // for the forge's HTTPS; "": the system's
	Now          func() time.Time // nil: time.Now
}

// App is a GitHub App that is installed on the repository.
type App struct {
	ID      string        // client id or app id
	KeyFile string        // private key, PEM; not read when Key is set
	Key     crypto.Signer // an RSA key that is somewhere else
	// Installation is looked up by the repository's name when it is zero.
	Installation int64
}

// Driver is a forge.Driver. It is safe for concurrent use.
type Driver struct {
	cfg         Config
	owner, name string
	web         string // https://github.com/owner/name
	api         string // with a slash at its end
	key         crypto.Signer
	http        *http.Client
	// wait and tries are for a branch that was pushed and that GitHub does not see yet.
	wait  time.Duration
	tries int
	// discardWait is between attempts to revoke a token that is not to be used.
	discardWait time.Duration
}

var _ forge.Driver = (*Driver)(nil)

// New reads the configuration, and the App's key, and asks nobody. CodeInvalid: what is wrong in it.
func New(cfg Config) (*Driver, error) {
	d := &Driver{cfg: cfg, wait: time.Second, tries: 5, discardWait: time.Second}
	if d.cfg.Now == nil {
		d.cfg.Now = time.Now
	}
	if err := d.addresses(); err != nil {
		return nil, err
	}
	if err := d.credentials(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		var err error
		if cfg.Client, err = forge.NewClient(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	d.http = guarded(cfg.Client)
	return d, nil
}

func invalid(subject, message, hint string) error {
	return &sallyport.Error{Op: "read the target", Code: sallyport.CodeInvalid, Subject: subject, Message: message, Hint: hint}
}

func (d *Driver) addresses() error {
	u, err := url.Parse(d.cfg.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && !loopback(u)) {
		return invalid("repository", "it is no https address without user", "expected https://github.com/owner/name")
	}
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	owner, name, ok := strings.Cut(path, "/")
	if !ok || !plain(owner) || !plain(name) {
		return invalid("repository", "its path is no owner/name", "expected https://github.com/owner/name")
	}
	d.owner, d.name = owner, name
	d.web = u.Scheme + "://" + u.Host + "/" + owner + "/" + name
	switch {
	case d.cfg.API != "":
		a, err := url.Parse(d.cfg.API)
		if err != nil || a.Host == "" || a.User != nil || a.RawQuery != "" || (a.Scheme != "https" && !loopback(a)) {
			return invalid("api", "it is no https address without user", "expected https://host/api/v3")
		}
		d.api = strings.TrimSuffix(d.cfg.API, "/") + "/"
	case strings.EqualFold(u.Host, publicHost):
		d.api = publicAPI
	default:
		d.api = u.Scheme + "://" + u.Host + "/api/v3/"
	}
	return nil
}

// loopback may be reached without TLS: nobody else can listen there.
func loopback(u *url.URL) bool { return u.Scheme == "http" && forge.Loopback(u.Hostname()) }

// plain is what GitHub allows in an owner's or a repository's name.
func plain(s string) bool {
	return s != "" && s != "." && s != ".." && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

func (d *Driver) credentials() error {
	switch {
	case (d.cfg.App == nil) == (d.cfg.Credential == nil):
		return invalid("credential", "exactly one of an App and a token is needed", "")
	case d.cfg.App == nil:
		return nil
	case d.cfg.App.ID == "":
		return invalid("app", "the App's client id or app id is missing", "")
	case d.cfg.App.Key != nil:
		if _, ok := d.cfg.App.Key.Public().(*rsa.PublicKey); !ok {
			return invalid("app", "the App's key is not RSA", "")
		}
		d.key = d.cfg.App.Key
		return nil
	}
	var err error
	d.key, err = readKey(d.cfg.App.KeyFile)
	return err
}

// readKey reads an App's key from a file that nobody but its owner can read.
func readKey(file string) (crypto.Signer, error) {
	bad := func(message, hint string, err error) (crypto.Signer, error) {
		return nil, &sallyport.Error{Op: "read the target", Code: sallyport.CodeInvalid, Subject: "app", Message: message, Hint: hint, Err: err}
	}
	f, err := os.Open(file)
	if err != nil {
		return bad("the App's key cannot be read", "", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return bad("the App's key is no file", "", err)
	case info.Mode().Perm()&0o077 != 0:
		return bad("others can read or change the App's key", "chmod 600 "+file, nil)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKey))
	if err != nil {
		return bad("the App's key cannot be read", "", err)
	}
	key, err := githubapp.Key(text)
	if err != nil {
		return bad("the App's key is "+err.Error(), "download one in the App's settings", nil)
	}
	return key, nil
}

// Describe is what this driver can do. Drafts is true on every plan: whether a repository has them is only told when
// one is opened.
func (d *Driver) Describe() forge.Description {
	return forge.Description{
		Kind: "github", Repository: d.web, PullRequests: true, Mints: d.cfg.App != nil, Drafts: true, Lives: tokenLife + clockSkew,
		Compare: func(head, base string) string {
			return d.web + "/compare/" + segments(base) + "..." + segments(head) + "?expand=1"
		},
	}
}

// segments escapes a branch's name for an address, but for its slashes.
func segments(branch string) string {
	return strings.ReplaceAll(url.PathEscape(branch), "%2F", "/")
}

// Remote is where git pushes.
func (d *Driver) Remote(g forge.Grant) forge.Remote {
	return forge.Remote{
		URL: d.web + ".git", Header: "Authorization: " + basic(g.Secret), CAFile: d.cfg.CAFile,
	}
}

func basic(token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(gitUser+":"+token))
}

// ask carries one request out with a token and gives its error a meaning. changes: it is no mere reading.
func (d *Driver) ask(ctx context.Context, op, token string, changes bool, f func(context.Context, *github.Client) (*github.Response, error)) error {
	ctx, sent := watch(ctx)
	call := call{op: op, subject: d.owner + "/" + d.name, changes: changes, sent: sent, now: d.cfg.Now(),
		secrets: []string{token, strings.TrimPrefix(basic(token), "Basic ")}}
	// The library's own memory of rate limits is left out: a driver remembers nothing.
	c, err := github.NewClient(github.WithHTTPClient(d.http), github.WithURLs(&d.api, &d.api), github.WithAuthToken(token),
		github.WithUserAgent("sallyport"), github.WithDisableRateLimitCheck())
	if err != nil {
		return call.fail(sallyport.CodeInvalid, "the forge's address cannot be used", "")
	}
	res, err := f(ctx, c)
	if err == nil {
		return nil
	}
	if res == nil || res.Response == nil {
		return call.lost(err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		sent.left.Store(true)
		return call.lost(err)
	}
	return d.refused(call, res, err)
}
