package manifest

// language is one row of the table of what test files look like.
type language struct {
	name  string
	tests []string
}

// languages is data: to teach Sallyport another language's tests, add a row. Patterns are relative to the
// repository's root and match at any depth.
var languages = []language{
	{"go", []string{"**/*_test.go", "**/testdata/**"}},
	{"python", []string{"**/test_*.py", "**/*_test.py", "**/tests/**", "**/conftest.py"}},
	{"javascript", []string{"**/*.test.*", "**/*.spec.*", "**/__tests__/**", "**/__snapshots__/**", "**/__mocks__/**"}},
	{"rust", []string{"**/tests/**"}},
	{"java", []string{"**/src/test/**", "**/src/*Test/**"}},
	{"ruby", []string{"**/*_spec.rb", "**/*_test.rb", "**/spec/**"}},
	{"php", []string{"**/*Test.php"}},
	{"dotnet", []string{"**/*Tests.cs", "**/*Test.cs"}},
	{"c", []string{"**/test/**", "**/*_test.c", "**/*_test.cc", "**/*_test.cpp"}},
}

// DefaultTests is what counts as a test when a check does not say: every language's patterns together. To
// take one file too many for a test costs a second run of the check; to miss one lets a change edit its
// own judge.
func DefaultTests() []string {
	out := []string{}
	for _, l := range languages {
		out = union(out, l.tests)
	}
	return out
}

// DefaultDeny is what no change may touch when scope.deny is omitted: the policy itself and the files that
// make a forge run something or ask somebody.
func DefaultDeny() []string {
	return []string{
		"sallyport.yaml", ".github/**", ".gitlab-ci.yml", ".gitlab/**", ".gitea/**", ".forgejo/**", ".circleci/**",
		".buildkite/**", ".woodpecker/**", ".woodpecker.yml", ".woodpecker.yaml", ".drone.yml", ".travis.yml", "appveyor.yml", ".cirrus.yml",
		".ci/**", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", "CODEOWNERS", "docs/CODEOWNERS",
	}
}
