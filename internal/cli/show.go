package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport/internal/control"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/review"
	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) showVerb() *cobra.Command {
	var asJSON, plain bool
	c := &cobra.Command{
		Use:   "show [A]",
		Short: "Show an attempt: verdict, changes, checks, findings, layers",
		Long: `Show one page of an attempt, also of one that has not ended: what was asked, what changed, the checks with
what shows that they can fail, findings, what held the agent, what nobody checked, and how to verify it.
--json prints the same document as run --json.`,
		Example: "  sallyport show\n  sallyport show 01m9k3v0 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			at, err := a.attempt(ctx, c, args)
			if err != nil {
				return err
			}
			if asJSON {
				a.writeReport(at.Report)
				return nil
			}
			return a.paged(plain, func(w io.Writer) error { return a.writePage(w, c, at, a.Colour) })
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print exactly one JSON document on stdout")
	noPager(c, &plain)
	c.Annotations = map[string]string{jsonReport: ""}
	return c
}

// writePage writes the verdict and below it all the rest.
func (a *app) writePage(w io.Writer, c Control, at journal.Attempt, colour bool) error {
	if _, err := io.WriteString(w, screen.Render(at.Report, screen.Options{Colour: colour, Width: a.Width})); err != nil {
		return err
	}
	return review.Text(w, pageOf(c, at), colour)
}

// pageOf is an Attempt's page. A Manifest that cannot be read takes what was asked with it, and is said.
func pageOf(c Control, at journal.Attempt) review.Page {
	s := review.Subject{Report: at.Report}
	m, err := c.Manifest(at)
	if err != nil {
		s.Report.Notices = append(slices.Clone(s.Report.Notices), "what was asked cannot be read: "+err.Error())
	}
	s.Manifest, s.Judges = m, control.Judges(m)
	return review.New(s)
}
