package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// severityMap is `findings:`: the rules whose severity policy sets.
type severityMap map[string]sallyport.Severity

// Rule is what Compile needs of a rule of the inspection.
type Rule struct {
	Severity sallyport.Severity // where policy says nothing
	Floor    sallyport.Severity // nobody lowers it below; empty: no floor
}

type severity string

// severityWords from the least to the most severe; Compile compares by position.
var severityWords = []string{string(sallyport.SeverityInfo), string(sallyport.SeverityWarn), string(sallyport.SeverityBlock)}

// ruleForm is the form of a rule's name. Which rules there are is the inspector's to know: Compile is told.
var ruleForm = pattern.New(`^[a-z0-9][a-z0-9-]*([.][a-z0-9-]+)+$`)

func (v *severity) want() string                               { return "one of " + listed(severityWords) }
func (v *severity) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, severityWords) }
func (v *severity) schema() object                             { return enumSchema(severityWords) }

func (m *severityMap) want() string { return "a mapping from rules to block, warn or info" }
func (m *severityMap) read(r *reader, n ast.Node, field string) (err error) {
	form := func(name string) string {
		if !ruleForm.MatchString(name) {
			return "the name of a rule such as ci.changed"
		}
		return ""
	}
	*m, err = readMap(r, n, field, m.want(), form, func(v severity) sallyport.Severity { return sallyport.Severity(v) })
	return err
}

func (m *severityMap) words() map[string]sallyport.Severity {
	if m == nil {
		return nil
	}
	return *m
}

func rankOf(s sallyport.Severity) int { return slices.Index(severityWords, string(s)) }

// severities are policy's own for the rules that somebody named. The operator may raise and lower: the
// ceiling's file first, the user's below it only upwards. The repository's file can only raise, since what it
// says is loosened by whoever can write to the repository. nil: nobody named one.
func (c *compiler) severities() (map[string]sallyport.Severity, error) {
	out := map[string]sallyport.Severity{}
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op == nil {
			continue
		}
		for _, rule := range slices.Sorted(maps.Keys(op.Findings)) {
			if err := c.operatorSeverity(out, op, rule); err != nil {
				return nil, err
			}
		}
	}
	if rep := c.in.Repository; rep != nil {
		for _, rule := range slices.Sorted(maps.Keys(rep.Findings)) {
			if err := c.raise(out, rep, rule); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func (c *compiler) operatorSeverity(out map[string]sallyport.Severity, op *Operator, rule string) error {
	want, field := op.Findings[rule], "findings."+rule
	std, err := c.rule(rule, op.Places.at(field))
	if err != nil {
		return err
	}
	if rankOf(want) < rankOf(std.Floor) {
		return denied(op.Places.at(field), fmt.Sprintf("%s %q is below %q, its floor: the rule protects those who check the branch out, and Sallyport itself", field, want, std.Floor), "leave the rule out; the change must do without")
	}
	if bound, ok := out[rule]; ok && rankOf(want) < rankOf(bound) {
		c.note("%s is %s: the ceiling at %s", field, bound, c.in.Ceiling.Places.at(field))
		return nil
	}
	if rankOf(want) < rankOf(std.Severity) {
		c.note("%s is %s, lower than its default %s: %s", field, want, std.Severity, op.Places.at(field))
	}
	out[rule] = want
	return nil
}

func (c *compiler) raise(out map[string]sallyport.Severity, rep *Repository, rule string) error {
	want, place := rep.Findings[rule], rep.Places.at("findings."+rule)
	std, err := c.rule(rule, place)
	if err != nil {
		return err
	}
	if rankOf(want) < rankOf(std.Severity) {
		return denied(place, fmt.Sprintf("findings.%s %q is lower than its default %q; a repository can only raise", rule, want, std.Severity), "lower it in your own configuration, or ask the operator")
	}
	if now, ok := out[rule]; !ok || rankOf(want) > rankOf(now) {
		out[rule] = want
	}
	return nil
}

func (c *compiler) rule(rule, place string) (Rule, error) {
	if std, ok := c.in.Rules[rule]; ok {
		return std, nil
	}
	return Rule{}, invalid(place, fmt.Sprintf("there is no rule %s; expected a rule of the inspection", quoted(rule)), c.ruleHint(rule))
}

// ruleHint is the rule that was most likely meant, or the rules of the same family.
func (c *compiler) ruleHint(rule string) string {
	known := slices.Sorted(maps.Keys(c.in.Rules))
	if near := nearest(rule, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	family, _, _ := strings.Cut(rule, ".")
	known = slices.DeleteFunc(known, func(k string) bool { return !strings.HasPrefix(k, family+".") })
	if len(known) == 0 {
		return ""
	}
	return "expected one of " + listed(known)
}
