package credential

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/githubapp"
)

const (
	publicAPI = "https://api.github.com"
	// TokenLife is how long an installation token lives; nothing can change it but revoking it.
	TokenLife = time.Hour
	// renewBefore: a token this close to its end is not given out any more.
	renewBefore = 5 * time.Minute
	clockSkew   = 5 * time.Minute
	maxAnswer   = 1 << 20
)

// Token is a minted token and what is needed to revoke it after a restart. It is written only sealed.
type Token struct {
	BaseURL string    `json:"base_url"`
	Value   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Held is what a Ledger knows of one token.
type Held struct {
	ID    string
	Token Token
}

// Ledger keeps tokens beyond the life of this process. Each method returns once what it says is on disk.
type Ledger interface {
	// Intend gives a fresh id; it is called before anything is asked of the forge.
	Intend(ctx context.Context, name, baseURL string) (id string, err error)
	// Minted seals the token and records it; only then is the token given to anybody.
	Minted(ctx context.Context, id string, t Token) error
	// Held is the newest token of this name that an earlier process minted for the same Attempt and nobody has
	// revoked; ok is false where there is none.
	Held(ctx context.Context, name string) (h Held, ok bool, err error)
	// Ending is called before a token is revoked, Gone once it is not valid any more (or never was), Failed where
	// that is not known: somebody has to try again.
	Ending(ctx context.Context, id string) error
	Gone(ctx context.Context, id, proof string) error
	Failed(ctx context.Context, id, why string) error
}

// minted is the token that a Set has now.
type minted struct {
	id    string
	token Token
}

// mint gives the Attempt's token: the one that is there while it has time left, else a new one. The old one is
// revoked first, so that there is never more than one.
func (s *Set) mint(ctx context.Context, e *entry) (Secret, error) {
	if e.minted.id == "" {
		h, ok, err := s.deps.Ledger.Held(ctx, e.Name)
		if err != nil {
			return Secret{}, err
		}
		if ok {
			e.minted = minted{h.ID, h.Token}
		}
	}
	if e.minted.id != "" {
		if e.minted.token.BaseURL == baseOf(e.Source.GitHubApp) && s.deps.Now().Before(e.minted.token.Expires.Add(-renewBefore)) {
			return usable(e.Name, []byte(e.minted.token.Value))
		}
		// Where it cannot be revoked now the Ledger knows, and it ends by itself within minutes.
		_ = s.revoke(ctx, e.minted)
		e.minted = minted{}
	}
	id, err := s.deps.Ledger.Intend(ctx, e.Name, baseOf(e.Source.GitHubApp))
	if err != nil {
		return Secret{}, err
	}
	t, made, err := s.ask(ctx, e)
	if err != nil {
		// The outcome is recorded whoever waits for it.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), githubapp.Life)
		defer cancel()
		return Secret{}, errors.Join(err, s.unusable(rctx, id, t, made, err))
	}
	if err := s.hear(e, e.Name, Secretly(t.Value)); err != nil {
		return Secret{}, errors.Join(err, s.unusable(context.WithoutCancel(ctx), id, t, madeUnkept, err))
	}
	if err := s.deps.Ledger.Minted(ctx, id, t); err != nil {
		return Secret{}, errors.Join(err, s.unusable(context.WithoutCancel(ctx), id, t, madeUnkept, err))
	}
	e.minted = minted{id, t}
	return usable(e.Name, []byte(t.Value))
}

// made says what is known of a token after a request.
type made int

const (
	madeUnknown made = iota // the forge may have made one that we never saw
	madeNone                // the forge said no
	madeUnkept              // there is one, and it is not to be used
	madeKept                // there is one, as asked for
)

// unusable records how a mint ended that gave nothing to use.
func (s *Set) unusable(ctx context.Context, id string, t Token, m made, why error) error {
	switch m {
	case madeNone:
		return s.deps.Ledger.Gone(ctx, id, "the forge made none: "+why.Error())
	case madeUnkept:
		return s.revokeUnkept(ctx, id, t)
	}
	return s.deps.Ledger.Failed(ctx, id, "it is not known whether the forge made one; it would end by itself: "+why.Error())
}

// revokeUnkept ends a token that nobody was given, also where the Ledger can write nothing: nobody else knows it.
func (s *Set) revokeUnkept(ctx context.Context, id string, t Token) error {
	ending := s.deps.Ledger.Ending(ctx, id)
	proof, err := end(ctx, s.deps.Client, t)
	switch {
	case ending != nil:
		return errors.Join(err, ending)
	case err != nil:
		return errors.Join(err, s.deps.Ledger.Failed(ctx, id, err.Error()))
	}
	return s.deps.Ledger.Gone(ctx, id, proof)
}

func baseOf(app *sallyport.GitHubApp) string {
	if app.BaseURL != "" {
		return app.BaseURL
	}
	return publicAPI
}

// ask mints one token and holds the answer to what was asked.
func (s *Set) ask(ctx context.Context, e *entry) (t Token, m made, err error) {
	app := e.Source.GitHubApp
	if err := readsOnly(e.Name, app.Permissions); err != nil {
		return t, madeNone, err
	}
	if len(app.Repositories) == 0 {
		return t, madeNone, failure(sallyport.CodeInvalid, e.Name, "no repository is named: the token would reach all of them", "")
	}
	jwt, err := s.jwt(e)
	if err != nil {
		return t, madeNone, err
	}
	body, err := json.Marshal(map[string]any{"repositories": app.Repositories, "permissions": app.Permissions})
	if err != nil {
		return t, madeNone, err
	}
	status, answer, err := s.call(ctx, http.MethodPost, baseOf(app)+"/app/installations/"+strconv.FormatInt(app.Installation, 10)+"/access_tokens", jwt, body)
	switch {
	case err != nil:
		return t, madeUnknown, failure(sallyport.CodeUnavailable, e.Name, "the forge did not answer: "+err.Error(), "")
	case status == http.StatusUnauthorized:
		return t, madeNone, failure(sallyport.CodeDenied, e.Name, "the forge does not know the App by its key (401)", "look at app and key, and at this machine's clock")
	case status == http.StatusNotFound:
		return t, madeNone, failure(sallyport.CodeDenied, e.Name, fmt.Sprintf("the App has no installation %d (404)", app.Installation), "look at installation")
	case status == http.StatusUnprocessableEntity:
		return t, madeNone, failure(sallyport.CodeDenied, e.Name, "the installation does not reach these repositories, or has not these permissions (422)", "look at repositories and permissions; the forge does not say which")
	case status >= 400 && status < 500:
		return t, madeNone, failure(sallyport.CodeDenied, e.Name, fmt.Sprintf("the forge refuses (%d)", status), "")
	case status != http.StatusCreated:
		return t, madeUnknown, failure(sallyport.CodeUnavailable, e.Name, fmt.Sprintf("the forge answers %d; expected 201", status), "")
	}
	return s.compare(e, answer)
}

// grant is the forge's answer. What else is in it does not matter.
type grant struct {
	Token        string
	Expires      time.Time
	Permissions  map[string]string
	Selection    string
	Repositories []map[string]any
}

// grantOf reads an answer by its exact keys: encoding/json fills a struct from "Permissions" too.
func grantOf(answer []byte) (g grant, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(answer, &all); err != nil {
		return g, err
	}
	var errs []error
	for key, out := range map[string]any{"token": &g.Token, "expires_at": &g.Expires, "permissions": &g.Permissions, "repository_selection": &g.Selection, "repositories": &g.Repositories} {
		if raw, ok := all[key]; ok {
			errs = append(errs, json.Unmarshal(raw, out))
		}
	}
	return g, errors.Join(errs...)
}

// compare refuses a token that can do more or other things than what was asked for. metadata: read comes with every
// token.
func (s *Set) compare(e *entry, answer []byte) (Token, made, error) {
	app := e.Source.GitHubApp
	g, err := grantOf(answer)
	if g.Token == "" {
		return Token{}, madeUnknown, failure(sallyport.CodeUnavailable, e.Name, "the forge's answer cannot be read", "")
	}
	now := s.deps.Now()
	// Until the answer is believed its end is not either: a token that is refused must be revoked whatever it says.
	t := Token{BaseURL: baseOf(app), Value: g.Token, Expires: now.Add(TokenLife)}
	refuse := func(format string, args ...any) (Token, made, error) {
		return t, madeUnkept, failure(sallyport.CodeDenied, e.Name, "the forge gave another token than was asked for: "+fmt.Sprintf(format, args...), "it was revoked; look at the App's installation")
	}
	if err != nil {
		return refuse("its answer cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(g.Permissions)) {
		level := g.Permissions[name]
		if _, asked := app.Permissions[name]; level != "read" || !asked && name != "metadata" {
			return refuse("permission %.40q is %.20q", name, level)
		}
	}
	for name := range app.Permissions {
		if g.Permissions[name] != "read" {
			return refuse("permission %q is missing", name)
		}
	}
	if g.Selection != "" && g.Selection != "selected" {
		return refuse("it is for %.20q repositories", g.Selection)
	}
	got := []string{}
	for _, r := range g.Repositories {
		name, _ := r["name"].(string)
		got = append(got, strings.ToLower(name))
	}
	want := []string{}
	for _, name := range app.Repositories {
		want = append(want, strings.ToLower(name))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return refuse("it is for %d repositories of %d asked for, or for others", len(got), len(want))
	}
	if !g.Expires.After(now) || g.Expires.After(now.Add(TokenLife+clockSkew)) {
		return refuse("it ends at %s; expected within the hour", g.Expires.UTC().Format(time.RFC3339))
	}
	if _, err := usable(e.Name, []byte(g.Token)); err != nil {
		return t, madeUnkept, err
	}
	t.Expires = g.Expires
	return t, madeKept, nil
}

func readsOnly(name string, permissions map[string]string) error {
	for _, p := range slices.Sorted(maps.Keys(permissions)) {
		if permissions[p] != "read" {
			return failure(sallyport.CodeDenied, name, fmt.Sprintf("permission %q is %q; an agent is given read alone", p, permissions[p]), "")
		}
	}
	if len(permissions) == 0 {
		return failure(sallyport.CodeInvalid, name, "no permission is named: the token would have all of them", "")
	}
	return nil
}

// jwt signs in as the App.
func (s *Set) jwt(e *entry) (string, error) {
	key, err := s.appKey(e)
	if err != nil {
		return "", err
	}
	jwt, err := githubapp.Sign(key, e.Source.GitHubApp.App, s.deps.Now())
	if err != nil {
		return "", failure(sallyport.CodeInvalid, e.Name, err.Error(), "")
	}
	return jwt, nil
}

func (s *Set) appKey(e *entry) (*rsa.PrivateKey, error) {
	b, _, err := readOwn(e.Name, inHome(s.deps.Home, e.Source.GitHubApp.KeyFile), maxFile)
	if err != nil {
		return nil, err
	}
	key, err := githubapp.Key(b)
	if err != nil {
		return nil, failure(sallyport.CodeInvalid, e.Name, "the App's key is "+err.Error(), "download one in the App's settings")
	}
	return key, s.hear(e, e.Name+".key", Secretly(strings.TrimSpace(string(b))))
}

// call is one request to a forge. Its error names no header.
func (s *Set) call(ctx context.Context, method, url, bearer string, body []byte) (status int, answer []byte, err error) {
	return call(ctx, s.deps.Client, method, url, bearer, body)
}

func call(ctx context.Context, client *http.Client, method, url, bearer string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "sallyport")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return do(client, req)
}

func do(client *http.Client, req *http.Request) (status int, answer []byte, err error) {
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return res.StatusCode, b, err
}

func (s *Set) revoke(ctx context.Context, m minted) error {
	return Revoke(ctx, s.deps.Client, s.deps.Ledger, Held{m.id, m.token}, s.deps.Now())
}

// Revoke ends a token at its forge and tells the Ledger: Ending before, Gone or Failed after. It may be repeated, by
// any process. A token that the forge does not know any more is gone. client may be nil; no redirect is followed.
func Revoke(ctx context.Context, client *http.Client, l Ledger, h Held, now time.Time) error {
	if err := l.Ending(ctx, h.ID); err != nil {
		return err
	}
	if now.After(h.Token.Expires.Add(clockSkew)) {
		return l.Gone(ctx, h.ID, "it ended by itself at "+h.Token.Expires.UTC().Format(time.RFC3339))
	}
	proof, err := end(ctx, guarded(client), h.Token)
	if err != nil {
		return errors.Join(err, l.Failed(ctx, h.ID, err.Error()))
	}
	return l.Gone(ctx, h.ID, proof)
}

func end(ctx context.Context, client *http.Client, t Token) (proof string, err error) {
	var status int
	for try := range 3 {
		if try > 0 {
			select {
			case <-ctx.Done():
				return "", failure(sallyport.CodeUnavailable, "revoke", "not revoked in time", "`sallyport reconcile` tries again")
			case <-time.After(time.Duration(try) * 300 * time.Millisecond):
			}
		}
		status, _, err = call(ctx, client, http.MethodDelete, t.BaseURL+"/installation/token", t.Value, nil)
		switch {
		case err == nil && status == http.StatusNoContent:
			return "the forge has revoked it (204)", nil
		case err == nil && status == http.StatusUnauthorized:
			return "the forge does not take it any more (401)", nil
		}
	}
	why := fmt.Sprintf("the forge answers %d to revoking; expected 204", status)
	if err != nil {
		why = "the forge did not answer to revoking: " + err.Error()
	}
	return "", failure(sallyport.CodeUnavailable, "revoke", why, "`sallyport reconcile` tries again")
}
