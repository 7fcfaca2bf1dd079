package evidence

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// Summary says in plain sentences what the evidence proves, what in it is a mere claim and what was not
// checked, one sentence per line. Texts from the repository and the agent are quoted, but the caller still
// neutralises each line before showing it.
func Summary(v Verified) []string {
	out := proved(v)
	out = append(out, observed(v.Statement.Predicate)...)
	out = append(out, claims(v.Statement.Predicate)...)
	return append(out, notChecked(v)...)
}

func proved(v Verified) []string {
	p := v.Statement.Predicate
	out := []string{
		fmt.Sprintf("Proved: key %s, which you gave, signed this at %s by its own clock.", v.Key.ID, Time(v.SignedAt)),
		fmt.Sprintf("Proved: it is about attempt %d (%s) of work order %q, tree %s, %s, on base %s.",
			p.Attempt.Number, p.Attempt.ID, p.WorkOrder.Name, p.Result.Tree.Short(), commitWord(p.Result.Commit), p.Base.Commit.Short()),
	}
	if len(v.Compared) == 0 {
		return append(out, "Not compared: you gave no digest of your own, so this does not yet speak of anything you hold.")
	}
	return append(out, "Proved: it matches what you hold in: "+strings.Join(v.Compared, ", ")+".")
}

func commitWord(id sallyport.ObjectID) string {
	if id == "" {
		return "no commit"
	}
	return "commit " + id.Short()
}

// observed is what the signer says it saw. It is as good as the signer.
func observed(p Predicate) []string {
	out := []string{fmt.Sprintf("Observed by the signer: decision %s (%s: %q).", p.Decision.Decision, p.Decision.Code, p.Decision.Message)}
	for _, c := range p.Checks {
		out = append(out, checkSentence(c))
		for _, k := range c.Controls {
			out = append(out, controlSentence(c, k))
		}
	}
	if len(p.Checks) == 0 {
		out = append(out, "Observed by the signer: no check ran.")
	}
	out = append(out, findingsSentence(p.Findings))
	for _, f := range p.Findings {
		if f.Default != "" {
			out = append(out, fmt.Sprintf("Observed by the signer: policy made finding %s of %q %s, by itself it is %s.", f.Rule, f.Path, f.Severity, f.Default))
		}
	}
	out = append(out, layersSentence(p.Layers))
	if n := len(p.Attempts); n > 0 {
		out = append(out, fmt.Sprintf("Observed by the signer: %d earlier attempt(s) of this work order: %s.", n, earlier(p.Attempts)))
	}
	out = append(out, fmt.Sprintf("Observed by the signer: policy from %s; the journal stood at record %d.", policyWord(p.Policy), p.Journal.Seq))
	return append(out, records(p)...)
}

// records is what was recorded around the checks; what was not is said by notRecorded.
func records(p Predicate) []string {
	var out []string
	if len(p.Validated) > 0 {
		var trees []string
		for _, v := range p.Validated {
			trees = append(trees, fmt.Sprintf("%s %s", v.Purpose, v.Tree.Short()))
		}
		out = append(out, "Observed by the signer: trees that commands ran on: "+strings.Join(trees, ", ")+".")
	}
	for _, s := range p.Setup {
		out = append(out, setupSentence(s))
	}
	if n := len(p.Environment); n > 0 {
		out = append(out, fmt.Sprintf("Observed by the signer: %d digest(s) of what checks could read beside the tree, over what the signer knew of it.", n))
	}
	if len(p.Logs) > 0 {
		var redactions int64
		for _, l := range p.Logs {
			redactions += l.Redactions
		}
		out = append(out, fmt.Sprintf("Observed by the signer: digests of %d log(s) as they were kept, with known secrets replaced %d time(s).", len(p.Logs), redactions))
	}
	if n := len(p.EgressRules); n > 0 {
		var hosts []string
		for _, r := range p.EgressRules {
			hosts = append(hosts, fmt.Sprintf("%s %s:%d", r.Protocol, r.Host, r.Port))
		}
		out = append(out, fmt.Sprintf("Observed by the signer: the agent was given %d egress rule(s): %s.", n, strings.Join(hosts, ", ")))
	}
	switch e := p.Egress; {
	case e != nil && *e == Egress{}:
		out = append(out, "Observed by the signer: nothing left the agent's sandbox.")
	case e != nil:
		out = append(out, fmt.Sprintf("Observed by the signer: %d request(s) left the agent's sandbox through the gateway, %d refused; %d bytes up, %d down.", e.Requests, e.Refused, e.BytesUp, e.BytesDown))
	}
	switch s := p.Spend; {
	case s != nil && *s == Spend{}:
		out = append(out, "Observed by the signer: nothing was spent.")
	case s != nil:
		out = append(out, fmt.Sprintf("Observed by the signer: spent %d input and %d output tokens, %.2f USD.", s.InputTokens, s.OutputTokens, float64(s.MicroUSD)/1e6))
	}
	return out
}

func notRecorded(p Predicate) []string {
	var out []string
	for _, f := range []struct {
		what    string
		missing bool
	}{
		{"the digest of the patch", p.Result.Patch == ""},
		{"which trees commands ran on", len(p.Validated) == 0},
		{"what checks could read beside the tree", len(p.Environment) == 0},
		{"what the logs hold", len(p.Logs) == 0},
		{"what left the agent's sandbox", p.Egress == nil},
		{"what was spent", p.Spend == nil},
	} {
		if f.missing {
			out = append(out, "Not recorded: "+f.what+".")
		}
	}
	return out
}

func checkSentence(c Check) string {
	by := "Observed by the signer"
	if c.StatusBy != "keeper" {
		by = "Claim (the status passed through the sandbox)"
	}
	s := fmt.Sprintf("%s: check %q (%q) %s with exit status %d in %.1f s", by, c.Name, c.Command, c.Status, c.Exit, c.Seconds)
	if c.BaseStatus != "" {
		s += fmt.Sprintf("; on the base it %s", c.BaseStatus)
	}
	if c.BaseTests != "" {
		s += fmt.Sprintf("; with the base's own tests it %s", c.BaseTests)
	}
	if len(c.Runs) > 1 {
		var runs []string
		for _, r := range c.Runs {
			runs = append(runs, string(r.Status))
		}
		s += fmt.Sprintf("; %d runs: %s", len(runs), strings.Join(runs, ", "))
	}
	if c.Reused != "" {
		s += fmt.Sprintf("; the result is that of attempt %s on the same tree and environment", c.Reused)
	}
	s += tallyWords("by its own count", c.Tests) + tallyWords("on the base", c.BaseTally)
	if !c.CanFail() {
		s += "; nothing showed that it can fail"
	}
	return s + "."
}

func tallyWords(what string, t *Tally) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("; %s %d tests ran, %d failed, %d skipped", what, t.Tests, t.Failed, t.Skipped)
}

func controlSentence(c Check, k Control) string {
	held, asked := "held", ""
	if !k.Held {
		held = "was not held"
	}
	if k.Required {
		asked = ", which policy asks for,"
	}
	return fmt.Sprintf("Observed by the signer: control %s of check %q%s %s (%q).", k.Name, c.Name, asked, held, k.Detail)
}

func findingsSentence(f []Finding) string {
	n := map[sallyport.Severity]int{}
	for _, x := range f {
		n[x.Severity]++
	}
	return fmt.Sprintf("Observed by the signer: findings: %d blocking, %d to approve, %d for information.", n[sallyport.SeverityBlock], n[sallyport.SeverityWarn], n[sallyport.SeverityInfo])
}

func layersSentence(layers []Layer) string {
	var held, not []string
	for _, l := range layers {
		switch {
		case l.Status == sallyport.LayerHeld && l.Grade != sallyport.GradeClaim:
			held = append(held, string(l.Layer))
		case l.Status != sallyport.LayerNotRequired:
			not = append(not, fmt.Sprintf("%s (%s)", l.Layer, l.Status))
		}
	}
	s := "Observed by the signer: containment held: " + listOr(held, "none") + "."
	if len(not) > 0 {
		s += " Not fully: " + strings.Join(not, ", ") + "."
	}
	return s
}

func earlier(list []Earlier) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%d %s", e.Number, e.State))
	}
	return strings.Join(out, ", ")
}

func policyWord(p Policy) string {
	switch p.Kind {
	case "protected-ref":
		return fmt.Sprintf("the protected ref %q at %s", p.Ref, p.Commit.Short())
	case "worktree":
		return "the submitter's own work tree"
	}
	return "no file"
}

func claims(p Predicate) []string {
	c := p.Claims
	who := c.Agent
	if who == "" {
		who = strings.Join(c.Command, " ")
	}
	out := []string{fmt.Sprintf("Claim: the change was made by %q, which ended with exit status %d.", who, c.Exit)}
	if len(c.Messages) > 0 {
		out = append(out, fmt.Sprintf("Claim: %d commit message(s) of the agent are quoted in the statement.", len(c.Messages)))
	}
	return out
}

func notChecked(v Verified) []string {
	p := v.Statement.Predicate
	var out []string
	for _, s := range p.NotChecked {
		out = append(out, fmt.Sprintf("Not checked: %s.", strings.TrimRight(s, ".")))
	}
	if !slices.ContainsFunc(p.Checks, func(c Check) bool { return c.Status != sallyport.CheckNotRun }) && len(p.Checks) > 0 {
		out = append(out, "Not checked: none of the checks applied to this change.")
	}
	out = append(out, notRecorded(p)...)
	out = append(out,
		"Not proved: an exit status says that a command ended in a fresh sandbox, not that its tests test anything.",
		fmt.Sprintf("Not proved: independence. %s; separation between the trusted parts: %s.", upperFirst(p.By.Independence), p.Separation))
	return out
}

func listOr(s []string, none string) string {
	if len(s) == 0 {
		return none
	}
	return strings.Join(s, ", ")
}

func upperFirst(s string) string {
	s = strings.TrimRight(s, ".")
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
