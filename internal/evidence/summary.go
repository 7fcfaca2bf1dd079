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
	}
	if len(p.Checks) == 0 {
		out = append(out, "Observed by the signer: no check ran.")
	}
	out = append(out, findingsSentence(p.Findings), layersSentence(p.Layers))
	if n := len(p.Attempts); n > 0 {
		out = append(out, fmt.Sprintf("Observed by the signer: %d earlier attempt(s) of this work order: %s.", n, earlier(p.Attempts)))
	}
	return append(out, fmt.Sprintf("Observed by the signer: policy from %s; the journal stood at record %d.", policyWord(p.Policy), p.Journal.Seq))
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
	held := 0
	for _, k := range c.Controls {
		if k.Held {
			held++
		}
	}
	if held == 0 {
		return s + "; nothing showed that it can fail."
	}
	return s + fmt.Sprintf("; %d of %d controls showed that it can fail.", held, len(c.Controls))
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
