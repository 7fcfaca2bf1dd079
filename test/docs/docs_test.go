// Package docs_test holds the documents to the code: what they name must exist.
package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/corpus"
)

const top = "../.."

// pages are README.md and everything below docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(b)
	}
	add(filepath.Join(top, "README.md"))
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sources is the text of every Go file of the module, and of its test files alone.
func sources(t *testing.T) (all, tests []byte) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // an editor's temporary file
		}
		all = append(all, b...)
		if strings.HasSuffix(path, "_test.go") {
			tests = append(tests, b...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, tests
}

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")

func TestNamedTestsExist(t *testing.T) {
	_, tests := sources(t)
	named := 0
	for path, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			named++
			if !bytes.Contains(tests, []byte("\nfunc "+m[1]+"(")) {
				t.Errorf("%s names %s, which no test file has", path, m[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named: the pattern no longer finds them", named)
	}
}

// function names in backticks with a dot: the last part must be declared somewhere.
var functionName = regexp.MustCompile("`[a-zA-Z]+(?:\\.[a-zA-Z]+)*\\.([a-zA-Z]{3,})`")

func TestNamedFunctionsExist(t *testing.T) {
	all, _ := sources(t)
	text := pages(t)[filepath.Join(top, "docs", "ARCHITECTURE.md")]
	names := functionName.FindAllStringSubmatch(text, -1)
	if len(names) < 30 {
		t.Errorf("only %d functions are named: the pattern no longer finds them", len(names))
	}
	files := regexp.MustCompile(`\.(go|md|json|yaml|db)$`)
	for _, m := range names {
		whole := strings.Trim(m[0], "`")
		if files.MatchString(whole) || strings.HasPrefix(whole, "attempt.") || strings.HasPrefix(whole, "allocation.") || strings.HasPrefix(whole, "publication.") {
			continue
		}
		declared := regexp.MustCompile(`(?m)(^func (\([^)]*\) )?|^type |^\t)` + regexp.QuoteMeta(m[1]) + `\b`)
		if !declared.Match(all) {
			t.Errorf("%s is not declared anywhere", whole)
		}
	}
	for _, event := range regexp.MustCompile("`((?:attempt|allocation|publication)\\.[a-z-]+)`").FindAllStringSubmatch(text, -1) {
		if !bytes.Contains(all, []byte(`"`+event[1]+`"`)) {
			t.Errorf("event %s does not exist", event[1])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)

// A path of the repository, in backticks or as a link.
var repositoryPath = regexp.MustCompile("`((?:internal|cmd|docs|test|tools|scripts)/[A-Za-z0-9_./-]+)`")

func TestLinksAndPathsExist(t *testing.T) {
	for path, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		for _, m := range repositoryPath.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "NAME") {
				continue
			}
			if _, err := os.Stat(filepath.Join(top, m[1])); err != nil {
				t.Errorf("%s names %s: %v", path, m[1], err)
			}
		}
	}
}

// TestCorpusNamesTests: what an attack says covers it must exist.
func TestCorpusNamesTests(t *testing.T) {
	_, tests := sources(t)
	all, err := corpus.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		for _, name := range regexp.MustCompile(`(?:Test|Fuzz)[A-Za-z0-9_]+`).FindAllString(c.Where, -1) {
			if !bytes.Contains(tests, []byte("\nfunc "+name+"(")) {
				t.Errorf("%s names %s, which no test file has", c.ID(), name)
			}
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(pages(t)[filepath.Join(top, "README.md")], "\n"); n >= 150 {
		t.Errorf("README.md has %d lines, want fewer than 150", n)
	}
}
