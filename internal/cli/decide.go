package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/journal"
)

func (a *app) approveVerb() *cobra.Command {
	var why, key string
	c := &cobra.Command{
		Use:   "approve A",
		Short: "Accept an attempt that awaits approval, and publish it",
		Long: `Accept an attempt that awaits a person's word, and publish it where that was asked. The approval is
recorded with your name and binds exactly the evidence and the target as they are now. What was rejected
cannot be approved. With --key you also sign the approval with a key of your own, for a target that wants approvals by
people: its Publisher pins whose keys count, and nobody else can make one. You are shown the attempt's page and asked at
your terminal first. Such a signature can be given before and
after an attempt is accepted. Exit codes as for run.`,
		Example: "  sallyport approve 01m9k3v0 --why \"read the diff; the test edit is right\"\n  sallyport approve 01m9k3v0 --key ~/.ssh/id_ed25519",
		Args:    cobra.ExactArgs(1),
		RunE: a.decision(func(ctx context.Context, c Control, at journal.Attempt) (journal.Attempt, error) {
			id := string(at.Report.Attempt)
			if key != "" {
				if err := a.askToSign(c, at); err != nil {
					return at, err
				}
				if err := c.SignApproval(ctx, id, at.Report.EvidenceDigest, a.Who, approval.KeyFile{Path: key, Notices: a.Stderr}); err != nil {
					return at, err
				}
				if at.Report.State == sallyport.AttemptAccepted {
					return c.Publish(ctx, id)
				}
			}
			return c.Approve(ctx, id, a.Who, why)
		}),
	}
	c.Flags().StringVar(&key, "key", "", "a `FILE` with your SSH key (the public half of one in an ssh-agent will do): also sign the approval with it")
	c.Flags().StringVar(&why, "why", "", "the reason, for the journal")
	return c
}

// askToSign shows what is about to be signed, and asks, on the person's terminal itself: what is redirected answers nothing.
func (a *app) askToSign(c Control, at journal.Attempt) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return &sallyport.Error{Op: "approve", Code: sallyport.CodeDenied, Subject: string(at.Report.Attempt), Message: "not signed: there is no terminal to ask on", Hint: "call it from a terminal: a signature is a person's"}
	}
	defer tty.Close()
	if err := a.writePage(tty, c, at, false); err != nil {
		return err
	}
	fmt.Fprintf(tty, "\nSign that you approve exactly this, with evidence %s? [y/N] ", at.Report.EvidenceDigest)
	if answer := strings.ToLower(strings.TrimSpace(readLine(tty))); answer != "y" && answer != "yes" {
		return &sallyport.Error{Op: "approve", Code: sallyport.CodeDenied, Subject: string(at.Report.Attempt), Message: "not signed"}
	}
	return nil
}

func (a *app) publishVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "publish A",
		Short: "Publish an accepted attempt again, after the first try was refused",
		Long: `Publish an accepted attempt. Needed only where the first try was refused: the branch had a commit that
Sallyport did not write, or the Publisher said no. What is published already stays as it is.`,
		Example: "  sallyport publish 01m9k3v0",
		Args:    cobra.ExactArgs(1),
		RunE: a.decision(func(ctx context.Context, c Control, at journal.Attempt) (journal.Attempt, error) {
			return c.Publish(ctx, string(at.Report.Attempt))
		}),
	}
}

// decision shows the Attempt as it stands after f; the exit code is its.
func (a *app) decision(f func(context.Context, Control, journal.Attempt) (journal.Attempt, error)) func(*cobra.Command, []string) error {
	return a.with(func(ctx context.Context, c Control, args []string) error {
		before, err := c.Attempt(ctx, args[0])
		if err != nil {
			return err
		}
		at, err := f(ctx, c, before)
		if err != nil {
			now, e := c.Attempt(ctx, string(before.Report.Attempt))
			if e != nil || !unpublished(now) {
				return err
			}
			at = now // the word counts, although the branch could not be moved
			complain(a.Stderr, err)
		}
		a.showResult(at.Report, false)
		return exit(ExitCode(at))
	})
}

func (a *app) rejectVerb() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:     "reject A --why REASON",
		Short:   "Reject an attempt",
		Long:    "Reject an attempt that awaits approval, or that was accepted and not yet published. retry gives the reason to the agent.",
		Example: "  sallyport reject 01m9k3v0 --why \"solves another problem\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if why == "" {
				return invalid("reject", "--why", "expected a reason: the next attempt is told", "sallyport reject "+args[0]+` --why "REASON"`)
			}
			return a.with(func(ctx context.Context, c Control, args []string) error {
				at, err := c.Attempt(ctx, args[0])
				if err != nil {
					return err
				}
				if at, err = c.Reject(ctx, string(at.Report.Attempt), a.Who, why); err != nil {
					return err
				}
				a.showResult(at.Report, false)
				return nil
			})(c, args)
		},
	}
	c.Flags().StringVar(&why, "why", "", "the reason")
	return c
}
