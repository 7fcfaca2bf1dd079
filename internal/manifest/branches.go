package manifest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// Values that are a word or a list, or a mapping with free keys.

// Choice is `auto`, `none` or a list. The zero value is none.
type Choice struct {
	Auto bool
	List []string // explicit entries; beside Auto they are extra
}

type (
	toolsChoice  Choice
	cachesChoice Choice
	extraTools   []string // the user's: always beside what the repository gets, so auto in it adds nothing
	requireList  []string
	envMap       map[string]string
)

const (
	wantTools   = "auto, none or a list of absolute or ~/ paths"
	wantCaches  = "auto, none or a list of cache names"
	wantRequire = "all or a list of layers"
)

func (c *toolsChoice) want() string { return wantTools }
func (c *toolsChoice) read(r *reader, n ast.Node, field string) error {
	return readChoice[toolPath](r, n, field, (*Choice)(c), wantTools)
}

func (l *extraTools) want() string { return "a list of absolute or ~/ paths" }
func (l *extraTools) read(r *reader, n ast.Node, field string) error {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return r.expected(n, "a list")
	}
	var c Choice
	err := readChoice[toolPath](r, n, field, &c, l.want())
	*l = c.List
	return err
}

func (c *cachesChoice) want() string { return wantCaches }
func (c *cachesChoice) read(r *reader, n ast.Node, field string) error {
	return readChoice[cacheName](r, n, field, (*Choice)(c), wantCaches)
}

func readChoice[T ~string](r *reader, n ast.Node, field string, out *Choice, want string) error {
	switch s, _ := textOf(n); s {
	case "auto":
		*out = Choice{Auto: true, List: []string{}}
		return nil
	case "none":
		*out = Choice{List: []string{}}
		return nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.expected(n, want)
	}
	// [auto, ~/x]: what auto finds and more. Messages offer it, as a list alone is instead of auto.
	if i := slices.IndexFunc(seq.Values, func(v ast.Node) bool { s, _ := textOf(v); return s == "auto" }); i >= 0 {
		rest := *seq
		rest.Values, out.Auto = slices.Delete(slices.Clone(seq.Values), i, i+1), true
		n = &rest
	}
	list, err := readList[T](r, n, field)
	out.List = list
	return err
}

// readList reads a list of leaves; a repeated entry is a mistake and is refused.
func readList[T ~string](r *reader, n ast.Node, field string) ([]string, error) {
	var items []T
	if err := r.list(n, field, reflect.ValueOf(&items).Elem()); err != nil {
		return nil, err
	}
	return r.unique(field, plain(items))
}

// unique returns list, or says which entry is there twice.
func (r *reader) unique(field string, list []string) ([]string, error) {
	seen := map[string]bool{}
	for i, s := range list {
		if seen[s] {
			return nil, invalid(r.places.at(fmt.Sprintf("%s[%d]", field, i)), quoted(s)+" is in the list already; expected it once", "")
		}
		seen[s] = true
	}
	return list, nil
}

func (l *requireList) want() string { return wantRequire }
func (l *requireList) read(r *reader, n ast.Node, field string) (err error) {
	if s, _ := textOf(n); s == "all" {
		*l = requireList{"all"}
		return nil
	}
	if _, ok := n.(*ast.SequenceNode); !ok {
		return r.expected(n, wantRequire)
	}
	*l, err = readList[layerName](r, n, field)
	return err
}

func (m *envMap) want() string { return "a mapping from variable names to text" }
func (m *envMap) read(r *reader, n ast.Node, field string) (err error) {
	*m, err = readMap(r, n, field, m.want(), envNameRule, func(v argument) string { return string(v) })
	return err
}

// readMap reads a mapping from names to leaves; form says what a name should have been, "" where it is right.
func readMap[L any, V any](r *reader, n ast.Node, field, want string, form func(name string) string, value func(L) V) (map[string]V, error) {
	pairs, ok := pairsOf(n)
	if !ok {
		return nil, r.expected(n, want)
	}
	m, seen := map[string]V{}, map[string]bool{}
	for _, p := range pairs {
		name, err := r.key(p, seen, pairs)
		if err != nil {
			return nil, err
		}
		if want := form(name); want != "" {
			return nil, r.expected(p.Key, want)
		}
		var leaf L
		if err := r.into(p.Value, join(field, name), reflect.ValueOf(&leaf).Elem()); err != nil {
			return nil, err
		}
		m[name] = value(leaf)
	}
	return m, nil
}

// plain forgets that strings were leaves. It never returns nil for a list that is not nil.
func plain[T ~string](in []T) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

func plainAt[T ~string](in *[]T) *[]string {
	if in == nil {
		return nil
	}
	out := plain(*in)
	return &out
}
