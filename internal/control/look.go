package control

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/gowebpki/jcs"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// DiffOptions narrow what Diff prints.
type DiffOptions struct {
	Stat     bool
	NameOnly bool
	Paths    []string
	// From is another Attempt of the same repository, whose tree stands in the base's place.
	From string
}

// imported opens what is needed to look at an Attempt's tree. CodeConflict: nothing was collected (yet).
func (c *Control) imported(ctx context.Context, id string) (journal.Attempt, sallyport.Manifest, *change.Store, error) {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return at, sallyport.Manifest{}, nil, err
	}
	if at.Imported == nil {
		return at, sallyport.Manifest{}, nil, &sallyport.Error{Op: "look", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt),
			Message: "no result was collected; it is " + string(at.Report.State)}
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil {
		return at, m, nil, err
	}
	repo, err := change.Open(ctx, m.Repository)
	if err != nil {
		return at, m, nil, err
	}
	s, err := c.store(ctx, repo)
	return at, m, s, err
}

// Manifest is what an Attempt was frozen as.
func (c *Control) Manifest(at journal.Attempt) (sallyport.Manifest, error) {
	return c.manifest(at.Report.Manifest)
}

// Judges tells the files that some check is judged by: tests, what its runner loads by itself, what its command
// names. Tests by the habits of their language are always among them.
func Judges(m sallyport.Manifest) func(path string) bool {
	named := make([]map[string]bool, len(m.Checks))
	for i, k := range m.Checks {
		named[i] = namedFiles(k)
	}
	return func(path string) bool {
		for i, k := range m.Checks {
			if judgedBy(k, named[i], path) {
				return true
			}
		}
		return inspect.IsTest(path, nil)
	}
}

// Diff writes the change against the base, or against another Attempt's tree, from our own repository with our
// own configuration. The bytes are the agent's: neutralise before showing.
func (c *Control) Diff(ctx context.Context, id string, o DiffOptions, w io.Writer) error {
	at, m, s, err := c.imported(ctx, id)
	if err != nil {
		return err
	}
	from := m.BaseTree
	if o.From != "" {
		if from, err = c.treeBeside(ctx, o.From, m); err != nil {
			return err
		}
	}
	return s.Patch(ctx, w, from, at.Imported.Tree, change.PatchOptions{Stat: o.Stat, NameOnly: o.NameOnly, Paths: o.Paths})
}

// treeBeside is the tree of another Attempt, which is in the same store if its repository is the same.
func (c *Control) treeBeside(ctx context.Context, id string, m sallyport.Manifest) (sallyport.ObjectID, error) {
	at, other, _, err := c.imported(ctx, id)
	if err != nil {
		return "", err
	}
	if other.Repository != m.Repository {
		return "", &sallyport.Error{Op: "diff", Code: sallyport.CodeInvalid, Subject: string(at.Report.Attempt), Message: "expected two attempts of one repository; it is of " + other.Repository}
	}
	return at.Imported.Tree, nil
}

// Export writes the Attempt's whole tree as plain files into a folder that does not exist yet.
func (c *Control) Export(ctx context.Context, id, dir string) error {
	at, _, s, err := c.imported(ctx, id)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return &sallyport.Error{Op: "export", Code: sallyport.CodeConflict, Subject: dir, Message: "expected a folder that does not exist yet"}
	}
	return s.Export(ctx, at.Imported.Tree, dir)
}

// RotateKey makes a new signing key, introduced by the old one, and journals it. After a crash in between, the
// next rotation journals the missed one too.
func (c *Control) RotateKey(ctx context.Context) error {
	if _, err := c.keys.Rotate(ctx); err != nil {
		return err
	}
	all, err := c.keys.Rotations()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for after := int64(0); ; {
		events, err := c.journal.Events(ctx, "", after, 1000)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Seq
			if e.Type == lifecycle.KeyRotated {
				known[string(e.Data)] = true
			}
		}
	}
	for _, r := range all {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if canonical, err := jcs.Transform(b); err == nil && known[string(canonical)] || known[string(b)] {
			continue
		}
		if _, err := c.journal.Append(ctx, nil, journal.Record{Type: lifecycle.KeyRotated, Data: r}); err != nil {
			return err
		}
	}
	return nil
}

// PublicKeys are what a verifier needs, as PEM.
func (c *Control) PublicKeys() ([]byte, error) { return c.keys.Public() }

// each goes through the events of one type that an Attempt has, oldest first.
func (c *Control) each(ctx context.Context, id sallyport.AttemptID, of lifecycle.Type, do func(lifecycle.Event) error) error {
	const page = 1000
	for after := int64(0); ; {
		events, err := c.journal.Events(ctx, id, after, page)
		if err != nil {
			return err
		}
		for _, e := range events {
			if after = e.Seq; e.Type != of {
				continue
			}
			if err := do(e); err != nil {
				return err
			}
		}
		if len(events) < page {
			return nil
		}
	}
}
