package manifest

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
)

// The leaves that say what must be seen of a check besides a pass, and how many checks run at once.

// Bounds of what a check may ask for.
const (
	maxMinTests = 1_000_000
	maxRetries  = 5
	maxParallel = 64
)

// AutoFault is the word of planted-fault that lets Sallyport pick the fault.
const AutoFault = "auto"

var baseWords = []string{"pass", "fail", "any"}

const (
	wantFault = "auto, or the path of a patch in the repository such as checks/fault.patch"
	wantFile  = `a file below the repository such as .env or build/junit.xml, without ".." and without a leading or closing slash`
)

func fileRule(s string) string { return below(s, "file", wantFile) }

func faultRule(s string) string {
	if s == AutoFault {
		return ""
	}
	return below(s, "patch", wantFault)
}

func (v *onBase) want() string { return "one of " + listed(baseWords) }
func (v *onBase) read(r *reader, n ast.Node, _ string) error {
	var word string
	if err := oneOf(r, n, &word, baseWords); err != nil {
		return err
	}
	*v = map[string]onBase{"pass": onBase(sallyport.CheckPassed), "fail": onBase(sallyport.CheckFailed)}[word]
	return nil
}

func (v *newTestsOnBase) want() string { return "fail" }
func (v *newTestsOnBase) read(r *reader, n ast.Node, _ string) error {
	if s, _ := textOf(n); s != "fail" {
		return r.expected(n, v.want())
	}
	*v = newTestsOnBase(sallyport.CheckFailed)
	return nil
}

func (v *plantedFault) want() string { return wantFault }
func (v *plantedFault) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, wantFault, faultRule)
}

func (v *minTests) want() string { return "a number of tests from 1 to 1000000" }
func (v *minTests) read(r *reader, n ast.Node, _ string) error {
	return numberLeaf(r, n, v, v.want(), 1, maxMinTests)
}

func (v *retries) want() string { return "a number of further runs from 0 to 5" }
func (v *retries) read(r *reader, n ast.Node, _ string) error {
	return numberLeaf(r, n, v, v.want(), 0, maxRetries)
}

func (v *parallel) want() string { return "a number of checks from 1 to 64" }
func (v *parallel) read(r *reader, n ast.Node, _ string) error {
	return numberLeaf(r, n, v, v.want(), 1, maxParallel)
}

func (v *yes) want() string { return "true or false" }
func (v *yes) read(r *reader, n ast.Node, _ string) error {
	b, ok := n.(*ast.BoolNode)
	if !ok || !slices.Contains([]string{"true", "false"}, b.Token.Value) {
		return r.expected(n, v.want())
	}
	*v = yes(b.Value)
	return nil
}

func (v *reportFormat) want() string { return "one of " + listed(checks.Formats()) }
func (v *reportFormat) read(r *reader, n ast.Node, _ string) error {
	return oneOf(r, n, v, checks.Formats())
}

func (v *fileName) want() string { return "a file below the repository such as .env" }
func (v *fileName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), fileRule)
}

// controls takes over what f asks to see besides a pass.
func (f checkFile) controls(c *sallyport.Check) {
	if f.Base != nil {
		c.Base = sallyport.CheckStatus(*f.Base)
	}
	if f.NewTestsOnBase != nil {
		c.NewTestsOnBase = sallyport.CheckStatus(*f.NewTestsOnBase)
	}
	set(&c.PlantedFault, f.PlantedFault)
	if f.MinTests != nil {
		c.MinTests = int(*f.MinTests)
	}
	c.TestsNotFewer = f.TestsNotFewer != nil && bool(*f.TestsNotFewer)
	if f.Retries != nil {
		c.Retries = int(*f.Retries)
	}
	if f.Report != nil {
		c.Report = &sallyport.CheckReport{Format: string(f.Report.Format)}
		set(&c.Report.Path, f.Report.Path)
	}
}
