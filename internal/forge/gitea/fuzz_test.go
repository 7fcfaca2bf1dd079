package gitea_test

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

// says is a forge that answers whatever it is asked with the same, once as one page.
type says []byte

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(s)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Total-Count": {"0"}}}, nil
}

// FuzzFind: whatever the forge lists, what is found is a pull request: it has a number, is from exactly this branch to exactly that one,
// its tip is a commit's full name or none, it is in one of the three states, and they are in order; else there is an error with a code, and no credential in it.
func FuzzFind(f *testing.F) {
	const secret, id = "s3cret-of-the-forge", "1234567890123456789012345678901234567890"
	f.Add([]byte(`[{"number":2,"state":"open","head":{"ref":"h","sha":"` + id + `","repo_id":7},"base":{"ref":"b","repo_id":7}}]`))
	f.Add([]byte(`[{"number":2,"state":"closed","merged":true,"head":{"ref":"refs/pull/2/head","label":"h","repo_id":7},"base":{"ref":"b","repo_id":7},"merged_by":null}]`))
	f.Add([]byte(`[{"number":3,"state":"open","head":{"ref":"h","repo_id":8},"base":{"ref":"b","repo_id":7}},null]`))
	f.Add([]byte(`[{"number":3,"state":"open","head":{"ref":"h","repo_id":7},"base":{"ref":"b","repo_id":7}},{"number":2,"state":"open","head":{"ref":"h","repo_id":7},"base":{"ref":"b","repo_id":7}}]`))
	f.Add([]byte(`{"message":"` + secret + `"}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, err := gitea.New(gitea.Config{URL: "https://forge.example/o/r", Credential: forgetest.Known(secret), Client: &http.Client{Transport: says(answer)}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.Find(t.Context(), forge.Grant{Secret: secret, Class: forge.ClassConfigured}, "h", "b")
		if err != nil {
			if c := sallyport.CodeOf(err); c != sallyport.CodeUnavailable && c != sallyport.CodeInvalid || found != nil || strings.Contains(err.Error(), secret) {
				t.Fatalf("%v %v, %d found", c, err, len(found))
			}
			return
		}
		for _, p := range found {
			if p.Number < 1 || p.Head != "h" || p.Base != "b" || p.Tip != "" && p.Tip.Check() != nil || !slices.Contains([]forge.State{forge.Open, forge.Closed, forge.Merged}, p.State) {
				t.Fatalf("%q: %+v", answer, p)
			}
		}
		if !slices.IsSortedFunc(found, func(a, b forge.PullRequest) int { return cmp.Compare(a.Number, b.Number) }) {
			t.Fatalf("%q: not in order: %+v", answer, found)
		}
	})
}
