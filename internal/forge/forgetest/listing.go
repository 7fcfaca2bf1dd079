package forgetest

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
)

// ListedSecret is the credential that FuzzListing's drivers have.
const ListedSecret = "s3cret-of-the-forge"

// says is a forge that answers whatever it is asked with the same, once as one page.
type says []byte

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(s)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Total-Count": {"0"}}}, nil
}

// FuzzListing holds a driver to the law that its FuzzFind states, whatever the forge lists of pull requests from h to b. open
// makes the driver with ListedSecret.
func FuzzListing(f *testing.F, open func(*http.Client) (forge.Driver, error), seeds ...string) {
	for _, s := range append(seeds, `{"message":"`+ListedSecret+`"}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, err := open(&http.Client{Transport: says(answer)})
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.Find(t.Context(), forge.Grant{Secret: ListedSecret, Class: forge.ClassConfigured}, "h", "b")
		if err != nil {
			if c := sallyport.CodeOf(err); c != sallyport.CodeUnavailable && c != sallyport.CodeInvalid || found != nil || strings.Contains(err.Error(), ListedSecret) {
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
