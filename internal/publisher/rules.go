package publisher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// The rules of what is found at a forge, apart from how it is looked for. They are pure: what the ledger says, and what
// was seen.

// Stopped refuses where a person has said no, or has merged. list is all pull requests of the branch, in any state.
func (s *State) Stopped(list []forge.PullRequest) error {
	for _, pr := range list {
		byUs := slices.ContainsFunc(s.Closed, func(r PullRow) bool { return r.Number == pr.Number })
		switch {
		case pr.State == forge.Merged:
			return no("pull request", "%s is merged: this work order is done there", pr.URL)
		case pr.State == forge.Closed && !byUs && !open(list):
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "pull request", Message: pr.URL + " was closed by a person",
				Hint: "reopen it there, then publish again; or run the task under another name"}
		}
	}
	return nil
}

func open(list []forge.PullRequest) bool {
	return slices.ContainsFunc(list, func(pr forge.PullRequest) bool { return pr.State == forge.Open })
}

// Gone are those of ours that somebody has closed or merged.
func (s *State) Gone(list []forge.PullRequest) (rows []PullRow) {
	for _, pr := range list {
		if pr.State != forge.Open && s.pull(pr.Number) >= 0 {
			rows = append(rows, PullRow{Head: pr.Head, Base: pr.Base, Number: pr.Number, URL: pr.URL, Author: pr.Author, Why: "found " + string(pr.State)})
		}
	}
	return rows
}

// Move is what is to be done so that the branch ref, found at tip ("": absent), is at commit for the request of nonce.
// push: it is not there yet. CodeConflict: somebody else's commit is there.
func (s *State) Move(ref string, tip, commit sallyport.ObjectID, nonce string) (row BranchRow, push bool, err error) {
	if tip != "" && tip != commit && !slices.Contains(s.Pushed, tip) {
		return row, false, &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: strings.TrimPrefix(ref, "refs/heads/"), Message: fmt.Sprintf("the branch is at %s, which this Publisher did not put there", tip),
			Hint: "somebody has worked on it: it is never overwritten. Merge or move that work, then publish again"}
	}
	row = BranchRow{Ref: ref, Commit: commit, Expect: tip}
	if tip != commit {
		return row, true, nil
	}
	for _, was := range []*BranchRow{s.Branch, s.Pushing} {
		if was != nil && was.Commit == commit && was.nonce == nonce {
			row.Expect = was.Expect // an earlier try of this very request has moved it
		}
	}
	return row, false, nil
}

// Ours says whether we have opened a pull request, as identity ("": not known) or, just now, under the number made.
func (s *State) Ours(pr forge.PullRequest, identity string, made int64) bool {
	i := s.pull(pr.Number)
	return pr.Number == made || i >= 0 && s.Pulls[i].Opened || identity != "" && pr.Author == identity
}

// Choose says which of the open ones is the one, and which others are ours to close: the oldest of ours stays, and what a
// person has opened is left alone. list is not empty.
func (s *State) Choose(list []forge.PullRequest, identity string, made int64) (one forge.PullRequest, extra []forge.PullRequest) {
	slices.SortFunc(list, func(a, b forge.PullRequest) int { return cmp.Compare(a.Number, b.Number) })
	for _, pr := range list {
		if s.Ours(pr, identity, made) {
			extra = append(extra, pr)
		}
	}
	if len(extra) == 0 {
		return list[0], nil
	}
	return extra[0], extra[1:]
}
