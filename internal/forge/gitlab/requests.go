package gitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	opFind   = "look for merge requests at the forge"
	opCreate = "open a merge request at the forge"
	opGet    = "read a merge request at the forge"
	opEdit   = "edit a merge request at the forge"
	opLabel  = "put labels on a merge request at the forge"
	opClose  = "close a merge request at the forge"
)

type user struct {
	Username string `json:"username"`
}

// request is what is read of a merge request: https://docs.gitlab.com/api/merge_requests/
type request struct {
	IID         int64     `json:"iid"`
	WebURL      string    `json:"web_url"`
	State       string    `json:"state"`
	Draft       bool      `json:"draft"`
	Source      string    `json:"source_branch"`
	Target      string    `json:"target_branch"`
	SourceID    int64     `json:"source_project_id"`
	TargetID    int64     `json:"target_project_id"`
	SHA         string    `json:"sha"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Labels      []string  `json:"labels"`
	Author      user      `json:"author"`
	MergeUser   *user     `json:"merge_user"`
	MergedBy    *user     `json:"merged_by"` // before 14.7
	ClosedBy    *user     `json:"closed_by"`
	Created     time.Time `json:"created_at"`
}

// is tells whether r is from exactly this branch of this project to exactly that one.
func (r request) is(id int64, head, base string) bool {
	return id != 0 && r.SourceID == id && r.TargetID == id && r.Source == head && r.Target == base
}

func (r request) pull() forge.PullRequest {
	out := forge.PullRequest{
		Number: r.IID, URL: r.WebURL, State: forge.Closed, Draft: r.Draft, Head: r.Source, Tip: objectID(r.SHA), Base: r.Target,
		Author: r.Author.Username, Text: forge.Text{Title: bare(r.Title, r.Draft), Body: aloud(r.Description)}, Labels: r.Labels, Created: r.Created,
	}
	switch r.State {
	case "opened", "locked": // locked: it is being merged now, which may yet fail
		out.State = forge.Open
	case "merged":
		out.State, out.ClosedBy = forge.Merged, cmp.Or(r.MergeUser, r.MergedBy, &user{}).Username
	default: // a state that is not known here is nothing to build on
		out.ClosedBy = cmp.Or(r.ClosedBy, &user{}).Username
	}
	return out
}

// Find lists by GitLab's filter and compares again: the same branch of a fork passes the filter.
func (d *Driver) Find(ctx context.Context, g forge.Grant, head, base string) ([]forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	id, err := d.id(ctx, opFind, g)
	if err != nil {
		return nil, err
	}
	var found []forge.PullRequest
	for page := 1; page > 0; {
		var list []request
		q := url.Values{"source_branch": {head}, "target_branch": {base}, "state": {"all"}, "scope": {"all"},
			"order_by": {"created_at"}, "sort": {"asc"}, "per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		h, err := d.ask(ctx, g.Secret, forge.Request{Op: opFind, Method: http.MethodGet, Path: d.at + "/merge_requests?" + q.Encode(), Into: &list})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.IID > 0 && r.is(id, head, base) {
				found = append(found, r.pull())
			}
		}
		if page = next(h, page); page > maxPages {
			return nil, d.fail(opFind, sallyport.CodeInvalid, "the forge lists thousands of merge requests for one branch", "")
		}
	}
	slices.SortStableFunc(found, func(a, b forge.PullRequest) int { return cmp.Compare(a.Number, b.Number) })
	return found, nil
}

// Create opens one. It never asks GitLab to merge, not even later. A branch that GitLab does not see yet is tried again
// a few times. Labels that the project has not are left out: GitLab would make them.
func (d *Driver) Create(ctx context.Context, g forge.Grant, n forge.NewPullRequest) (forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	id, err := d.id(ctx, opCreate, g)
	if err != nil {
		return forge.PullRequest{}, err
	}
	// GitLab opens one also to a branch that is not there.
	if _, err := d.branch(ctx, opCreate, g, n.Base); err != nil {
		return forge.PullRequest{}, err
	}
	labels, err := d.labels(ctx, opCreate, g, n.Labels)
	if err != nil {
		return forge.PullRequest{}, err
	}
	send := map[string]any{"source_branch": n.Head, "target_branch": n.Base, "title": title(n.Text.Title, n.Draft), "description": quiet(n.Text.Body)}
	if len(labels) > 0 {
		send["labels"] = strings.Join(labels, ",")
	}
	r, err := d.open(ctx, g, n.Head, send)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if !r.is(id, n.Head, n.Base) {
		return forge.PullRequest{}, d.fail(opCreate, sallyport.CodeConflict, "the forge opened another merge request than was asked for: "+forge.Words(r.WebURL), "look at it")
	}
	return r.pull(), nil
}

// open tries while GitLab does not see the branch.
func (d *Driver) open(ctx context.Context, g forge.Grant, head string, send any) (r request, err error) {
	for try := 1; ; try++ {
		_, err = d.ask(ctx, g.Secret, forge.Request{Op: opCreate, Method: http.MethodPost, Path: d.at + "/merge_requests", Send: send,
			Into: &r, Check: func() bool { return r.IID > 0 }})
		var refused *forge.Refusal
		if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest && refused.Status != http.StatusUnprocessableEntity {
			return r, err
		}
		there, failed := d.there(ctx, g, head)
		switch {
		case failed != nil:
			return r, failed
		case there && !unseen(refused.Body):
			return r, err
		case try >= d.tries && there:
			return r, d.fail(opCreate, sallyport.CodeUnavailable, "the forge has the branch and does not open a merge request for it yet", "")
		case try >= d.tries:
			return r, d.fail(opCreate, sallyport.CodeNotFound, "the branch is not there", "")
		case !pause(ctx, d.wait):
			return r, err
		}
	}
}

// there tells whether the project has a branch.
func (d *Driver) there(ctx context.Context, g forge.Grant, name string) (bool, error) {
	_, err := d.branch(ctx, opCreate, g, name)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

// unseen reads GitLab's words for a source branch that is not there. They may be in another language, or change: then
// only the branch's absence tells, and one that is there is not tried again.
func unseen(body []byte) bool {
	var said struct {
		Message json.RawMessage `json:"message"`
	}
	_ = json.Unmarshal(body, &said)
	s := strings.ToLower(string(said.Message))
	return (strings.Contains(s, "source branch") || strings.Contains(s, "source_branch")) && strings.Contains(s, "not exist")
}

// pause tells whether it could wait.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// labels are those of names that the project has. A comma separates labels in a request and cannot be in one.
func (d *Driver) labels(ctx context.Context, op string, g forge.Grant, names []string) (known []string, err error) {
	for _, name := range names {
		if name == "" || strings.Contains(name, ",") {
			continue
		}
		_, err := d.ask(ctx, g.Secret, forge.Request{Op: op, Method: http.MethodGet, Path: d.at + "/labels/" + url.PathEscape(name)})
		switch code := sallyport.CodeOf(err); {
		case err == nil:
			known = append(known, name)
		case code != sallyport.CodeNotFound && code != sallyport.CodeDenied:
			return nil, err
		}
	}
	return known, nil
}

// Label puts labels on. GitLab adds those that are named, and takes another one of the same scope away (workflow::ready).
func (d *Driver) Label(ctx context.Context, g forge.Grant, number int64, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	labels, err := d.labels(ctx, opLabel, g, names)
	if err != nil || len(labels) == 0 {
		return nil, err
	}
	r, err := d.get(ctx, opLabel, g, number)
	if err != nil {
		return nil, err
	}
	labels = slices.DeleteFunc(labels, func(l string) bool { return forge.ScopedBeside(l, r.Labels, "::") })
	if len(labels) == 0 {
		return nil, nil
	}
	if err := d.put(ctx, opLabel, g, number, map[string]any{"add_labels": strings.Join(labels, ",")}); err != nil {
		return nil, err
	}
	return labels, nil
}

func (d *Driver) one(number int64) string {
	return d.at + "/merge_requests/" + strconv.FormatInt(number, 10)
}

func (d *Driver) get(ctx context.Context, op string, g forge.Grant, number int64) (r request, err error) {
	_, err = d.ask(ctx, g.Secret, forge.Request{Op: op, Method: http.MethodGet, Path: d.one(number), Into: &r, Check: func() bool { return r.IID == number }})
	return r, err
}

// Get reads one again.
func (d *Driver) Get(ctx context.Context, g forge.Grant, number int64) (forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	r, err := d.get(ctx, opGet, g, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	return r.pull(), nil
}

// Edit replaces title and body. A draft stays one: that is in its title.
func (d *Driver) Edit(ctx context.Context, g forge.Grant, number int64, t forge.Text) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	r, err := d.get(ctx, opEdit, g, number)
	if err != nil {
		return err
	}
	return d.put(ctx, opEdit, g, number, map[string]any{"title": title(t.Title, r.Draft), "description": quiet(t.Body)})
}

func (d *Driver) put(ctx context.Context, op string, g forge.Grant, number int64, send any) error {
	var r request
	_, err := d.ask(ctx, g.Secret, forge.Request{Op: op, Method: http.MethodPut, Path: d.one(number), Send: send, Into: &r, Check: func() bool { return r.IID == number }})
	return err
}

// Close comments and closes. Closed already: nil, nothing is said again. Merged: CodeConflict. A repeat after a lost
// answer does not repeat a comment that is there.
func (d *Driver) Close(ctx context.Context, g forge.Grant, number int64, comment string) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	r, err := d.get(ctx, opClose, g, number)
	switch {
	case err != nil:
		return err
	case r.State == "merged" || r.State == "locked":
		return d.fail(opClose, sallyport.CodeConflict, "it is merged, or being merged", "")
	case r.State == "closed":
		return nil
	}
	if err := d.comment(ctx, g, number, comment); err != nil {
		return err
	}
	return d.put(ctx, opClose, g, number, map[string]any{"state_event": "close"})
}

func (d *Driver) comment(ctx context.Context, g forge.Grant, number int64, text string) error {
	if text == "" {
		return nil
	}
	text = quiet(text)
	var notes []struct {
		Body   string `json:"body"`
		System bool   `json:"system"`
	}
	_, err := d.ask(ctx, g.Secret, forge.Request{Op: opClose, Method: http.MethodGet, Path: d.one(number) + "/notes?per_page=" + strconv.Itoa(perPage), Into: &notes})
	if err != nil {
		return err
	}
	for _, n := range notes {
		if !n.System && strings.TrimSpace(n.Body) == strings.TrimSpace(text) {
			return nil
		}
	}
	_, err = d.ask(ctx, g.Secret, forge.Request{Op: opClose, Method: http.MethodPost, Path: d.one(number) + "/notes", Send: map[string]any{"body": text}})
	return err
}
