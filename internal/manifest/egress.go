package manifest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// egressList is `egress:`: what the agent may reach, presets resolved.
type egressList []sallyport.EgressRule

func (l *egressList) want() string { return "a list of presets, hosts and rules" }

func (l *egressList) read(r *reader, n ast.Node, field string) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.expected(n, "a list")
	}
	*l = egressList{}
	for _, entry := range seq.Values {
		rules, err := r.egressEntry(entry)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			r.places[fmt.Sprintf("%s[%d]", field, len(*l))] = Place{At: r.where(entry)}
			*l = append(*l, rule)
		}
	}
	return nil
}

func (l *egressList) rules() *[]sallyport.EgressRule {
	if l == nil {
		return nil
	}
	out := []sallyport.EgressRule(*l)
	return &out
}

// egressEntry reads one entry by the rules of internal/egress, and names the place of what that refuses.
func (r *reader) egressEntry(n ast.Node) ([]sallyport.EgressRule, error) {
	v, err := r.plainValue(n)
	if err != nil {
		return nil, err
	}
	rules, err := egress.Parse(v)
	var e *sallyport.Error
	if errors.As(err, &e) {
		return nil, invalid(r.where(partOf(n, e.Subject)), strings.TrimPrefix(e.Subject+": "+e.Message, ": "), e.Hint)
	}
	return rules, err
}

// plainValue is a node as a decoder gives it: text, number, boolean, list or mapping.
func (r *reader) plainValue(n ast.Node) (any, error) {
	if s, ok := textOf(n); ok {
		return s, nil
	}
	if pairs, ok := pairsOf(n); ok {
		out, seen := map[string]any{}, map[string]bool{}
		for _, p := range pairs {
			name, err := r.key(p, seen, pairs)
			if err != nil {
				return nil, err
			}
			if out[name], err = r.plainValue(p.Value); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		out := make([]any, len(n.Values))
		for i, item := range n.Values {
			var err error
			if out[i], err = r.plainValue(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.IntegerNode:
		if i, err := strconv.ParseInt(n.Token.Value, 10, 64); err == nil {
			return i, nil
		}
		return nil, r.expected(n, "a whole number in decimal digits")
	}
	return nil, r.expected(n, "text, a number, true or false, a list or a mapping")
}

// partOf is the node that a subject such as "limits.up" or "methods[1]" stands for; n itself where there is none.
func partOf(n ast.Node, subject string) ast.Node {
	name, rest, _ := strings.Cut(strings.ReplaceAll(subject, "[", "."), ".")
	if seq, ok := n.(*ast.SequenceNode); ok {
		if i, err := strconv.Atoi(strings.TrimSuffix(name, "]")); err == nil && i < len(seq.Values) {
			return partOf(seq.Values[i], rest)
		}
	}
	pairs, _ := pairsOf(n)
	for _, p := range pairs {
		if key, _ := textOf(p.Key); key == name && name != "" {
			return partOf(p.Value, rest)
		}
	}
	return n
}

func (l *egressList) schema() object {
	text := func(words ...string) object {
		return object{"type": "string", "minLength": 1, "maxLength": 255}
	}
	rule := object{"type": "object", "required": []string{"host"}, "additionalProperties": false, "properties": object{
		"host": text(), "port": object{"type": "integer", "minimum": 1, "maximum": 65535},
		"protocol": enumSchema([]string{"https", "http", "tcp", "git"}),
		"methods":  listSchema(text()), "paths": listSchema(text()), "own-auth": object{"type": "boolean"},
		"limits": object{"type": "object", "additionalProperties": false, "properties": object{
			"requests": object{"type": "integer", "minimum": 1}, "up": text(), "down": text(), "rate": text()}},
	}}
	return object{"type": "array", "items": object{"oneOf": []object{text(), rule}}}
}

// resolveMap is `resolve:`: addresses by canonical name.
type resolveMap map[string]string

func (m *resolveMap) want() string { return "a mapping from names to addresses" }

func (m *resolveMap) read(r *reader, n ast.Node, _ string) error {
	pairs, ok := pairsOf(n)
	if !ok {
		return r.expected(n, m.want())
	}
	*m = resolveMap{}
	seen := map[string]bool{}
	for _, p := range pairs {
		text, err := r.key(p, seen, pairs)
		if err != nil {
			return err
		}
		name, err := egress.Host(text)
		if err != nil || name.IsAddr() || name.String() != text {
			return r.expected(p.Key, "a host's name in lower case")
		}
		value, _ := textOf(p.Value)
		to, ok := address(value)
		if !ok {
			return r.expected(p.Value, "an address such as 192.0.2.1, or one with a port such as 192.0.2.1:8443")
		}
		(*m)[text] = to
	}
	return nil
}

// address is an address, with a port or without, in its one spelling.
func address(text string) (string, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String(), a.Zone() == ""
	}
	to, err := netip.ParseAddrPort(text)
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()).String(), err == nil && to.Port() != 0 && to.Addr().Zone() == ""
}

func (m *resolveMap) schema() object {
	return object{"type": "object", "additionalProperties": object{"type": "string", "minLength": 2, "maxLength": 53}}
}

// egress is what the agent may reach: what the repository asks for (granted: checkGrants) and the user's own file
// lists, narrowed by the work order; then what the user typed; all of it below the ceiling. Never nil.
func (c *compiler) egress() ([]sallyport.EgressRule, error) {
	policy := []sallyport.EgressRule{}
	if rep := c.in.Repository; rep != nil && rep.Egress != nil {
		policy = append(policy, *rep.Egress...)
	}
	if u := c.in.User; u != nil && u.Egress != nil {
		policy = append(policy, *u.Egress...)
	}
	out := policy
	if order := c.in.WorkOrder.Egress; order != nil {
		if err := c.narrows(*order, policy); err != nil {
			return nil, err
		}
		out = *order
	}
	for _, r := range c.in.WorkOrder.Reach {
		if err := c.mayReach(r, policy); err != nil {
			return nil, err
		}
	}
	return c.belowCeiling(distinct(out, c.in.WorkOrder.Reach))
}

func (c *compiler) narrows(order, policy []sallyport.EgressRule) error {
	for i, r := range order {
		if !egress.CoveredBy(policy, r) {
			return denied(c.in.Places.at(fmt.Sprintf("egress[%d]", i)), fmt.Sprintf("the agent may not reach %s by policy; a work order can only narrow", egress.Line(r)),
				fmt.Sprintf("let it by --egress '%s', or by egress: in your config.yaml", egress.Line(r)))
		}
	}
	return nil
}

// mayReach takes the user's own word where nobody forbids it. The subject is the flag.
func (c *compiler) mayReach(r sallyport.EgressRule, policy []sallyport.EgressRule) error {
	if err := egress.Check(r); err != nil || egress.CoveredBy(policy, r) {
		return err
	}
	if where := c.forbidden(); where != "" {
		return denied(c.in.Places.at("reach"), fmt.Sprintf("%s goes beyond policy, and the policy at %s forbids grants", egress.Line(r), where), "ask the operator")
	}
	c.note("the agent may reach %s: granted by flag", egress.Line(r))
	return nil
}

func (c *compiler) belowCeiling(rules []sallyport.EgressRule) ([]sallyport.EgressRule, error) {
	op := c.in.Ceiling
	if op == nil || op.Egress == nil {
		return rules, nil
	}
	for _, r := range rules {
		if !egress.CoveredBy(*op.Egress, r) {
			return nil, denied("egress", fmt.Sprintf("%s is beyond the ceiling at %s", egress.Line(r), op.Places.at("egress")), "ask for less, or ask the operator")
		}
	}
	return rules, nil
}

// distinct appends the rules that allow more than those before them.
func distinct(lists ...[]sallyport.EgressRule) []sallyport.EgressRule {
	out := []sallyport.EgressRule{}
	for _, r := range slices.Concat(lists...) {
		if !says(r) || egress.CoveredBy(out, r) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// says is false for a rule whose methods or paths are an empty list: it allows nothing, and is not frozen.
func says(r sallyport.EgressRule) bool {
	methods := r.Protocol == egress.HTTP || r.Protocol == egress.HTTPS
	return r.Protocol == egress.TCP || len(r.Paths) > 0 && (!methods || len(r.Methods) > 0)
}

// resolve are the operator's addresses; the ceiling's count before the user's. nil: none.
func (c *compiler) resolve() map[string]string {
	out := map[string]string{}
	for _, op := range []*Operator{c.in.User, c.in.Ceiling} {
		if op != nil {
			maps.Copy(out, op.Resolve)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
