package change

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// Import reads a change stream of hostile bytes, hashes every file of it, and returns the tree that
// startTree becomes, with its difference. Repeat with the same bytes: the same tree.
//
// CodeCorrupt: the stream is damaged. CodeExhausted: it exceeds a limit. CodeInvalid: a path that CheckPath
// refuses. After an error the store holds nothing new that could be found.
//
// Nothing at or below the paths of without is taken, nor what lies in a submodule of startTree; Left counts both.
//
// Commits are the agent's messages as they came: claims, not neutralised.
func (s *Store) Import(ctx context.Context, startTree sallyport.ObjectID, r io.Reader, limits collect.Limits, without ...string) (lifecycle.Imported, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return lifecycle.Imported{}, err
	}
	defer o.close()
	p, err := s.newPack()
	if err != nil {
		return lifecycle.Imported{}, err
	}
	defer p.close()
	b := newBuilder(o, p, startTree, int(min(limits.Entries*8+1024, maxEntries)))
	in, err := s.replay(ctx, collect.NewReader(r, limits), b, without)
	if err != nil {
		return lifecycle.Imported{}, err
	}
	if in.Tree, err = b.write(); err != nil {
		return lifecycle.Imported{}, err
	}
	// Before this line the store has nothing new; after it objects that no one names yet. Both are harmless.
	if err := p.finish(ctx, s.git); err != nil {
		return lifecycle.Imported{}, err
	}
	in.Changes, err = s.Diff(ctx, startTree, in.Tree)
	return in, err
}

// The reasons, beside collect's, for which a path is left out.
const (
	LeftSubmodule = "in-submodule" // only the submodule's own repository could have it
	LeftWithout   = "copied-in"    // it was given beside the tree
)

// leaves says why a path is not taken; "": it is.
func (b *builder) leaves(path string, without []string) (string, error) {
	if slices.ContainsFunc(without, func(w string) bool { return path == w || strings.HasPrefix(path, w+"/") }) {
		return LeftWithout, nil
	}
	within, err := b.inSubmodule(path)
	if within {
		return LeftSubmodule, err
	}
	return "", err
}

func (s *Store) replay(ctx context.Context, r *collect.Reader, b *builder, without []string) (lifecycle.Imported, error) {
	in := lifecycle.Imported{Left: map[string]int{}}
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return in, nil
		}
		if err != nil {
			return in, err
		}
		if ctx.Err() != nil {
			return in, &sallyport.Error{Op: "import change", Code: sallyport.CodeUnavailable, Message: "interrupted", Err: ctx.Err()}
		}
		switch rec.Kind {
		case collect.KindMessage:
			in.Commits = append(in.Commits, rec.Text)
			continue
		case collect.KindLeftOut:
			in.Left[rec.Reason] = int(min(rec.Count, 1<<31-1))
			continue
		}
		if err := CheckPath(rec.Path); err != nil {
			return in, err
		}
		why, err := b.leaves(rec.Path, without)
		if err != nil {
			return in, err
		}
		if why != "" {
			in.Left[why]++
			continue
		}
		if err := b.apply(rec, r); err != nil {
			return in, err
		}
	}
}

func (b *builder) apply(rec collect.Record, body io.Reader) error {
	switch rec.Kind {
	case collect.KindDelete:
		return b.remove(rec.Path)
	case collect.KindLink:
		id, err := b.pack.add(objBlob, int64(len(rec.Target)), strings.NewReader(rec.Target))
		if err != nil {
			return err
		}
		return b.set(rec.Path, treeEntry{mode: modeLink, id: id})
	case collect.KindFile:
		id, err := b.pack.add(objBlob, rec.Size, body)
		if err != nil {
			return err
		}
		return b.set(rec.Path, treeEntry{mode: uint32(rec.Mode), id: id})
	}
	return &sallyport.Error{Op: "import change", Code: sallyport.CodeCorrupt, Message: fmt.Sprintf("unknown record %q", byte(rec.Kind))}
}
