package change

import (
	"context"
	"io"

	"sallyport.dev/sallyport"
)

// PatchOptions choose what Patch writes.
type PatchOptions struct {
	Stat     bool
	NameOnly bool
	Paths    []string // literal paths; nil: all, empty: nothing
}

// Patch writes the difference of two trees for people. No attribute of the trees hides or transforms
// anything. The bytes are hostile: the caller neutralises them before a terminal sees them.
func (s *Store) Patch(ctx context.Context, w io.Writer, from, to sallyport.ObjectID, o PatchOptions) error {
	for _, id := range []sallyport.ObjectID{from, to} {
		if err := id.Check(); err != nil {
			return err
		}
	}
	if o.Paths != nil && len(o.Paths) == 0 {
		return nil
	}
	g := s.git
	g.env = append(g.env, "GIT_LITERAL_PATHSPECS=1")
	args := []string{"diff-tree", "-r", "--text", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"}
	switch {
	case o.Stat:
		args = append(args, "--stat=100")
	case o.NameOnly:
		args = append(args, "--name-only")
	default:
		args = append(args, "-p", "--full-index")
	}
	args = append(args, string(from), string(to), "--")
	return g.stream(ctx, nil, w, append(args, o.Paths...)...)
}
