package pulltext

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/screen"
)

// most entries of a list within one line.
const mostInLine = 8

// number is n as it is: at most 20 characters, and none that means anything.
func (p *page) number(n int) string { return strconv.Itoa(n) }

func (p *page) decision(d sallyport.Decision) string {
	switch d {
	case sallyport.DecisionAccepted, sallyport.DecisionRejected:
		return string(d)
	case sallyport.DecisionAwaitingApproval:
		return "awaiting approval"
	}
	return "none"
}

// statuses in the order that a reviewer needs them: what did not pass comes first.
var statuses = []sallyport.CheckStatus{sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckFlaky, sallyport.CheckNotRun, sallyport.CheckPassed}

func (p *page) status(s sallyport.CheckStatus) string {
	switch {
	case s == sallyport.CheckNotRun:
		return "not run"
	case slices.Contains(statuses, s):
		return string(s)
	}
	return p.code(string(s))
}

// folder counts the changes below one top folder.
type folder struct {
	name string
	all  int
	by   map[sallyport.ChangeStatus]int
}

var changeWords = []struct {
	status sallyport.ChangeStatus
	word   string
}{{sallyport.ChangeAdded, "added"}, {sallyport.ChangeModified, "modified"}, {sallyport.ChangeDeleted, "deleted"},
	{sallyport.ChangeMode, "mode changed"}, {sallyport.ChangeType, "type changed"}}

func (f folder) words() string {
	var parts []string
	for _, w := range changeWords {
		if n := f.by[w.status]; n > 0 {
			parts = append(parts, screen.Thousands(n)+" "+w.word)
		}
	}
	if parts == nil {
		return count(f.all, "path")
	}
	return strings.Join(parts, ", ")
}

func (f *folder) count(s sallyport.ChangeStatus) {
	if f.by == nil {
		f.by = map[sallyport.ChangeStatus]int{}
	}
	f.all++
	f.by[s]++
}

// maxFolders is how many are shown, those with most changes first.
const maxFolders = 20

func (p *page) changed(changes []sallyport.Change) {
	p.section("What changed", changedBytes)
	if len(changes) == 0 {
		p.para("No path changed.")
		return
	}
	total, byName := folder{}, map[string]*folder{}
	for _, c := range changes {
		name, _, below := strings.Cut(c.Path, "/")
		if !below {
			name = "" // in the top folder itself
		}
		if byName[name] == nil {
			byName[name] = &folder{name: name}
		}
		byName[name].count(c.Status)
		total.count(c.Status)
	}
	p.para(count(total.all, "path") + ": " + total.words())
	list := slices.SortedFunc(maps.Values(byName), func(a, b *folder) int {
		return cmp.Or(b.all-a.all, cmp.Compare(a.name, b.name))
	})
	for _, f := range list[:min(len(list), maxFolders)] {
		name := "the top folder itself"
		if f.name != "" {
			name = p.code(f.name + "/")
		}
		p.item(name + ": " + f.words())
	}
	if more := len(list) - maxFolders; more > 0 {
		p.item("… " + count(more, "more folder"))
	}
}

func (p *page) checks(checks []evidence.Check) {
	p.section("Checks", checksBytes)
	if len(checks) == 0 {
		p.para("**None ran: nothing says that the change works.**")
		return
	}
	sorted := slices.Clone(checks)
	slices.SortStableFunc(sorted, func(a, b evidence.Check) int {
		return slices.Index(statuses, a.Status) - slices.Index(statuses, b.Status)
	})
	each(p, sorted, p.check)
}

func (p *page) check(c evidence.Check) {
	line := p.code(c.Name) + " " + p.code(c.Command) + ": "
	if c.BaseStatus != "" {
		line += p.status(c.BaseStatus) + " on the base → "
	}
	line += "**" + p.status(c.Status) + "**"
	if c.Status != sallyport.CheckNotRun {
		line += fmt.Sprintf(", exit status %d, %s", c.Exit, screen.Seconds(c.Seconds))
	}
	p.item(line, p.below(c)...)
}

// below is what stands under a check.
func (p *page) below(c evidence.Check) []string {
	var out []string
	say := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	say(c.StatusBy != "keeper" && c.Status != sallyport.CheckNotRun, "the status passed through the sandbox: a claim")
	say(c.CanFail(), "can it fail? a control has shown that it can")
	say(!c.CanFail() && c.Status != sallyport.CheckNotRun, "can it fail? **nothing shows that it can**")
	for i, k := range c.Controls {
		if i == mostInLine {
			out = append(out, "… "+count(len(c.Controls)-i, "more control"))
			break
		}
		out = append(out, p.control(k))
	}
	say(c.BaseTests != "", "with the tests of the base: "+p.status(c.BaseTests))
	say(len(c.Runs) > 1, p.runs(c.Runs))
	say(c.Tests != nil, "by its own count (a claim) "+tally(c.Tests))
	say(c.BaseTally != nil, "by its own count on the base (a claim) "+tally(c.BaseTally))
	say(c.Reused != "", "the result is that of attempt "+p.code(string(c.Reused))+" on the same tree and environment")
	say(c.Message != "", p.code(c.Message))
	return out
}

func (p *page) control(k evidence.Control) string {
	held := "**not held**"
	if k.Held {
		held = "held"
	}
	text := "control " + p.code(k.Name) + " " + held
	if k.Required {
		text += ", required"
	}
	if k.Detail != "" {
		text += ": " + p.sentence(k.Detail)
	}
	return text
}

func (p *page) runs(runs []evidence.Run) string {
	var words []string
	for _, r := range runs[:min(len(runs), mostInLine)] {
		words = append(words, p.status(r.Status))
	}
	return count(len(runs), "run") + ": " + strings.Join(words, ", ")
}

func tally(t *evidence.Tally) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%d tests ran, %d failed, %d skipped", t.Tests, t.Failed, t.Skipped)
}

// severities in the order that they are shown.
var severities = []sallyport.Severity{sallyport.SeverityBlock, sallyport.SeverityWarn, sallyport.SeverityInfo}

func (p *page) findings(list []evidence.Finding) {
	p.section("Findings", findingsBytes)
	if len(list) == 0 {
		p.para("None.")
		return
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b evidence.Finding) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	each(p, sorted, func(f evidence.Finding) {
		line := p.severity(f.Severity) + " " + p.code(f.Rule)
		if f.Path != "" {
			line += " " + p.code(f.Path)
		}
		line += ": " + p.code(f.Message)
		if f.Default != "" {
			line += " (policy made it so; by itself " + p.severity(f.Default) + ")"
		}
		p.item(line)
	})
}

func (p *page) severity(s sallyport.Severity) string {
	if slices.Contains(severities, s) {
		return "**" + string(s) + "**"
	}
	return p.code(string(s))
}

func (p *page) layers(layers []evidence.Layer) {
	p.section("What held the agent", layersBytes)
	var held, weaker, watched, claimed, not []string
	for _, l := range layers {
		name := string(l.Layer)
		switch {
		case l.Status == sallyport.LayerNotRequired:
		case l.Status == sallyport.LayerWatched:
			watched = append(watched, name)
		case l.Status != sallyport.LayerHeld:
			not = append(not, name)
		case l.Grade == sallyport.GradeClaim:
			claimed = append(claimed, name)
		case l.Weaker != "":
			weaker = append(weaker, name)
		default:
			held = append(held, name)
		}
	}
	if len(held)+len(weaker)+len(watched)+len(claimed)+len(not) == 0 {
		p.para("**Nothing is recorded.**")
	}
	for _, g := range []struct {
		word  string
		names []string
	}{{"**Not held:** ", not}, {"**A claim only:** ", claimed}, {"Watched from outside: ", watched}, {"Held, and weaker than it could be: ", weaker}, {"Held: ", held}} {
		if len(g.names) > 0 {
			p.item(g.word + p.codes(g.names, 2*mostInLine))
		}
	}
}

func (p *page) egress(e evidence.Predicate) {
	p.section("What left the sandbox", egressBytes)
	switch t := e.Egress; {
	case t == nil:
		p.item("**Not recorded.**")
	case *t == evidence.Egress{}:
		p.item("Nothing left the agent's sandbox, and nothing was refused.")
	default:
		p.item("The agent: " + totals(*t))
	}
	each(p, e.Setup, func(s evidence.Setup) {
		if s.Egress != nil {
			p.item("Setup " + p.code(s.Command) + ": " + totals(*s.Egress))
		}
	})
	each(p, e.EgressRules, func(r sallyport.EgressRule) {
		p.item("Allowed " + p.code(fmt.Sprintf("%s %s:%d", r.Protocol, r.Host, r.Port)))
	})
}

func totals(t evidence.Egress) string {
	return fmt.Sprintf("%s let through, %d refused; %s up, %s down", count(int(t.Requests-t.Refused), "request"), t.Refused, size(t.BytesUp), size(t.BytesDown))
}

func (p *page) spend(s *evidence.Spend) {
	p.section("What it cost", spendBytes)
	switch {
	case s == nil:
		p.para("Not recorded.")
	case *s == evidence.Spend{}:
		p.para("Nothing.")
	default:
		p.para(fmt.Sprintf("%.2f USD; %s tokens in, %s out", float64(s.MicroUSD)/1e6, screen.Thousands(int(s.InputTokens)), screen.Thousands(int(s.OutputTokens))))
	}
}

// notChecked comes whole from the evidence, with what no evidence of this kind can show.
func (p *page) notChecked(e evidence.Predicate) {
	p.section("What was not checked", notCheckedBytes)
	p.item("An exit status says that a command ended in a fresh sandbox, not that its tests test anything")
	each(p, e.NotChecked, func(s string) { p.item(p.sentence(s)) })
}
