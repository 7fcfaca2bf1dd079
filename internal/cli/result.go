package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// showResult writes the last page: to stdout, where it is the result, or to stderr, where a JSON document is.
func (a *app) showResult(r sallyport.Report, asJSON bool) {
	w, colour := a.Stdout, a.Colour
	if asJSON {
		w, colour = a.Stderr, false
	}
	_, _ = io.WriteString(w, screen.Render(r, screen.Options{Colour: colour, Width: a.Width}))
}

// writeReport writes the one JSON document of a verb.
func (a *app) writeReport(r sallyport.Report) {
	a.printed = true
	a.writeJSON(whole(r))
}

func (a *app) writeJSON(v any) {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		fmt.Fprintln(a.Stderr, "sallyport: "+screen.Line(err.Error()))
	}
}

// whole makes every list a list: "null" would be a third kind of "nothing" for readers to handle.
func whole(r sallyport.Report) sallyport.Report {
	list(&r.Changes)
	list(&r.Layers)
	list(&r.Findings)
	list(&r.Checks)
	checks := make([]sallyport.CheckResult, len(r.Checks))
	for i, c := range r.Checks {
		list(&c.Controls)
		checks[i] = c
	}
	r.Checks = checks
	if r.Timings == nil {
		r.Timings = map[string]float64{}
	}
	return r
}

func list[T any](l *[]T) {
	if *l == nil {
		*l = []T{}
	}
}

// refusalReport is the document for a request that never became an Attempt: no id, no state, a reason.
func refusalReport(err error) sallyport.Report {
	code := "cancelled"
	if ExitCodeOf(err) < ExitHangup {
		code = sallyport.CodeOf(err).String()
	}
	if code == sallyport.CodeUnknown.String() {
		code = "internal"
	}
	r := sallyport.Report{Reason: sallyport.Reason{Code: code, Hint: hintFor(err)}, Agent: sallyport.AgentResult{Exit: -1}}
	var silent *exitError
	switch {
	case errors.As(err, &silent) && silent.err == nil:
		r.Reason.Message = "ended by a signal before there was an attempt"
	case err != nil:
		r.Reason.Message = err.Error()
	}
	return r
}
