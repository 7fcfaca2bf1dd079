package gitlab

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const opInspect = "inspect the target at the forge"

// Inspect reads the project, the base branch, and the approvals that the project asks for where its plan has them.
func (d *Driver) Inspect(ctx context.Context, g forge.Grant, base string) (forge.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	p, err := d.project(ctx, opInspect, g)
	if err != nil {
		return forge.Inspection{}, err
	}
	if !strings.EqualFold(p.Path, d.full) || d.c.ProjectID != 0 && p.ID != d.c.ProjectID {
		return forge.Inspection{}, d.fail(opInspect, sallyport.CodeInvalid, "the project is called "+forge.Words(p.Path)+" now", "put the project's new path into the target")
	}
	b, err := d.branch(ctx, opInspect, g, base)
	if err != nil {
		return forge.Inspection{}, err
	}
	approvals, err := d.approvals(ctx, g)
	if err != nil {
		return forge.Inspection{}, err
	}
	in := forge.Inspection{RepositoryID: strconv.FormatInt(p.ID, 10), Private: p.Visibility != "public", Archived: p.Archived, Base: objectID(b.Commit.ID)}
	level := p.level()
	in.Findings = append(projectFindings(p, level), tokenFindings(g)...)
	in.Findings = append(in.Findings, baseFindings(base, b, level, approvals)...)
	if d.c.ProjectID == 0 {
		in.Findings = append(in.Findings, forge.Finding{Code: "not-told", Message: "the project is not pinned by its number: who takes its path takes its place"})
	}
	return in, nil
}

// level is the role of who asks, 0 where it is not told.
func (p project) level() int {
	level := 0
	for _, a := range []*access{p.Permissions.Project, p.Permissions.Group} {
		if a != nil {
			level = max(level, a.Level)
		}
	}
	return level
}

// approvals is how many the project's rules ask for together; -1: it is not told, as without Premium.
// https://docs.gitlab.com/api/merge_request_approvals/
func (d *Driver) approvals(ctx context.Context, g forge.Grant) (int, error) {
	var rules []struct {
		Required int `json:"approvals_required"`
	}
	_, err := d.ask(ctx, g.Secret, forge.Request{Op: opInspect, Method: http.MethodGet, Path: d.at + "/approval_rules", Into: &rules})
	if code := sallyport.CodeOf(err); err != nil && (code == sallyport.CodeNotFound || code == sallyport.CodeDenied) {
		return -1, nil
	}
	sum := 0
	for _, r := range rules {
		sum += r.Required
	}
	return sum, err
}

func projectFindings(p project, level int) (out []forge.Finding) {
	if p.Archived {
		out = append(out, forge.Finding{Code: "cannot-push", Blocking: true, Message: "the project is archived: nobody can push to it"})
	}
	if p.MergeRequests == "disabled" {
		out = append(out, forge.Finding{Code: "cannot-open", Blocking: true, Message: "merge requests are switched off in the project"})
	}
	switch {
	case level == 0:
		out = append(out, forge.Finding{Code: "not-told", Message: "the forge does not tell the credential's role in the project"})
	case level < developer:
		out = append(out, forge.Finding{Code: "cannot-push", Blocking: true, Message: "the credential's role is below Developer: it cannot push"})
	case level >= maintainer:
		out = append(out, forge.Finding{Code: "can-administer", Blocking: true, Message: "the credential's role is Maintainer or above: it can take away the protection of branches"})
	}
	return append(out, forge.Finding{Code: "can-change-workflows", Message: "who can push a branch can change .gitlab-ci.yml in it, and the branch's pipeline runs that"})
}

func tokenFindings(g forge.Grant) (out []forge.Finding) {
	if g.Class == forge.ClassConfigured {
		out = append(out, forge.Finding{Code: "long-lived", Message: "the credential is configured: it is not made for one publication, and not revoked after it"})
	}
	if more := wide(g.Scope); len(more) > 0 {
		out = append(out, forge.Finding{Code: "too-wide", Blocking: true, Message: "the token has scopes that publishing has no use for: " + forge.Words(strings.Join(more, ", "))})
	}
	return out
}

// baseFindings is what stands between a merge request and the base branch.
func baseFindings(base string, b branch, level, approvals int) (out []forge.Finding) {
	switch {
	case !b.Protected:
		out = append(out, forge.Finding{Code: "unprotected-base", Blocking: true, Message: base + " is not protected: whoever can push can write to it"})
	case b.CanPush:
		out = append(out, forge.Finding{Code: "unprotected-base", Blocking: true, Message: "the credential may push to " + base + " itself"})
	}
	merges := !b.Protected || b.DevelopersCanMerge || level >= maintainer
	switch {
	case approvals > 0 && merges:
		out = append(out, forge.Finding{Code: "can-merge", Message: "the credential may merge once others have approved"})
	case approvals == 0 && merges:
		out = append(out, forge.Finding{Code: "no-review-required", Blocking: true, Message: "no approval is asked for, and the credential may merge"})
	case merges:
		out = append(out, forge.Finding{Code: "can-merge", Blocking: true, Message: "the credential may merge; whether an approval is asked for is not told"})
	case approvals < 0:
		out = append(out, forge.Finding{Code: "not-told", Message: "whether an approval is asked for is not told; the credential may not merge"})
	}
	return out
}
