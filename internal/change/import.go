package change

import (
	"context"
	"fmt"
	"io"
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
// Commits are the agent's messages as they came: claims, not neutralised.
func (s *Store) Import(ctx context.Context, startTree sallyport.ObjectID, r io.Reader, limits collect.Limits) (lifecycle.Imported, error) {
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
	in, err := s.replay(ctx, collect.NewReader(r, limits), b)
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

func (s *Store) replay(ctx context.Context, r *collect.Reader, b *builder) (lifecycle.Imported, error) {
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
