// Package gitlab is a GitLab on loopback for tests: one project with real git, a bot's token, an owner's, project access
// tokens, merge requests, labels and notes.
//
// GitLab publishes an OpenAPI document (doc/api/openapi/openapi_v3.yaml in its repository), but no package carries it, and
// its repository is too large to fetch for a test. So the documentation's page is named at each rule, and a request with
// an attribute that the page does not have fails the test.
package gitlab

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

const api = "/api/v4"

// State is what can be set up. It is changed through Server.Set.
type State struct {
	Path               string // with its group
	ID                 int64
	Visibility         string
	Archived           bool
	MergeRequests      string // enabled, disabled
	Level              int    // role of the bot
	BotScopes          []string
	Protected, CanPush bool // of main
	DevelopersMerge    bool
	Approvals          int // -1: the plan has no rules
	Labels             []string
	Lag                int  // so many merge requests are refused, as if the branch were not seen yet
	German             bool // it speaks so
}

// Request is a merge request of the server.
type Request struct {
	IID                int
	SourceID           int64
	Source, Target     string
	SHA                string
	Title, Description string
	State              string
	Author             string
	ClosedBy, MergedBy string
	Labels, Notes      []string
	Created            time.Time
}

type token struct {
	ID      int
	Name    string
	Value   string
	Scopes  []string
	Level   int
	Expires string
	Revoked bool
}

// Server is one GitLab with one project.
type Server struct {
	*host.Host
	Project string // its address
	Bot     string // a token of the user "bot"
	Owner   string // a personal token of a maintainer

	t        testing.TB
	url      string
	mu       sync.Mutex
	state    State
	requests []*Request
	tokens   []*token
	acted    []string
}

// New starts one.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{Host: host.New(t), t: t, Bot: "glpat-" + rand.Text(), Owner: "glpat-" + rand.Text(), state: State{Path: "octo/sub/repo", ID: 4711,
		Visibility: "private", MergeRequests: "enabled", Level: 30, BotScopes: []string{"api"}, Protected: true, Approvals: -1, Labels: []string{"agent"}}}
	mux := http.NewServeMux()
	mux.Handle(api+"/", s.routes())
	mux.Handle("/octo/sub/repo.git/", s.Serve("/octo/sub/repo.git", s.mayPush))
	server := httptest.NewServer(s.Wrap(mux))
	t.Cleanup(server.Close)
	s.url, s.Project = server.URL, server.URL+"/octo/sub/repo"
	return s
}

// Set changes what is set up.
func (s *Server) Set(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
}

// Requests are copies of the merge requests there are.
func (s *Server) Requests() (out []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
}

// Change changes a merge request as its people would.
func (s *Server) Change(iid int, f func(*Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.requests[iid-1])
}

// Open opens one past the API; zero fields are those of an ordinary one of this project.
func (s *Server) Open(r Request) Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.open(r)
}

func (s *Server) open(r Request) *Request {
	if r.SourceID == 0 {
		r.SourceID = s.state.ID
	}
	if r.State == "" {
		r.State = "opened"
	}
	if r.SHA == "" {
		r.SHA = s.Tip(r.Source)
	}
	r.IID, r.Created = len(s.requests)+1, time.Unix(1_790_000_000+int64(len(s.requests)), 0).UTC()
	s.requests = append(s.requests, &r)
	return &r
}

// Acted are the quick actions that texts had carried out.
func (s *Server) Acted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acted)
}

// Live are the names of the project access tokens that are good.
func (s *Server) Live() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if !t.Revoked {
			names = append(names, t.Name)
		}
	}
	return names
}

// actor is who asks, if the role is enough. https://docs.gitlab.com/api/rest/authentication/
func (s *Server) actor(w http.ResponseWriter, r *http.Request, level int) (login string, ok bool) {
	given := r.Header.Get("Private-Token")
	if r.URL.Query().Has("private_token") || r.URL.Query().Has("access_token") {
		s.t.Error("a token is in an address")
	}
	login, has := "", 0
	switch given {
	case s.Bot:
		login, has = "bot", s.state.Level
	case s.Owner:
		login, has = "owner", 40
	default:
		for _, t := range s.tokens {
			if t.Value == given && !t.Revoked {
				// https://docs.gitlab.com/user/project/settings/project_access_tokens/#bot-users-for-projects
				login, has = fmt.Sprintf("project_%d_bot_%d", s.state.ID, t.ID), t.Level
			}
		}
	}
	switch {
	case login == "":
		refuse(w, http.StatusUnauthorized, "401 Unauthorized")
	case has < level:
		refuse(w, http.StatusForbidden, "403 Forbidden")
	default:
		return login, true
	}
	return "", false
}

func (s *Server) mayPush(user, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return user != "" && (password == s.Bot || slices.ContainsFunc(s.tokens, func(t *token) bool { return t.Value == password && !t.Revoked }))
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, message any) {
	reply(w, code, map[string]any{"message": message})
}

// read takes a request's attributes; one that its page does not have fails the test.
func (s *Server) read(r *http.Request, into any, known ...string) {
	var all map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	for name := range all {
		if !slices.Contains(known, name) {
			s.t.Errorf("%s %s has the attribute %q", r.Method, r.URL.Path, name)
		}
	}
	text, _ := json.Marshal(all) // from JSON
	if err := json.Unmarshal(text, into); err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

func (s *Server) query(r *http.Request, known ...string) {
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			s.t.Errorf("%s %s has the parameter %q", r.Method, r.URL.Path, name)
		}
	}
}

// page cuts a list. https://docs.gitlab.com/api/rest/#offset-based-pagination
func page(w http.ResponseWriter, r *http.Request, list []any) {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	if size == 0 {
		size = 20
	}
	n = max(n, 1)
	from := min((n-1)*size, len(list))
	to := min(from+size, len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(n + 1)
	}
	w.Header().Set("X-Next-Page", next)
	reply(w, http.StatusOK, append([]any{}, list[from:to]...))
}

// quick is a quick action: https://docs.gitlab.com/user/project/quick_actions/, found as lib/gitlab/quick_actions/extractor.rb
// does in its repository: all \r are taken out first, and case does not count.
var quick = regexp.MustCompile(`(?im)^/(approve|assign|close|label|merge|reopen)( [^\n]*)?(\s*\n|$)`)

// act carries out the quick actions of a text and gives what is left of it.
func (s *Server) act(text string) string {
	text = strings.ReplaceAll(text, "\r", "")
	for _, m := range quick.FindAllStringSubmatch(text, -1) {
		s.acted = append(s.acted, m[1])
	}
	return quick.ReplaceAllString(text, "")
}

// draft reads a title. https://docs.gitlab.com/user/project/merge_requests/drafts/
var draft = regexp.MustCompile(`(?i)^\s*(\[draft\]|\(draft\)|draft:)`)

func who(login string) any {
	if login == "" {
		return nil
	}
	return map[string]any{"id": 7, "username": login, "name": login, "state": "active"}
}

// object is a merge request as https://docs.gitlab.com/api/merge_requests/ shows it.
func (s *Server) object(r *Request) map[string]any {
	if tip := s.Tip(r.Source); r.State == "opened" && r.SourceID == s.state.ID && tip != "" {
		r.SHA = tip
	}
	return map[string]any{"id": 1000 + r.IID, "iid": r.IID, "project_id": s.state.ID, "title": r.Title, "description": r.Description, "state": r.State,
		"created_at": r.Created.Format("2006-01-02T15:04:05.000Z"), "target_branch": r.Target, "source_branch": r.Source, "author": who(r.Author),
		"source_project_id": r.SourceID, "target_project_id": s.state.ID, "labels": r.Labels, "draft": draft.MatchString(r.Title),
		"merge_user": who(r.MergedBy), "merged_by": who(r.MergedBy), "closed_by": who(r.ClosedBy), "sha": r.SHA,
		"merge_when_pipeline_succeeds": false, "web_url": fmt.Sprintf("%s/-/merge_requests/%d", s.Project, r.IID)}
}

// says picks the forge's language: messages are translated, statuses are not.
func (s *Server) says(english, german string) []string {
	if s.state.German {
		return []string{german}
	}
	return []string{english}
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
