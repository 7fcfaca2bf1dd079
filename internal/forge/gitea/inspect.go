package gitea

import (
	"context"
	"net/http"
	"strconv"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

type repository struct {
	ID           int64 `json:"id"`
	Private      bool  `json:"private"`
	Internal     bool  `json:"internal"`
	Archived     bool  `json:"archived"`
	PullRequests bool  `json:"has_pull_requests"`
	Actions      bool  `json:"has_actions"`
	Permissions  struct {
		Admin bool `json:"admin"`
		Push  bool `json:"push"`
	} `json:"permissions"`
}

type baseBranch struct {
	Name   string `json:"name"`
	Commit struct {
		ID sallyport.ObjectID `json:"id"`
	} `json:"commit"`
	Protected bool  `json:"protected"`
	Approvals int64 `json:"required_approvals"`
	CanPush   bool  `json:"user_can_push"`
	CanMerge  bool  `json:"user_can_merge"`
}

// Inspect implements forge.Driver.
func (d *Driver) Inspect(ctx context.Context, g forge.Grant, base string) (forge.Inspection, error) {
	var r repository
	_, err := d.ask(ctx, g, forge.Request{
		Op: "look at the repository", Method: http.MethodGet, Into: &r, Check: func() bool { return r.ID > 0 },
	})
	if err != nil {
		return forge.Inspection{}, err
	}
	var b baseBranch
	_, err = d.ask(ctx, g, forge.Request{
		Op: "look at the base branch", Method: http.MethodGet, Path: "/branches/" + escape(base), Into: &b,
		Check: func() bool { return b.Name == base && b.Commit.ID.Check() == nil },
	})
	if err != nil {
		return forge.Inspection{}, err
	}
	return forge.Inspection{
		RepositoryID: strconv.FormatInt(r.ID, 10), Private: r.Private || r.Internal, Archived: r.Archived, Base: b.Commit.ID,
		Findings: append(ofRepository(r), append(ofBase(b), ofGrant(g)...)...),
	}, nil
}

func ofRepository(r repository) []forge.Finding {
	var out []forge.Finding
	if !r.Permissions.Push || r.Archived {
		out = append(out, blocking("cannot-push", "The token's user may not push to the repository, or it is archived."))
	}
	if !r.PullRequests {
		out = append(out, blocking("cannot-open", "The repository has pull requests switched off."))
	}
	if r.Permissions.Admin {
		out = append(out, blocking("can-administer", "The token's user administers the repository and could lift its branch protection. Make it a writer only."))
	}
	if r.Actions {
		out = append(out, note("can-change-workflows", "Actions are on: a pushed branch runs the workflows that it brings, with the repository's secrets."))
	}
	return out
}

func ofBase(b baseBranch) []forge.Finding {
	switch {
	case !b.Protected:
		return []forge.Finding{blocking("unprotected-base", "The base branch is not protected: whoever may push, may change it without a review.")}
	case b.CanPush:
		return []forge.Finding{blocking("can-merge", "The token's user may push to the base branch past its protection.")}
	}
	var out []forge.Finding
	if b.Approvals == 0 {
		out = append(out, note("no-review-required", "The base branch's protection requires no approval."))
	}
	switch {
	case b.CanMerge && b.Approvals == 0:
		out = append(out, blocking("can-merge", "The token's user may merge into the base branch without an approval. Require one, or list who may merge."))
	case b.CanMerge:
		out = append(out, note("can-merge", "The token's user may merge what others have approved. Listing who may merge ends that."))
	}
	return out
}

func ofGrant(g forge.Grant) []forge.Finding {
	out := []forge.Finding{note("too-wide", "A token here reaches every repository of its user: let the user be a writer of this one only.")}
	if g.Class == forge.ClassConfigured {
		out = append(out,
			note("long-lived", "The configured token does not expire."),
			note("not-told", "The forge does not tell what a configured token may do. Give it write:repository and write:issue only."))
	}
	return out
}

func blocking(code, message string) forge.Finding {
	return forge.Finding{Code: code, Blocking: true, Message: message}
}

func note(code, message string) forge.Finding { return forge.Finding{Code: code, Message: message} }
