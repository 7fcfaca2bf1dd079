package checks

import (
	"fmt"
	"io"
	"strings"

	"sallyport.dev/sallyport"
)

// reader learns from one form of output, a line at a time.
type reader interface {
	line(s string)
	// tally is what was learned so far; false: this form was not seen.
	tally() (count, bool)
}

// formats are the forms of output, in the order in which equal counts are named.
var formats = []struct {
	name string
	new  func() reader
}{
	{"go-json", newGoJSON},
	{"go", newGo},
	{"junit", newJUnit},
	{"tap", newTAP},
	{"pytest", closings(pytest)},
	{"unittest", closings(unittest)},
	{"node", closings(node)},
	{"jest", closings(jest)},
	{"vitest", closings(vitest)},
	{"mocha", closings(mocha)},
	{"cargo", closings(cargo)},
	{"rspec", closings(rspec)},
	{"minitest", closings(minitest)},
	{"phpunit", closings(phpunit)},
	{"maven", closings(maven)},
	{"gradle", closings(gradle)},
	{"dotnet", closings(dotnet)},
	{"ctest", closings(ctest)},
	{"exunit", closings(exunit)},
}

// Formats lists the names that Read knows, in the order of their table. The slice is the caller's.
func Formats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Read finds what a check's output says of its tests. format is one of Formats, or empty to recognise it.
// A nil Tally with a nil error means that nothing was recognised; a Tally with no tests means that the runner
// spoke and had collected nothing, or never came to its end.
//
// Where lines contradict each other, and where several forms are recognised, the fewest tests count: the code
// that is checked writes this output too. Packages and binaries that report one by one are summed.
//
// The error is CodeInvalid for a format that is not known, CodeExhausted for output above 256 MiB, and else
// the reader's own.
func Read(format string, output io.Reader) (*sallyport.Tally, error) {
	var names []string
	var readers []reader
	for _, f := range formats {
		if format == "" || format == f.name {
			names, readers = append(names, f.name), append(readers, f.new())
		}
	}
	if len(readers) == 0 {
		return nil, unknownFormat(format)
	}
	err := lines(output, func(s string) bool {
		for _, r := range readers {
			r.line(s)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	var best *sallyport.Tally
	for i, r := range readers {
		if c, ok := r.tally(); ok && (best == nil || c.tests() < best.Tests) {
			best = &sallyport.Tally{Format: names[i], Tests: c.tests(), Passed: c.passed, Failed: c.failed, Skipped: c.skipped}
		}
	}
	return best, nil
}

func unknownFormat(format string) error {
	return &sallyport.Error{Op: "read a check's output", Code: sallyport.CodeInvalid, Subject: "report.format",
		Message: fmt.Sprintf("%q is no format that is known", format), Hint: "use one of: " + strings.Join(Formats(), ", ")}
}
