package github

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// The objects have every key that GitHub's document requires, so that its schemas can be held to them; the addresses
// lead nowhere.

const at = "2026-11-01T12:00:00Z"

func with(parts ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return out
}

func addresses(base, names string) map[string]any {
	out := map[string]any{}
	for _, n := range strings.Fields(names) {
		out[n] = base + "/" + strings.TrimSuffix(n, "_url")
	}
	return out
}

func none(names string) map[string]any {
	out := map[string]any{}
	for _, n := range strings.Fields(names) {
		out[n] = nil
	}
	return out
}

func all(value any, names string) map[string]any {
	out := map[string]any{}
	for _, n := range strings.Fields(names) {
		out[n] = value
	}
	return out
}

func (s *Server) user(login string) map[string]any {
	return with(addresses(s.url+"/users/x", `avatar_url events_url followers_url following_url gists_url html_url organizations_url
		received_events_url repos_url starred_url subscriptions_url url`),
		map[string]any{"login": login, "id": 9, "node_id": "U_9", "gravatar_id": "", "site_admin": false, "type": "User"})
}

func (s *Server) publicUser(login string) map[string]any {
	return with(s.user(login), none("bio blog company email hireable location name"), all(0, "followers following public_gists public_repos"),
		all(at, "created_at updated_at"), map[string]any{"user_view_type": "public"})
}

func (s *Server) integration() map[string]any {
	return map[string]any{"id": 5, "slug": "sallyport-app", "node_id": "A_5", "owner": s.user(s.state.Owner), "name": "Sallyport", "description": nil,
		"external_url": s.url, "html_url": s.url, "created_at": at, "updated_at": at, "permissions": s.state.Granted, "events": []string{}}
}

func (s *Server) installation() map[string]any {
	return with(addresses(s.url, "access_tokens_url html_url repositories_url"), none("single_file_name suspended_by suspended_at"), map[string]any{
		"id": s.Installation, "app_id": 5, "app_slug": "sallyport-app", "target_id": 9, "target_type": "User", "repository_selection": "selected",
		"events": []string{}, "account": s.user(s.state.Owner), "permissions": s.state.Granted, "created_at": at, "updated_at": at})
}

// short is a repository as it stands inside other objects.
func (s *Server) short(id int64, owner string) map[string]any {
	name := s.state.Name
	return with(addresses(s.url+"/r", `archive_url assignees_url blobs_url branches_url collaborators_url comments_url commits_url compare_url contents_url
		contributors_url deployments_url downloads_url events_url forks_url git_commits_url git_refs_url git_tags_url hooks_url html_url issue_comment_url
		issue_events_url issues_url keys_url labels_url languages_url merges_url milestones_url notifications_url pulls_url releases_url stargazers_url
		statuses_url subscribers_url subscription_url tags_url teams_url trees_url url clone_url git_url ssh_url svn_url`),
		none("description homepage language mirror_url license"),
		all(0, "forks forks_count open_issues open_issues_count size stargazers_count watchers watchers_count"),
		all(at, "pushed_at created_at updated_at"), all(true, "has_issues has_projects has_wiki has_downloads"), all(false, "has_pages has_discussions disabled"),
		map[string]any{"id": id, "node_id": "R_1", "name": name, "full_name": owner + "/" + name, "owner": s.user(owner), "private": s.state.Private,
			"archived": s.state.Archived, "fork": id != s.state.ID, "default_branch": "main"})
}

func (s *Server) full() map[string]any {
	return with(s.short(s.state.ID, s.state.Owner), all(0, "network_count subscribers_count"), map[string]any{
		"permissions": map[string]any{"admin": s.state.Admin, "maintain": s.state.Admin, "push": true, "triage": true, "pull": true}})
}

func (s *Server) branch(name, tip string) map[string]any {
	who := map[string]any{"name": "a", "email": "a@example.com", "date": at}
	commit := with(addresses(s.url+"/c", "url html_url comments_url"), map[string]any{"sha": tip, "node_id": "C_1", "author": nil, "committer": nil, "parents": []any{},
		"commit": map[string]any{"author": who, "committer": who, "comment_count": 0, "message": "m", "url": s.url, "tree": map[string]any{"sha": tip, "url": s.url}}})
	// A ruleset makes a branch protected too.
	protected := s.state.Protected || s.state.Approvals >= 0
	return map[string]any{"name": name, "commit": commit, "_links": map[string]any{"html": s.url, "self": s.url}, "protected": protected,
		"protection": map[string]any{"enabled": s.state.Protected}, "protection_url": s.url}
}

func (s *Server) label(name string) map[string]any {
	return map[string]any{"id": 3, "node_id": "L_3", "url": s.url, "name": name, "description": "a label", "color": "ededed", "default": false}
}

func (s *Server) end(repo int64, owner, ref, tip string) map[string]any {
	return map[string]any{"label": owner + ":" + ref, "ref": ref, "sha": tip, "user": s.user(owner), "repo": s.short(repo, owner)}
}

func optional(is bool, value any) any {
	if is {
		return value
	}
	return nil
}

// simple is a pull request in a list: it has no `merged`.
func (s *Server) simple(p *Pull) map[string]any {
	// The tip follows the branch while the pull request is open.
	if tip := s.Tip(p.Head); p.State == "open" && p.Repo == s.state.ID && tip != "" {
		p.Tip = tip
	}
	page := fmt.Sprintf("%s/%s/%s/pull/%d", s.url, s.state.Owner, s.state.Name, p.Number)
	links := map[string]any{}
	for _, n := range strings.Fields("comments commits statuses html issue review_comments review_comment self") {
		links[n] = map[string]any{"href": page}
	}
	labels := []any{}
	for _, l := range p.Labels {
		labels = append(labels, s.label(l))
	}
	return with(addresses(page, "comments_url commits_url diff_url issue_url patch_url review_comment_url review_comments_url statuses_url url"),
		none("assignee merge_commit_sha milestone auto_merge"), map[string]any{
			"_links": links, "labels": labels, "html_url": page, "id": 1000 + p.Number, "node_id": "P_1", "number": p.Number, "state": p.State, "locked": false,
			"title": p.Title, "body": p.Body, "user": s.user(p.Author), "author_association": "NONE", "draft": p.Draft,
			"created_at": p.Created.Format(time.RFC3339), "updated_at": at, "closed_at": optional(p.State == "closed", at), "merged_at": optional(p.Merged, at),
			"head": s.end(p.Repo, p.Owner, p.Head, p.Tip), "base": s.end(s.state.ID, s.state.Owner, p.Base, s.Tip(p.Base))})
}

func (s *Server) pull(p *Pull) map[string]any {
	return with(s.simple(p), all(0, "additions changed_files comments commits deletions review_comments"), map[string]any{
		"merged": p.Merged, "mergeable": nil, "mergeable_state": "unknown", "maintainer_can_modify": false, "merged_by": optional(p.Merged, s.user(p.MergedBy))})
}

func (s *Server) issue(p *Pull) map[string]any {
	return with(addresses(s.url+"/i", "comments_url events_url html_url labels_url repository_url url"), none("assignee milestone"), map[string]any{
		"id": p.Number, "node_id": "I_1", "number": p.Number, "labels": []any{}, "comments": len(p.Comments), "state": p.State, "locked": false,
		"title": p.Title, "user": s.user(p.Author), "created_at": at, "updated_at": at, "author_association": "NONE",
		"closed_at": optional(p.State == "closed", at), "closed_by": optional(p.ClosedBy != "", s.user(p.ClosedBy))})
}

func (s *Server) comment(p *Pull, i int, body string) map[string]any {
	return map[string]any{"id": 100*p.Number + i, "node_id": "IC_1", "html_url": s.url, "issue_url": s.url, "url": s.url, "author_association": "NONE",
		"user": s.user(p.Author), "body": body, "created_at": at, "updated_at": at}
}
