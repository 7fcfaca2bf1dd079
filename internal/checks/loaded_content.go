package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// content rules by the end of a file's name.
var loadedLines = []struct {
	end, runner, why string
	line             pattern.Pattern
}{
	{".py", "pytest", "names plugins that are loaded before the tests", pattern.New(`(?m)^\s*pytest_plugins\b`)},
	{".py", "pytest", "is a hook or fixture that applies to every test", pattern.New(`(?m)^\s*(?:def pytest_\w+\(|@pytest\.(?:hookimpl|fixture)\(.*autouse\s*=\s*True)`)},
	{".py", "unittest", "decides by itself which tests are run", pattern.New(`(?m)^\s*def (?:load_tests|setUpModule|tearDownModule)\(`)},
	{".py", "python", "can end the interpreter while it is imported", pattern.New(`(?m)^(?:os\._exit|sys\.exit|exit|quit|atexit\.register)\(`)},
	{".js", "node", "can end the runner or say that it passed", nodeEnds},
	{".mjs", "node", "can end the runner or say that it passed", nodeEnds},
	{".cjs", "node", "can end the runner or say that it passed", nodeEnds},
	{".ts", "node", "can end the runner or say that it passed", nodeEnds},
	{".mts", "node", "can end the runner or say that it passed", nodeEnds},
	{".rs", "cargo", "runs before the tests", pattern.New(`(?m)^\s*#\[(?:ctor|ctor::ctor|test_runner)\b|^\s*#!\[test_runner\(`)},
	{".rs", "cargo", "can end the runner", pattern.New(`\bprocess::exit\(0\)`)},
	{".rb", "ruby", "runs when the tests have ended", pattern.New(`(?m)^\s*(?:at_exit\b|exit!)`)},
}

var nodeEnds = pattern.New(`\bprocess\.(?:exit|reallyExit|abort)\(|\bprocess\.exitCode\s*=|\bprocess\.on\(\s*['"](?:exit|beforeExit)`)

// LoadedContent is Loaded for what only the content of a test or source file shows: code that a runner runs
// besides the tests, or that can end it.
func LoadedContent(name string, content []byte) (runner, why string, ok bool) {
	if len(content) > maxSource {
		return "", "", false
	}
	if strings.HasSuffix(name, "_test.go") {
		return loadedGo(content)
	}
	end := strings.ToLower(path.Ext(name))
	for _, l := range loadedLines {
		if l.end == end && l.line().Match(content) {
			return l.runner, l.why, true
		}
	}
	return "", "", false
}

// loadedGo finds what runs in a Go test binary besides its tests.
func loadedGo(content []byte) (runner, why string, ok bool) {
	f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", content, parser.SkipObjectResolution)
	if err != nil {
		return "", "", false
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "TestMain" {
				return "go", "decides by itself which tests are run and how the run ends", true
			}
			if d.Recv == nil && d.Name.Name == "init" {
				return "go", "runs before the tests", true
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR && callsLiteral(d) {
				return "go", "runs before the tests", true
			}
		}
	}
	return "", "", false
}

// callsLiteral reports whether variables of a package are set by a function written on the spot: an init by
// another name.
func callsLiteral(d *ast.GenDecl) bool {
	found := false
	ast.Inspect(d, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			_, literal := ast.Unparen(c.Fun).(*ast.FuncLit)
			found = found || literal
		}
		return !found
	})
	return found
}
