package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/manifest"
)

func (a *app) trustVerb() *cobra.Command {
	var yes, show bool
	c := &cobra.Command{
		Use:   "trust",
		Short: "Grant what this repository asks of your machine",
		Long: `Show what this repository's sallyport.yaml asks of your machine beyond what every run gets (folders, caches,
environment, hosts) and ask once whether to grant it. A grant is for exactly these asks: any other needs a new one.`,
		Example: "  sallyport trust --show\n  sallyport trust --yes",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			t, err := c.TrustAsks(ctx, a.Dir)
			if err != nil {
				return err
			}
			a.showAsks(a.Stdout, t.Asks)
			switch {
			case len(t.Asks) == 0:
				return nil
			case t.Granted:
				a.say("This is granted already.")
				return nil
			case show:
				a.say("This is not granted.")
				return nil
			}
			if !yes {
				ask := a.grant()
				if ask == nil {
					return &sallyport.Error{Op: "trust", Code: sallyport.CodeDenied, Subject: t.Repository, Message: "not granted: there is no terminal to ask on", Hint: "sallyport trust --yes"}
				}
				if !a.confirm() {
					return &sallyport.Error{Op: "trust", Code: sallyport.CodeDenied, Subject: t.Repository, Message: "not granted"}
				}
			}
			if err := c.Grant(ctx, t); err != nil {
				return err
			}
			a.say("Granted.")
			return nil
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "grant without asking")
	c.Flags().BoolVar(&show, "show", false, "only show what is asked")
	return c
}

func (a *app) showAsks(w io.Writer, asks []manifest.Ask) {
	say := a.say
	if w == a.Stderr {
		say = a.tell
	}
	if len(asks) == 0 {
		say("This repository asks nothing of your machine beyond what every run gets.")
		return
	}
	say("This repository asks of your machine:")
	for _, k := range asks {
		say("  %s  (%s)", k.What, k.Why)
	}
}

// grant asks the person at the terminal; nil where there is none.
func (a *app) grant() func([]manifest.Ask) bool {
	if a.Console == nil {
		return nil
	}
	return func(asks []manifest.Ask) bool {
		a.showAsks(a.Stderr, asks)
		return a.confirm()
	}
}

// confirm takes only a clear yes.
func (a *app) confirm() bool {
	fmt.Fprint(a.Stderr, "Grant this? [y/N] ")
	answer := strings.ToLower(strings.TrimSpace(readLine(a.Stdin)))
	return answer == "y" || answer == "yes"
}

// readLine reads byte by byte: what comes after the line belongs to somebody else.
func readLine(r io.Reader) string {
	var line []byte
	b := make([]byte, 1)
	for len(line) < 1024 {
		n, err := r.Read(b)
		if n > 0 && b[0] != '\n' {
			line = append(line, b[0])
		}
		if n > 0 && b[0] == '\n' || err != nil {
			break
		}
	}
	return string(line)
}
