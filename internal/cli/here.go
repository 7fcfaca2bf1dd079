package cli

import (
	"context"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
)

// repositoryOf is the work tree around dir: the nearest folder that has a .git, links resolved; "" if there
// is none. It runs no git: this only chooses what is shown.
func repositoryOf(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// attempt is the one that args name first, else the newest of this repository.
func (a *app) attempt(ctx context.Context, c Control, args []string) (journal.Attempt, error) {
	if len(args) > 0 {
		return c.Attempt(ctx, args[0])
	}
	root := repositoryOf(a.Dir)
	if root == "" {
		return journal.Attempt{}, invalid("choose an attempt", a.Dir, "expected an attempt's id outside of a git repository", "sallyport ps -a")
	}
	all, err := c.Journal().Attempts(ctx, true)
	if err != nil {
		return journal.Attempt{}, err
	}
	for _, at := range all { // newest first
		if at.Report.Repository == root {
			return at, nil
		}
	}
	return journal.Attempt{}, &sallyport.Error{Op: "choose an attempt", Code: sallyport.CodeNotFound, Subject: root,
		Message: "there is no attempt of this repository yet", Hint: `sallyport run -m "TASK" --agent claude-code`}
}

// id is attempt's id.
func (a *app) id(ctx context.Context, c Control, args []string) (string, error) {
	at, err := a.attempt(ctx, c, args)
	return string(at.Report.Attempt), err
}
