package change

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// depthOf reads CheckoutOptions.History; 0 is all.
func depthOf(history string) (int, error) {
	if history == "full" || history == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(history)
	if err != nil || n < 1 || strconv.Itoa(n) != history {
		return 0, &sallyport.Error{Op: "check out", Code: sallyport.CodeInvalid, Subject: "history", Message: fmt.Sprintf(`expected "full" or a number of commits, found %+q`, history)}
	}
	return n, nil
}

// buildPack writes one pack of exactly what can be reached from the commit, within the depth, and the file
// "shallow" where history is cut off.
func (s *Store) buildPack(ctx context.Context, o CheckoutOptions, dir string) error {
	cut, err := s.boundary(ctx, o)
	if err != nil {
		return err
	}
	var revs strings.Builder
	for _, id := range cut {
		fmt.Fprintf(&revs, "--shallow %s\n", id)
	}
	fmt.Fprintf(&revs, "%s\n", o.Commit)
	// No delta search: what the user's packs have as deltas stays deltas, the rest is stored whole. The
	// start of a run is worth more than a tenth of the size.
	_, err = s.git.run(ctx, strings.NewReader(revs.String()), "-c", "pack.writeReverseIndex=false", "pack-objects", "--revs", "--delta-base-offset", "--window=0", "--quiet", "--threads=2", filepath.Join(dir, "pack"))
	if err != nil {
		return err
	}
	if len(cut) > 0 {
		if err := writePlain(filepath.Join(dir, "shallow"), []byte(lines(cut))); err != nil {
			return err
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(err)
	}
	for _, n := range names {
		if err := os.Chmod(filepath.Join(dir, n.Name()), 0o444); err != nil {
			return unwritable(err)
		}
	}
	return nil
}

// boundary lists the commits whose parents are left out, sorted: those at the depth, and those where the
// user's own clone is cut off.
func (s *Store) boundary(ctx context.Context, o CheckoutOptions) ([]sallyport.ObjectID, error) {
	depth, err := depthOf(o.History)
	if err != nil {
		return nil, err
	}
	shallow := map[sallyport.ObjectID]bool{}
	data, err := os.ReadFile(filepath.Join(s.dir, "git/shallow"))
	if err != nil && !os.IsNotExist(err) {
		return nil, unwritable(err)
	}
	for line := range strings.FieldsSeq(string(data)) {
		shallow[sallyport.ObjectID(line)] = true
	}
	if depth == 0 && len(shallow) == 0 {
		return nil, nil
	}
	objs, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer objs.close()
	return objs.boundary(o.Commit, depth, shallow)
}

func (o *objects) boundary(commit sallyport.ObjectID, depth int, shallow map[sallyport.ObjectID]bool) ([]sallyport.ObjectID, error) {
	seen := map[sallyport.ObjectID]bool{commit: true}
	level := []sallyport.ObjectID{commit}
	var cut []sallyport.ObjectID
	for d := 1; len(level) > 0; d++ {
		var next []sallyport.ObjectID
		for _, c := range level {
			if shallow[c] {
				cut = append(cut, c)
				continue
			}
			parents, err := o.parentsOf(c)
			if err != nil {
				return nil, err
			}
			if d == depth {
				if len(parents) > 0 {
					cut = append(cut, c)
				}
				continue
			}
			for _, p := range parents {
				if !seen[p] {
					seen[p] = true
					next = append(next, p)
				}
			}
		}
		level = next
	}
	slices.Sort(cut)
	return cut, nil
}

func lines(ids []sallyport.ObjectID) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(string(id) + "\n")
	}
	return b.String()
}
