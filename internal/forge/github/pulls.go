package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const (
	opFind   = "look for pull requests at the forge"
	opCreate = "open a pull request at the forge"
	opGet    = "read a pull request at the forge"
	opEdit   = "edit a pull request at the forge"
	opLabel  = "put labels on a pull request at the forge"
	opClose  = "close a pull request at the forge"
	perPage  = 100
	// maxPages bounds a listing. Thousands from one branch are no branch of ours.
	maxPages = 20
)

// repository is the number of the repository: the pinned one, or the one that has its name now.
func (d *Driver) repository(ctx context.Context, op string, g forge.Grant) (id int64, err error) {
	if d.cfg.RepositoryID != 0 {
		return d.cfg.RepositoryID, nil
	}
	err = d.ask(ctx, op, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		r, res, err := c.Repositories.Get(ctx, d.owner, d.name)
		if id = r.GetID(); id == 0 {
			err = cmp.Or(err, errNothing)
		}
		return res, err
	})
	return id, err
}

// Find lists by GitHub's filter and compares again: a filter that GitHub does not understand it silently leaves out,
// and lists strangers' pull requests.
func (d *Driver) Find(ctx context.Context, g forge.Grant, head, base string) ([]forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	id, err := d.repository(ctx, opFind, g)
	if err != nil {
		return nil, err
	}
	var found []forge.PullRequest
	opts := &github.PullRequestListOptions{State: "all", Head: d.owner + ":" + head, Base: base, Sort: "created", Direction: "asc",
		ListOptions: github.ListOptions{PerPage: perPage, Page: 1}}
	for range maxPages {
		next := 0
		err := d.ask(ctx, opFind, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
			list, res, err := c.PullRequests.List(ctx, d.owner, d.name, opts)
			if err != nil || list == nil {
				return res, cmp.Or(err, errNothing)
			}
			for _, p := range list {
				if is(p, id, head, base) {
					if err := something(p); err != nil {
						return res, err // nothing to leave out: the next thing would be to open another one
					}
					found = append(found, pull(p))
				}
			}
			next = res.NextPage
			return res, nil
		})
		if err != nil {
			return nil, err
		}
		if next <= opts.Page {
			slices.SortStableFunc(found, func(a, b forge.PullRequest) int { return int(a.Number - b.Number) })
			return found, nil
		}
		opts.Page = next
	}
	return nil, d.fail(opFind, sallyport.CodeInvalid, "the forge lists thousands of pull requests for one branch", "")
}

// errNothing is an answer that says yes and has not in it what was asked for: the library takes an empty one for that.
var errNothing = errors.New("the answer has not in it what was asked for")

func something(p *github.PullRequest) error {
	if p.GetNumber() <= 0 {
		return errNothing
	}
	return nil
}

// is tells whether a pull request is from exactly this branch of this repository to exactly that one.
func is(p *github.PullRequest, id int64, head, base string) bool {
	return id != 0 && p.GetHead().GetRepo().GetID() == id && p.GetHead().GetRef() == head &&
		p.GetBase().GetRepo().GetID() == id && p.GetBase().GetRef() == base
}

func pull(p *github.PullRequest) forge.PullRequest {
	out := forge.PullRequest{
		Number: int64(p.GetNumber()), URL: p.GetHTMLURL(), State: forge.Open, Draft: p.GetDraft(),
		Head: p.GetHead().GetRef(), Tip: objectID(p.GetHead().GetSHA()), Base: p.GetBase().GetRef(),
		Author: p.GetUser().GetLogin(), Text: forge.Text{Title: p.GetTitle(), Body: p.GetBody()}, Created: p.GetCreatedAt().Time,
	}
	for _, l := range p.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	switch {
	// A list has no `merged`, only the time of it.
	case p.MergedAt != nil || p.GetMerged():
		out.State, out.ClosedBy = forge.Merged, p.GetMergedBy().GetLogin()
	case p.GetState() != "open":
		out.State = forge.Closed
	}
	return out
}

// Create opens one, without labels: GitHub takes none with it. A branch that GitHub does not see yet is tried again a few
// times.
func (d *Driver) Create(ctx context.Context, g forge.Grant, n forge.NewPullRequest) (forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	id, err := d.repository(ctx, opCreate, g)
	if err != nil {
		return forge.PullRequest{}, err
	}
	var p *github.PullRequest
	err = again(ctx, d.tries, d.wait, func() (bool, error) {
		var err error
		p, err = d.create(ctx, g, n)
		return errors.Is(err, errHead), err
	})
	if errors.Is(err, errHead) {
		return forge.PullRequest{}, d.unseen(ctx, g, n.Head)
	}
	if err != nil {
		return forge.PullRequest{}, err
	}
	if !is(p, id, n.Head, n.Base) {
		return forge.PullRequest{}, d.fail(opCreate, sallyport.CodeConflict, "the forge opened another pull request than was asked for: "+forge.Words(p.GetHTMLURL()), "look at it")
	}
	return pull(p), nil
}

// Label puts labels on. GitHub adds those that are named to those that are there.
func (d *Driver) Label(ctx context.Context, g forge.Grant, number int64, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	labels, err := d.labels(ctx, g, names)
	if err != nil || len(labels) == 0 {
		return nil, err
	}
	err = d.ask(ctx, opLabel, g.Secret, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		// The library's own method sends a bare list, which the document does not have.
		req, err := c.NewRequest(ctx, http.MethodPost, fmt.Sprintf("repos/%s/%s/issues/%d/labels", d.owner, d.name, number), map[string][]string{"labels": labels})
		if err != nil {
			return nil, err
		}
		return c.Do(req, nil)
	})
	if err != nil {
		return nil, err
	}
	return labels, nil
}

// unseen tells a branch that is not there from one that GitHub has and yet opens nothing for.
func (d *Driver) unseen(ctx context.Context, g forge.Grant, head string) error {
	_, err := d.branch(ctx, opCreate, g, head)
	switch {
	case sallyport.CodeOf(err) == sallyport.CodeNotFound:
		return d.fail(opCreate, sallyport.CodeNotFound, "the branch is not there", "")
	case err != nil:
		return err
	}
	return d.fail(opCreate, sallyport.CodeUnavailable, "the forge has the branch and does not open a pull request for it yet", "")
}

func (d *Driver) create(ctx context.Context, g forge.Grant, n forge.NewPullRequest) (p *github.PullRequest, err error) {
	body := github.CreatePullRequest{Title: &n.Text.Title, Head: n.Head, Base: n.Base, Body: &n.Text.Body, Draft: &n.Draft}
	err = d.ask(ctx, opCreate, g.Secret, true, func(ctx context.Context, c *github.Client) (res *github.Response, err error) {
		p, res, err = c.PullRequests.Create(ctx, d.owner, d.name, body)
		return res, cmp.Or(err, something(p))
	})
	return p, err
}

// labels are those of names that the repository has. Putting one that it has not would make it.
func (d *Driver) labels(ctx context.Context, g forge.Grant, names []string) (known []string, err error) {
	for _, name := range names {
		err := d.ask(ctx, opLabel, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
			// The library does not escape the name.
			req, err := c.NewRequest(ctx, http.MethodGet, "repos/"+d.owner+"/"+d.name+"/labels/"+url.PathEscape(name), nil)
			if err != nil {
				return nil, err
			}
			return c.Do(req, nil)
		})
		switch sallyport.CodeOf(err) {
		case sallyport.CodeNotFound, sallyport.CodeDenied:
			continue
		}
		if err != nil {
			return nil, err
		}
		known = append(known, name)
	}
	return known, nil
}

// Get reads one again. Who closed one that was not merged is told by its issue.
func (d *Driver) Get(ctx context.Context, g forge.Grant, number int64) (forge.PullRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	p, err := d.get(ctx, opGet, g, number)
	if err != nil || p.State != forge.Closed {
		return p, err
	}
	// Not being told is no error: the state is what counts.
	_ = d.ask(ctx, opGet, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		i, res, err := c.Issues.Get(ctx, d.owner, d.name, int(number))
		p.ClosedBy = i.GetClosedBy().GetLogin()
		return res, err
	})
	return p, nil
}

func (d *Driver) get(ctx context.Context, op string, g forge.Grant, number int64) (forge.PullRequest, error) {
	var p *github.PullRequest
	err := d.ask(ctx, op, g.Secret, false, func(ctx context.Context, c *github.Client) (res *github.Response, err error) {
		p, res, err = c.PullRequests.Get(ctx, d.owner, d.name, int(number))
		return res, cmp.Or(err, something(p))
	})
	if err != nil {
		return forge.PullRequest{}, err
	}
	if id := d.cfg.RepositoryID; id != 0 && p.GetBase().GetRepo().GetID() != id {
		return forge.PullRequest{}, d.another(op)
	}
	return pull(p), nil
}

// another is the error of a name that another repository has now.
func (d *Driver) another(op string) error {
	return d.fail(op, sallyport.CodeInvalid, "another repository has this name now than the one that is pinned", "put the repository's new name into the target")
}

// Edit replaces title and body.
func (d *Driver) Edit(ctx context.Context, g forge.Grant, number int64, t forge.Text) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	return d.edit(ctx, opEdit, g, number, &github.PullRequest{Title: &t.Title, Body: &t.Body})
}

func (d *Driver) edit(ctx context.Context, op string, g forge.Grant, number int64, to *github.PullRequest) error {
	return d.ask(ctx, op, g.Secret, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		p, res, err := c.PullRequests.Edit(ctx, d.owner, d.name, int(number), to)
		return res, cmp.Or(err, something(p))
	})
}

// Close comments and closes. Closed already: nil, nothing is said again. Merged: CodeConflict. A repeat after a lost
// answer does not repeat a comment that is there.
func (d *Driver) Close(ctx context.Context, g forge.Grant, number int64, comment string) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	p, err := d.get(ctx, opClose, g, number)
	switch {
	case err != nil:
		return err
	case p.State == forge.Merged:
		return d.fail(opClose, sallyport.CodeConflict, "it is merged", "")
	case p.State == forge.Closed:
		return nil
	}
	if err := d.comment(ctx, g, number, comment); err != nil {
		return err
	}
	closed := "closed"
	return d.edit(ctx, opClose, g, number, &github.PullRequest{State: &closed})
}

func (d *Driver) comment(ctx context.Context, g forge.Grant, number int64, text string) error {
	if text == "" {
		return nil
	}
	said := false
	err := d.ask(ctx, opClose, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		list, res, err := c.Issues.ListComments(ctx, d.owner, d.name, int(number), &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: perPage}})
		said = slices.ContainsFunc(list, func(i *github.IssueComment) bool { return strings.TrimSpace(i.GetBody()) == strings.TrimSpace(text) })
		return res, err
	})
	if err != nil || said {
		return err
	}
	return d.ask(ctx, opClose, g.Secret, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		_, res, err := c.Issues.CreateComment(ctx, d.owner, d.name, int(number), github.IssueCommentRequest{Body: text})
		return res, err
	})
}
