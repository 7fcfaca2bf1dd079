package decision

import (
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

func TestDecide(t *testing.T) {
	pass := sallyport.CheckResult{Name: "test", Status: sallyport.CheckPassed}
	with := func(f func(*sallyport.CheckResult)) sallyport.CheckResult { k := pass; f(&k); return k }
	warn := sallyport.Finding{Rule: "ci.changed", Severity: sallyport.SeverityWarn, Path: "x"}
	for name, c := range map[string]struct {
		v    Verdict
		want sallyport.Decision
		code string
	}{
		"nothing changed":           {Verdict{Checks: []sallyport.CheckResult{pass}, Approve: "never"}, sallyport.DecisionRejected, "no-change"},
		"passes":                    {Verdict{Changes: 1, Checks: []sallyport.CheckResult{pass}, Approve: "on-finding"}, sallyport.DecisionAccepted, "checks-passed"},
		"no checks":                 {Verdict{Changes: 1, Approve: "never"}, sallyport.DecisionAwaitingApproval, "no-checks"},
		"none applies":              {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.Status = sallyport.CheckNotRun })}}, sallyport.DecisionAwaitingApproval, "no-check-ran"},
		"fails":                     {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{pass, with(func(k *sallyport.CheckResult) { k.Status = sallyport.CheckFailed })}}, sallyport.DecisionRejected, "check-failed"},
		"could not run":             {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.Status = sallyport.CheckError })}}, sallyport.DecisionRejected, "check-failed"},
		"unknown outcome":           {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.Status = "" })}}, sallyport.DecisionRejected, "check-failed"},
		"flaky":                     {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.Status = sallyport.CheckFlaky })}}, sallyport.DecisionAwaitingApproval, "check-flaky"},
		"only its own tests pass":   {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.BaseTests = sallyport.CheckFailed })}}, sallyport.DecisionAwaitingApproval, "tests-edited"},
		"base's tests pass as well": {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.BaseTests = sallyport.CheckPassed })}}, sallyport.DecisionAccepted, "checks-passed"},
		"a control does not hold": {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) {
			k.Controls = []sallyport.Control{{Name: "base", Held: true}, {Name: "planted-fault", Required: true}}
		})}}, sallyport.DecisionRejected, "control-not-held"},
		"a control cannot be shown": {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) { k.Controls = []sallyport.Control{{Name: "planted-fault"}} })}}, sallyport.DecisionAwaitingApproval, "control-not-shown"},
		"its controls hold": {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{with(func(k *sallyport.CheckResult) {
			k.Controls = []sallyport.Control{{Name: "planted-fault", Required: true, Held: true}}
		})}}, sallyport.DecisionAccepted, "checks-passed"},
		"a finding blocks":    {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{pass}, Findings: []sallyport.Finding{{Severity: sallyport.SeverityBlock}}}, sallyport.DecisionRejected, "finding"},
		"a finding waits":     {Verdict{Changes: 1, Approve: "on-finding", Checks: []sallyport.CheckResult{pass}, Findings: []sallyport.Finding{warn}}, sallyport.DecisionAwaitingApproval, "finding"},
		"a finding is let by": {Verdict{Changes: 1, Approve: "never", Checks: []sallyport.CheckResult{pass}, Findings: []sallyport.Finding{warn}}, sallyport.DecisionAccepted, "checks-passed"},
		"approval always":     {Verdict{Changes: 1, Approve: "always", Checks: []sallyport.CheckResult{pass}}, sallyport.DecisionAwaitingApproval, "approval-required"},
		"base not protected":  {Verdict{Changes: 1, Approve: "never", AtBest: sallyport.DecisionAwaitingApproval, Checks: []sallyport.CheckResult{pass}}, sallyport.DecisionAwaitingApproval, "base-not-protected"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := Decide(c.v)
			if got != c.want || why.Code != c.code {
				t.Errorf("Decide = %s (%s), want %s (%s)", got, why.Code, c.want, c.code)
			}
		})
	}
}

// Nothing is accepted without a check that passed on the very tree, and no blocking finding or failed check
// is ever outweighed.
func TestDecideLaws(t *testing.T) {
	statuses := []sallyport.CheckStatus{"", sallyport.CheckPassed, sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckNotRun, sallyport.CheckFlaky}
	severities := []sallyport.Severity{sallyport.SeverityInfo, sallyport.SeverityWarn, sallyport.SeverityBlock}
	rapid.Check(t, func(t *rapid.T) {
		v := Verdict{Changes: rapid.IntRange(0, 2).Draw(t, "changes"), Approve: rapid.SampledFrom([]string{"always", "on-finding", "never"}).Draw(t, "approve"),
			AtBest: rapid.SampledFrom([]sallyport.Decision{sallyport.DecisionAccepted, sallyport.DecisionAwaitingApproval}).Draw(t, "at best")}
		passed, bad := false, false
		for range rapid.IntRange(0, 3).Draw(t, "checks") {
			k := sallyport.CheckResult{Name: "k", Status: rapid.SampledFrom(statuses).Draw(t, "status"), BaseTests: rapid.SampledFrom([]sallyport.CheckStatus{"", sallyport.CheckPassed, sallyport.CheckFailed}).Draw(t, "base tests")}
			passed = passed || k.Status == sallyport.CheckPassed
			bad = bad || k.Status == sallyport.CheckFailed || k.Status == sallyport.CheckError || k.Status == ""
			v.Checks = append(v.Checks, k)
		}
		blocked := false
		for range rapid.IntRange(0, 3).Draw(t, "findings") {
			s := rapid.SampledFrom(severities).Draw(t, "severity")
			blocked = blocked || s == sallyport.SeverityBlock
			v.Findings = append(v.Findings, sallyport.Finding{Severity: s, Message: "m"})
		}
		got, why := Decide(v)
		if got == sallyport.DecisionAccepted && (!passed || v.AtBest != sallyport.DecisionAccepted) {
			t.Fatalf("accepted %+v", v)
		}
		if (blocked || bad || v.Changes == 0) && got != sallyport.DecisionRejected {
			t.Fatalf("not rejected: %s %+v", got, v)
		}
		if why.Code == "" || why.Message == "" && got != sallyport.DecisionAccepted && v.Changes > 0 && !blocked {
			t.Fatalf("no reason: %+v", why)
		}
	})
}
