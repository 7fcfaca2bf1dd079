package github

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
		return New(Config{URL: "https://github.com/o/r", RepositoryID: 7, Credential: forgetest.Known(forgetest.ListedSecret), Client: c})
	},
		`[{"number":2,"state":"open","head":{"ref":"h","sha":"`+id+`","repo":{"id":7}},"base":{"ref":"b","repo":{"id":7}},"labels":[{"name":"l"}],"user":{"login":"u"}}]`,
		`[{"number":0,"head":{"ref":"h","repo":{"id":7}},"base":{"ref":"b","repo":{"id":7}}}]`,
		`[{"number":3,"head":{"ref":"h","repo":null},"base":{"ref":"b","repo":{"id":7}}},null,{}]`,
		`[{"number":3,"Head":{"ref":"x"},"head":{"ref":"h","repo":{"id":7}},"base":{"ref":"b","repo":{"id":7}},"merged_at":"2026-01-01T00:00:00Z"}]`)
}
