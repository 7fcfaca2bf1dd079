package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport/internal/review"
	"sallyport.dev/sallyport/internal/screen"
)

// diffFlags are what diff can be asked.
type diffFlags struct {
	o                 DiffOptions
	words, raw, plain bool
}

func (a *app) diffVerb() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "diff [A [B]] [-- PATH...]",
		Short: "Show what an attempt changed",
		Long: `Show the change of an attempt against its base, or the way from attempt A to attempt B of the same repository.
It is compared in Sallyport's own repository: no attribute or configuration of yours or of the change has a say.
Every control character is spelled out: <ESC>, <CR>, <U+202E>. On a terminal it goes through SALLYPORT_PAGER,
else PAGER, else less. --raw writes the exact bytes, as git apply wants them, and only to a file or pipe: they
are the agent's.`,
		Example: "  sallyport diff --stat\n  sallyport diff 01m9k3v0 --words -- billing/\n  sallyport diff --raw > change.patch",
		RunE: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, f.o.Paths = args[:dash], args[dash:]
			}
			if err := a.checkDiff(f, args); err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c Control, args []string) error { return a.diff(ctx, c, f, args) })(c, args)
		},
	}
	s := c.Flags()
	s.BoolVar(&f.o.Stat, "stat", false, "lines added and removed per file")
	s.BoolVar(&f.o.NameOnly, "name-only", false, "paths only")
	s.BoolVar(&f.words, "words", false, "mark what differs within lines")
	s.BoolVar(&f.raw, "raw", false, "the exact bytes")
	noPager(c, &f.plain)
	return c
}

func (a *app) checkDiff(f diffFlags, args []string) error {
	forms := 0
	for _, on := range []bool{f.o.Stat, f.o.NameOnly, f.words} {
		if on {
			forms++
		}
	}
	switch {
	case len(args) > 2:
		return invalid("diff", args[2], "expected at most two attempts", "paths go behind --: sallyport diff A -- PATH")
	case forms > 1:
		return invalid("diff", "--stat, --name-only, --words", "expected one of them", "")
	case f.raw && f.words:
		return invalid("diff", "--raw, --words", "expected one of them: marked words are no patch", "")
	case f.raw && !a.Raw:
		return invalid("diff", "--raw", "expected stdout to be a file or a pipe: these bytes may command your terminal", "sallyport diff --raw > change.patch")
	}
	return nil
}

func (a *app) diff(ctx context.Context, c Control, f diffFlags, args []string) error {
	if len(args) == 2 {
		from, err := a.id(ctx, c, args[:1])
		if err != nil {
			return err
		}
		f.o.From, args = from, args[1:]
	}
	id, err := a.id(ctx, c, args)
	if err != nil {
		return err
	}
	if f.raw {
		return c.Diff(ctx, id, f.o, a.Stdout)
	}
	return a.paged(f.plain, func(w io.Writer) error {
		patch := !f.o.Stat && !f.o.NameOnly
		painter := review.NewPainter(w, review.PaintOptions{Colour: a.Colour && patch, Words: f.words})
		neutral := screen.NewSourceWriter(painter)
		return errors.Join(c.Diff(ctx, id, f.o, neutral), neutral.Close(), painter.Close())
	})
}
