// Package git is the driver for a plain git server: it is pushed to, and a person does the rest. Over HTTPS with a token or
// password, or over SSH with a key or with a certificate that is made for each publication.
package git

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// Config is one repository and how to write there.
type Config struct {
	URL string // https://git.example/tool.git, ssh://git@git.example/tool.git; file:// without any credential
	// User and Credential are for HTTPS: a token or password, read for each publication.
	User       string // "": git
	Credential func(context.Context) (string, error)
	CAFile     string // for the server's HTTPS; "": the system's
	// Key and KnownHosts are files, for SSH. In place of Key, CA makes one for each publication.
	Key, KnownHosts string
	CA              *CA
	// Compare is where a person opens a pull request by hand, with {head} and {base} in it; "": there is no such place.
	Compare string
}

// Driver implements forge.Driver.
type Driver struct {
	c      Config
	scheme string
}

// New checks the configuration and asks nobody. CodeInvalid: what is wrong with it.
func New(c Config) (*Driver, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, invalid("a git server", "expected an address like https://git.example/tool.git")
	}
	_, password := u.User.Password()
	switch {
	case password || u.User != nil && u.Scheme != "ssh":
		return nil, invalid(u.Host, "no password belongs into the address, and a user only with ssh")
	case c.CA != nil && u.Scheme != "ssh":
		return nil, invalid(u.Host, "a certificate is for ssh only")
	case u.Scheme == "ssh":
		if (c.Key == "") == (c.CA == nil) || c.KnownHosts == "" {
			return nil, invalid(c.URL, "ssh needs the file of a key, or what makes one, and the file of the server's host key")
		}
	case u.Scheme == "https", u.Scheme == "http" && forge.Loopback(u.Hostname()):
		if c.Credential == nil {
			return nil, invalid(c.URL, "https needs a token or password")
		}
	case u.Scheme != "file":
		return nil, invalid(c.URL, "expected https or ssh")
	}
	if c.User == "" {
		c.User = "git"
	}
	if c.CA != nil {
		ca := *c.CA
		if err := ca.check(); err != nil {
			return nil, err
		}
		c.CA = &ca
	}
	return &Driver{c, u.Scheme}, nil
}

func invalid(subject, message string) error {
	return &sallyport.Error{Op: "configure a git server", Code: sallyport.CodeInvalid, Subject: subject, Message: message}
}

// Describe implements forge.Driver.
func (d *Driver) Describe() forge.Description {
	u, err := url.Parse(d.c.URL)
	if err != nil {
		return forge.Description{Kind: "git"} // New has parsed it
	}
	u.User = nil
	return forge.Description{Kind: "git", Repository: u.String(), Mints: d.c.CA != nil, Compare: d.compare}
}

func (d *Driver) compare(head, base string) string {
	return strings.NewReplacer("{head}", url.QueryEscape(head), "{base}", url.QueryEscape(base)).Replace(d.c.Compare)
}

// Mint implements forge.Driver: a key with its certificate, or what is configured.
func (d *Driver) Mint(ctx context.Context, mark string) (forge.Grant, error) {
	if d.c.CA != nil {
		return d.mintCertificate(ctx, mark)
	}
	g := forge.Grant{Class: forge.ClassConfigured}
	switch d.scheme {
	case "ssh":
		g.Key = d.c.Key
	case "http", "https":
		secret, err := d.c.Credential(ctx)
		if err == nil && (secret == "" || strings.ContainsAny(secret, "\r\n\x00")) {
			return forge.Grant{}, d.fail("read the configured credential", sallyport.CodeInvalid, "expected one line", nil)
		}
		if err != nil {
			return forge.Grant{}, d.fail("read the configured credential", sallyport.CodeDenied, "it cannot be read", err)
		}
		g.User, g.Secret = d.c.User, secret
	}
	return g, nil
}

// Remote implements forge.Driver.
func (d *Driver) Remote(g forge.Grant) forge.Remote {
	r := forge.Remote{URL: d.c.URL, CAFile: d.c.CAFile}
	switch {
	case g.Key != "" && g.Class == forge.ClassMinted:
		read, push := d.certificates(g)
		r.SSH = forge.SSHCertificateCommand(g.Key, read, d.c.KnownHosts)
		r.PushSSH = forge.SSHCertificateCommand(g.Key, push, d.c.KnownHosts)
	case g.Key != "":
		r.SSH = forge.SSHCommand(g.Key, d.c.KnownHosts)
	case g.Secret != "":
		r.Header = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(g.User+":"+g.Secret))
	}
	return r
}

// Inspect implements forge.Driver. All that a plain server tells is where its branches are.
func (d *Driver) Inspect(ctx context.Context, g forge.Grant, base string) (forge.Inspection, error) {
	tip, err := forge.Tip(ctx, d.Remote(g), "refs/heads/"+base)
	if err != nil {
		return forge.Inspection{}, err
	}
	if tip == "" {
		return forge.Inspection{}, d.fail("look at the base branch", sallyport.CodeNotFound, "there is no branch "+forge.Words(base), nil)
	}
	in := forge.Inspection{
		RepositoryID: d.Describe().Repository, Base: tip, // whether it is private, nobody says
		Findings: []forge.Finding{
			{Code: "not-told", Message: "A plain git server does not tell what a credential may do, nor what guards a branch. Let a hook there refuse all but our branches."},
		},
	}
	if g.Class != forge.ClassMinted {
		in.Findings = append(in.Findings, forge.Finding{Code: "long-lived", Message: "The configured credential is good until somebody takes it away."})
	}
	return in, nil
}

// Find implements forge.Driver: there are none.
func (d *Driver) Find(context.Context, forge.Grant, string, string) ([]forge.PullRequest, error) {
	return nil, nil
}

// Create implements forge.Driver: CodeUnsupported.
func (d *Driver) Create(context.Context, forge.Grant, forge.NewPullRequest) (forge.PullRequest, error) {
	return forge.PullRequest{}, d.none()
}

// Get implements forge.Driver: CodeUnsupported.
func (d *Driver) Get(context.Context, forge.Grant, int64) (forge.PullRequest, error) {
	return forge.PullRequest{}, d.none()
}

// Edit implements forge.Driver: CodeUnsupported.
func (d *Driver) Edit(context.Context, forge.Grant, int64, forge.Text) error { return d.none() }

// Label implements forge.Driver: CodeUnsupported.
func (d *Driver) Label(context.Context, forge.Grant, int64, []string) ([]string, error) {
	return nil, d.none()
}

// Close implements forge.Driver: CodeUnsupported.
func (d *Driver) Close(context.Context, forge.Grant, int64, string) error { return d.none() }

func (d *Driver) none() error {
	return d.fail("ask for a pull request", sallyport.CodeUnsupported, "a plain git server has none", nil)
}

func (d *Driver) fail(op string, code sallyport.Code, message string, err error) error {
	return &sallyport.Error{Op: op, Code: code, Subject: d.Describe().Repository, Message: message, Err: err}
}
