package inspect

import (
	"context"
	"fmt"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
)

// milder are the kinds of weakening that most honest changes of behaviour bring with them.
var milder = map[string]bool{checks.ExpectedChanged: true, checks.RewrittenExpected: true}

// weakened lists where tests that the base has became easier to pass. All of the change's tests are compared
// together, so that one that moved is not gone.
func (i *inspection) weakened(ctx context.Context) error {
	var edits []checks.Edit
	for _, c := range i.Changes {
		if !i.test(c.Path) || max(c.Size, 0) > i.Limits.BlobBytes {
			continue
		}
		if i.spent >= i.Limits.TotalBytes || time.Now().After(i.end) {
			i.found.add("scan.incomplete", c.Path, "the test was not compared with the base's: the limit on bytes or time was met")
			continue
		}
		e := checks.Edit{Path: c.Path}
		var err error
		if isFile(c.OldMode) {
			if e.Base, err = i.side(ctx, c.Path, c.OldID); err != nil {
				return err
			}
		}
		if isFile(c.NewMode) && !gone(c) {
			if e.Changed, err = i.side(ctx, c.Path, c.NewID); err != nil {
				return err
			}
		}
		edits = append(edits, e)
	}
	for _, w := range checks.WeakenedBy(edits) {
		rule := "tests.weakened"
		if milder[w.Kind] {
			rule = "tests.expectation"
		}
		i.found.add(rule, w.Path, weakening(w))
	}
	return nil
}

func (i *inspection) side(ctx context.Context, path string, id sallyport.ObjectID) ([]byte, error) {
	b, err := i.blob(ctx, path, id, i.Limits.BlobBytes)
	i.spent += int64(len(b))
	if b == nil {
		b = []byte{}
	}
	return b, err
}

func weakening(w checks.Weakening) string {
	s := w.Kind + ": " + shortenTo(Display(w.Detail), 160)
	if w.Test != "" {
		s = fmt.Sprintf("%s: %s", quoted([]string{w.Test}), s)
	}
	if w.Line > 0 {
		s = fmt.Sprintf("line %d: %s", w.Line, s)
	}
	return s
}
