package manifest

import (
	"reflect"
	"sort"
	"strings"
)

// key is one field of a struct that stands for a YAML mapping.
type key struct {
	index    int
	required bool
}

type keySet map[string]key

func structKeys(t reflect.Type) keySet {
	keys := keySet{}
	for i := range t.NumField() {
		name, opt, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		keys[name] = key{index: i, required: opt == "required"}
	}
	return keys
}

// names lists the keys in the order the type declares them.
func (k keySet) names() []string {
	names := make([]string, 0, len(k))
	for n := range k {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return k[names[i]].index < k[names[j]].index })
	return names
}

// nearest is the known key that a typing error most likely meant; "" if none is near.
func nearest(name string, known []string) string {
	best, limit := "", max(1, len(name)/3)
	for _, k := range known {
		if d := distance(name, k); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// distance is the number of insertions, removals and replacements between two short words.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := prev
			if a[i] != b[j] {
				cost = 1 + min(prev, row[j], row[j+1])
			}
			prev, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
