package gitlab

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, f http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+api+path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if id := r.PathValue("id"); id == "" || id == strconv.FormatInt(s.state.ID, 10) || id == s.state.Path {
				f(w, r)
				return
			}
			// https://docs.gitlab.com/user/project/repository/#repository-path-changes
			if r.PathValue("id") == "octo/sub/repo" && r.Method == http.MethodGet {
				w.Header().Set("Location", fmt.Sprintf("%s%s/projects/%d", s.url, api, s.state.ID))
				reply(w, http.StatusMovedPermanently, map[string]any{"message": "This resource has been moved"})
				return
			}
			refuse(w, http.StatusNotFound, "404 Project Not Found")
		})
	}
	const p = "/projects/{id}"
	add("GET /user", s.getUser)
	add("GET /personal_access_tokens/self", s.getSelf)
	add("GET "+p, s.getProject)
	add("GET "+p+"/repository/branches/{branch}", s.getBranch)
	add("GET "+p+"/approval_rules", s.getRules)
	add("GET "+p+"/labels/{name}", s.getLabel)
	add("GET "+p+"/access_tokens", s.listTokens)
	add("POST "+p+"/access_tokens", s.createToken)
	add("DELETE "+p+"/access_tokens/{token}", s.revokeToken)
	add("GET "+p+"/merge_requests", s.listRequests)
	add("POST "+p+"/merge_requests", s.createRequest)
	add("GET "+p+"/merge_requests/{iid}", s.getRequest)
	add("PUT "+p+"/merge_requests/{iid}", s.putRequest)
	add("GET "+p+"/merge_requests/{iid}/notes", s.listNotes)
	add("POST "+p+"/merge_requests/{iid}/notes", s.createNote)
	return mux
}

// https://docs.gitlab.com/api/users/#retrieve-the-current-user
func (s *Server) getUser(w http.ResponseWriter, r *http.Request) {
	if login, ok := s.actor(w, r, 0); ok {
		reply(w, http.StatusOK, who(login))
	}
}

// https://docs.gitlab.com/api/personal_access_tokens/#self-inform
func (s *Server) getSelf(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 0); ok {
		reply(w, http.StatusOK, map[string]any{"id": 1, "name": "bot", "scopes": s.state.BotScopes, "expires_at": "2027-02-03", "active": true, "revoked": false})
	}
}

// https://docs.gitlab.com/api/projects/#retrieve-a-project
func (s *Server) getProject(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 10); !ok {
		return
	}
	reply(w, http.StatusOK, map[string]any{"id": s.state.ID, "path_with_namespace": s.state.Path, "visibility": s.state.Visibility, "archived": s.state.Archived,
		"merge_requests_access_level": s.state.MergeRequests, "default_branch": "main", "web_url": s.Project,
		"permissions": map[string]any{"project_access": map[string]any{"access_level": s.state.Level, "notification_level": 3}, "group_access": nil}})
}

// https://docs.gitlab.com/api/branches/#get-single-repository-branch
func (s *Server) getBranch(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 20); !ok {
		return
	}
	name := r.PathValue("branch")
	tip := s.Tip(name)
	if tip == "" {
		refuse(w, http.StatusNotFound, "404 Branch Not Found")
		return
	}
	main := name == "main"
	reply(w, http.StatusOK, map[string]any{"name": name, "merged": false, "protected": main && s.state.Protected, "default": main,
		"developers_can_push": false, "developers_can_merge": s.state.DevelopersMerge, "can_push": !main || s.state.CanPush, "commit": map[string]any{"id": tip}})
}

// getRules is for Premium. https://docs.gitlab.com/api/merge_request_approvals/#get-all-approval-rules-for-project
func (s *Server) getRules(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 20); !ok {
		return
	}
	if s.state.Approvals < 0 {
		refuse(w, http.StatusNotFound, "404 Not Found")
		return
	}
	reply(w, http.StatusOK, []any{map[string]any{"id": 1, "name": "All Members", "rule_type": "any_approver", "approvals_required": s.state.Approvals}})
}

// https://docs.gitlab.com/api/labels/#get-a-single-project-label
func (s *Server) getLabel(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 20); !ok {
		return
	}
	if name := r.PathValue("name"); slices.Contains(s.state.Labels, name) {
		reply(w, http.StatusOK, map[string]any{"id": 3, "name": name})
		return
	}
	refuse(w, http.StatusNotFound, "404 Label Not Found")
}

// https://docs.gitlab.com/api/project_access_tokens/#list-all-project-access-tokens
func (s *Server) listTokens(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 40); !ok {
		return
	}
	s.query(r, "search", "state", "page", "per_page", "revoked", "sort")
	out := []any{}
	for _, t := range s.tokens {
		if strings.Contains(t.Name, r.URL.Query().Get("search")) && (r.URL.Query().Get("state") != "active" || !t.Revoked) {
			out = append(out, t.object())
		}
	}
	page(w, r, out)
}

func (t *token) object() map[string]any {
	return map[string]any{"id": t.ID, "name": t.Name, "scopes": t.Scopes, "access_level": t.Level, "expires_at": t.Expires, "active": !t.Revoked, "revoked": t.Revoked,
		"user_id": 100 + t.ID, "created_at": "2026-11-01T12:00:00.000Z", "last_used_at": nil}
}

// createToken is for personal tokens only; the role is Maintainer where none is asked for.
// https://docs.gitlab.com/api/project_access_tokens/#create-a-project-access-token
func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 40); !ok {
		return
	}
	t := &token{ID: 50 + len(s.tokens), Level: 40, Value: "glpat-" + rand.Text()}
	var asked struct {
		Name    string
		Scopes  []string
		Level   int    `json:"access_level"`
		Expires string `json:"expires_at"`
	}
	s.read(r, &asked, "name", "description", "scopes", "access_level", "expires_at")
	if asked.Level != 0 {
		t.Level = asked.Level
	}
	t.Name, t.Scopes, t.Expires = asked.Name, asked.Scopes, asked.Expires
	if end, err := time.Parse(time.DateOnly, t.Expires); err != nil || !end.After(time.Now()) || t.Name == "" || len(t.Scopes) == 0 {
		refuse(w, http.StatusBadRequest, "expires_at is invalid")
		return
	}
	s.tokens = append(s.tokens, t)
	out := t.object()
	out["token"] = t.Value
	reply(w, http.StatusCreated, out)
}

// https://docs.gitlab.com/api/project_access_tokens/#revoke-a-project-access-token
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 40); !ok {
		return
	}
	for _, t := range s.tokens {
		if strconv.Itoa(t.ID) == r.PathValue("token") && !t.Revoked {
			t.Revoked = true
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	refuse(w, http.StatusNotFound, "404 Could not find project access token")
}

// listRequests filters by names: the same branch of a fork passes.
// https://docs.gitlab.com/api/merge_requests/#list-project-merge-requests
func (s *Server) listRequests(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, 20); !ok {
		return
	}
	s.query(r, "source_branch", "target_branch", "state", "scope", "order_by", "sort", "page", "per_page")
	q := r.URL.Query()
	out := []any{}
	for _, m := range s.requests {
		if (q.Get("source_branch") == "" || q.Get("source_branch") == m.Source) && (q.Get("target_branch") == "" || q.Get("target_branch") == m.Target) &&
			(q.Get("state") == "" || q.Get("state") == "all" || q.Get("state") == m.State) {
			out = append(out, s.object(m))
		}
	}
	if q.Get("sort") != "asc" {
		slices.Reverse(out)
	}
	page(w, r, out)
}

// createRequest opens one. One source and target have one open merge request (409, whatever the language). A target that
// is not there is no error: https://gitlab.com/gitlab-org/gitlab/-/work_items/591660
// https://docs.gitlab.com/api/merge_requests/#create-mr
func (s *Server) createRequest(w http.ResponseWriter, r *http.Request) {
	login, ok := s.actor(w, r, 30)
	if !ok {
		return
	}
	var asked struct {
		Source      string `json:"source_branch"`
		Target      string `json:"target_branch"`
		Title       string
		Description string
		Labels      string
	}
	// Those that merge, or let others push, are left out on purpose.
	s.read(r, &asked, "source_branch", "target_branch", "title", "description", "labels")
	switch {
	case s.state.Lag > 0:
		s.state.Lag--
		refuse(w, http.StatusBadRequest, s.says(fmt.Sprintf("Source branch %q does not exist", asked.Source), "Der Quellbranch existiert nicht"))
		return
	case s.Tip(asked.Source) == "":
		refuse(w, http.StatusBadRequest, s.says(fmt.Sprintf("Source branch %q does not exist", asked.Source), "Der Quellbranch existiert nicht"))
		return
	case asked.Source == asked.Target:
		refuse(w, http.StatusUnprocessableEntity, []string{"You can't use same project/branch for source and target"})
		return
	case asked.Title == "" || len(asked.Title) > 255:
		refuse(w, http.StatusBadRequest, map[string]any{"title": []string{"is invalid"}})
		return
	}
	for _, m := range s.requests {
		if m.SourceID == s.state.ID && m.Source == asked.Source && m.Target == asked.Target && m.State == "opened" {
			refuse(w, http.StatusConflict, s.says(fmt.Sprintf("Another open merge request already exists for this source branch: !%d", m.IID), "Ein anderer ist offen"))
			return
		}
	}
	s.make(list(asked.Labels))
	m := s.open(Request{Source: asked.Source, Target: asked.Target, Title: asked.Title, Description: s.act(asked.Description), Author: login, Labels: list(asked.Labels)})
	reply(w, http.StatusCreated, s.object(m))
}

// make has the labels that are named and are not there made, as GitLab does.
func (s *Server) make(labels []string) {
	for _, l := range labels {
		if !slices.Contains(s.state.Labels, l) {
			s.state.Labels = append(s.state.Labels, l)
		}
	}
}

// add puts a label on, in the place of another one of its scope. https://docs.gitlab.com/user/project/labels/#scoped-labels
func (r *Request) add(label string) {
	if scope := strings.LastIndex(label, "::"); scope > 0 {
		r.Labels = slices.DeleteFunc(r.Labels, func(l string) bool { return strings.LastIndex(l, "::") == scope && l[:scope] == label[:scope] })
	}
	if !slices.Contains(r.Labels, label) {
		r.Labels = append(r.Labels, label)
	}
}

func (s *Server) find(w http.ResponseWriter, r *http.Request, level int) (m *Request, login string) {
	login, ok := s.actor(w, r, level)
	if !ok {
		return nil, ""
	}
	if n, err := strconv.Atoi(r.PathValue("iid")); err == nil && n > 0 && n <= len(s.requests) {
		return s.requests[n-1], login
	}
	refuse(w, http.StatusNotFound, "404 Not found")
	return nil, ""
}

func (s *Server) getRequest(w http.ResponseWriter, r *http.Request) {
	if m, _ := s.find(w, r, 20); m != nil {
		reply(w, http.StatusOK, s.object(m))
	}
}

// https://docs.gitlab.com/api/merge_requests/#update-mr
func (s *Server) putRequest(w http.ResponseWriter, r *http.Request) {
	m, login := s.find(w, r, 30)
	if m == nil {
		return
	}
	var to struct {
		Title, Description *string
		Event              string `json:"state_event"`
		Add                string `json:"add_labels"`
	}
	s.read(r, &to, "title", "description", "state_event", "add_labels")
	s.make(list(to.Add))
	for _, l := range list(to.Add) {
		m.add(l)
	}
	if to.Title != nil {
		m.Title = *to.Title
	}
	if to.Description != nil {
		m.Description = s.act(*to.Description)
	}
	if to.Event == "close" && m.State == "opened" {
		m.State, m.ClosedBy = "closed", login
	}
	reply(w, http.StatusOK, s.object(m))
}

// https://docs.gitlab.com/api/notes/#list-all-merge-request-notes
func (s *Server) listNotes(w http.ResponseWriter, r *http.Request) {
	m, _ := s.find(w, r, 20)
	if m == nil {
		return
	}
	out := []any{map[string]any{"id": 1, "body": "added 1 commit", "system": true}}
	for i, n := range m.Notes {
		out = append(out, map[string]any{"id": 2 + i, "body": n, "system": false})
	}
	page(w, r, out)
}

// https://docs.gitlab.com/api/notes/#create-new-merge-request-note
func (s *Server) createNote(w http.ResponseWriter, r *http.Request) {
	m, login := s.find(w, r, 20)
	if m == nil {
		return
	}
	var n struct{ Body string }
	s.read(r, &n, "body")
	m.Notes = append(m.Notes, s.act(n.Body))
	reply(w, http.StatusCreated, map[string]any{"id": 2 + len(m.Notes), "body": n.Body, "author": who(login), "system": false})
}
