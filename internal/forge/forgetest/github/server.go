// Package github is a GitHub on loopback for tests: one repository with real git, an App that is installed on it, pull
// requests, labels, comments and rules, as https://docs.github.com/rest documents them (the page is named at each rule)
// and as the published OpenAPI document describes requests and answers.
package github

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/forge/forgetest/host"
	"sallyport.dev/sallyport/internal/forge/forgetest/openapi"
)

const api = "/api/v3"

// State is what can be set up. It is changed through Server.Set.
type State struct {
	Owner, Name string
	ID          int64
	Private     bool
	Archived    bool
	Admin       bool              // the token's owner administers the repository
	Granted     map[string]string // permissions of the installation
	Approvals   int               // of the pull_request rule; -1: there is no such rule
	Protected   bool              // by a branch protection of the older kind
	NoDrafts    bool
	Labels      []string
	Lag         int           // so many pull requests are refused, as if the branch were not seen yet
	Skew        time.Duration // of the forge's clock
}

// Pull is a pull request of the server.
type Pull struct {
	Number             int
	Repo               int64 // of the head
	Owner              string
	Head, Base, Tip    string
	Title, Body        string
	State              string
	Draft              bool
	Author             string
	Merged             bool
	ClosedBy, MergedBy string
	Labels, Comments   []string
	Created            time.Time
}

type token struct {
	permissions map[string]string
	expires     time.Time
}

// Server is one GitHub with one repository.
type Server struct {
	*host.Host
	Repository   string // its address
	AppID        string
	KeyFile      string
	Installation int64
	Token        string // a person's fine-grained token, of the user "person"

	t      testing.TB
	url    string
	key    *rsa.PrivateKey
	mu     sync.Mutex
	state  State
	pulls  []*Pull
	stored []Attestation
	tokens map[string]token
	minted int
}

// New starts one. What is asked of it and what it answers is held to GitHub's document, where that can be had.
func New(t testing.TB) *Server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Host: host.New(t), t: t, AppID: "Iv23app", Installation: 77, Token: "github_pat_" + rand.Text(), key: key, tokens: map[string]token{},
		KeyFile: filepath.Join(t.TempDir(), "key.pem"),
		state: State{Owner: "octo", Name: "repo", ID: 4711, Approvals: 1, Labels: []string{"agent"},
			Granted: map[string]string{"contents": "write", "pull_requests": "write", "metadata": "read"}}}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(s.KeyFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := openapi.GitHub()
	if err != nil {
		t.Logf("nothing is held to the published document: %v", err)
	}
	mux := http.NewServeMux()
	mux.Handle(api+"/", doc.Check(t, api, s.routes()))
	mux.Handle("/octo/repo.git/", s.Serve("/octo/repo.git", s.mayPush))
	server := httptest.NewServer(s.Wrap(mux))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.Repository = server.URL + "/octo/repo"
	return s
}

// Set changes what is set up.
func (s *Server) Set(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
}

// Pulls are copies of the pull requests there are.
func (s *Server) Pulls() (out []Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pulls {
		out = append(out, *p)
	}
	return out
}

// Change changes a pull request as its people would.
func (s *Server) Change(number int, f func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.pulls[number-1])
}

// Open opens one past the API; zero fields are those of an ordinary one of this repository.
func (s *Server) Open(p Pull) Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.open(p)
}

func (s *Server) open(p Pull) *Pull {
	if p.Repo == 0 {
		p.Repo, p.Owner = s.state.ID, s.state.Owner
	}
	if p.State == "" {
		p.State = "open"
	}
	if p.Tip == "" {
		p.Tip = s.Tip(p.Head)
	}
	p.Number, p.Created = len(s.pulls)+1, time.Unix(1_790_000_000+int64(len(s.pulls)), 0).UTC()
	s.pulls = append(s.pulls, &p)
	return &p
}

// Live counts the installation tokens that are still good, and Minted those that were ever made.
func (s *Server) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

// Minted counts the installation tokens that were ever made.
func (s *Server) Minted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.minted
}

// Expire ends all installation tokens.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]token{}
}

func (s *Server) now() time.Time { return time.Now().Add(s.state.Skew) }

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// actor is who asks, with a permission: an installation by its token, or a person.
// https://docs.github.com/rest/authentication/permissions-required-for-github-apps
func (s *Server) actor(w http.ResponseWriter, r *http.Request, permission, level string) (login string, ok bool) {
	given := bearer(r)
	if given == s.Token {
		return "person", true
	}
	t, ok := s.tokens[given]
	if !ok || s.now().After(t.expires) {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return "", false
	}
	if has := t.permissions[permission]; has != "write" && (has == "" || has != level) {
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
		return "", false
	}
	return "sallyport-app[bot]", true
}

func (s *Server) mayPush(user, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[password]
	return user == "x-access-token" && (password == s.Token || ok && t.permissions["contents"] == "write" && !s.now().After(t.expires))
}

// app checks what an App signs in with.
// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
func (s *Server) app(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(bearer(r), ".")
	if len(parts) != 3 {
		refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], sig) != nil {
		refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return false
	}
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	now := s.now().Unix()
	switch err := json.Unmarshal(text, &claims); {
	case err != nil || claims.Iss != s.AppID:
		refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
	case claims.Iat > now:
		refuse(w, http.StatusUnauthorized, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	case claims.Exp <= now || claims.Exp > now+600:
		refuse(w, http.StatusUnauthorized, "'Expiration time' claim ('exp') is too far in the future")
	default:
		return true
	}
	return false
}

// mint makes an installation token.
// https://docs.github.com/rest/apps/apps#create-an-installation-access-token-for-an-app
func (s *Server) mint(w http.ResponseWriter, r *http.Request) {
	if !s.app(w, r) {
		return
	}
	if r.PathValue("id") != strconv.FormatInt(s.Installation, 10) {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	var asked struct {
		Repositories []string
		IDs          []int64 `json:"repository_ids"`
		Permissions  map[string]string
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	// Left out, the token has all of the installation; that is what the driver must never do.
	if len(asked.IDs)+len(asked.Repositories) != 1 || asked.Permissions == nil {
		s.t.Errorf("a token is asked for without one repository and permissions: %+v", asked)
	}
	for _, id := range asked.IDs {
		if id != s.state.ID {
			refuse(w, http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.")
			return
		}
	}
	for p, level := range asked.Permissions {
		if has := s.state.Granted[p]; has != level && has != "write" {
			refuse(w, http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
			return
		}
	}
	given := maps.Clone(asked.Permissions)
	given["metadata"] = "read"
	// Neither form nor length is promised.
	value := "ghs_" + s.AppID + "_" + rand.Text() + "." + rand.Text() + "." + rand.Text()
	t := token{permissions: given, expires: s.now().Add(time.Hour)}
	s.tokens[value] = t
	s.minted++
	reply(w, http.StatusCreated, map[string]any{"token": value, "expires_at": t.expires.UTC().Format(time.RFC3339), "permissions": given,
		"repository_selection": "selected", "repositories": []any{s.short(s.state.ID, s.state.Owner)}})
}

// revoke ends the token that asks. https://docs.github.com/rest/apps/installations#revoke-an-installation-access-token
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.tokens[bearer(r)]; !ok {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	delete(s.tokens, bearer(r))
	w.WriteHeader(http.StatusNoContent)
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, message string, errs ...map[string]any) {
	body := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	if len(errs) > 0 {
		body["errors"] = errs
	}
	reply(w, code, body)
}

func number(r *http.Request) int {
	n, _ := strconv.Atoi(r.PathValue("number"))
	return n
}

func link(r *http.Request, page int) string {
	q := r.URL.Query()
	q.Set("page", strconv.Itoa(page))
	return fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode())
}

// OtherKey is a key that is not the App's.
func OtherKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
