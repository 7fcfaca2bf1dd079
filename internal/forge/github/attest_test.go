package github

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
	"sallyport.dev/sallyport/internal/forge/forgetest/host"
)

var subject = sallyport.Sum([]byte("manifest"))

// bundleOf is one about subject; sig tells them apart.
func bundleOf(sig string) []byte {
	statement := fmt.Sprintf(`{"subject":[{"name":"commit","digest":{"gitCommit":"%s"}},{"name":"manifest","digest":{"sha256":"%s"}}]}`, strings.Repeat("1", 40), subject.Hex())
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"k"}},"dsseEnvelope":{"payloadType":"t","payload":"%s","signatures":[{"keyid":"k","sig":"%s"}]}}`,
		base64.StdEncoding.EncodeToString([]byte(statement)), sig)
}

// attesting is a GitHub whose App may store attestations, and a driver that is to.
func attesting(t *testing.T) (rig, *Driver) {
	t.Helper()
	r, d := app(t)
	r.Set(func(s *served.State) { s.Granted["attestations"] = "write" })
	d.cfg.Attestations = true
	return r, d
}

func posted(r rig) (n int) {
	for _, asked := range r.Asked() {
		if strings.HasPrefix(asked, "POST ") && strings.HasSuffix(asked, "/attestations") {
			n++
		}
	}
	return n
}

// What an App may do grows by the one permission, and only where the operator wants attestations.
func TestAttestationsAreAPermissionOfTheirOwn(t *testing.T) {
	r, d := attesting(t)
	if g := mint(t, d); !slices.Equal(g.Scope, []string{"attestations: write", "contents: write", "metadata: read", "pull_requests: write"}) {
		t.Errorf("on: %q", g.Scope)
	}
	d.cfg.Attestations = false
	g := mint(t, d)
	if !slices.Equal(g.Scope, []string{"contents: write", "metadata: read", "pull_requests: write"}) {
		t.Errorf("off: %q", g.Scope)
	}
	// The document has this answer where one is stored, and not where they are listed.
	r.Break(host.Fault{Method: http.MethodGet, Path: string(subject), Answer: host.Status(404, "{}")})
	fails(t, d.Attest(t.Context(), g, subject, bundleOf("YQ==")), sallyport.CodeDenied, "not accessible")
	r.Mend()
	d.cfg.Attestations = true
	r.Set(func(s *served.State) { delete(s.Granted, "attestations") })
	_, err := d.Mint(t.Context(), "mark")
	fails(t, err, sallyport.CodeDenied, "attestations: write and contents: write and pull_requests: write")
}

// A token with other permissions than were asked for is not used, whichever way it differs.
func TestAnotherTokenForAttestationsIsRevoked(t *testing.T) {
	r, d := attesting(t)
	for name, c := range map[string]struct {
		on     bool
		change func(map[string]any)
	}{
		"missing":     {true, func(p map[string]any) { delete(p, "attestations") }},
		"only read":   {true, func(p map[string]any) { p["attestations"] = "read" }},
		"a fourth":    {true, func(p map[string]any) { p["id_token"] = "write" }},
		"one fewer":   {true, func(p map[string]any) { delete(p, "contents") }},
		"not wanted":  {false, func(p map[string]any) { p["attestations"] = "write" }},
		"nor to read": {false, func(p map[string]any) { p["attestations"] = "read" }},
	} {
		d.cfg.Attestations = c.on
		r.Break(host.Fault{Method: http.MethodPost, Path: "/access_tokens", Change: func(res *httptest.ResponseRecorder) {
			var m map[string]any
			if err := json.Unmarshal(res.Body.Bytes(), &m); err != nil {
				t.Error(err)
			}
			c.change(m["permissions"].(map[string]any))
			text, _ := json.Marshal(m) // from JSON
			res.Body.Reset()
			res.Body.Write(text)
		}})
		_, err := d.Mint(t.Context(), "mark")
		if sallyport.CodeOf(err) != sallyport.CodeDenied || err == nil || !strings.Contains(err.Error(), "it was revoked") || r.Live() != 0 {
			t.Errorf("%s: %v, %d tokens are left", name, err, r.Live())
		}
		r.Mend()
	}
}

// One is stored once, whatever else is stored for the same subject, and also where the answer was lost.
func TestAttestIsRepeated(t *testing.T) {
	r, d := attesting(t)
	g := mint(t, d)
	for _, b := range [][]byte{bundleOf("YQ=="), bundleOf("Yg=="), bundleOf("YQ=="), bundleOf("Yg==")} {
		if err := d.Attest(t.Context(), g, subject, b); err != nil {
			t.Fatal(err)
		}
	}
	if n, have := posted(r), r.Attestations(); n != 2 || len(have) != 2 || string(have[0].Bundle) != string(bundleOf("YQ==")) || !slices.Equal(have[0].Subjects, []string{string(subject)}) {
		t.Errorf("posted %d times: %s", n, have)
	}
	r.Break(host.Fault{Method: http.MethodPost, Path: "/attestations", Lose: true, Times: 1})
	fails(t, d.Attest(t.Context(), g, subject, bundleOf("Yw==")), sallyport.CodeUnknown)
	if err := d.Attest(t.Context(), g, subject, bundleOf("Yw==")); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Attestations()); n != 3 {
		t.Errorf("%d are stored, expected 3", n)
	}
}

func TestAttestThatFails(t *testing.T) {
	r, d := attesting(t)
	g := mint(t, d)
	fails(t, d.Attest(t.Context(), g, subject, []byte(`{"mediaType":"another","dsseEnvelope":{}}`)), sallyport.CodeInvalid, "Invalid Argument")
	fails(t, d.Attest(t.Context(), g, subject, []byte(`{`)), sallyport.CodeInvalid)
	// Without having looked, it is not known whether it is there.
	r.Break(host.Fault{Method: http.MethodGet, Path: string(subject), Answer: host.Status(500, "")})
	fails(t, d.Attest(t.Context(), g, subject, bundleOf("YQ==")), sallyport.CodeUnavailable)
	r.Mend()
	r.Break(host.Fault{Method: http.MethodPost, Path: "/attestations", Answer: host.Status(201, "{}")})
	r.Asked()
	fails(t, d.Attest(t.Context(), g, subject, bundleOf("YQ==")), sallyport.CodeUnknown)
	r.Mend()
	// A list with entries that have no bundle in them, and other things besides, is no reason not to store it.
	r.Break(host.Fault{Method: http.MethodGet, Path: string(subject), Answer: host.Status(200, `{"attestations":[null,{},{"bundle":null},{"bundle":[]},{"bundle":{"dsseEnvelope":{"payload":"x"}}}]}`)})
	if err := d.Attest(t.Context(), g, subject, bundleOf("YQ==")); err != nil || len(r.Attestations()) != 1 {
		t.Errorf("%v: %d are stored", err, len(r.Attestations()))
	}
	p := driver(t, rig{r.Server, false}.config(t, forgetest.Options{}))
	if err := p.Attest(t.Context(), mint(t, p), subject, bundleOf("Yg==")); err != nil {
		t.Errorf("with a person's token: %v", err)
	}
}
