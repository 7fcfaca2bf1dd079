package cli

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/control"
)

// publisherVerb hands its arguments on: what it is about is the Publisher's, which this program cannot read for it.
func (a *app) publisherVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "publisher check|keys|reconcile [REPOSITORY]",
		Short: "Test, name and tidy up the Publisher that opens pull requests",
		Long: `Call the Publisher of this user, by its own program and configuration. check tests each target before it is needed:
it reaches it, has what it needs and not more, and sees what guards the base branch. keys prints the public keys that
receipts are verified with. reconcile revokes credentials that a publication left behind. A Publisher that runs as
another user is called there: sallyport-publisher check.`,
		Example:            "  sallyport publisher check",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
				return c.Help()
			}
			program, err := control.PublisherProgram()
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(c.Context(), program, args...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, a.Stdout, a.Stderr, control.PublisherEnv()
			err = cmd.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() > 0 { // it has said why
				return &exitError{code: exit.ExitCode()}
			}
			if err != nil {
				return &sallyport.Error{Op: "publisher", Code: sallyport.CodeUnavailable, Subject: program, Err: err}
			}
			return nil
		},
	}
}
