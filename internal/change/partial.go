package change

import (
	"bytes"
	"context"
	"path/filepath"

	"sallyport.dev/sallyport"
)

// Partial reports whether the repository was cloned without some of its objects, which git would fetch when it
// meets them. Ours never does.
func (r *Repo) Partial() bool {
	packs, _ := filepath.Glob(filepath.Join(quoteGlob(r.CommonDir), "objects", "pack", "*.promisor"))
	return len(packs) > 0
}

// quoteGlob is a pattern that matches the path alone.
func quoteGlob(path string) string {
	var b bytes.Buffer
	for _, c := range []byte(path) {
		if bytes.IndexByte([]byte(`*?[\`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Missing counts the objects of tree that are not there; those of a folder that is missing itself are not known.
func (r *Repo) Missing(ctx context.Context, tree sallyport.ObjectID) (int, error) {
	out, err := r.git.run(ctx, nil, "rev-list", "--objects", "--missing=print", string(tree))
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range bytes.Lines(out) {
		if line[0] == '?' {
			n++
		}
	}
	return n, nil
}

// absent is err for an object that others name, so that it is no answer to whether there is one.
func absent(err error) error {
	if sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	return &sallyport.Error{Op: "read object", Code: sallyport.CodeUnavailable, Message: "the repository lacks an object that it names", Hint: "if it is a partial clone, fetch what is missing; else run `git fsck`", Err: err}
}
