package gitea

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// scopes are the least with which a branch can be pushed and a pull request opened, labelled and commented on.
var scopes = []string{"write:issue", "write:repository"}

// Mint implements forge.Driver. A token that bears the mark already is ended first: its secret was in an answer that got
// lost. So that the mark can stand for the token in Revoke (Grant.ID), it begins with a letter: Gitea takes a number for
// another token's id.
func (d *Driver) Mint(ctx context.Context, mark string) (forge.Grant, error) {
	if d.c.Mint == nil {
		return d.configured(ctx)
	}
	if mark == "" || len(mark) > 200 || strings.IndexFunc(mark[:1], isLetter) != 0 {
		return forge.Grant{}, &sallyport.Error{Op: opMint, Code: sallyport.CodeInvalid, Subject: mark, Message: "expected a mark that begins with a letter"}
	}
	g, err := d.mint(ctx, mark)
	var ref *forge.Refusal
	if errors.As(err, &ref) && ref.Status == http.StatusBadRequest {
		gone, endErr := d.end(ctx, mark)
		if endErr != nil || !gone {
			return forge.Grant{}, errors.Join(err, endErr)
		}
		g, err = d.mint(ctx, mark)
	}
	return g, err
}

const opMint = "make a token"

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func (d *Driver) mint(ctx context.Context, mark string) (forge.Grant, error) {
	var made struct {
		ID     int64    `json:"id"`
		Token  string   `json:"sha1"`
		Scopes []string `json:"scopes"`
	}
	err := d.asUser(ctx, forge.Request{
		Op: opMint, Method: http.MethodPost,
		Send:  map[string]any{"name": mark, "scopes": scopes},
		Into:  &made,
		Check: func() bool { return made.ID > 0 && made.Token != "" && strings.IndexFunc(made.Token, notToken) < 0 },
	}, "")
	if err != nil {
		return forge.Grant{}, err
	}
	g := d.keyed(forge.Grant{ID: strconv.FormatInt(made.ID, 10), Secret: made.Token, User: d.c.Mint.User, Class: forge.ClassMinted,
		Scope: made.Scopes, Identity: d.c.Mint.User})
	for _, s := range made.Scopes {
		if !slices.Contains(scopes, s) {
			tooWide := &sallyport.Error{Op: opMint, Code: sallyport.CodeDenied, Subject: d.web, Message: "the token may do more than was asked: " + forge.Words(s)}
			if err := d.Revoke(ctx, g); err != nil {
				tooWide.Err = err
			}
			return forge.Grant{}, tooWide
		}
	}
	return g, nil
}

func notToken(r rune) bool { return !isLetter(r) && (r < '0' || r > '9') && r != '_' && r != '-' }

// configured reads the token and tells whose it is, where its scopes let that be seen.
func (d *Driver) configured(ctx context.Context) (forge.Grant, error) {
	const op = "read the configured token"
	secret, err := d.c.Credential(ctx)
	if err != nil {
		return forge.Grant{}, &sallyport.Error{Op: op, Code: sallyport.CodeDenied, Subject: d.web, Message: "it cannot be read", Err: err}
	}
	if secret == "" || strings.IndexFunc(secret, notToken) >= 0 && strings.ContainsAny(secret, " \t\r\n") {
		return forge.Grant{}, &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: d.web, Message: "expected one token without blanks"}
	}
	g := d.keyed(forge.Grant{Secret: secret, User: "sallyport", Class: forge.ClassConfigured})
	var user struct {
		Login string `json:"login"`
	}
	_, err = d.askAt(ctx, g, forge.Request{Op: "look whose the token is", Method: http.MethodGet, Path: "/user", Into: &user})
	var ref *forge.Refusal
	if errors.As(err, &ref) && ref.Status == http.StatusForbidden && sallyport.CodeOf(err) == sallyport.CodeDenied {
		return g, nil // good, and without the scope read:user, which it does not need
	}
	g.Identity = user.Login
	return g, err
}

// keyed adds the deploy key. The token stays: the REST interface takes no key.
func (d *Driver) keyed(g forge.Grant) forge.Grant {
	if d.c.SSH != nil {
		g.Key = d.c.SSH.Key
	}
	return g
}

// Revoke implements forge.Driver. ID may be a mark instead, for a token whose answer was lost.
func (d *Driver) Revoke(ctx context.Context, g forge.Grant) error {
	if g.Class != forge.ClassMinted {
		return nil
	}
	if d.c.Mint == nil || g.ID == "" {
		return &sallyport.Error{Op: opRevoke, Code: sallyport.CodeInvalid, Subject: d.web, Message: "it was not minted here"}
	}
	_, err := d.end(ctx, g.ID)
	return err
}

// RevokeMark ends the token that bears a mark, if there is one: its secret was in an answer that nobody got.
func (d *Driver) RevokeMark(ctx context.Context, mark string) error {
	if d.c.Mint == nil || mark == "" || strings.IndexFunc(mark[:1], isLetter) != 0 {
		return &sallyport.Error{Op: opRevoke, Code: sallyport.CodeInvalid, Subject: d.web, Message: "no token is named so"}
	}
	_, err := d.end(ctx, mark)
	return err
}

const opRevoke = "end a token"

// end deletes a token by id or name; false: there is none.
func (d *Driver) end(ctx context.Context, token string) (bool, error) {
	err := d.asUser(ctx, forge.Request{Op: opRevoke, Method: http.MethodDelete}, "/"+url.PathEscape(token))
	if sallyport.CodeOf(err) == sallyport.CodeNotFound && err != nil {
		return false, nil
	}
	return err == nil, err
}

// asUser asks about the user's tokens, which takes the password.
func (d *Driver) asUser(ctx context.Context, q forge.Request, path string) error {
	m := d.c.Mint
	password, err := m.Password(ctx)
	if err != nil {
		return &sallyport.Error{Op: q.Op, Code: sallyport.CodeDenied, Subject: d.web, Message: "the password of " + m.User + " cannot be read", Err: err}
	}
	auth := basic(m.User, password)
	q.Path, q.Subject = "/users/"+url.PathEscape(m.User)+"/tokens"+path, d.web
	q.Header, q.Secrets = http.Header{"Authorization": {auth}}, []string{password, strings.TrimPrefix(auth, "Basic ")}
	_, err = d.rest.Do(ctx, q)
	return err
}
