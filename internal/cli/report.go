package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/review"
	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) reportVerb() *cobra.Command {
	var html, force bool
	c := &cobra.Command{
		Use:   "report [A [FILE]]",
		Short: "Write an attempt's page for others, as text or one HTML file",
		Long: `Write the page that show prints, with --html as one file that works from disk: the patch is in it, and no
script or address. FILE is sallyport-ID.html where it is left out, - is stdout; only you can read it, and what is
there already is kept unless --force. The page is not signed; the evidence it names is.`,
		Example: "  sallyport report > page.txt\n  sallyport report 01m9k3v0 --html\n  sallyport report 01m9k3v0 --html /tmp/page.html --force",
		Args:    cobra.MaximumNArgs(2),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			if !html && (len(args) > 1 || force) {
				return invalid("report", "FILE, --force", "expected them with --html only", "sallyport report A > page.txt")
			}
			at, err := a.attempt(ctx, c, args[:min(len(args), 1)])
			switch {
			case err != nil:
				return err
			case !html:
				return a.writePage(a.Stdout, c, at, a.Colour)
			}
			name := "sallyport-" + screen.Short(at.Report.Attempt) + ".html"
			if len(args) > 1 {
				name = args[1]
			}
			return a.writeHTML(ctx, c, at, name, force)
		}),
	}
	c.Flags().BoolVar(&html, "html", false, "one HTML file")
	c.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return c
}

func (a *app) writeHTML(ctx context.Context, c Control, at journal.Attempt, name string, force bool) error {
	diffs, left, err := patchOf(ctx, c, at)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return review.HTML(w, pageOf(c, at), diffs, left) }
	if name == "-" {
		return write(a.Stdout)
	}
	if err := writeNew(a.path(name), force, write); err != nil {
		return err
	}
	a.tell("wrote %s", name)
	return nil
}

// patchOf is the change line by line; nothing for an Attempt of which nothing was collected.
func patchOf(ctx context.Context, c Control, at journal.Attempt) (diffs []review.Diff, left int, err error) {
	if at.Imported == nil {
		return nil, 0, nil
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.Diff(ctx, string(at.Report.Attempt), DiffOptions{}, w)) }()
	diffs, left, err = review.Patch(r)
	_ = r.CloseWithError(err)
	return diffs, left, err
}

// writeNew makes a file of one's own, whole or not at all. CodeConflict: it is there already.
func writeNew(path string, force bool, write func(io.Writer) error) error {
	failed := func(err error) error {
		return &sallyport.Error{Op: "write", Code: sallyport.CodeInvalid, Subject: path, Message: "the file cannot be written", Err: err}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sallyport-*.tmp") // 0600
	if err != nil {
		return failed(err)
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return failed(err)
	}
	if force {
		err = os.Rename(f.Name(), path)
	} else {
		err = os.Link(f.Name(), path) // unlike a rename it replaces nothing
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return &sallyport.Error{Op: "write", Code: sallyport.CodeConflict, Subject: path, Message: "expected no file of that name", Hint: "--force replaces it"}
	case err != nil:
		return failed(err)
	}
	return nil
}
