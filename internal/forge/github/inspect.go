package github

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const opInspect = "inspect the target at the forge"

// Inspect reads the repository, the base branch and the rules that hold for it. What an installation token may do is
// in the Grant, as the answer to Mint told it; what a personal one may do is its owner's standing in the repository.
func (d *Driver) Inspect(ctx context.Context, g forge.Grant, base string) (forge.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var r *github.Repository
	err := d.ask(ctx, opInspect, g.Secret, false, func(ctx context.Context, c *github.Client) (res *github.Response, err error) {
		r, res, err = c.Repositories.Get(ctx, d.owner, d.name)
		if r.GetID() == 0 {
			err = cmp.Or(err, errNothing)
		}
		return res, err
	})
	if err != nil {
		return forge.Inspection{}, err
	}
	if !d.ours(r.GetID(), r.GetFullName()) {
		return forge.Inspection{}, d.another(opInspect)
	}
	branch, err := d.branch(ctx, opInspect, g, base)
	if err != nil {
		return forge.Inspection{}, err
	}
	in := forge.Inspection{
		RepositoryID: strconv.FormatInt(r.GetID(), 10), Private: r.GetPrivate(), Archived: r.GetArchived(),
		Base: objectID(branch.GetCommit().GetSHA()),
	}
	in.Findings = append(repositoryFindings(r), grantFindings(g, r)...)
	rules, err := d.rules(ctx, g, base, branch.GetProtected())
	in.Findings = append(in.Findings, rules...)
	if d.cfg.RepositoryID == 0 {
		in.Findings = append(in.Findings, forge.Finding{Code: "not-told", Message: "the repository is not pinned by its number: who takes its name takes its place"})
	}
	return in, err
}

func (d *Driver) branch(ctx context.Context, op string, g forge.Grant, name string) (b *github.Branch, err error) {
	err = d.ask(ctx, op, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		// The library's own method goes past the client's deadline and has errors without a meaning.
		req, err := c.NewRequest(ctx, http.MethodGet, "repos/"+d.owner+"/"+d.name+"/branches/"+url.PathEscape(name), nil)
		if err != nil {
			return nil, err
		}
		res, err := c.Do(req, &b)
		if objectID(b.GetCommit().GetSHA()) == "" {
			err = cmp.Or(err, errNothing)
		}
		return res, err
	})
	return b, err
}

func repositoryFindings(r *github.Repository) (out []forge.Finding) {
	if r.GetArchived() {
		out = append(out, forge.Finding{Code: "cannot-push", Blocking: true, Message: "the repository is archived: nobody can push to it"})
	}
	if r.GetDisabled() {
		out = append(out, forge.Finding{Code: "cannot-push", Blocking: true, Message: "the repository is disabled"})
	}
	return out
}

// grantFindings is what the credential may do.
func grantFindings(g forge.Grant, r *github.Repository) (out []forge.Finding) {
	if g.Class == forge.ClassMinted {
		return nil // compared with what was asked when it was minted
	}
	out = append(out, forge.Finding{Code: "long-lived", Message: "the credential is a person's token: it is not made for one publication, and not revoked after it"})
	if g.Expires.IsZero() {
		out = append(out, forge.Finding{Code: "long-lived", Message: "the forge tells no end of the credential"})
	}
	p := r.GetPermissions()
	if !p.GetPush() {
		out = append(out, forge.Finding{Code: "cannot-push", Blocking: true, Message: "the token's owner cannot push to the repository"})
	}
	if p.GetAdmin() {
		out = append(out, forge.Finding{Code: "can-administer", Blocking: true, Message: "the token's owner administers the repository: if the token may too, it can change the rules that hold it"})
	}
	if len(g.Scope) == 0 {
		return append(out, forge.Finding{Code: "not-told", Message: "the forge does not tell what a fine-grained token may do, workflows among it"})
	}
	// Only a classic token has scopes, and it reaches all repositories that its owner does.
	out = append(out, forge.Finding{Code: "too-wide", Blocking: true, Message: "the token is a classic one: it reaches every repository of its owner"})
	if slices.Contains(g.Scope, "workflow") {
		out = append(out, forge.Finding{Code: "can-change-workflows", Blocking: true, Message: "the token may change workflows, which run with the repository's secrets"})
	}
	return out
}

// rules tells what stands between a pull request and the base branch.
func (d *Driver) rules(ctx context.Context, g forge.Grant, base string, protected bool) ([]forge.Finding, error) {
	required, approvals := false, 0
	opts := &github.ListOptions{PerPage: perPage, Page: 1}
	for range maxPages {
		next := 0
		err := d.ask(ctx, opInspect, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
			rules, res, err := c.Repositories.ListRulesForBranch(ctx, d.owner, d.name, base, opts)
			if err != nil || rules == nil {
				return res, cmp.Or(err, errNothing)
			}
			for _, r := range rules.PullRequest {
				required, approvals = true, max(approvals, r.Parameters.RequiredApprovingReviewCount)
			}
			next = res.NextPage
			return res, nil
		})
		if code := sallyport.CodeOf(err); err != nil && (code == sallyport.CodeDenied || code == sallyport.CodeNotFound) {
			return []forge.Finding{{Code: "not-told", Blocking: true, Message: "the forge does not tell the rules of " + base}}, nil
		}
		if err != nil {
			return nil, err
		}
		if next <= opts.Page {
			break
		}
		opts.Page = next
	}
	return ruleFindings(base, required, approvals, protected), nil
}

func ruleFindings(base string, required bool, approvals int, protected bool) []forge.Finding {
	merge := forge.Finding{Code: "can-merge", Message: "contents: write and pull_requests: write together can merge: nothing that is visible prevents it"}
	switch {
	case required && approvals > 0:
		return []forge.Finding{{Code: "not-told", Message: fmt.Sprintf("%s takes pull requests with %d approvals; who may pass that by is not told", base, approvals)}}
	case required:
		return []forge.Finding{{Code: "no-review-required", Blocking: true, Message: base + " takes pull requests without an approval"}, merge}
	case protected:
		// Who cannot administer a repository is not shown what a branch protection of the older kind asks for.
		return []forge.Finding{{Code: "not-told", Blocking: true, Message: base + " is protected, but no rule asks for a pull request; what its branch protection asks for is not told"}}
	}
	return []forge.Finding{{Code: "unprotected-base", Blocking: true, Message: "no rule holds for " + base + ": whoever can push can write to it"}, merge}
}
