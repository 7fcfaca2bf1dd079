package review

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// openLines is how long a file's patch may be to be unfolded from the start.
const openLines = 300

// HTML writes the page and the patch as one file: no script, nothing fetched, and a policy in it that would
// forbid both. left is how many lines of the patch are not in diffs.
func HTML(w io.Writer, p Page, diffs []Diff, left int) error {
	return pageTemplate.Execute(w, struct {
		Page
		Diffs []Diff
		Left  int
	}{p, diffs, left})
}

// Short reports whether the file's patch is read at a glance.
func (d Diff) Short() bool { return len(d.Lines) <= openLines }

// Tone is "dim", "wait" or "bad": how much a finding weighs. A severity it does not know weighs most.
func (f Finding) Tone() string {
	switch f.Severity {
	case "info":
		return "dim"
	case "warn":
		return "wait"
	}
	return "bad"
}
