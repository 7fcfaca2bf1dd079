package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/githubapp"
)

const (
	opMint   = "mint a credential at the forge"
	opRevoke = "revoke a credential at the forge"
	// tokenLife is how long GitHub lets an installation token live; clockSkew is for clocks that differ.
	tokenLife = time.Hour
	clockSkew = 5 * time.Minute
)

// wanted is what pushes a branch and opens a pull request for it. There is no narrower pair: metadata: read is
// implied, and the same pair can merge, which only the base branch's rules prevent. Changes of workflows would need
// workflows: write, which is never asked for. Attestations are asked for where the operator wants them.
func (d *Driver) wanted() map[string]string {
	w := map[string]string{"contents": "write", "pull_requests": "write"}
	if d.cfg.Attestations {
		w["attestations"] = "write"
	}
	return w
}

// Mint gets an installation token for the one repository, or looks up whose the configured token is. GitHub gives
// tokens no name: mark is not used. One whose answer was lost cannot be found; it ends within the hour.
func (d *Driver) Mint(ctx context.Context, mark string) (forge.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if d.cfg.App == nil {
		return d.configured(ctx)
	}
	jwt, err := githubapp.Sign(d.key, d.cfg.App.ID, d.cfg.Now())
	if err != nil {
		return forge.Grant{}, d.fail(opMint, sallyport.CodeInvalid, err.Error(), "")
	}
	slug, err := d.slug(ctx, jwt)
	if err != nil {
		return forge.Grant{}, err
	}
	installation, err := d.installation(ctx, jwt)
	if err != nil {
		return forge.Grant{}, err
	}
	answer, err := d.token(ctx, jwt, installation)
	if err != nil {
		return forge.Grant{}, err
	}
	g, err := d.compare(answer)
	if err != nil {
		return forge.Grant{}, d.discard(ctx, g, err)
	}
	g.ID, g.Identity = "installation "+strconv.FormatInt(installation, 10), slug
	return g, nil
}

func (d *Driver) fail(op string, code sallyport.Code, message, hint string) *sallyport.Error {
	return &sallyport.Error{Op: op, Code: code, Subject: d.owner + "/" + d.name, Message: message, Hint: hint}
}

// slug is the login that the App acts under. It is asked for before there is a token: then a key that is not the App's, or
// a clock that is off, has cost nothing.
func (d *Driver) slug(ctx context.Context, jwt string) (slug string, err error) {
	err = d.ask(ctx, opMint, jwt, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		app, res, err := c.Apps.Get(ctx, "")
		// As author of a pull request it has this ending.
		if slug = app.GetSlug(); slug != "" {
			slug += "[bot]"
		}
		return res, err
	})
	return slug, err
}

func (d *Driver) installation(ctx context.Context, jwt string) (id int64, err error) {
	if d.cfg.App.Installation != 0 {
		return d.cfg.App.Installation, nil
	}
	err = d.ask(ctx, opMint, jwt, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		i, res, err := c.Apps.GetRepositoryInstallation(ctx, d.owner, d.name)
		if id = i.GetID(); id == 0 {
			err = cmp.Or(err, errNothing)
		}
		return res, err
	})
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return 0, d.fail(opMint, sallyport.CodeNotFound, "the App is not installed on it, or it is not there (404)", "install the App on this repository")
	}
	return id, err
}

// request is the body that asks for a token. Both lists are always in it: without one the token reaches all that the
// installation does.
type request struct {
	IDs         []int64           `json:"repository_ids,omitempty"`
	Names       []string          `json:"repositories,omitempty"`
	Permissions map[string]string `json:"permissions"`
}

// token asks for one. The library's own types are not used: they drop permissions that they do not know, and those
// are what the comparison is for.
func (d *Driver) token(ctx context.Context, jwt string, installation int64) (map[string]json.RawMessage, error) {
	body := request{Permissions: d.wanted()}
	if d.cfg.RepositoryID != 0 {
		body.IDs = []int64{d.cfg.RepositoryID}
	} else {
		body.Names = []string{d.name}
	}
	var answer map[string]json.RawMessage
	err := d.ask(ctx, opMint, jwt, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		req, err := c.NewRequest(ctx, http.MethodPost, fmt.Sprintf("app/installations/%d/access_tokens", installation), body)
		if err != nil {
			return nil, err
		}
		return c.Do(req, &answer)
	})
	var e *sallyport.Error
	if errors.As(err, &e) && e.Code == sallyport.CodeInvalid && strings.Contains(e.Message, "422") {
		// One answer for both, and GitHub does not say which.
		e.Code, e.Hint = sallyport.CodeDenied, "the installation does not reach this repository, or has not "+words(d.wanted())+": look at the App's installation"
	}
	return answer, err
}

// words are permissions for people, in one order.
func words(permissions map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(permissions)) {
		all = append(all, name+": "+permissions[name])
	}
	return strings.Join(all, " and ")
}

// minted is GitHub's answer by its exact keys.
type minted struct {
	token        string
	expires      time.Time
	permissions  map[string]string
	selection    string
	repositories []struct {
		ID       int64  `json:"id"`
		FullName string `json:"full_name"`
	}
}

func read(answer map[string]json.RawMessage) (m minted, err error) {
	var errs []error
	for key, out := range map[string]any{"token": &m.token, "expires_at": &m.expires, "permissions": &m.permissions,
		"repository_selection": &m.selection, "repositories": &m.repositories} {
		if raw, ok := answer[key]; ok {
			errs = append(errs, json.Unmarshal(raw, out))
		}
	}
	return m, errors.Join(errs...)
}

// compare refuses a token that can do more, less or other things than what was asked for. The Grant has the secret
// also with an error: it must be revoked.
func (d *Driver) compare(answer map[string]json.RawMessage) (forge.Grant, error) {
	m, err := read(answer)
	now := d.cfg.Now()
	g := forge.Grant{Secret: m.token, User: gitUser, Class: forge.ClassMinted, Expires: now.Add(tokenLife)}
	refuse := func(format string, args ...any) (forge.Grant, error) {
		return g, d.fail(opMint, sallyport.CodeDenied, "the forge gave another credential than was asked for: "+fmt.Sprintf(format, args...), "look at the App's installation")
	}
	switch {
	case m.token == "":
		return g, d.fail(opMint, sallyport.CodeUnknown, "the forge's answer has no token", "if it made one, that ends within the hour")
	case !usable(m.token):
		return refuse("it has characters that no token has")
	case err != nil:
		return refuse("its answer cannot be read")
	case m.selection != "selected":
		return refuse("it is for %.20q repositories, not for selected ones", m.selection)
	case len(m.repositories) != 1 || !d.ours(m.repositories[0].ID, m.repositories[0].FullName):
		return refuse("it is for %d repositories, or for another than this", len(m.repositories))
	case !m.expires.After(now) || m.expires.After(now.Add(tokenLife+clockSkew)):
		return refuse("it ends at %s; expected within the hour", m.expires.UTC().Format(time.RFC3339))
	}
	wanted := d.wanted()
	for _, name := range slices.Sorted(maps.Keys(m.permissions)) {
		level := m.permissions[name]
		if level != wanted[name] && (name != "metadata" || level != "read") {
			return refuse("permission %.40q is %.20q", name, level)
		}
		g.Scope = append(g.Scope, name+": "+level)
	}
	for name := range wanted {
		if m.permissions[name] == "" {
			return refuse("permission %q is missing", name)
		}
	}
	g.Expires = m.expires
	return g, nil
}

// ours tells whether this is the repository: by number where it is pinned, by name where it is not.
func (d *Driver) ours(id int64, fullName string) bool {
	if d.cfg.RepositoryID != 0 {
		return id == d.cfg.RepositoryID
	}
	return id != 0 && strings.EqualFold(fullName, d.owner+"/"+d.name)
}

// discard revokes a token that is not to be used, also when the caller does not wait any more: nobody else knows it.
func (d *Driver) discard(ctx context.Context, g forge.Grant, why error) error {
	if !usable(g.Secret) {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := again(ctx, 3, d.discardWait, func() (bool, error) {
		err := d.Revoke(ctx, g)
		return err != nil, err
	})
	var e *sallyport.Error
	if errors.As(why, &e) {
		if err == nil {
			e.Message += "; it was revoked"
		} else {
			e.Message += "; it could not be revoked and ends at " + g.Expires.UTC().Format(time.RFC3339)
		}
	}
	return why
}

// Revoke ends an installation token. One that GitHub does not take any more (401) is gone.
func (d *Driver) Revoke(ctx context.Context, g forge.Grant) error {
	if g.Class != forge.ClassMinted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	gone := false
	err := d.ask(ctx, opRevoke, g.Secret, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		res, err := c.Apps.RevokeInstallationToken(ctx)
		gone = res != nil && res.Response != nil && res.StatusCode == http.StatusUnauthorized
		return res, err
	})
	if gone {
		return nil
	}
	return err
}

// configured is the token that a person made. GitHub tells its owner and, in headers, its end and a classic one's
// scopes; what a fine-grained one may do it does not tell.
func (d *Driver) configured(ctx context.Context) (forge.Grant, error) {
	token, err := d.cfg.Credential(ctx)
	if err != nil {
		return forge.Grant{}, err
	}
	if !usable(token) {
		return forge.Grant{}, d.fail(opMint, sallyport.CodeInvalid, "the configured token is empty, or has characters that no token has", "")
	}
	g := forge.Grant{Secret: token, User: gitUser, Class: forge.ClassConfigured}
	err = d.ask(ctx, opMint, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		user, res, err := c.Users.Get(ctx, "")
		if err != nil || user.GetLogin() == "" {
			return res, cmp.Or(err, errNothing)
		}
		g.Identity, g.Expires = user.GetLogin(), res.TokenExpiration.Time
		for _, s := range strings.Split(res.Header.Get("X-OAuth-Scopes"), ",") {
			if s = strings.TrimSpace(s); s != "" {
				g.Scope = append(g.Scope, s)
			}
		}
		return res, nil
	})
	if err != nil {
		return forge.Grant{}, err
	}
	return g, nil
}
