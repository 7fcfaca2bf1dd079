package evidence

import (
	"fmt"
	"math"
	"slices"

	"sallyport.dev/sallyport"
)

// What a statement may not say of its checks, whoever signs it.

func checkChecks(p Predicate) error {
	for _, c := range p.Checks {
		for _, f := range []func(Check) error{checkSeconds, checkTallies, checkRuns, checkControls} {
			if err := f(c); err != nil {
				return err
			}
		}
		if c.Reused == "" {
			continue
		}
		if err := sallyport.CheckID(sallyport.AttemptPrefix, string(c.Reused)); err != nil {
			return field("checks."+c.Name+".reused", err)
		}
	}
	return nil
}

func checkSeconds(c Check) error {
	all := []float64{c.Seconds}
	for _, r := range c.Runs {
		all = append(all, r.Seconds)
	}
	for _, s := range all {
		if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
			return invalid("checks."+c.Name+".seconds", "expected a finite number of seconds")
		}
	}
	return nil
}

func checkTallies(c Check) error {
	for name, t := range map[string]*Tally{"tests": c.Tests, "base_tally": c.BaseTally} {
		if t != nil && (t.Format == "" || min(t.Tests, t.Passed, t.Failed, t.Skipped) < 0) {
			return invalid("checks."+c.Name+"."+name, "expected the report's format and numbers of 0 or more")
		}
	}
	return nil
}

// checkRuns: runs that disagree are flaky, which no summary of them may hide.
func checkRuns(c Check) error {
	failed := slices.ContainsFunc(c.Runs, func(r Run) bool { return r.Status != sallyport.CheckPassed })
	if c.Status == sallyport.CheckPassed && failed {
		return invalid("checks."+c.Name+".runs", "expected every run to have passed where the check passed")
	}
	return nil
}

func checkControls(c Check) error {
	for i, k := range c.Controls {
		same := func(o Control) bool { return o.Name == k.Name }
		if k.Name == "" || slices.ContainsFunc(c.Controls[:i], same) {
			return invalid(fmt.Sprintf("checks.%s.controls[%d]", c.Name, i), "expected a control's name, once")
		}
	}
	return nil
}

// checkPassing refuses an accepted change with a check that did not pass, here or with the base's own tests.
func checkPassing(p Predicate) error {
	for _, c := range p.Checks {
		if !passed(c.Status) || c.BaseTests != "" && !passed(c.BaseTests) {
			return invalid("checks", "check %.80q did not pass, yet the decision is %q", c.Name, p.Decision.Decision)
		}
	}
	return nil
}

// checkRequired refuses any decision but rejected where a control that policy asks for was not held.
func checkRequired(p Predicate) error {
	for _, c := range p.Checks {
		for _, k := range c.Controls {
			if k.Required && !k.Held {
				return invalid("checks."+c.Name, "required control %.40q was not held, yet the decision is %q", k.Name, p.Decision.Decision)
			}
		}
	}
	return nil
}

func passed(s sallyport.CheckStatus) bool {
	return s == sallyport.CheckPassed || s == sallyport.CheckNotRun
}

// checkRecords holds what was recorded around the checks to its own form.
func checkRecords(p Predicate) error {
	for i, v := range p.Validated {
		where := fmt.Sprintf("validated[%d]", i)
		if err := v.Tree.Check(); err != nil {
			return field(where+".tree", err)
		}
		if v.Purpose == "" || (v.Purpose == PurposeResult && v.Tree != p.Result.Tree) || (v.Purpose == PurposeBase && v.Tree != p.Base.Tree) {
			return invalid(where, "expected a purpose; the tree of %q is the result's and that of %q the base's", PurposeResult, PurposeBase)
		}
	}
	for i, e := range p.Environment {
		where := fmt.Sprintf("environment[%d]", i)
		if err := e.Digest.Check(); err != nil {
			return field(where+".digest", err)
		}
		if e.Name == "" || slices.ContainsFunc(p.Environment[:i], func(o Environment) bool { return o.Name == e.Name }) {
			return invalid(where, "expected a name, once")
		}
	}
	for i, l := range p.Logs {
		where := fmt.Sprintf("logs[%d]", i)
		if err := l.Digest.Check(); err != nil {
			return field(where+".digest", err)
		}
		if l.Name == "" || min(l.Bytes, l.Redactions) < 0 || slices.ContainsFunc(p.Logs[:i], func(o Log) bool { return o.Name == l.Name }) {
			return invalid(where, "expected a name, once, and numbers of 0 or more")
		}
	}
	if e := p.Egress; e != nil && (min(e.Requests, e.Refused, e.BytesUp, e.BytesDown) < 0 || e.Refused > e.Requests) {
		return invalid("egress", "expected numbers of 0 or more, and no more refused requests than requests")
	}
	if s := p.Spend; s != nil && min(s.InputTokens, s.OutputTokens, s.MicroUSD) < 0 {
		return invalid("spend", "expected numbers of 0 or more")
	}
	return nil
}
