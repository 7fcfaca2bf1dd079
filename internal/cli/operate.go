package cli

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) reconcileVerb() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Bring journal and sandboxes together after a crash",
		Long: `Compare what the journal says with what exists on this machine, then adopt what can go on, and destroy
what nobody has authority over. Things that are not Sallyport's are not touched. Safe at any time.`,
		Example: "  sallyport reconcile --dry-run",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			lines, err := c.Reconcile(ctx, dry)
			return a.lines(lines, err, "nothing to do")
		}),
	}
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "only say what would be done")
	return c
}

func (a *app) fsckVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "fsck",
		Short: "Judge the state folder: journal, quarantine, evidence",
		Long: `Walk the journal's hash chain and compare it with the last signed checkpoint, quarantine with its digests,
and projections with the events. It changes nothing. Exit codes: 0 sound, 1 not.`,
		Example: "  sallyport fsck",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			lines, err := c.Fsck(ctx)
			return a.lines(lines, err, "sound")
		}),
	}
}

func (a *app) gcVerb() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:     "gc",
		Short:   "Remove caches and results whose retention has ended",
		Long:    "Remove cached checkouts that nothing uses and quarantined results whose retention has ended. The journal and the evidence stay.",
		Example: "  sallyport gc --dry-run",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			lines, err := c.GC(ctx, dry)
			return a.lines(lines, err, "nothing to remove")
		}),
	}
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "only say what would be removed")
	return c
}

// lines shows what was done, also where it then went wrong.
func (a *app) lines(lines []string, err error, none string) error {
	for _, l := range lines {
		a.say("%s", l)
	}
	if err == nil && len(lines) == 0 {
		a.say("%s", none)
	}
	return err
}

func (a *app) keysVerb() *cobra.Command {
	var rotate bool
	v := &cobra.Command{
		Use:   "keys",
		Short: "Print the public keys that verify evidence",
		Long: `Print the public keys of this installation, for verify --key. Take them over a way that you trust: a key
found beside evidence proves nothing.

With --rotate a new key is made first; the old one signs it, the journal records it, and what the old one
signed stays verifiable.`,
		Example: "  sallyport keys > key.pem\n  sallyport keys --rotate > key.pem",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			if rotate {
				if err := c.RotateKey(ctx); err != nil {
					return err
				}
			}
			pem, err := c.PublicKeys()
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(pem)
			return err
		}),
	}
	v.Flags().BoolVar(&rotate, "rotate", false, "make a new signing key first")
	return v
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Long: "Print the version of this program and of the Go that built it.",
		Example: "  sallyport version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.say("sallyport %s (%s, %s/%s)", a.version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
