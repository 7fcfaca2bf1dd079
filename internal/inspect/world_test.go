package inspect

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"sallyport.dev/sallyport"
)

// tree is a fake pair of trees: blobs by id, changes between them.
type tree struct {
	blobs map[sallyport.ObjectID][]byte
	base  []string
	in    Input
}

func newTree(base ...string) *tree {
	t := &tree{blobs: map[sallyport.ObjectID][]byte{}, base: base}
	t.in.Blob = func(_ context.Context, id sallyport.ObjectID, max int64) ([]byte, error) {
		b, ok := t.blobs[id]
		if !ok {
			return nil, errors.New("no such blob")
		}
		return b[:min(int64(len(b)), max)], nil
	}
	t.in.BaseHas = func(p string) bool { return slices.Contains(t.base, p) }
	t.in.BasePaths = slices.Values(t.base)
	return t
}

func (t *tree) put(content string) sallyport.ObjectID {
	sum := sha1.Sum([]byte(content))
	id := sallyport.ObjectID(hex.EncodeToString(sum[:]))
	t.blobs[id] = []byte(content)
	return id
}

func (t *tree) add(path, mode, content string) *tree {
	t.in.Changes = append(t.in.Changes, sallyport.Change{Path: path, Status: sallyport.ChangeAdded, NewMode: mode, NewID: t.put(content), Size: int64(len(content))})
	return t
}

func (t *tree) edit(path, before, now string) *tree {
	t.base = append(t.base, path)
	t.in.BasePaths = slices.Values(t.base)
	t.in.Changes = append(t.in.Changes, sallyport.Change{Path: path, Status: sallyport.ChangeModified, OldMode: modeFile, NewMode: modeFile,
		OldID: t.put(before), NewID: t.put(now), Size: int64(len(now))})
	return t
}

func (t *tree) remove(path string) *tree {
	t.base = append(t.base, path)
	t.in.BasePaths = slices.Values(t.base)
	t.in.Changes = append(t.in.Changes, sallyport.Change{Path: path, Status: sallyport.ChangeDeleted, OldMode: modeFile, OldID: t.put("x")})
	return t
}

func (t *tree) inspect(tb testing.TB) []sallyport.Finding {
	tb.Helper()
	found, err := Inspect(context.Background(), t.in)
	if err != nil {
		tb.Fatalf("Inspect: %v", err)
	}
	return found
}

func rulesOf(found []sallyport.Finding) []string {
	var out []string
	for _, f := range found {
		if !slices.Contains(out, f.Rule) {
			out = append(out, f.Rule)
		}
	}
	slices.Sort(out)
	return out
}
