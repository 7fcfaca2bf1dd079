package checks

import (
	"io"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// sign is a line by which a tool says that it could not build or load something. word stands in every such
// line, and is looked for first.
type sign struct {
	word string
	line pattern.Pattern // nil: the word alone says it
}

// signs by the family of languages whose tools give them.
var signs = map[string][]sign{
	"go": {
		{"[build failed]", pattern.New(`^FAIL\s+\S+ \[build failed\]$`)},
		{"[setup failed]", pattern.New(`^FAIL\s+\S+ \[setup failed\]$`)},
		{`"Action":"build-fail"`, nil},
		{".go:", pattern.New(`^(?:vet: )?[^\s"{]+\.go:\d+:\d+: (?:undefined|syntax error|expected |invalid operation|cannot use|declared and not used|missing return|too many|not enough|imported and not used|"[^"]+" imported and not used|\S+ redeclared|mismatched types|invalid argument|duplicate |unknown field|no required module|non-)`)},
	},
	"python": {
		{"ERROR collecting ", nil},
		{"ImportError while ", nil},
		{"_FailedTest", nil},
		{"Failed to import test module", nil},
		{"SyntaxError: ", nil},
		{"IndentationError: ", nil},
		{"ModuleNotFoundError: ", nil},
		{"errors during collection", nil},
		{"error during collection", nil},
	},
	"node": {
		{"SyntaxError: ", nil},
		{"SyntaxError [", nil},
		{"error TS", pattern.New(`\berror TS\d+: `)},
		{"Test suite failed to run", nil},
		{"Cannot find module ", nil},
		{"ERR_MODULE_NOT_FOUND", nil},
		{"Transform failed with ", nil},
		{"Failed Suites ", nil},
	},
	"rust": {
		{"could not compile `", nil},
		{"error", pattern.New(`^error(?:\[E\d{4}\])?: (?:aborting due to|expected |unexpected |cannot find|unresolved|mismatched|this file contains)`)},
		{"error[E", pattern.New(`^error\[E\d{4}\]: `)},
		{"failed to parse manifest at ", nil},
	},
	"java": {
		{"COMPILATION ERROR", nil},
		{"Compilation failed", nil},
		{".java:", pattern.New(`\.java:(?:\[\d+,\d+\]|\d+: error:)`)},
		{"compile", pattern.New(`^> Task :\S*compile\S* FAILED$`)},
		{".kt:", pattern.New(`^e: .*\.kt:\d+`)},
	},
	"c": {
		{"rror: ", pattern.New(`^\S+:\d+(?::\d+)?: (?:fatal )?error: `)},
		{"undefined reference to ", nil},
		{"ld returned ", pattern.New(`ld returned \d+ exit status`)},
		{"linker command failed", nil},
		{"_NOT_BUILT", nil},
	},
	"ruby": {
		{"error", pattern.New(`(?i)syntax errors? (?:found|, )|syntax error, unexpected`)},
		{"An error occurred while loading ", nil},
		{"cannot load such file -- ", nil},
	},
	"php": {
		{"Parse error: ", nil},
	},
	"dotnet": {
		{"error ", pattern.New(`\berror (?:CS|FS|BC|MSB|NU)\d{4}: `)},
	},
	"elixir": {
		{"== Compilation error in file ", nil},
		{"could not compile dependency", nil},
	},
}

// family says which signs go with a form of output; others go with all.
var family = map[string]string{
	"go-json": "go", "go": "go", "pytest": "python", "unittest": "python", "node": "node", "jest": "node", "vitest": "node", "mocha": "node",
	"cargo": "rust", "rspec": "ruby", "minitest": "ruby", "phpunit": "php", "maven": "java", "gradle": "java", "dotnet": "dotnet", "ctest": "c", "exunit": "elixir",
}

// BuildFailed reports whether output says that something could not be built, loaded or collected at all, and
// the first line that says so (not neutralised, at most 200 bytes). Such a failure tells nothing about the
// tests. A test may print such a line too: what also stands in the output of a run that passed means nothing.
// format is one of Formats, or empty for all languages. Errors are those of Read.
func BuildFailed(format string, output io.Reader) (line string, failed bool, err error) {
	look, err := signsOf(format)
	if err != nil {
		return "", false, err
	}
	err = lines(output, func(s string) bool {
		for _, g := range look {
			if strings.Contains(s, g.word) && (g.line == nil || g.line.MatchString(s)) {
				line, failed = strings.ToValidUTF8(s[:min(len(s), 200)], ""), true
				return false
			}
		}
		return true
	})
	return line, failed, err
}

func signsOf(format string) ([]sign, error) {
	known := format == ""
	for _, f := range formats {
		known = known || f.name == format
	}
	if !known {
		return nil, unknownFormat(format)
	}
	if f, ok := family[format]; ok {
		return signs[f], nil
	}
	var all []sign
	for _, s := range signs {
		all = append(all, s...)
	}
	return all, nil
}
