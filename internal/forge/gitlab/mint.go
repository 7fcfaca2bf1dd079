package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const (
	opMint   = "mint a credential at the forge"
	opRevoke = "revoke a credential at the forge"
	// developer is the least role that pushes and opens merge requests. Left out, GitLab gives 40, Maintainer.
	developer  = 30
	maintainer = 40
	// scope is what opens a merge request; it pushes too. write_repository alone would do both by push options, which
	// can also merge and move a merge request to another branch, and which a repeated push does not run.
	scope = "api"
	// latest is how near the end of a day a token must not end: a publication takes minutes.
	latest = 30 * time.Minute
	// undoTime is for revoking a token that nobody is given.
	undoTime = 30 * time.Second
	maxPages = 20
	perPage  = 100
)

// token is a project access token: https://docs.gitlab.com/api/project_access_tokens/
type token struct {
	ID          int64    `json:"id"`
	Name        string   `json:"name"`
	Scopes      []string `json:"scopes"`
	AccessLevel int      `json:"access_level"`
	ExpiresAt   string   `json:"expires_at"`
	Revoked     bool     `json:"revoked"`
	Token       string   `json:"token"`
}

// Mint makes a project access token named mark, or looks up whose the configured one is. One of this name that is there
// already is revoked first: its answer was lost, and GitLab tells a token once.
func (d *Driver) Mint(ctx context.Context, mark string) (forge.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if d.c.Owner == nil {
		return d.configured(ctx)
	}
	if mark == "" {
		return forge.Grant{}, d.fail(opMint, sallyport.CodeInvalid, "a token without a name could not be found again", "")
	}
	owner, err := d.secret(ctx, opMint, d.c.Owner)
	if err != nil {
		return forge.Grant{}, err
	}
	if err := d.revokeNamed(ctx, owner, mark); err != nil {
		return forge.Grant{}, err
	}
	// A token ends at the first minute of its date, in UTC.
	end := d.c.Now().UTC().Add(latest).Truncate(24*time.Hour).AddDate(0, 0, 1)
	var t token
	_, err = d.ask(ctx, owner, forge.Request{Op: opMint, Method: http.MethodPost, Path: d.at + "/access_tokens", Into: &t,
		Check: func() bool { return t.ID > 0 && usable(t.Token) },
		Send:  map[string]any{"name": mark, "scopes": []string{scope}, "access_level": developer, "expires_at": end.Format(time.DateOnly)}})
	if err != nil {
		return forge.Grant{}, err
	}
	g := forge.Grant{ID: strconv.FormatInt(t.ID, 10), Secret: t.Token, User: gitUser, Class: forge.ClassMinted, Scope: t.Scopes, Expires: end}
	if err := d.compare(t, mark, end); err != nil {
		return forge.Grant{}, d.discard(ctx, g, err)
	}
	// Who it acts as is good to know, and no reason to have no credential.
	g.Identity, _ = d.login(ctx, t.Token)
	return g, nil
}

func (d *Driver) secret(ctx context.Context, op string, read func(context.Context) (string, error)) (string, error) {
	s, err := read(ctx)
	if err == nil && !usable(s) {
		err = d.fail(op, sallyport.CodeInvalid, "the configured token is empty, or has characters that no token has", "")
	}
	return s, err
}

// compare refuses a token that can do more or other things than what was asked for.
func (d *Driver) compare(t token, mark string, end time.Time) error {
	why := ""
	switch {
	case t.AccessLevel != developer:
		why = fmt.Sprintf("its access level is %d, expected %d", t.AccessLevel, developer)
	case !slices.Equal(t.Scopes, []string{scope}):
		why = fmt.Sprintf("its scopes are %.60q", t.Scopes)
	case t.ExpiresAt != end.Format(time.DateOnly):
		why = fmt.Sprintf("it ends at %.20q, expected %s", t.ExpiresAt, end.Format(time.DateOnly))
	case t.Name != mark:
		why = "it has another name, under which it could not be found again"
	default:
		return nil
	}
	return d.fail(opMint, sallyport.CodeDenied, "the forge gave another credential than was asked for: "+why, "look at the project's settings of access tokens")
}

// discard revokes a token that is not to be used, also when the caller does not wait any more.
func (d *Driver) discard(ctx context.Context, g forge.Grant, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	err := d.Revoke(ctx, g)
	var e *sallyport.Error
	if errors.As(why, &e) {
		if err == nil {
			e.Message += "; it was revoked"
		} else {
			e.Message += "; it could not be revoked and ends at " + g.Expires.Format(time.DateOnly)
		}
	}
	return why
}

// revokeNamed revokes the tokens of exactly this name; GitLab's search gives those that have it in theirs.
func (d *Driver) revokeNamed(ctx context.Context, owner, mark string) error {
	var ids []string
	for page := 1; page > 0; {
		var list []token
		q := url.Values{"search": {mark}, "state": {"active"}, "per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		h, err := d.ask(ctx, owner, forge.Request{Op: opMint, Method: http.MethodGet, Path: d.at + "/access_tokens?" + q.Encode(), Into: &list})
		if err != nil {
			return err
		}
		for _, t := range list {
			if t.Name == mark && !t.Revoked {
				ids = append(ids, strconv.FormatInt(t.ID, 10))
			}
		}
		if page = next(h, page); page > maxPages {
			return d.fail(opMint, sallyport.CodeInvalid, "the project has thousands of tokens", "")
		}
	}
	for _, id := range ids {
		if err := d.revoke(ctx, opMint, owner, id); err != nil {
			return err
		}
	}
	return nil
}

// next is the page after this one, 0: there is none. https://docs.gitlab.com/api/rest/#offset-based-pagination
func next(h http.Header, page int) int {
	n, err := strconv.Atoi(h.Get("X-Next-Page"))
	if err != nil || n <= page {
		return 0
	}
	return n
}

// Revoke ends a project access token with the owner's. One that is not there any more (404) is gone.
func (d *Driver) Revoke(ctx context.Context, g forge.Grant) error {
	if g.Class != forge.ClassMinted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if d.c.Owner == nil {
		return d.fail(opRevoke, sallyport.CodeInvalid, "no owner's token is configured any more that revokes it", "revoke it in the project's settings, or configure the owner's token")
	}
	if _, err := strconv.ParseUint(g.ID, 10, 63); err != nil {
		return d.fail(opRevoke, sallyport.CodeInvalid, "the credential has no number", "")
	}
	owner, err := d.secret(ctx, opRevoke, d.c.Owner)
	if err != nil {
		return err
	}
	return d.revoke(ctx, opRevoke, owner, g.ID)
}

func (d *Driver) revoke(ctx context.Context, op, owner, id string) error {
	_, err := d.ask(ctx, owner, forge.Request{Op: op, Method: http.MethodDelete, Path: d.at + "/access_tokens/" + id})
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return nil
	}
	return err
}

// login is whom a token acts as.
func (d *Driver) login(ctx context.Context, token string) (string, error) {
	var u user
	_, err := d.ask(ctx, token, forge.Request{Op: opMint, Method: http.MethodGet, Path: "/user", Into: &u, Check: func() bool { return u.Username != "" }})
	return u.Username, err
}

// configured is the bot's token. What GitLab tells of it is told on; that it tells nothing is no error.
func (d *Driver) configured(ctx context.Context) (forge.Grant, error) {
	secret, err := d.secret(ctx, opMint, d.c.Credential)
	if err != nil {
		return forge.Grant{}, err
	}
	g := forge.Grant{Secret: secret, User: gitUser, Class: forge.ClassConfigured}
	if g.Identity, err = d.login(ctx, secret); err != nil {
		return forge.Grant{}, err
	}
	var t token
	if _, err := d.ask(ctx, secret, forge.Request{Op: opMint, Method: http.MethodGet, Path: "/personal_access_tokens/self", Into: &t}); err == nil {
		g.Scope = t.Scopes
		if end, err := time.Parse(time.DateOnly, t.ExpiresAt); err == nil {
			g.Expires = end
		}
	}
	return g, nil
}

// wide is what of a token's scopes publishing has no use for.
func wide(scopes []string) []string {
	var out []string
	for _, s := range scopes {
		if s != scope && s != "write_repository" && !strings.HasPrefix(s, "read_") {
			out = append(out, s)
		}
	}
	return out
}

// RevokeMark ends the tokens of this name, as of a publication whose answer was lost. None: nil.
func (d *Driver) RevokeMark(ctx context.Context, mark string) error {
	if d.c.Owner == nil || mark == "" {
		return d.fail(opMint, sallyport.CodeInvalid, "no token is named so", "")
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	owner, err := d.secret(ctx, opMint, d.c.Owner)
	if err != nil {
		return err
	}
	return d.revokeNamed(ctx, owner, mark)
}
