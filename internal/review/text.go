package review

import (
	"fmt"
	"io"
	"strings"

	"sallyport.dev/sallyport"
)

// Text writes the page for a terminal, without its head (title, verdict and why), which the caller shows in a
// form of its own. Lines are not cut: a pager or the terminal wraps them. Colour adds and never replaces words.
func Text(w io.Writer, p Page, colour bool) error {
	t := &text{colour: colour}
	t.asked(p.Asked)
	t.changed(p.Changed)
	t.setup(p.Setup)
	t.checks(p.Checks, p.NoChecks)
	t.findings(p.Findings, p.NoFindings)
	t.refusals(p.Refusals)
	t.layers(p.Layers, p.NoLayers)
	t.list("Not checked", p.Open, p.NoOpen)
	t.list("Notices", p.Notices, "")
	t.list("Verify it yourself", p.Verify, p.NoVerify)
	t.facts("Attempt", p.Facts)
	t.facts("Seconds per stage", p.Timings)
	return t.to(w)
}

// TextChecks writes results of checks alone, without their output.
func TextChecks(w io.Writer, results []sallyport.CheckResult, colour bool) error {
	t := &text{colour: colour}
	for _, k := range results {
		c := check(k)
		c.Tail = ""
		t.check(c)
	}
	return t.to(w)
}

type text struct {
	b      strings.Builder
	colour bool
}

func (t *text) to(w io.Writer) error {
	_, err := io.WriteString(w, t.b.String())
	return err
}

// Colours by meaning.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

var tones = map[string]string{"good": green, "bad": red, "dim": dim}

func (t *text) paint(colour, s string) string {
	if !t.colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (t *text) head(s string) { t.b.WriteString("\n" + t.paint(bold, s) + "\n") }

func (t *text) line(f string, a ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf("  "+f, a...), " ") + "\n")
}

// none is the sentence of an empty part.
func (t *text) none(s string) {
	if s != "" {
		t.line("%s", s)
	}
}

func (t *text) list(title string, lines []string, none string) {
	if len(lines) == 0 && none == "" {
		return
	}
	t.head(title)
	if len(lines) == 0 {
		t.none(none)
	}
	for _, l := range lines {
		t.line("%s", l)
	}
}

func (t *text) facts(title string, facts []Fact) {
	if len(facts) == 0 {
		return
	}
	t.head(title)
	for _, f := range facts {
		t.line("%-11s %s", f.Name, f.Value)
	}
}

func (t *text) asked(a Asked) {
	t.head("Asked")
	for l := range strings.SplitSeq(a.Task, "\n") {
		t.line("%s", l)
	}
	t.line("by %s", a.Agent)
	t.line("on %s; policy: %s; %s", a.Base, a.Policy, a.Attempt)
	for _, r := range a.Reach {
		t.line("may reach %s", r)
	}
}

func (t *text) changed(c Changed) {
	t.head("Changed")
	t.line("%s", c.Totals)
	if len(c.Judges) > 0 {
		t.line("%s", t.paint(yellow, "tests and what checks run by, to look at first"))
		t.files(c.Judges)
	}
	for _, d := range c.Folders {
		t.line("%s", d.Name)
		t.files(d.Files)
		if d.More > 0 {
			t.line("  … and %s", count(d.More, "more file"))
		}
	}
	if c.More > 0 {
		t.line("… and %s: sallyport diff --name-only", count(c.More, "more folder"))
	}
}

func (t *text) files(files []File) {
	for _, f := range files {
		s := fmt.Sprintf("  %-8s %s", f.Status, f.Name)
		if f.Detail != "" {
			s += " (" + f.Detail + ")"
		}
		t.line("%s", s)
	}
}

func (t *text) checks(checks []Check, none string) {
	t.head("Checks")
	if len(checks) == 0 {
		t.none(t.paint(yellow, none))
	}
	for _, c := range checks {
		t.check(c)
	}
}

func (t *text) check(c Check) {
	base := ""
	if c.Base != "" {
		base = c.Base + " on the base → "
	}
	t.line("%s: %s%s   $ %s", c.Name, base, t.paint(tones[c.Tone], c.Status), c.Command)
	if c.Counts != "" {
		t.line("  %s", c.Counts)
	}
	for _, f := range c.Facts {
		t.line("  %s", f)
	}
	for _, x := range c.Controls {
		colour := red
		if x.Held {
			colour = green
		}
		t.line("  %s", strings.TrimSuffix(fmt.Sprintf("control %s %s: %s", x.Name, t.paint(colour, x.Word), x.Detail), ": "))
	}
	if c.Unshown != "" {
		t.line("  %s", t.paint(yellow, c.Unshown))
	}
	if c.Tail != "" {
		for l := range strings.SplitSeq(strings.TrimRight(c.Tail, "\n"), "\n") {
			t.line("  │ %s", l)
		}
	}
}

func (t *text) refusals(list []Refusal) {
	if len(list) == 0 {
		return
	}
	t.head("Refused a way out")
	for _, r := range list {
		t.line("%s, %s: %s", r.Asked, r.Count, r.Why)
		if r.Line != "" {
			t.line("  to allow it, under %s: %s", r.Under, r.Line)
		}
	}
}

func (t *text) findings(findings []Finding, none string) {
	t.head("Findings")
	if len(findings) == 0 {
		t.none(none)
	}
	for _, f := range findings {
		t.line("%-5s %s", f.Severity, strings.TrimSpace(f.Rule+" "+f.Path)+": "+f.Message)
		if f.Todo != "" {
			t.line("      → %s", f.Todo)
		}
	}
}

func (t *text) layers(layers []Layer, none string) {
	t.head("What held the agent")
	if len(layers) == 0 {
		t.none(none)
	}
	for _, l := range layers {
		s := fmt.Sprintf("%-11s %-12s %-11s %s", l.Name, l.Status, l.Grade, l.Brief)
		if l.Weaker != "" {
			s += " (weaker: " + l.Weaker + ")"
		}
		t.line("%s", s)
		if l.Fix != "" {
			t.line("            fix: %s", l.Fix)
		}
	}
}
