package gitea

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// pull is what we look at of a pull request.
type pull struct {
	Number  int64     `json:"number"`
	State   string    `json:"state"`
	Draft   bool      `json:"draft"`
	Merged  bool      `json:"merged"`
	Title   string    `json:"title"`
	Body    string    `json:"body"`
	User    *login    `json:"user"`
	By      *login    `json:"merged_by"`
	Head    end       `json:"head"`
	Base    end       `json:"base"`
	Labels  []label   `json:"labels"`
	Created time.Time `json:"created_at"`
}

type label struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	Exclusive bool   `json:"exclusive"` // of its scope there is one at a time: what comes before the last slash
}

func names(labels []label) (out []string) {
	for _, l := range labels {
		out = append(out, l.Name)
	}
	return out
}

type login struct {
	Login string `json:"login"`
}

func (l *login) name() string {
	if l == nil {
		return ""
	}
	return l.Login
}

type end struct {
	Label string             `json:"label"`
	Ref   string             `json:"ref"`
	SHA   sallyport.ObjectID `json:"sha"`
	Repo  int64              `json:"repo_id"`
}

// sound says whether p is a pull request at all.
func (p *pull) sound() bool {
	return p.Number > 0 && (p.State == "open" || p.State == "closed") && p.Base.Ref != "" && p.Base.Repo > 0 &&
		(p.Head.SHA == "" || p.Head.SHA.Check() == nil)
}

// branch is the head's short name. Once the branch is gone, ref is the forge's own (refs/pull/7/head) and the label still is
// the name; a change that was pushed without a branch (to refs/for/) has no label, so it is nobody's branch.
func (p *pull) branch() string {
	if p.Head.Ref == "refs/pull/"+strconv.FormatInt(p.Number, 10)+"/head" {
		return p.Head.Label
	}
	return p.Head.Ref
}

// draftPrefix makes a draft of a title: Gitea has no other way (WORK_IN_PROGRESS_PREFIXES, of which this is the first).
const draftPrefix = "WIP: "

func (d *Driver) pullRequest(p *pull) forge.PullRequest {
	out := forge.PullRequest{
		Number: p.Number, URL: d.web + "/pulls/" + strconv.FormatInt(p.Number, 10), State: forge.Open, Draft: p.Draft,
		Head: p.branch(), Tip: p.Head.SHA, Base: p.Base.Ref, Author: p.User.name(),
		Text: forge.Text{Title: p.Title, Body: p.Body}, Labels: names(p.Labels), Created: p.Created,
	}
	if p.Draft {
		out.Text.Title = strings.TrimPrefix(p.Title, draftPrefix)
	}
	switch {
	case p.Merged:
		out.State, out.ClosedBy = forge.Merged, p.By.name()
	case p.State == "closed":
		out.State = forge.Closed
	}
	return out
}

const (
	pageSize = 50 // the server's own default limit: it cuts what is larger
	maxPages = 1000
)

// Find implements forge.Driver. Gitea ignores a filter for the head, and its address for one pull request by base and head
// (pulls/{base}/{head}) gives the oldest one although a newer one is open. So all to the base are read, oldest first: what
// is opened meanwhile comes last and moves nothing to a page that was read.
func (d *Driver) Find(ctx context.Context, g forge.Grant, head, base string) ([]forge.PullRequest, error) {
	const op = "list pull requests"
	query := url.Values{"state": {"all"}, "sort": {"oldest"}, "base_branch": {base}, "limit": {strconv.Itoa(pageSize)}}
	var out []forge.PullRequest
	listed := map[int64]bool{}
	for page := 1; page <= maxPages; page++ {
		query.Set("page", strconv.Itoa(page))
		var pulls []pull
		headers, err := d.ask(ctx, g, forge.Request{
			Op: op, Method: http.MethodGet, Path: "/pulls?" + query.Encode(), Into: &pulls,
			Check: func() bool { return all(pulls, (*pull).sound) },
		})
		if err != nil {
			return nil, err
		}
		for i := range pulls {
			p := &pulls[i]
			if head != "" && p.branch() == head && p.Head.Repo == p.Base.Repo && p.Base.Ref == base && !listed[p.Number] {
				out = append(out, d.pullRequest(p))
			}
			listed[p.Number] = true
		}
		total, err := strconv.Atoi(headers.Get("X-Total-Count"))
		if len(pulls) == 0 || err == nil && len(listed) >= total {
			slices.SortStableFunc(out, func(a, b forge.PullRequest) int { return cmp.Compare(a.Number, b.Number) })
			return out, nil
		}
	}
	return nil, &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: d.web, Message: "more pull requests than can be looked through"}
}

func all[T any](list []T, ok func(*T) bool) bool {
	for i := range list {
		if !ok(&list[i]) {
			return false
		}
	}
	return true
}

// Create implements forge.Driver. Six at once were six pull requests (Gitea 1.26.0): the conflict is no lock.
func (d *Driver) Create(ctx context.Context, g forge.Grant, n forge.NewPullRequest) (forge.PullRequest, error) {
	labels, err := d.labels(ctx, g, n.Labels)
	if err != nil {
		return forge.PullRequest{}, err
	}
	title := n.Text.Title
	if n.Draft {
		title = draftPrefix + title
	}
	var made pull
	_, err = d.ask(ctx, g, forge.Request{
		Op: "open a pull request", Method: http.MethodPost, Path: "/pulls",
		Send: map[string]any{"head": n.Head, "base": n.Base, "title": title, "body": n.Text.Body, "labels": ids(labels)},
		Into: &made, Check: made.sound,
	})
	if err != nil {
		return forge.PullRequest{}, err
	}
	return d.pullRequest(&made), nil
}

// Label implements forge.Driver. Gitea adds those that are named, and takes an exclusive one of the same scope away.
func (d *Driver) Label(ctx context.Context, g forge.Grant, number int64, wanted []string) ([]string, error) {
	labels, err := d.labels(ctx, g, wanted)
	if err != nil || len(labels) == 0 {
		return nil, err
	}
	p, err := d.get(ctx, g, number)
	if err != nil {
		return nil, err
	}
	labels = slices.DeleteFunc(labels, func(l label) bool { return l.Exclusive && forge.ScopedBeside(l.Name, names(p.Labels), "/") })
	if len(labels) == 0 {
		return nil, nil
	}
	_, err = d.ask(ctx, g, forge.Request{
		Op: "put labels on a pull request", Method: http.MethodPost, Path: "/issues/" + strconv.FormatInt(number, 10) + "/labels", Send: map[string]any{"labels": ids(labels)},
	})
	if err != nil {
		return nil, err
	}
	return names(labels), nil
}

// ids are what Gitea is told labels by: an empty list where there are none.
func ids(labels []label) []int64 {
	out := []int64{}
	for _, l := range labels {
		out = append(out, l.ID)
	}
	return out
}

// labels gives those that exist and that the token may see.
func (d *Driver) labels(ctx context.Context, g forge.Grant, wanted []string) (known []label, err error) {
	for page := 1; len(wanted) > 0 && page <= 20; page++ {
		var there []label
		_, err := d.ask(ctx, g, forge.Request{
			Op: "list labels", Method: http.MethodGet, Into: &there,
			Path: "/labels?limit=" + strconv.Itoa(pageSize) + "&page=" + strconv.Itoa(page),
		})
		if code := sallyport.CodeOf(err); err != nil && (code == sallyport.CodeDenied || code == sallyport.CodeNotFound) {
			return known, nil
		}
		if err != nil || len(there) == 0 {
			return known, err
		}
		for _, l := range there {
			if slices.Contains(wanted, l.Name) {
				known = append(known, l)
			}
		}
	}
	return known, nil
}

// Get implements forge.Driver.
func (d *Driver) Get(ctx context.Context, g forge.Grant, number int64) (forge.PullRequest, error) {
	p, err := d.get(ctx, g, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	return d.pullRequest(p), nil
}

func (d *Driver) get(ctx context.Context, g forge.Grant, number int64) (*pull, error) {
	p := new(pull)
	_, err := d.ask(ctx, g, forge.Request{
		Op: "read a pull request", Method: http.MethodGet, Path: at(number), Into: p,
		Check: func() bool { return p.sound() && p.Number == number },
	})
	return p, err
}

func at(number int64) string { return "/pulls/" + strconv.FormatInt(number, 10) }

// Edit implements forge.Driver. A draft stays one: its mark is in the title, so that is looked at before.
func (d *Driver) Edit(ctx context.Context, g forge.Grant, number int64, t forge.Text) error {
	p, err := d.get(ctx, g, number)
	if err != nil {
		return err
	}
	if p.Draft {
		t.Title = draftPrefix + t.Title
	}
	return d.patch(ctx, g, "edit a pull request", number, map[string]any{"title": t.Title, "body": t.Body})
}

func (d *Driver) patch(ctx context.Context, g forge.Grant, op string, number int64, fields map[string]any) error {
	_, err := d.ask(ctx, g, forge.Request{Op: op, Method: http.MethodPatch, Path: at(number), Send: fields})
	return err
}

// Close implements forge.Driver. It is done when it is closed, so the comment goes first, and a repeat does not comment
// again. CodeConflict: it is merged.
func (d *Driver) Close(ctx context.Context, g forge.Grant, number int64, comment string) error {
	const op = "close a pull request"
	p, err := d.get(ctx, g, number)
	switch {
	case err != nil:
		return err
	case p.Merged:
		return &sallyport.Error{Op: op, Code: sallyport.CodeConflict, Subject: d.web, Message: "it is merged"}
	case p.State != "open":
		return nil
	}
	said, err := d.said(ctx, g, number, comment)
	if err != nil {
		return err
	}
	if !said {
		_, err := d.ask(ctx, g, forge.Request{
			Op: "comment on a pull request", Method: http.MethodPost, Path: comments(number), Send: map[string]string{"body": comment},
		})
		if err != nil {
			return err
		}
	}
	return d.patch(ctx, g, op, number, map[string]any{"state": "closed"})
}

func comments(number int64) string { return "/issues/" + strconv.FormatInt(number, 10) + "/comments" }

// said looks for the comment among those of the last day, which is far more than lies between a try and its repeat.
func (d *Driver) said(ctx context.Context, g forge.Grant, number int64, comment string) (bool, error) {
	var there []struct {
		Body string `json:"body"`
	}
	since := url.Values{"since": {time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)}}
	_, err := d.ask(ctx, g, forge.Request{
		Op: "read comments", Method: http.MethodGet, Path: comments(number) + "?" + since.Encode(), Into: &there,
	})
	for _, c := range there {
		if c.Body == comment {
			return true, nil
		}
	}
	return false, err
}
