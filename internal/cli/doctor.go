package cli

import (
	"context"
	"fmt"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) doctorVerb() *cobra.Command {
	var fix, asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what this machine can enforce, and how to get the rest",
		Long: `Try each containment layer on this machine and show what holds. --fix prints the commands that would make
more hold; run by root (sudo) it runs them. Exit codes: 0 every required layer holds, 40 not.`,
		Example: "  sallyport doctor\n  sudo sallyport doctor --fix",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c Control, _ []string) error {
			d, err := c.Doctor(ctx)
			if err != nil {
				return err
			}
			if fix && a.Root && len(d.Fixes) > 0 {
				if err := a.applyFixes(ctx, d.Fixes); err != nil {
					return err
				}
				if d, err = c.Doctor(ctx); err != nil {
					return err
				}
			}
			if asJSON {
				list(&d.Layers)
				list(&d.Facts)
				list(&d.Fixes)
				a.writeJSON(d)
			} else {
				a.showDoctor(d, fix)
			}
			if !d.OK {
				return exit(ExitRefused)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&fix, "fix", false, "print the commands that would make more hold; run by root: run them")
	c.Flags().BoolVar(&asJSON, "json", false, "print exactly one JSON document on stdout")
	return c
}

func (a *app) showDoctor(d Doctor, fix bool) {
	for _, f := range d.Facts {
		a.doctorLine(f.OK, f.Name, f.Value)
	}
	for _, l := range d.Layers {
		needed := "optional"
		if l.Required || slices.Contains(sallyport.RequiredLayers(), l.Layer) {
			needed = "required"
		}
		text := fmt.Sprintf("%s, %s: %s", l.Status, needed, l.Proof)
		if l.Weaker != "" {
			text = fmt.Sprintf("%s, %s, weaker (%s): %s", l.Status, needed, l.Weaker, l.Proof)
		}
		a.doctorLine(l.Status == sallyport.LayerHeld, string(l.Layer), text)
	}
	switch {
	case d.OK:
		a.say("This machine enforces every required layer.")
	default:
		a.say("A required layer does not hold: nothing will be run here.")
	}
	if len(d.Fixes) == 0 {
		return
	}
	if !fix {
		a.say("`sallyport doctor --fix` shows %d way(s) to make more hold.", len(d.Fixes))
		return
	}
	for _, f := range d.Fixes {
		a.say("# %s", f.Why)
		if f.Command != "" {
			a.say("%s", f.Command)
		}
	}
}

// doctorLine is cut on a terminal, whole elsewhere.
func (a *app) doctorLine(ok bool, name, text string) {
	mark := "--"
	if ok {
		mark = "ok"
	}
	line := screen.Line(fmt.Sprintf("%s  %-23s %s", mark, name, text))
	if a.Width > 0 {
		line = screen.Fit(line, a.Width)
	}
	fmt.Fprintln(a.Stdout, line)
}

// applyFixes runs the commands one by one and stops at the first that fails. They are our own, never from a
// repository.
func (a *app) applyFixes(ctx context.Context, fixes []Fix) error {
	for _, f := range fixes {
		a.tell("# %s", f.Why)
		if f.Command == "" {
			continue // words for a person
		}
		a.tell("+ %s", f.Command)
		out := screen.NewWriter(a.Stderr)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", f.Command)
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Run()
		_ = out.Close()
		if err != nil {
			return &sallyport.Error{Op: "doctor --fix", Code: sallyport.CodeUnavailable, Subject: f.Command, Message: "the command failed", Hint: "run it by hand to see why", Err: err}
		}
	}
	return nil
}
