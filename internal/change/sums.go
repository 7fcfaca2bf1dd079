package change

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"sallyport.dev/sallyport"
)

// Paths are all files, links and submodules of a tree.
func (s *Store) Paths(ctx context.Context, tree sallyport.ObjectID) (iter.Seq[string], error) {
	leaves, err := s.leaves(ctx, tree)
	if err != nil {
		return nil, err
	}
	return func(yield func(string) bool) {
		for _, l := range leaves {
			if !yield(l.path) {
				return
			}
		}
	}, nil
}

func (s *Store) leaves(ctx context.Context, tree sallyport.ObjectID) ([]leaf, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	leaves, _, err := o.leaves(tree)
	return leaves, err
}

// TreeSum is the SHA-256 over the sorted lines `mode SP path NUL sha256(blob) LF` of a tree: where object
// names are SHA-1, a collision alone does not make two trees look like one. The sums of the base's blobs are
// remembered beside the store, by git's name: nobody in a sandbox chose them. Those of all other blobs are
// computed from their bytes each time.
func (s *Store) TreeSum(ctx context.Context, base, tree sallyport.ObjectID) (sallyport.Digest, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return "", err
	}
	defer o.close()
	known, err := s.baseSums(o, base)
	if err != nil {
		return "", err
	}
	leaves, _, err := o.leaves(tree)
	if err != nil {
		return "", err
	}
	lines := make([]string, 0, len(leaves))
	for _, l := range leaves {
		sum, ok := known[l.id]
		if !ok {
			if sum, err = o.sum(l); err != nil {
				return "", err
			}
		}
		lines = append(lines, fmt.Sprintf("%06o %s\x00%s\n", l.mode, l.path, sum))
	}
	sort.Strings(lines)
	h := sha256.New()
	for _, l := range lines {
		h.Write([]byte(l))
	}
	return sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), nil
}

// baseSums are the sums of every blob of the base, from what is remembered or from their bytes.
func (s *Store) baseSums(o *objects, base sallyport.ObjectID) (map[sallyport.ObjectID]string, error) {
	leaves, _, err := o.leaves(base)
	if err != nil {
		return nil, err
	}
	remembered := s.loadSums()
	sums := make(map[sallyport.ObjectID]string, len(leaves))
	var fresh strings.Builder
	for _, l := range leaves {
		if sums[l.id] != "" {
			continue
		}
		sum := remembered[l.id]
		if sum == "" {
			if sum, err = o.sum(l); err != nil {
				return nil, err
			}
			fmt.Fprintf(&fresh, "%s %s\n", l.id, sum)
		}
		sums[l.id] = sum
	}
	s.keepSums(fresh.String())
	return sums, nil
}

// sum is the SHA-256 of a blob, in hexadecimal. A submodule has no bytes here: its commit's name is all there
// is.
func (o *objects) sum(l leaf) (string, error) {
	if l.isGitlink() {
		return string(l.id), nil
	}
	data, err := o.read(l.id, "blob", maxSummedBlob)
	if err != nil {
		return "", err
	}
	raw := sha256.Sum256(data)
	return hex.EncodeToString(raw[:]), nil
}

// maxSummedBlob bounds one blob; an Import takes none that is larger.
const maxSummedBlob = 1 << 30

func (s *Store) sumsPath() string {
	return filepath.Join(filepath.Dir(s.dir), filepath.Base(s.dir)+".sums")
}

func sumLine(id sallyport.ObjectID, sum []byte) string {
	return string(id) + " " + hex.EncodeToString(sum) + "\n"
}

// loadSums reads what is remembered; a torn last line is none.
func (s *Store) loadSums() map[sallyport.ObjectID]string {
	sums := map[sallyport.ObjectID]string{}
	f, err := os.Open(s.sumsPath())
	if err != nil {
		return sums
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		id, sum, ok := strings.Cut(sc.Text(), " ")
		if ok && len(sum) == 64 && sallyport.ObjectID(id).Check() == nil {
			sums[sallyport.ObjectID(id)] = sum
		}
	}
	return sums
}

// keepSums adds to what is remembered. Losing it costs time only.
func (s *Store) keepSums(text string) {
	if text == "" {
		return
	}
	f, err := os.OpenFile(s.sumsPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(text)
}
