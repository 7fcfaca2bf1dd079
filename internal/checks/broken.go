package checks

import (
	"bytes"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// broken is what makes a test file say no, by its language.
const (
	brokenGo     = "\nfunc TestAPlantedFault(t *testing.T) { t.Fatal(\"a planted fault\") }\n"
	brokenPython = "\n\nimport unittest as _planted\n\n\nclass APlantedFault(_planted.TestCase):\n    def test_a_planted_fault(self):\n        self.fail('a planted fault')\n"
	brokenScript = "\nthrow new Error(\"a planted fault\");\n"
	brokenRust   = "\n#[test]\nfn a_planted_fault() {\n    panic!(\"a planted fault\");\n}\n"
	brokenRuby   = "\nraise \"a planted fault\"\n"
	brokenShell  = "echo 'a planted fault'; exit 1\n"
	brokenBats   = "\n@test \"a planted fault\" {\n  false\n}\n"
)

// Broken is a test file with one more test that fails, or that fails as a whole; false where it does not know how. It
// still builds: a check that passes with it does not listen to this file's tests.
func Broken(name string, content []byte) ([]byte, bool) {
	add := func(text string) ([]byte, bool) { return append(bytes.Clone(content), text...), true }
	switch path.Ext(name) {
	case ".go":
		return brokenGoTest(name, content)
	case ".py":
		return add(brokenPython)
	case ".js", ".cjs", ".mjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return add(brokenScript)
	case ".rs":
		return add(brokenRust)
	case ".rb":
		if bytes.Contains(content, []byte("\n__END__")) {
			return nil, false
		}
		return add(brokenRuby)
	case ".bats":
		return add(brokenBats)
	case ".sh":
		first, rest, _ := bytes.Cut(content, []byte("\n"))
		if !bytes.HasPrefix(first, []byte("#!")) {
			return append([]byte(brokenShell), content...), true
		}
		return bytes.Join([][]byte{first, []byte(brokenShell), rest}, []byte("\n")), true
	}
	return nil, false
}

// brokenGoTest needs testing under its own name.
func brokenGoTest(name string, content []byte) ([]byte, bool) {
	if !strings.HasSuffix(name, "_test.go") || bytes.Contains(content, []byte("//go:build")) || bytes.Contains(content, []byte("TestAPlantedFault")) {
		return nil, false
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		return nil, false
	}
	for _, i := range f.Imports {
		if i.Path.Value == `"testing"` && i.Name == nil {
			return append(bytes.Clone(content), brokenGo...), true
		}
	}
	return nil, false
}
