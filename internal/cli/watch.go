package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) attachVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [A]",
		Short: "Follow an attempt, with its terminal where it has one",
		Long: `Follow an attempt until it has ended. One that was started with -it gets your terminal while its agent
runs; Ctrl-P Ctrl-Q detaches. Without a terminal its output is shown as it comes, and Ctrl-C only ends
this view: cancel ends the attempt. Exit codes as for run.`,
		Example: "  sallyport attach\n  sallyport attach 01m9k3v0",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			at, err := a.attempt(ctx, c, args)
			if err != nil {
				return err
			}
			return a.follow(ctx, c, at.Report.Attempt, followOptions{began: time.Now(), terminal: a.Console != nil}, nil)
		}),
	}
}

func (a *app) waitVerb() *cobra.Command {
	var show startFlags
	c := &cobra.Command{
		Use:   "wait [A]",
		Short: "Wait until an attempt has ended",
		Long:  "Wait until an attempt has ended and show its result. Exit codes as for run. Ctrl-C only ends the waiting.",
		Example: `  sallyport wait
  id=$(sallyport run -d -m "fix #12" --agent codex) && sallyport wait "$id"`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			at, err := a.attempt(ctx, c, args)
			if err != nil {
				return err
			}
			return a.follow(ctx, c, at.Report.Attempt, followOptions{began: time.Now(), quiet: true, json: show.json}, nil)
		}),
	}
	c.Flags().BoolVar(&show.json, "json", false, "print exactly one JSON document on stdout")
	c.Annotations = map[string]string{jsonReport: ""}
	return c
}

func (a *app) cancelVerb() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "cancel A",
		Short: "End an attempt; what was collected is kept",
		Long: `Ask for the end of an attempt. The wish is recorded; the attempt's driver acts on it, and where that is
gone, reconcile does. What was collected is kept.`,
		Example: "  sallyport cancel 01m9k3v0 --why \"wrong branch\"",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			at, err := c.Attempt(ctx, args[0])
			if err != nil {
				return err
			}
			id := at.Report.Attempt
			if err := c.Cancel(ctx, string(id), a.Who, why); err != nil {
				return err
			}
			a.tell("cancelling %s; `sallyport wait %s` waits for its end", id, screen.Short(id))
			return nil
		}),
	}
	c.Flags().StringVar(&why, "why", "", "the reason, for the journal")
	return c
}
