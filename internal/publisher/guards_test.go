package publisher

import "testing"

// What a link or a submodule in the place of a folder would bring counts as much as a file in it, and what is allowed is
// exactly what is named.
func TestGuards(t *testing.T) {
	plain := Target{Protected: DefaultProtected}
	some := Target{Protected: append([]string{"ops/*/deploy.yml"}, DefaultProtected...), AllowProtected: []string{".github/workflows/docs.yml"}}
	for _, k := range []struct {
		target Target
		path   string
		guards bool
	}{
		{plain, ".github/workflows/x.yml", true}, {plain, ".github/workflows", true}, {plain, ".github", true}, {plain, ".gitlab", true}, {plain, ".gitlab/ci", true},
		{plain, ".gitlab/ci/a.yaml", true}, {plain, ".woodpecker.yaml", true}, {plain, "Jenkinsfile", true}, {plain, "a/CODEOWNERS", true}, {plain, "web/.gitattributes", true},
		{plain, "a.go", false}, {plain, "docs/workflows/x.yml", false}, {plain, ".github/ISSUE_TEMPLATE/x.md", false}, {plain, "ops/prod", false}, {plain, "web", false},
		{some, ".github/workflows/docs.yml", false}, {some, ".github/workflows/x.yml", true}, {some, ".github/workflows", true}, {some, ".github", true},
		{some, "ops/prod/deploy.yml", true}, {some, "ops/prod", true}, {some, "ops", true}, {some, "ops/prod/other.yml", false}, {some, "opsx", false},
		{Target{Protected: []string{}}, ".github/workflows/x.yml", false},
	} {
		if g := k.target.guards(k.path); (g != "") != k.guards {
			t.Errorf("%s: guarded by %q, expected %v", k.path, g, k.guards)
		}
	}
}
