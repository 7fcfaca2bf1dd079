package review

import (
	"fmt"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// Check is one check with what shows that it means something.
type Check struct {
	Name, Command string
	Base, Status  string // base: "" where it did not run there
	Tone          string // of its status: "good", "bad" or "dim"
	Unshown       string // it passed and nothing shows that it can fail: what to say of it
	Counts        string // "12 tests; 11 on the base (by its own word)"
	Facts         []string
	Controls      []Control
	Tail          string // its last output
}

// Control is one demonstration.
type Control struct {
	Name, Detail string
	Held         bool
	Word         string // "held", "does not hold", "could not be shown"
}

// checks are the results; before there are any, what policy defines.
func checks(s Subject) (out []Check, none string) {
	for _, k := range s.Report.Checks {
		out = append(out, check(k))
	}
	if len(out) > 0 {
		return out, ""
	}
	for _, k := range s.Manifest.Checks {
		out = append(out, Check{Name: line(k.Name), Command: line(k.Run), Status: sofar(s.Report, "not run"), Tone: "dim"})
	}
	return out, "none is defined: nothing shows that the change works"
}

func check(k sallyport.CheckResult) Check {
	c := Check{Name: line(k.Name), Command: line(k.Run), Base: line(string(k.BaseStatus)), Status: line(string(k.Status)), Tone: "bad",
		Counts: counts(k), Facts: runs(k), Tail: screen.Text([]byte(k.Tail))}
	switch k.Status {
	case sallyport.CheckPassed:
		c.Tone = "good"
		if !k.CanFail() {
			c.Unshown = "no control: nothing shows that it can fail on this change"
		}
	case sallyport.CheckNotRun:
		c.Tone = "dim"
	}
	for _, x := range k.Controls {
		c.Controls = append(c.Controls, control(x))
	}
	return c
}

// runs says how the result came about.
func runs(k sallyport.CheckResult) []string {
	var out []string
	if k.Status != sallyport.CheckNotRun {
		s := fmt.Sprintf("exit %d after %s", k.Exit, screen.Seconds(k.Seconds))
		if k.StatusBy != "" {
			s += ", seen by the " + line(k.StatusBy)
		}
		out = append(out, s)
	}
	for i, r := range k.Runs {
		out = append(out, fmt.Sprintf("run %d of %d: %s (exit %d, %s)", i+1, len(k.Runs), line(string(r.Status)), r.Exit, screen.Seconds(r.Seconds)))
	}
	if k.Reused != "" {
		out = append(out, "not run again: attempt "+screen.Short(k.Reused)+" ran it on this very tree, toolchain and dependencies")
	}
	if k.BaseTests != "" {
		out = append(out, "with the base's tests and runner configuration put back: "+line(string(k.BaseTests)))
	}
	if k.Message != "" {
		out = append(out, line(k.Message))
	}
	return out
}

func counts(k sallyport.CheckResult) string {
	if k.Tests == nil {
		return ""
	}
	s := count(k.Tests.Tests, "test")
	if k.Tests.Failed > 0 {
		s += fmt.Sprintf(", %d failed", k.Tests.Failed)
	}
	if k.Tests.Skipped > 0 {
		s += fmt.Sprintf(", %d skipped", k.Tests.Skipped)
	}
	if k.BaseTally != nil {
		s += fmt.Sprintf("; %d on the base", k.BaseTally.Tests)
	}
	return s + " (by its own word)"
}

func control(c sallyport.Control) Control {
	out := Control{Name: line(c.Name), Detail: line(c.Detail), Held: c.Held, Word: "held"}
	switch {
	case c.Held:
	case c.Required:
		out.Word = "does not hold"
	default:
		out.Word = "could not be shown"
	}
	return out
}
