package github

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, f http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+api+path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if r.PathValue("repo") != "" && !s.here(w, r) {
				return
			}
			w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
			f(w, r)
		})
	}
	const repo = "/repos/{owner}/{repo}"
	add("GET /app", s.getApp)
	add("GET /user", s.getUser)
	add("GET "+repo+"/installation", s.getInstallation)
	add("POST /app/installations/{id}/access_tokens", s.mint)
	add("DELETE /installation/token", s.revoke)
	add("GET "+repo, s.getRepository)
	add("GET "+repo+"/branches/{branch}", s.getBranch)
	add("GET "+repo+"/rules/branches/{branch}", s.getRules)
	add("GET "+repo+"/pulls", s.listPulls)
	add("POST "+repo+"/pulls", s.createPull)
	add("GET "+repo+"/pulls/{number}", s.getPull)
	add("PATCH "+repo+"/pulls/{number}", s.patchPull)
	add("GET "+repo+"/labels/{name}", s.getLabel)
	add("POST "+repo+"/issues/{number}/labels", s.addLabels)
	add("GET "+repo+"/issues/{number}", s.getIssue)
	add("GET "+repo+"/issues/{number}/comments", s.listComments)
	add("POST "+repo+"/issues/{number}/comments", s.addComment)
	add("POST "+repo+"/attestations", s.attest)
	add("GET "+repo+"/attestations/{digest}", s.listAttestations)
	return mux
}

// here answers for a repository that is not there, or has moved.
// https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
func (s *Server) here(w http.ResponseWriter, r *http.Request) bool {
	owner, name := r.PathValue("owner"), r.PathValue("repo")
	switch {
	case strings.EqualFold(owner, s.state.Owner) && strings.EqualFold(name, s.state.Name):
		return true
	case owner == "octo" && name == "repo": // its first name
		to := fmt.Sprintf("%s%s/repositories/%d", s.url, api, s.state.ID)
		w.Header().Set("Location", to)
		reply(w, http.StatusMovedPermanently, map[string]any{"message": "Moved Permanently", "url": to, "documentation_url": "https://docs.github.com/rest"})
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
	return false
}

func (s *Server) getApp(w http.ResponseWriter, r *http.Request) {
	if s.app(w, r) {
		reply(w, http.StatusOK, s.integration())
	}
}

// https://docs.github.com/rest/users/users#get-the-authenticated-user
func (s *Server) getUser(w http.ResponseWriter, r *http.Request) {
	if bearer(r) != s.Token {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	w.Header().Set("GitHub-Authentication-Token-Expiration", "2027-01-02 03:04:05 UTC")
	reply(w, http.StatusOK, s.publicUser("person"))
}

// https://docs.github.com/rest/apps/apps#get-a-repository-installation-for-the-authenticated-app
func (s *Server) getInstallation(w http.ResponseWriter, r *http.Request) {
	if s.app(w, r) {
		reply(w, http.StatusOK, s.installation())
	}
}

func (s *Server) getRepository(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "metadata", "read"); ok {
		reply(w, http.StatusOK, s.full())
	}
}

// https://docs.github.com/rest/branches/branches#get-a-branch
func (s *Server) getBranch(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "contents", "read"); !ok {
		return
	}
	branch := r.PathValue("branch")
	tip := s.Tip(branch)
	if tip == "" {
		refuse(w, http.StatusNotFound, "Branch not found")
		return
	}
	reply(w, http.StatusOK, s.branch(branch, tip))
}

// https://docs.github.com/rest/repos/rules#get-rules-for-a-branch
func (s *Server) getRules(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "metadata", "read"); !ok {
		return
	}
	rules := []any{}
	if s.state.Approvals >= 0 {
		rules = append(rules, rule("deletion", nil), rule("pull_request", map[string]any{
			"required_approving_review_count": s.state.Approvals, "dismiss_stale_reviews_on_push": true, "require_code_owner_review": false,
			"require_last_push_approval": true, "required_review_thread_resolution": false}))
	}
	reply(w, http.StatusOK, rules)
}

func rule(kind string, parameters map[string]any) map[string]any {
	out := map[string]any{"type": kind, "ruleset_source_type": "Repository", "ruleset_source": "octo/repo", "ruleset_id": 42}
	if parameters != nil {
		out["parameters"] = parameters
	}
	return out
}

// listPulls ignores a head that is not user:branch, as GitHub does without a word: a caller that does not compare gets
// strangers' pull requests. https://docs.github.com/rest/pulls/pulls#list-pull-requests
func (s *Server) listPulls(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "pull_requests", "read"); !ok {
		return
	}
	q := r.URL.Query()
	list := []any{}
	for _, p := range s.pulls {
		head := q.Get("head")
		if strings.Contains(head, ":") && head != p.Owner+":"+p.Head || q.Get("base") != "" && q.Get("base") != p.Base ||
			q.Get("state") != "all" && q.Get("state") != p.State && (q.Get("state") != "" || p.State != "open") {
			continue
		}
		list = append(list, s.simple(p))
	}
	if q.Get("direction") != "asc" {
		slices.Reverse(list)
	}
	size, _ := strconv.Atoi(q.Get("per_page"))
	page, _ := strconv.Atoi(q.Get("page"))
	size, page = max(size, 1), max(page, 1)
	from := min((page-1)*size, len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		w.Header().Set("Link", link(r, page+1))
	}
	reply(w, http.StatusOK, list[from:to])
}

// createPull opens one; one head and base have one open pull request.
// https://docs.github.com/rest/pulls/pulls#create-a-pull-request
func (s *Server) createPull(w http.ResponseWriter, r *http.Request) {
	login, ok := s.actor(w, r, "pull_requests", "write")
	if !ok {
		return
	}
	var asked struct {
		Title, Head, Base, Body string
		Draft                   bool
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	bad := func(field, code, message string) {
		e := map[string]any{"resource": "PullRequest", "code": code}
		if field != "" {
			e["field"] = field
		}
		if message != "" {
			e["message"] = message
		}
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", e)
	}
	switch {
	case s.state.Archived:
		refuse(w, http.StatusForbidden, "Repository was archived so is read-only.")
		return
	case s.Tip(asked.Base) == "":
		bad("base", "invalid", "")
		return
	case s.state.Lag > 0:
		s.state.Lag--
		bad("head", "invalid", "")
		return
	case s.Tip(asked.Head) == "":
		bad("head", "invalid", "")
		return
	case asked.Title == "":
		bad("title", "missing_field", "")
		return
	case asked.Draft && s.state.NoDrafts:
		refuse(w, http.StatusUnprocessableEntity, "Draft pull requests are not supported in this repository.")
		return
	case s.Tip(asked.Head) == s.Tip(asked.Base):
		bad("", "custom", "No commits between "+asked.Base+" and "+asked.Head)
		return
	}
	for _, p := range s.pulls {
		if p.Repo == s.state.ID && p.Head == asked.Head && p.Base == asked.Base && p.State == "open" {
			bad("", "custom", fmt.Sprintf("A pull request already exists for %s:%s.", s.state.Owner, asked.Head))
			return
		}
	}
	p := s.open(Pull{Head: asked.Head, Base: asked.Base, Title: asked.Title, Body: asked.Body, Draft: asked.Draft, Author: login})
	reply(w, http.StatusCreated, s.pull(p))
}

// find gives the pull request of a request; GitHub answers 404 where there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request, level string) (p *Pull, login string) {
	login, ok := s.actor(w, r, "pull_requests", level)
	if !ok {
		return nil, ""
	}
	if n := number(r); n > 0 && n <= len(s.pulls) {
		return s.pulls[n-1], login
	}
	refuse(w, http.StatusNotFound, "Not Found")
	return nil, ""
}

func (s *Server) getPull(w http.ResponseWriter, r *http.Request) {
	if p, _ := s.find(w, r, "read"); p != nil {
		reply(w, http.StatusOK, s.pull(p))
	}
}

// https://docs.github.com/rest/pulls/pulls#update-a-pull-request
func (s *Server) patchPull(w http.ResponseWriter, r *http.Request) {
	p, login := s.find(w, r, "write")
	if p == nil {
		return
	}
	var to struct {
		Title, Body, State, Base *string
		Maintainer               *bool `json:"maintainer_can_modify"`
	}
	_ = json.NewDecoder(r.Body).Decode(&to)
	if to.Base != nil || to.Maintainer != nil {
		s.t.Error("base or maintainer_can_modify is changed")
	}
	if to.Title != nil {
		p.Title = *to.Title
	}
	if to.Body != nil {
		p.Body = *to.Body
	}
	if to.State != nil && *to.State != p.State {
		p.State = *to.State
		if p.ClosedBy = ""; p.State == "closed" {
			p.ClosedBy = login
		}
	}
	reply(w, http.StatusOK, s.pull(p))
}

// https://docs.github.com/rest/issues/labels#get-a-label
func (s *Server) getLabel(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "pull_requests", "read"); !ok {
		return
	}
	if name := r.PathValue("name"); slices.Contains(s.state.Labels, name) {
		reply(w, http.StatusOK, s.label(name))
		return
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

// addLabels makes a label that is not there. https://docs.github.com/rest/issues/labels#add-labels-to-an-issue
func (s *Server) addLabels(w http.ResponseWriter, r *http.Request) {
	p, _ := s.find(w, r, "write")
	if p == nil {
		return
	}
	var asked struct{ Labels []string }
	_ = json.NewDecoder(r.Body).Decode(&asked)
	out := []any{}
	for _, name := range asked.Labels {
		if !slices.Contains(s.state.Labels, name) {
			s.state.Labels = append(s.state.Labels, name)
		}
		if !slices.Contains(p.Labels, name) {
			p.Labels = append(p.Labels, name)
		}
		out = append(out, s.label(name))
	}
	reply(w, http.StatusOK, out)
}

func (s *Server) getIssue(w http.ResponseWriter, r *http.Request) {
	if p, _ := s.find(w, r, "read"); p != nil {
		reply(w, http.StatusOK, s.issue(p))
	}
}

func (s *Server) listComments(w http.ResponseWriter, r *http.Request) {
	p, _ := s.find(w, r, "read")
	if p == nil {
		return
	}
	out := []any{}
	for i, c := range p.Comments {
		out = append(out, s.comment(p, i, c))
	}
	reply(w, http.StatusOK, out)
}

// https://docs.github.com/rest/issues/comments#create-an-issue-comment
func (s *Server) addComment(w http.ResponseWriter, r *http.Request) {
	p, _ := s.find(w, r, "write")
	if p == nil {
		return
	}
	var c struct{ Body string }
	_ = json.NewDecoder(r.Body).Decode(&c)
	p.Comments = append(p.Comments, c.Body)
	reply(w, http.StatusCreated, s.comment(p, len(p.Comments)-1, c.Body))
}
