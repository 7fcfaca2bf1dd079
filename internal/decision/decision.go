// Package decision is what Mission Control concludes from what was observed. It is pure: no I/O, no clock, and
// nothing that a sandbox said of itself goes in.
package decision

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/inspect"
)

// Verdict is what Decide looks at: observations and probes only. Nothing that a sandbox said is in it, and
// how the agent ended decides nothing here.
type Verdict struct {
	Changes  int
	Findings []sallyport.Finding
	Checks   []sallyport.CheckResult
	AtBest   sallyport.Decision
	Approve  string // always | on-finding | never
}

// Decide concludes. The first reason that applies, worst first, is the one a person is shown.
func Decide(v Verdict) (sallyport.Decision, sallyport.Reason) {
	if v.Changes == 0 {
		return sallyport.DecisionRejected, reason("no-change", "give the agent a task that changes a file", "the agent changed nothing")
	}
	if d, r, ok := rejected(v); ok {
		return d, r
	}
	if r, ok := waits(v); ok {
		return sallyport.DecisionAwaitingApproval, r
	}
	return sallyport.DecisionAccepted, reason("checks-passed", "", "%s", passed(v.Checks))
}

func reason(code, hint, format string, args ...any) sallyport.Reason {
	return sallyport.Reason{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func rejected(v Verdict) (sallyport.Decision, sallyport.Reason, bool) {
	for _, f := range v.Findings {
		if f.Severity == sallyport.SeverityBlock {
			return sallyport.DecisionRejected, reason("finding", f.Todo, "%s", strings.TrimSpace(f.Path+" "+f.Message)), true
		}
	}
	for _, k := range v.Checks {
		switch k.Status {
		case sallyport.CheckFailed, sallyport.CheckError:
			base := ""
			if k.BaseStatus == sallyport.CheckFailed {
				base = " (it fails on the base too)"
			}
			if k.Message != "" {
				base += ": " + k.Message
			}
			return sallyport.DecisionRejected, reason("check-failed", "", "check %q does not pass on the change%s", k.Name, base), true
		case sallyport.CheckPassed, sallyport.CheckNotRun, sallyport.CheckFlaky:
			if c, ok := Unheld(k, true); ok {
				return sallyport.DecisionRejected, reason("control-not-held", "", "check %q passes, and its control %s does not hold: %s", k.Name, c.Name, c.Detail), true
			}
		default:
			return sallyport.DecisionRejected, reason("check-failed", "", "check %q has an unknown outcome", k.Name), true
		}
	}
	return "", sallyport.Reason{}, false
}

func waits(v Verdict) (sallyport.Reason, bool) {
	ran := 0
	for _, k := range v.Checks {
		if k.Status == sallyport.CheckFlaky {
			return reason("check-flaky", "run it again with `sallyport check`", "check %q does not give the same answer twice", k.Name), true
		}
		if c, ok := Unheld(k, false); ok {
			return reason("control-not-shown", "look at the change: `sallyport diff`", "check %q passes, and its control %s could not be shown: %s", k.Name, c.Name, c.Detail), true
		}
		if k.Status == sallyport.CheckPassed {
			ran++
		}
		if k.BaseTests != "" && k.BaseTests != sallyport.CheckPassed {
			return reason("tests-edited", "look at the edited tests: `sallyport diff`", "check %q passes only with the change's own tests or runner configuration", k.Name), true
		}
	}
	switch {
	case ran == 0 && len(v.Checks) == 0:
		return reason("no-checks", "`sallyport init` writes a sallyport.yaml with checks", "no check is defined, so nothing showed that the change works"), true
	case ran == 0:
		return reason("no-check-ran", "look at the checks' when:", "no check applies to what the change touches"), true
	case v.AtBest == sallyport.DecisionAwaitingApproval:
		return reason("base-not-protected", "", "the base is not the protected ref or an ancestor of it"), true
	case v.Approve == "always":
		return reason("approval-required", "", "policy asks for a person's approval of every change"), true
	case v.Approve != "never" && inspect.Worst(v.Findings) == sallyport.SeverityWarn:
		for _, f := range v.Findings {
			if f.Severity == sallyport.SeverityWarn {
				return reason("finding", f.Todo, "%s", strings.TrimSpace(f.Path+" "+f.Message)), true
			}
		}
	}
	return sallyport.Reason{}, false
}

// Unheld is the first control that is not held: of those that reject, or of those that leave it to a person.
func Unheld(k sallyport.CheckResult, required bool) (sallyport.Control, bool) {
	i := slices.IndexFunc(k.Controls, func(c sallyport.Control) bool { return !c.Held && c.Required == required })
	if i < 0 {
		return sallyport.Control{}, false
	}
	return k.Controls[i], true
}

func passed(checks []sallyport.CheckResult) string {
	var names []string
	for _, k := range checks {
		if k.Status == sallyport.CheckPassed {
			names = append(names, k.Name)
		}
	}
	return "passed in a fresh sandbox: " + strings.Join(names, ", ")
}
