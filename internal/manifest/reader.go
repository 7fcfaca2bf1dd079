package manifest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"sallyport.dev/sallyport"
)

// Place is where a value was written.
type Place struct {
	At   string // "workorder.yaml:8:12" or "flag limits.time"
	Flag bool   // the invoking user typed it, so it speaks for the operator where no ceiling forbids that
}

// Places maps a field ("limits.memory", "checks[0].name") to where it was written. A missing field was not
// said, or was made by code: the field's own name then serves as subject.
type Places map[string]Place

func (p Places) at(field string) string {
	if w, ok := p[field]; ok && w.At != "" {
		return w.At
	}
	return field
}

// value is a leaf that reads itself. The same type describes itself to the schema, so that the two cannot
// drift apart.
type value interface {
	read(r *reader, n ast.Node, field string) error
	want() string // what was expected, for people
	schema() object
}

// reader fills a Go value from one YAML document, by `yaml:"key"` and `yaml:"key,required"`, and stops at
// the first error. The library's own decoder is not used: its complaints speak of Go types, and it
// keeps no positions for what Compile has to say later.
type reader struct {
	file   string
	places Places
	// elsewhere explains keys that exist, but not in this file.
	elsewhere map[string]string
}

// decode reads data into out, a pointer to a struct.
func decode(file string, data []byte, elsewhere map[string]string, out any) (Places, error) {
	root, err := load(file, data)
	if err != nil {
		return nil, err
	}
	r := &reader{file: file, places: Places{}, elsewhere: elsewhere}
	return r.places, r.into(root, "", reflect.ValueOf(out).Elem())
}

func (r *reader) into(n ast.Node, field string, out reflect.Value) error {
	if field != "" {
		r.places[field] = Place{At: r.where(n)}
	}
	if out.Kind() == reflect.Pointer {
		out.Set(reflect.New(out.Type().Elem()))
		return r.into(n, field, out.Elem())
	}
	if v, ok := out.Addr().Interface().(value); ok {
		return v.read(r, n, field)
	}
	if out.Kind() == reflect.Slice {
		return r.list(n, field, out)
	}
	return r.mapping(n, field, out)
}

// list reads a sequence. An empty one stays empty and is not nil: it says "nothing".
func (r *reader) list(n ast.Node, field string, out reflect.Value) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.expected(n, "a list")
	}
	out.Set(reflect.MakeSlice(out.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		if err := r.into(item, fmt.Sprintf("%s[%d]", field, i), out.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) mapping(n ast.Node, field string, out reflect.Value) error {
	keys := structKeys(out.Type())
	pairs, ok := pairsOf(n)
	if !ok {
		return r.expected(n, "a mapping with "+listed(keys.names()))
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		name, err := r.key(p, seen, pairs)
		if err != nil {
			return err
		}
		k, ok := keys[name]
		if !ok {
			return r.unknownKey(p, field, name, keys.names())
		}
		if err := r.into(p.Value, join(field, name), out.Field(k.index)); err != nil {
			return err
		}
	}
	for _, name := range keys.names() {
		if keys[name].required && !seen[name] {
			return invalid(r.where(n), fmt.Sprintf("%q is missing; expected %s", name, describe(out.Type().Field(keys[name].index).Type)), "")
		}
	}
	return nil
}

// describe says in words what a missing key should hold.
func describe(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v, ok := reflect.New(t).Interface().(value); ok {
		return v.want()
	}
	if t.Kind() == reflect.Slice {
		return "a list"
	}
	return "a mapping with " + listed(structKeys(t).names())
}

// key is the text of one pair's key, once.
func (r *reader) key(p *ast.MappingValueNode, seen map[string]bool, all []*ast.MappingValueNode) (string, error) {
	name, ok := textOf(p.Key)
	if !ok {
		return "", invalid(r.where(p.Key), "expected a key that is text, found "+kindOf(p.Key), "")
	}
	if seen[name] {
		return "", invalid(r.where(p.Key), fmt.Sprintf("key %s is already set at %s; expected it once", quoted(name), r.first(all, name)), "")
	}
	seen[name] = true
	return name, nil
}

func (r *reader) first(pairs []*ast.MappingValueNode, name string) string {
	for _, p := range pairs {
		if s, ok := textOf(p.Key); ok && s == name {
			return fmt.Sprintf("line %d", p.Key.GetToken().Position.Line)
		}
	}
	return "an earlier line"
}

func (r *reader) unknownKey(p *ast.MappingValueNode, field, name string, known []string) error {
	where := r.where(p.Key)
	if why := r.elsewhere[join(field, name)]; why != "" {
		return invalid(where, fmt.Sprintf("key %s does not belong here: %s", quoted(name), why), "remove it")
	}
	hint := ""
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return invalid(where, fmt.Sprintf("unknown key %s; expected one of %s", quoted(name), strings.Join(known, ", ")), hint)
}

func (r *reader) where(n ast.Node) string { return atToken(r.file, startOf(n)) }

// expected is the complaint about a value of the wrong kind or form.
func (r *reader) expected(n ast.Node, what string) error {
	hint := ""
	switch n.(type) {
	case nil, *ast.NullNode:
		hint = "remove the key to get its default"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		if what == "text" {
			hint = fmt.Sprintf("put it in quotes: %q", clip(n.GetToken().Value))
		}
	}
	return invalid(r.where(n), fmt.Sprintf("expected %s, found %s", what, foundOf(n)), hint)
}

// foundOf is what a node holds: text is repeated, anything else is named.
func foundOf(n ast.Node) string {
	if s, ok := textOf(n); ok {
		return quoted(s)
	}
	return kindOf(n)
}

// later refuses what a later version brings. It is never ignored: somebody who wrote it relies on it.
func later(subject, what string) error {
	return &sallyport.Error{Op: "parse", Code: sallyport.CodeUnsupported, Subject: subject,
		Message: what + " arrives with a later version; remove it"}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// pairsOf gives the pairs of a mapping in the order they were written.
func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// startOf is the first token of a node; the library's own answer for a mapping is its first colon.
func startOf(n ast.Node) *token.Token {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return startOf(v.Values[0].Key)
		}
		return v.Start
	case *ast.MappingValueNode:
		return startOf(v.Key)
	case nil:
		return nil
	}
	return n.GetToken()
}

// textOf is the content of a node that YAML 1.2 reads as text, quoted or not.
func textOf(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	}
	return "", false
}

// kindOf names a node for people.
func kindOf(n ast.Node) string {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return v.Token.Value
	case *ast.IntegerNode:
		return "the number " + clip(v.Token.Value)
	case *ast.FloatNode:
		return "the number " + clip(v.Token.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return "a number without a value"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	}
	return "something else"
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func quoted(s string) string { return fmt.Sprintf("%q", clip(s)) }

func listed(names []string) string { return strings.Join(names, ", ") }
