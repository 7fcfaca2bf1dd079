package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) showVerb() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "show [A]",
		Short:   "Show an attempt: verdict, checks, findings, layers, evidence",
		Long:    "Show everything that is known of an attempt. --json prints the same document as run --json.",
		Example: "  sallyport show\n  sallyport show 01m9k3v0 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			at, err := a.attempt(ctx, c, args)
			if err != nil {
				return err
			}
			if asJSON {
				a.writeReport(at.Report)
				return nil
			}
			a.showResult(at.Report, false)
			for _, line := range details(at.Report) {
				fmt.Fprintln(a.Stdout, line)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print exactly one JSON document on stdout")
	c.Annotations = map[string]string{reportVerb: ""}
	return c
}

// details are the parts of a Report that the result page cuts, as neutralised lines.
func details(r sallyport.Report) []string {
	var out []string
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		out = append(out, "", title)
		for _, l := range lines {
			out = append(out, "  "+screen.Line(l))
		}
	}
	section("Attempt", identity(r))
	section("Changes", changeLines(r.Changes))
	section("Findings", findingLines(r.Findings))
	section("Checks", checkLines(r.Checks))
	section("Layers", layerLines(r.Layers))
	section("Not checked", r.NotChecked)
	section("Notices", r.Notices)
	section("Seconds per stage", timingLines(r.Timings))
	return out
}

func identity(r sallyport.Report) []string {
	var out []string
	for _, f := range []struct{ name, value string }{
		{"attempt", string(r.Attempt)}, {"previous", string(r.Previous)}, {"work order", string(r.WorkOrder)},
		{"manifest", string(r.Manifest)}, {"repository", r.Repository}, {"base", string(r.Base)}, {"tree", string(r.Tree)},
		{"commit", string(r.Commit)}, {"branch", r.Branch}, {"bundle", string(r.Bundle)}, {"evidence", r.Evidence},
		{"created", r.Created}, {"ended", r.Ended}, {"agent", agentText(r.Agent)}, {"separation", r.Separation},
	} {
		if f.value != "" {
			out = append(out, fmt.Sprintf("%-11s %s", f.name, f.value))
		}
	}
	return out
}

// agentText is empty for an agent that has not ended.
func agentText(g sallyport.AgentResult) string {
	if g.Ended == "" {
		return ""
	}
	s := fmt.Sprintf("ended by %s, exit %d, %s bytes of output", g.Ended, g.Exit, screen.Thousands(int(g.Output)))
	if g.Dropped > 0 {
		s += fmt.Sprintf(" and %s dropped", screen.Thousands(int(g.Dropped)))
	}
	return s
}

func changeLines(changes []sallyport.Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%-8s %s", c.Status, c.Path))
	}
	return out
}

func findingLines(findings []sallyport.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%-5s %s %s: %s", f.Severity, f.Rule, f.Path, f.Message))
		if f.Todo != "" {
			out = append(out, "      → "+f.Todo)
		}
	}
	return out
}

func checkLines(checks []sallyport.CheckResult) []string {
	var out []string
	for _, c := range checks {
		line := fmt.Sprintf("%s: %s (exit %d, %s; on the base %s; status by %s): %s", c.Name, c.Status, c.Exit, screen.Seconds(c.Seconds), orUnknown(string(c.BaseStatus)), orUnknown(c.StatusBy), c.Run)
		out = append(out, line)
		for _, k := range c.Controls {
			word := "did not hold"
			if k.Held {
				word = "held"
			}
			out = append(out, strings.TrimSuffix(fmt.Sprintf("  control %s %s: %s", k.Name, word, k.Detail), ": "))
		}
	}
	return out
}

func layerLines(layers []sallyport.LayerReport) []string {
	var out []string
	for _, l := range layers {
		line := fmt.Sprintf("%-11s %-12s %-11s %s", l.Layer, l.Status, l.Grade, l.Proof)
		if l.Weaker != "" {
			line += " (weaker: " + l.Weaker + ")"
		}
		out = append(out, line)
		if l.Fix != "" && l.Status != sallyport.LayerHeld {
			out = append(out, "            fix: "+l.Fix)
		}
	}
	return out
}

func timingLines(timings map[string]float64) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(timings)) {
		out = append(out, fmt.Sprintf("%-11s %.3f", name, timings[name]))
	}
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}
