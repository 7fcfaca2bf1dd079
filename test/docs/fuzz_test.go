package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// targets are the rows that the fuzz targets of the module give: package, name, and the law that the comment states.
func targets(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			dir, _ := filepath.Rel(top, filepath.Dir(path))
			law, ok := strings.CutPrefix(strings.Join(strings.Fields(f.Doc.Text()), " "), f.Name.Name+": ")
			if !ok {
				t.Errorf("%s: the comment of %s states no law: it begins with the name, a colon, and what must hold of every input", path, f.Name.Name)
			}
			found["`"+dir+"` | `"+f.Name.Name+"`"] = law
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var fuzzRow = regexp.MustCompile("(?m)^\\| (`[^`|]+` \\| `Fuzz[A-Za-z0-9]+`) \\| (.+) \\|$")

// TestFuzzTargetsAreOnThePage: docs/RELIABILITY.md has each target, with the law that its comment states, and no other.
func TestFuzzTargetsAreOnThePage(t *testing.T) {
	want, have := targets(t), map[string]string{}
	for _, m := range fuzzRow.FindAllStringSubmatch(pages(t)[filepath.Join(top, "docs", "RELIABILITY.md")], -1) {
		have[m[1]] = m[2]
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have[k] != want[k] {
			t.Errorf("docs/RELIABILITY.md should have the row\n| %s | %s |", k, want[k])
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			t.Errorf("docs/RELIABILITY.md has %s, which no test file has", k)
		}
	}
}
