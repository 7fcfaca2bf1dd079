package inspect

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// collector keeps findings, a bounded number per rule.
type collector struct {
	limit      int
	severities map[string]sallyport.Severity // policy's own
	findings   []sallyport.Finding
	count      map[string]int
}

// add keeps one finding. The path is neutralised here; names in message must have gone through quoted.
func (c *collector) add(rule, path, message string) {
	if c.count == nil {
		c.count = map[string]int{}
	}
	if c.count[rule]++; c.count[rule] <= c.limit {
		c.findings = append(c.findings, c.finding(rule, Display(path), redact(message)))
	}
}

func (c *collector) finding(rule, path, message string) sallyport.Finding {
	f := sallyport.Finding{Rule: rule, Severity: block, Path: path, Message: message} // a rule that the table forgot must not pass
	if r, known := byID[rule]; known {
		f.Severity, f.Todo = r.Severity, r.Todo
	}
	if s, said := c.severities[rule]; said {
		f.Severity = s
	}
	return f
}

// sorted is every finding, worst first, with one line for those of each rule beyond the limit.
func (c *collector) sorted() []sallyport.Finding {
	out := append([]sallyport.Finding{}, c.findings...)
	for rule, n := range c.count {
		if more := n - c.limit; more > 0 {
			out = append(out, c.finding(rule, "", fmt.Sprintf("%d more findings of this rule are not listed", more)))
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

// quoted names up to three paths or hosts for a message, neutralised, and how many more there are.
func quoted(names []string) string {
	const most = 3
	var shown []string
	for _, n := range names[:min(len(names), most)] {
		shown = append(shown, `"`+strings.ReplaceAll(shortenTo(Display(n), 80), `"`, "'")+`"`)
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// plural is "1 file" or "3 files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
