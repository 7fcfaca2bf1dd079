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
// names are SHA-1, a collision alone does not make two trees look like one. The sums of blobs are remembered
// beside the store, so the next tree costs only what is new in it.
func (s *Store) TreeSum(ctx context.Context, tree sallyport.ObjectID) (sallyport.Digest, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return "", err
	}
	defer o.close()
	leaves, _, err := o.leaves(tree)
	if err != nil {
		return "", err
	}
	sums := s.loadSums()
	var fresh strings.Builder
	lines := make([]string, 0, len(leaves))
	for _, l := range leaves {
		sum, ok := sums[l.id]
		switch {
		case l.isGitlink():
			sum = string(l.id) // a commit of another repository: its name is all there is
		case !ok:
			data, err := o.read(l.id, "blob", maxSummedBlob)
			if err != nil {
				return "", err
			}
			raw := sha256.Sum256(data)
			sum = hex.EncodeToString(raw[:])
			sums[l.id] = sum
			fresh.WriteString(sumLine(l.id, raw[:]))
		}
		lines = append(lines, fmt.Sprintf("%06o %s\x00%s\n", l.mode, l.path, sum))
	}
	sort.Strings(lines)
	h := sha256.New()
	for _, l := range lines {
		h.Write([]byte(l))
	}
	s.keepSums(fresh.String())
	return sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), nil
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
