package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/screen"
)

// Attempts is the document of `ps --json`.
type Attempts struct {
	Attempts []sallyport.Report `json:"attempts"`
}

func (a *app) psVerb() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:     "ps",
		Short:   "List attempts",
		Long:    "List the attempts that have not ended, newest first; with -a all of them.",
		Example: "  sallyport ps -a\n  sallyport ps -a --json",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			list, err := c.Journal().Attempts(ctx, all)
			if err != nil {
				return err
			}
			if asJSON {
				doc := Attempts{Attempts: []sallyport.Report{}}
				for _, at := range list {
					doc.Attempts = append(doc.Attempts, whole(at.Report))
				}
				a.writeJSON(doc)
				return nil
			}
			return a.table(list, all)
		}),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "ended attempts as well")
	c.Flags().BoolVar(&asJSON, "json", false, `print {"attempts": [...]}`)
	return c
}

func (a *app) table(list []journal.Attempt, all bool) error {
	if len(list) == 0 {
		hint := "no attempt is under way; `sallyport ps -a` shows the ended ones"
		if all {
			hint = "there is no attempt yet"
		}
		a.tell("%s", hint)
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTEMPT\tNAME\tTRY\tSTATE\tAGE\tREPOSITORY")
	names := shortIDs(list)
	for i, at := range list {
		r := at.Report
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", names[i], screen.Fit(screen.Line(r.Name), 40), r.Number,
			screen.Line(string(r.State)), age(r.Created, time.Now()), screen.Line(r.Repository))
	}
	return w.Flush()
}

// shortIDs are screen.Short's, longer where two would be the same.
func shortIDs(list []journal.Attempt) []string {
	seen := map[string]int{}
	out := make([]string, len(list))
	for i, at := range list {
		out[i] = screen.Short(at.Report.Attempt)
		seen[out[i]]++
	}
	for i, at := range list {
		if seen[out[i]] > 1 {
			out[i] = screen.Line(strings.TrimPrefix(string(at.Report.Attempt), sallyport.AttemptPrefix+"_"))
		}
	}
	return out
}

// age is how long ago created was: 5s, 12m, 3h, 9d.
func age(created string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, created)
	if err != nil {
		return "?"
	}
	switch d := max(0, now.Sub(t)); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
