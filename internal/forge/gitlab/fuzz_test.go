package gitlab

import (
	"net/http"
	"testing"

	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

// FuzzFind: whatever the forge lists, what is found is a pull request: it has a number, is from exactly this branch to exactly that one,
// its tip is a commit's full name or none, it is in one of the three states, and they are in order; else there is an error with a code, and no credential in it.
func FuzzFind(f *testing.F) {
	const id = "1234567890123456789012345678901234567890"
	forgetest.FuzzListing(f, func(c *http.Client) (forge.Driver, error) {
		return New(Config{URL: "https://gitlab.example/o/r", ProjectID: 7, Credential: forgetest.Known(forgetest.ListedSecret), Client: c})
	},
		`[{"iid":2,"state":"opened","source_branch":"h","target_branch":"b","source_project_id":7,"target_project_id":7,"sha":"`+id+`","title":"Draft: t","description":"\\/close"}]`,
		`[{"iid":0,"source_branch":"h","target_branch":"b","source_project_id":7,"target_project_id":7}]`,
		`[{"iid":3,"state":"merged","source_branch":"h","target_branch":"b","source_project_id":8,"target_project_id":7},null]`)
}
