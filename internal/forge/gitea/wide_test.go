package gitea_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

// generous is a forge that says it gave more than was asked, and remembers what became of the token.
type generous struct {
	next    http.RoundTripper
	deleted int
}

func (g *generous) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodDelete && resp.StatusCode == http.StatusNoContent {
		g.deleted++
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	if r.Method == http.MethodPost {
		body = bytes.Replace(body, []byte(`"write:repository"`), []byte(`"write:repository","write:admin"`), 1)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func TestTokenThatMayDoMoreIsEnded(t *testing.T) {
	r := start(t)
	r.mint = true
	g := &generous{}
	d := r.Driver(t, forgetest.Options{Wrap: func(next http.RoundTripper) http.RoundTripper { g.next = next; return g }})
	_, err := d.Mint(t.Context(), "mark")
	wantCode(t, err, sallyport.CodeDenied, "write:admin")
	if g.deleted != 1 {
		t.Errorf("the token was deleted %d times", g.deleted)
	}
	var there []struct{ Name string }
	r.Do(t, "bot", http.MethodGet, "/users/bot/tokens", nil, &there)
	if len(there) != 0 {
		t.Errorf("there still are %+v", there)
	}
}
