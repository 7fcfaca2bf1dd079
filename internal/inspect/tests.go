package inspect

import (
	"slices"
	"strings"
)

// testKind are the places of tests by the habits of each language.
var testKind = kind{
	names: []string{"*_test.go", "test_*.py", "*_test.py", "tests.py", "conftest.py", "*_spec.rb", "*_test.rb", "test_*.rb", "*_test.exs", "*_test.dart", "*_test.zig", "*_test.cc", "*_test.cpp", "*_test.c", "*_unittest.cc", "*_unittest.py", "test_*.c", "test_*.cc", "test_*.cpp",
		"*.test.js", "*.test.jsx", "*.test.ts", "*.test.tsx", "*.test.mjs", "*.test.cjs", "*.test.mts", "*.test.cts", "*.test.vue", "*.test.php", "*.test.sh", "*.test.lua", "*.spec.js", "*.spec.jsx", "*.spec.ts", "*.spec.tsx", "*.spec.mjs", "*.spec.cjs", "*.spec.mts", "*.spec.cts", "*.spec.vue", "*_spec.lua", "*.cy.js", "*.cy.ts", "*.cy.tsx", "*.e2e.ts", "*.snap", "*.t", "*.bats", "*_test.sh", "*test.hs", "*spec.hs", "*_test.clj", "*_test.erl", "*_suite.erl"},
	folders: []string{"testdata", "__tests__", "__mocks__", "__snapshots__", "__fixtures__", "tests", "test", "spec", "specs", "e2e", "cypress", "androidtest", "integrationtest", "functionaltest", "testfixtures"},
}.index()

// testClasses end the names of test classes where a language writes them in capitals.
var testClasses = []string{"Test.java", "Tests.java", "TestCase.java", "IT.java", "Test.kt", "Tests.kt", "Spec.kt", "Test.scala", "Spec.scala", "Suite.scala", "Test.groovy", "Spec.groovy", "Test.php", "Tests.cs", "Test.cs", "Tests.fs", "Tests.swift", "Test.swift"}

// IsTest reports whether a path is a test: by the globs if there are any, else by the habits of its language.
// Globs are doublestar patterns; one that is not valid matches nothing.
func IsTest(p string, globs []string) bool {
	if len(globs) > 0 {
		return slices.ContainsFunc(globs, func(g string) bool { return matches(g, p) })
	}
	return testKind.holds(placeOf(p)) || slices.ContainsFunc(testClasses, func(s string) bool { return strings.HasSuffix(p, s) })
}

func (i *inspection) test(p string) bool {
	if i.IsTest != nil {
		return i.IsTest(p)
	}
	return IsTest(p, nil)
}
