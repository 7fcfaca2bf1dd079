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
	args, stdin := []string{"--revs"}, ""
	for _, id := range cut {
		stdin += fmt.Sprintf("--shallow %s\n", id)
	}
	stdin += fmt.Sprintf("%s\n", o.Commit)
	if s.repo.Partial() {
		args = nil
		if stdin, err = s.present(ctx, o.Commit, cut); err != nil {
			return err
		}
	}
	// No delta search: what the user's packs have as deltas stays deltas, the rest is stored whole. The
	// start of a run is worth more than a tenth of the size.
	args = append([]string{"-c", "pack.writeReverseIndex=false", "pack-objects", "--delta-base-offset", "--window=0", "--quiet", "--threads=2"}, args...)
	if _, err = s.git.run(ctx, strings.NewReader(stdin), append(args, filepath.Join(dir, "pack"))...); err != nil {
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

// present names each object of the history that is there, since pack-objects does not walk past a folder that is
// missing.
func (s *Store) present(ctx context.Context, commit sallyport.ObjectID, cut []sallyport.ObjectID) (string, error) {
	shallow, err := os.CreateTemp(s.dir, "shallow-*.tmp")
	if err != nil {
		return "", unwritable(err)
	}
	defer os.Remove(shallow.Name())
	_, err = shallow.WriteString(lines(cut))
	if cerr := shallow.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", unwritable(err)
	}
	g := s.git
	g.env = append(g.env[:len(g.env):len(g.env)], "GIT_SHALLOW_FILE="+shallow.Name())
	out, err := g.run(ctx, nil, "rev-list", "--objects", "--no-object-names", "--missing=allow-any", string(commit))
	return string(out), err
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
