// Package gitea is the driver for Gitea and Forgejo, over their REST interface (tried on Gitea 1.26.0).
//
// Their tokens reach every repository of a user and do not expire, so the credential's limits are those of its user: a bot
// that is a writer of one repository. Deciding what to publish is elsewhere (internal/publisher).
package gitea

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// Config is one repository and how to write there.
type Config struct {
	URL string // https://forge.example/owner/name; http on loopback only
	// Credential reads the token of a bot user; nil with Mint. It is asked for each publication, so a file may be replaced.
	Credential func(context.Context) (string, error)
	// Mint makes a token for each publication; nil: the configured one is used.
	Mint *Mint
	// SSH is where git pushes with a deploy key; nil: over HTTP with the token.
	SSH    *SSH
	Client *http.Client // nil: forge.NewClient(CAFile)
	CAFile string       // for the forge's HTTPS; "": the system's
}

// Mint is who makes tokens. Gitea takes a user's name and password for it, nothing less; a second factor rules it out.
type Mint struct {
	User     string
	Password func(context.Context) (string, error)
}

// SSH is a deploy key: it is good for one repository only.
type SSH struct {
	URL        string // ssh://git@forge.example:22/owner/name.git
	Key        string // the private key's file
	KnownHosts string // the file with the server's host key
}

// Driver implements forge.Driver.
type Driver struct {
	rest forge.REST
	c    Config
	web  string // https://forge.example/owner/name
	path string // /repos/owner/name
}

// New checks the configuration and asks nobody. CodeInvalid: what is wrong with it.
func New(c Config) (*Driver, error) {
	at, owner, name, err := address(c.URL)
	if err != nil {
		return nil, err
	}
	if (c.Credential == nil) == (c.Mint == nil) {
		return nil, invalid(c.URL, "expected either a configured token or a user who makes tokens")
	}
	if c.Mint != nil && (c.Mint.User == "" || c.Mint.Password == nil) {
		return nil, invalid(c.URL, "a user who makes tokens needs a name and a password")
	}
	if c.Client == nil {
		if c.Client, err = forge.NewClient(c.CAFile); err != nil {
			return nil, err
		}
	}
	d := &Driver{c: c, web: at + "/" + owner + "/" + name, path: "/repos/" + owner + "/" + name}
	d.rest = forge.REST{Base: at + "/api/v1", Client: c.Client}
	return d, nil
}

// address splits a repository's address into the forge's and two escaped names.
func address(repository string) (at, owner, name string, err error) {
	u, err := url.Parse(repository)
	if err != nil {
		return "", "", "", invalid("repository", "expected an address like https://forge.example/owner/name")
	}
	parts := strings.Split(strings.Trim(strings.TrimSuffix(u.EscapedPath(), ".git"), "/"), "/")
	n := len(parts)
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", "", "", invalid(u.Host, "no user, query or fragment belongs into a repository's address")
	case u.Scheme != "https" && !(u.Scheme == "http" && forge.Loopback(u.Hostname())):
		return "", "", "", invalid(repository, "expected https: a credential is sent there")
	case u.Host == "" || n < 2 || strings.Trim(parts[n-2], ".") == "" || strings.Trim(parts[n-1], ".") == "":
		return "", "", "", invalid(repository, "expected an address like https://forge.example/owner/name")
	}
	at = u.Scheme + "://" + u.Host
	if n > 2 {
		at += "/" + strings.Join(parts[:n-2], "/")
	}
	return at, parts[n-2], parts[n-1], nil
}

func invalid(subject, message string) error {
	return &sallyport.Error{Op: "configure a Gitea repository", Code: sallyport.CodeInvalid, Subject: subject, Message: message}
}

// Describe implements forge.Driver.
func (d *Driver) Describe() forge.Description {
	return forge.Description{
		Kind: "gitea", Repository: d.web, PullRequests: true, Mints: d.c.Mint != nil, Drafts: true,
		Compare: func(head, base string) string { return d.web + "/compare/" + escape(base) + "..." + escape(head) },
	}
}

// escape keeps the slashes of a branch, which Gitea reads either way and people read better.
func escape(branch string) string { return strings.ReplaceAll(url.PathEscape(branch), "%2F", "/") }

// Remote implements forge.Driver. Any user's name goes with a token; with a deploy key the token is not used.
func (d *Driver) Remote(g forge.Grant) forge.Remote {
	if g.Key != "" && d.c.SSH != nil {
		return forge.Remote{URL: d.c.SSH.URL, SSH: forge.SSHCommand(g.Key, d.c.SSH.KnownHosts)}
	}
	return forge.Remote{URL: d.web + ".git", Header: "Authorization: " + basic(g.User, g.Secret), CAFile: d.c.CAFile}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// ask makes a request below the repository with a token.
func (d *Driver) ask(ctx context.Context, g forge.Grant, q forge.Request) (http.Header, error) {
	q.Path = d.path + q.Path
	return d.askAt(ctx, g, q)
}

func (d *Driver) askAt(ctx context.Context, g forge.Grant, q forge.Request) (http.Header, error) {
	if g.Secret == "" {
		return nil, &sallyport.Error{Op: q.Op, Code: sallyport.CodeDenied, Subject: d.web, Message: "there is no token"}
	}
	q.Subject, q.Secrets = d.web, []string{g.Secret, strings.TrimPrefix(basic(g.User, g.Secret), "Basic ")}
	q.Header = http.Header{"Authorization": {"token " + g.Secret}}
	return d.rest.Do(ctx, q)
}
