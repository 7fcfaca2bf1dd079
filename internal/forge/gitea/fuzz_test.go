package gitea_test

import (
	"net/http"
	"testing"

	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

// FuzzFind: whatever the forge lists, what is found is a pull request: it has a number, is from exactly this branch to exactly that one,
// its tip is a commit's full name or none, it is in one of the three states, and they are in order; else there is an error with a code, and no credential in it.
func FuzzFind(f *testing.F) {
	const id = "1234567890123456789012345678901234567890"
	forgetest.FuzzListing(f, func(c *http.Client) (forge.Driver, error) {
		return gitea.New(gitea.Config{URL: "https://forge.example/o/r", Credential: forgetest.Known(forgetest.ListedSecret), Client: c})
	},
		`[{"number":2,"state":"open","head":{"ref":"h","sha":"`+id+`","repo_id":7},"base":{"ref":"b","repo_id":7}}]`,
		`[{"number":2,"state":"closed","merged":true,"head":{"ref":"refs/pull/2/head","label":"h","repo_id":7},"base":{"ref":"b","repo_id":7},"merged_by":null}]`,
		`[{"number":3,"state":"open","head":{"ref":"h","repo_id":8},"base":{"ref":"b","repo_id":7}},null]`,
		`[{"number":3,"state":"open","head":{"ref":"h","repo_id":7},"base":{"ref":"b","repo_id":7}},{"number":2,"state":"open","head":{"ref":"h","repo_id":7},"base":{"ref":"b","repo_id":7}}]`)
}
