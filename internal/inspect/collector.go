package inspect

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// collector keeps findings, a bounded number per rule.
type collector struct {
	limit    int
	findings []sallyport.Finding
	count    map[string]int
}

// add keeps one finding. The path is neutralised here; message must hold nothing from the change.
func (c *collector) add(rule, path, message string) {
	if c.count == nil {
		c.count = map[string]int{}
	}
	r, known := byID[rule]
	if !known {
		r = Rule{ID: rule, Severity: block} // a rule that the table forgot must not pass
	}
	if c.count[rule]++; c.count[rule] > c.limit {
		return
	}
	c.findings = append(c.findings, sallyport.Finding{Rule: rule, Severity: r.Severity, Path: Display(path), Message: message, Todo: r.Todo})
}

// sorted is every finding, worst first, with one line for those of each rule beyond the limit.
func (c *collector) sorted() []sallyport.Finding {
	out := append([]sallyport.Finding{}, c.findings...)
	for _, r := range table {
		if more := c.count[r.ID] - c.limit; more > 0 {
			out = append(out, sallyport.Finding{Rule: r.ID, Severity: r.Severity, Message: fmt.Sprintf("%d more findings of this rule are not listed", more), Todo: r.Todo})
		}
	}
	slices.SortStableFunc(out, func(a, b sallyport.Finding) int {
		if d := rank[b.Severity] - rank[a.Severity]; d != 0 {
			return d
		}
		if d := strings.Compare(a.Path, b.Path); d != 0 {
			return d
		}
		return strings.Compare(a.Rule, b.Rule)
	})
	return out
}
