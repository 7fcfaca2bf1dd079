package screen

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// Options say how a page is drawn.
type Options struct {
	Colour bool
	Width  int // columns; 0: 80. A line is cut, never wrapped.
}

// MaxLines bounds the result page; the output of failed checks comes below it.
const MaxLines = 12

// tailLines is how much of a failed check's output is shown, maxTails of how many checks.
const (
	tailLines = 20
	maxTails  = 3
)

// rows that may take more than one line. Where something was refused, checks and findings make room for it.
const (
	maxCheckRows   = 4
	maxFindingRows = 2
	minCheckRows   = 2
	minFindingRows = 1
	maxNames       = 3
)

// Render lays out an ended Attempt: verdict and why, files, checks, findings, layers that do not hold, branch
// and next command, in at most MaxLines lines; then, for failed checks, the last lines of their output. Every
// text of the report is neutralised.
func Render(r sallyport.Report, o Options) string {
	if o.Width <= 0 {
		o.Width = 80
	}
	p := page{o: o}
	p.verdict(r)
	p.files(r)
	p.checks(r)
	p.findings(r)
	p.refusals(r)
	p.layers(r.Layers)
	p.branch(r)
	p.row("next", "", next(r))
	if len(p.lines) > MaxLines { // cannot happen while the rows above keep their limits; a test holds them to it
		p.lines = p.lines[:MaxLines]
	}
	p.setupTail(r.Setup)
	p.tails(r.Checks)
	return strings.Join(p.lines, "\n") + "\n"
}

type page struct {
	o     Options
	lines []string
}

// Colours by meaning, so that red is never decoration.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

// paint colours text that is already neutralised and cut.
func (p *page) paint(colour, s string) string {
	if !p.o.Colour || colour == "" || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

const labelWidth = 10

// row adds one labelled line; nothing for an empty text.
func (p *page) row(label, colour, text string) {
	if text == "" {
		return
	}
	cut := Fit(Line(text), p.o.Width-labelWidth-2)
	p.lines = append(p.lines, p.paint(dim, fmt.Sprintf("  %-*s", labelWidth, label))+p.paint(colour, cut))
}

func (p *page) verdict(r sallyport.Report) {
	word, colour := verdictWord(r)
	text := fmt.Sprintf("%s · attempt %d · %s", Line(r.Name), r.Number, Short(r.Attempt))
	if s := total(r.Timings); s > 0 {
		text += fmt.Sprintf(" · %s", Seconds(s))
	}
	if s := Spent(r.Spend); s != "" {
		text += " · " + s
	}
	p.lines = append(p.lines, p.paint(bold+";"+colour, word)+Fit("  "+text, p.o.Width-Columns(word)))
	p.row("why", "", r.Reason.Message)
}

func verdictWord(r sallyport.Report) (word, colour string) {
	switch {
	case r.State == sallyport.AttemptAccepted:
		return "ACCEPTED", green
	case r.State == sallyport.AttemptAwaitingApproval:
		return "AWAITING APPROVAL", yellow
	case r.State == sallyport.AttemptRejected:
		return "REJECTED", red
	case r.State == sallyport.AttemptCancelled:
		return "CANCELLED", yellow
	case r.State == sallyport.AttemptFailed && !r.Agent.Ran():
		return "NOT STARTED", red
	case r.State == sallyport.AttemptFailed:
		return "FAILED", red
	}
	// Not ended: no verdict, whatever else the report says.
	return strings.ToUpper(Line(string(r.State))), yellow
}

func total(timings map[string]float64) float64 {
	sum := 0.0
	for _, s := range timings {
		sum += s
	}
	return sum
}

func (p *page) files(r sallyport.Report) {
	if len(r.Changes) == 0 {
		if r.Tree != "" {
			p.row("files", "", "none changed")
		}
		return
	}
	n := map[sallyport.ChangeStatus]int{}
	var names []string
	for _, c := range r.Changes {
		n[c.Status]++
		if len(names) < maxNames {
			names = append(names, Source([]byte(c.Path)))
		}
	}
	var counts []string
	for _, s := range []struct {
		status sallyport.ChangeStatus
		word   string
	}{{sallyport.ChangeAdded, "added"}, {sallyport.ChangeModified, "modified"}, {sallyport.ChangeDeleted, "deleted"}, {sallyport.ChangeMode, "mode changed"}, {sallyport.ChangeType, "type changed"}} {
		if n[s.status] > 0 {
			counts = append(counts, fmt.Sprintf("%s %s", Thousands(n[s.status]), s.word))
		}
	}
	text := strings.Join(counts, ", ") + ": " + strings.Join(names, ", ")
	if more := len(r.Changes) - len(names); more > 0 {
		text += fmt.Sprintf(", … %s more", Thousands(more))
	}
	p.row("files", "", text)
}

// checks shows what did not pass first, so that a cut list never hides a failure.
func (p *page) checks(r sallyport.Report) {
	if len(r.Checks) == 0 {
		if r.Decision != sallyport.DecisionNone { // else it never came to checks
			p.row("checks", yellow, "none ran: nothing says that the change works")
		}
		return
	}
	sorted := slices.Clone(r.Checks)
	slices.SortStableFunc(sorted, func(a, b sallyport.CheckResult) int { return checkRank(a) - checkRank(b) })
	shown, rows := len(sorted), maxCheckRows
	if len(r.Refusals) > 0 {
		rows = minCheckRows
	}
	if shown > rows {
		shown = rows - 1
	}
	for i, c := range sorted[:shown] {
		label := "checks"
		if i > 0 {
			label = ""
		}
		p.row(label, checkColour(c), checkText(c))
	}
	rest := map[sallyport.CheckStatus]int{}
	for _, c := range sorted[shown:] {
		rest[c.Status]++
	}
	var words []string
	for _, s := range []sallyport.CheckStatus{sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckFlaky, sallyport.CheckPassed, sallyport.CheckNotRun} {
		if rest[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", rest[s], s))
		}
	}
	if len(words) > 0 {
		p.row("", dim, "… and "+strings.Join(words, ", "))
	}
}

func checkRank(c sallyport.CheckResult) int {
	switch {
	case c.Status == sallyport.CheckFailed:
		return 0
	case c.Status == sallyport.CheckFlaky:
		return 2
	case c.Status == sallyport.CheckPassed && slices.ContainsFunc(c.Controls, func(x sallyport.Control) bool { return !x.Held }):
		return 3
	case c.Status == sallyport.CheckPassed:
		return 4
	case c.Status == sallyport.CheckNotRun:
		return 5
	}
	return 1
}

// checkColour is green only for a pass that shows something.
func checkColour(c sallyport.CheckResult) string {
	switch {
	case c.Status == sallyport.CheckNotRun:
		return dim
	case c.Status != sallyport.CheckPassed || slices.ContainsFunc(c.Controls, func(x sallyport.Control) bool { return !x.Held && x.Required }):
		return red
	case !c.CanFail() || checkRank(c) == 3:
		return yellow
	}
	return green
}

func checkText(c sallyport.CheckResult) string {
	if c.Status == sallyport.CheckNotRun {
		return fmt.Sprintf("%s  not run (nothing it looks at was changed)", c.Name)
	}
	base := c.BaseStatus
	if base == "" {
		base = "?"
	}
	text := fmt.Sprintf("%s  base %s → change %s  %s", c.Name, base, c.Status, Seconds(c.Seconds))
	for _, s := range []string{runsText(c), controlsText(c)} {
		if s != "" {
			text += "  " + s
		}
	}
	if c.Reused != "" {
		text += "  reused from " + Short(c.Reused)
	}
	if c.BaseTests != "" {
		text += fmt.Sprintf("  with the base's tests %s", c.BaseTests)
	}
	if c.Message != "" {
		text += "  " + c.Message
	}
	return text
}

// runsText says how several runs of one check differed.
func runsText(c sallyport.CheckResult) string {
	if len(c.Runs) < 2 {
		return ""
	}
	passed := 0
	for _, r := range c.Runs {
		if r.Status == sallyport.CheckPassed {
			passed++
		}
	}
	return fmt.Sprintf("%d of %d runs passed", passed, len(c.Runs))
}

// controlsText names what does not hold. A pass that nothing could have prevented is called so.
func controlsText(c sallyport.CheckResult) string {
	var broken, unshown []string
	for _, x := range c.Controls {
		switch {
		case x.Held:
		case x.Required:
			broken = append(broken, "control "+x.Name+" not held")
		default:
			unshown = append(unshown, "control "+x.Name+" not shown")
		}
	}
	parts := append(broken, unshown...)
	switch {
	case len(parts) > 0 || c.Status != sallyport.CheckPassed:
		return strings.Join(parts, ", ")
	case c.CanFail():
		return "controls held"
	}
	return "no control"
}

// findings shows counts with the worst finding, and the next worst.
func (p *page) findings(r sallyport.Report) {
	if len(r.Findings) == 0 {
		return
	}
	rows := maxFindingRows
	if len(r.Refusals) > 0 {
		rows = minFindingRows
	}
	sorted := slices.Clone(r.Findings)
	slices.SortStableFunc(sorted, func(a, b sallyport.Finding) int { return severityRank(a.Severity) - severityRank(b.Severity) })
	n := map[int]int{}
	for _, f := range sorted {
		n[severityRank(f.Severity)]++
	}
	var counts []string
	for rank, word := range []string{"block", "warn", "info"} {
		if n[rank] > 0 {
			counts = append(counts, fmt.Sprintf("%s %s", Thousands(n[rank]), word))
		}
	}
	p.row("findings", severityColour(sorted[0].Severity), strings.Join(counts, ", ")+": "+findingText(sorted[0]))
	for _, f := range sorted[1:min(len(sorted), rows)] {
		p.row("", severityColour(f.Severity), findingText(f))
	}
}

// severityRank takes what it does not know for the worst.
func severityRank(s sallyport.Severity) int {
	switch s {
	case sallyport.SeverityWarn:
		return 1
	case sallyport.SeverityInfo:
		return 2
	}
	return 0
}

func severityColour(s sallyport.Severity) string {
	return [...]string{red, yellow, ""}[severityRank(s)]
}

func findingText(f sallyport.Finding) string {
	text := f.Rule
	if f.Path != "" {
		text += " " + f.Path
	}
	text += ": " + f.Message
	if f.Todo != "" {
		text += " → " + f.Todo
	}
	return text
}

func (p *page) layers(layers []sallyport.LayerReport) {
	var not, watched, weaker []string
	colour := dim
	for _, l := range layers {
		name := string(l.Layer)
		switch l.Status {
		case sallyport.LayerHeld:
			if l.Weaker != "" {
				weaker = append(weaker, name)
			}
		case sallyport.LayerNotRequired:
		case sallyport.LayerWatched:
			watched = append(watched, name)
		default:
			if l.Required {
				name, colour = name+" (required)", red
			}
			not = append(not, name)
		}
	}
	var parts []string
	for _, s := range []struct {
		word  string
		names []string
	}{{"not held", not}, {"watched", watched}, {"weaker", weaker}} {
		if len(s.names) > 0 {
			parts = append(parts, s.word+": "+strings.Join(s.names, ", "))
		}
	}
	p.row("layers", colour, strings.Join(parts, "; "))
}

func (p *page) branch(r sallyport.Report) {
	if r.State == sallyport.AttemptAccepted && r.Branch != "" {
		where := ""
		if r.PullRequest != "" {
			where = ", at the forge"
		}
		p.row("branch", "", fmt.Sprintf("%s at %s%s", strings.TrimPrefix(r.Branch, "refs/heads/"), r.Commit.Short(), where))
	}
}

// next is the one command that goes on from here.
func next(r sallyport.Report) string {
	id := Short(r.Attempt)
	switch r.State {
	case sallyport.AttemptAccepted:
		if r.PullRequest != "" {
			return r.PullRequest + "   review and merge it there"
		}
		if r.Branch != "" {
			return "git merge " + shellWord(strings.TrimPrefix(r.Branch, "refs/heads/"))
		}
		if r.Reason.Hint != "" { // why it is not published
			return r.Reason.Hint
		}
		return "sallyport diff " + id
	case sallyport.AttemptAwaitingApproval:
		return "sallyport diff " + id + "   then   sallyport approve " + id
	case sallyport.AttemptRejected, sallyport.AttemptFailed, sallyport.AttemptCancelled:
		if r.Reason.Hint != "" {
			return r.Reason.Hint
		}
		if r.State == sallyport.AttemptRejected {
			return "sallyport retry " + id
		}
		return "sallyport logs " + id
	}
	return "sallyport attach " + id
}

// shellWord quotes what would be more than a word when a person pastes the command.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (p *page) tails(checks []sallyport.CheckResult) {
	shown := 0
	for _, c := range checks {
		if c.Status != sallyport.CheckFailed && c.Status != sallyport.CheckError && c.Status != sallyport.CheckFlaky || c.Tail == "" {
			continue
		}
		if shown++; shown > maxTails {
			return
		}
		p.tail(c.Name, c.Tail)
	}
}

// setupTail is what the setup command that ended the Attempt said last.
func (p *page) setupTail(setup []sallyport.SetupResult) {
	for _, s := range setup {
		if s.Status == sallyport.SetupFailed && s.Tail != "" {
			p.tail("setup: "+s.Run, s.Tail)
			return
		}
	}
}

func (p *page) tail(name, text string) {
	lines := strings.Split(strings.TrimRight(Text([]byte(text)), "\n"), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	p.lines = append(p.lines, "", p.paint(dim, Fit(fmt.Sprintf("--- %s: last %d lines", Line(name), len(lines)), p.o.Width)))
	for _, l := range lines {
		p.lines = append(p.lines, outputBar+Fit(l, maxTailColumns))
	}
}

// Each line of a tail bears outputBar, as a check's output could imitate the page above it.
//
// maxTailColumns is wider than any terminal: error messages are wrapped by the terminal, not cut, but one
// line of minified code must not fill the screen.
const maxTailColumns = 1000

// Short is an id for commands: the part after the kind, as far as it tells apart Attempts of different
// milliseconds.
func Short(id sallyport.AttemptID) string {
	s := Line(strings.TrimPrefix(string(id), sallyport.AttemptPrefix+"_"))
	if len(s) > 12 {
		return s[:12]
	}
	return s
}
