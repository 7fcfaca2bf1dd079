package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/review"
	"sallyport.dev/sallyport/internal/screen"
)

// neutral gives f a writer to stdout that renders hostile bytes harmless.
func (a *app) neutral(f func(w io.Writer) error) error {
	w := screen.NewWriter(a.Stdout)
	return errors.Join(f(w), w.Close())
}

func (a *app) logsVerb() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:     "logs [A]",
		Short:   "Show all output of an attempt's agent",
		Long:    "Show the output of the agent from its beginning: known secrets redacted, control sequences made harmless.",
		Example: "  sallyport logs -f\n  sallyport logs 01m9k3v0 | less",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			id, err := a.id(ctx, c, args)
			if err != nil {
				return err
			}
			return a.neutral(func(w io.Writer) error { return c.Logs(ctx, id, follow, w) })
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the agent has ended")
	return c
}

func (a *app) shellVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "shell [A]",
		Short: "Open a shell on an attempt's result, in a fresh sandbox",
		Long: `Open a shell in a fresh sandbox on the quarantined tree. Nothing that happens there comes back. The exit
code is the shell's.`,
		Example: "  sallyport shell 01m9k3v0",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			id, err := a.id(ctx, c, args)
			if err != nil {
				return err
			}
			code := 0
			run := func(ctx context.Context, t Terminal) error {
				code, err = c.Shell(ctx, id, t)
				return err
			}
			if a.Console == nil { // commands from a pipe
				err = a.neutral(func(w io.Writer) error {
					return run(ctx, Terminal{In: a.Stdin, Out: w, Size: func() (int, int) { return 80, 24 }})
				})
			} else {
				err = a.session(ctx, false, run)
			}
			if err != nil {
				return err
			}
			return exit(code)
		}),
	}
}

func (a *app) exportVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "export A DIR",
		Short: "Write an attempt's tree into a new folder",
		Long: `Write the files of an attempt's result into DIR, which must not exist or be empty. They are what the
agent made: look before you run anything there.`,
		Example: "  sallyport export 01m9k3v0 /tmp/result",
		Args:    cobra.ExactArgs(2),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			id, err := a.id(ctx, c, args)
			if err != nil {
				return err
			}
			if err := c.Export(ctx, id, a.path(args[1])); err != nil {
				return err
			}
			a.tell("wrote %s", args[1])
			return nil
		}),
	}
}

func (a *app) checkVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "check [A [NAME]]",
		Short: "Run an attempt's checks again",
		Long: `Run the checks of an attempt, or the one named, once more in a fresh sandbox. A result that disagrees with
the first is flaky. Exit codes: 0 passed, 10 flaky, 20 failed, 30 could not be run.`,
		Example: "  sallyport check\n  sallyport check 01m9k3v0 test",
		Args:    cobra.MaximumNArgs(2),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			id, err := a.id(ctx, c, args)
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			results, err := c.Check(ctx, id, name)
			if err != nil {
				return err
			}
			a.showChecks(results)
			return exit(checksCode(results))
		}),
	}
}

func (a *app) showChecks(results []sallyport.CheckResult) {
	if len(results) == 0 {
		a.say("no check is defined: nothing says that the change works")
	}
	_ = review.TextChecks(a.Stdout, results, a.Colour)
	for _, r := range results {
		if r.Status != sallyport.CheckPassed && r.Tail != "" {
			a.say("--- %s", r.Name)
			fmt.Fprintln(a.Stdout, screen.Text([]byte(r.Tail)))
		}
	}
}

// checksCode is the worst of several results; a status it does not know is as bad as one that could not run.
func checksCode(results []sallyport.CheckResult) int {
	code := ExitOK
	for _, r := range results {
		switch r.Status {
		case sallyport.CheckPassed, sallyport.CheckNotRun:
		case sallyport.CheckFlaky:
			code = max(code, ExitAwaiting)
		case sallyport.CheckFailed:
			code = max(code, ExitRejected)
		default:
			code = max(code, ExitFailed)
		}
	}
	return code
}
