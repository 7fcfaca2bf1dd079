package inspect

import (
	"fmt"
	"maps"
	"slices"

	"sallyport.dev/sallyport"
)

// Rule is one kind of finding: how bad it is, what it means and the next step for a person.
type Rule struct {
	ID       string
	Severity sallyport.Severity // unless policy says otherwise
	Floor    sallyport.Severity // policy may not go below it; "": policy is free
	Explains string             // one sentence
	Todo     string
}

const (
	block = sallyport.SeverityBlock
	warn  = sallyport.SeverityWarn
	info  = sallyport.SeverityInfo
	none  = sallyport.Severity("")
)

// byID is filled from table, which must not change afterwards.
var byID = func() map[string]Rule {
	m := make(map[string]Rule, len(table))
	for _, r := range table {
		m[r.ID] = r
	}
	return m
}()

// Rules lists every rule, by concern. The slice is the caller's.
func Rules() []Rule { return append([]Rule(nil), table...) }

var rank = map[sallyport.Severity]int{info: 1, warn: 2, block: 3}

// CheckSeverities refuses what policy cannot say: a rule that does not exist, a severity that is none, one
// below the rule's floor. CodeInvalid; the first in order of the rules' names.
func CheckSeverities(wanted map[string]sallyport.Severity) error {
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		bad := func(message, hint string) error {
			return &sallyport.Error{Op: "inspect change", Code: sallyport.CodeInvalid, Subject: "severities." + Display(id), Message: message, Hint: hint}
		}
		r, known := byID[id]
		switch s := wanted[id]; {
		case !known:
			return bad("is not a rule", "docs/findings.md lists the rules")
		case rank[s] == 0:
			return bad("expected info, warn or block", "name one of the three, or leave the rule out")
		case rank[s] < rank[r.Floor]:
			return bad(fmt.Sprintf("cannot be lowered below %s: the rule protects Sallyport itself and every machine that checks the branch out", r.Floor), "leave the rule out; the change must do without")
		}
	}
	return nil
}

// Worst is the highest severity among findings; "" if there are none. An unknown severity counts as block.
func Worst(findings []sallyport.Finding) sallyport.Severity {
	worst := sallyport.Severity("")
	for _, f := range findings {
		s := f.Severity
		if rank[s] == 0 {
			s = block
		}
		if rank[s] > rank[worst] {
			worst = s
		}
	}
	return worst
}
