package toolchain

import (
	"strings"
	"testing"
)

func TestFileLooksSecret(t *testing.T) {
	w := newWorld(t)
	for content, want := range map[string]bool{
		"": false, "fund=false\n": false, "<settings><mirrors/></settings>": false, "[build]\nrustc-wrapper = \"sccache\"\n": false,
		"<!-- <password>repopwd</password> <passphrase>optional; leave empty if not used.</passphrase> -->": false,
		"<password>hunter2</password>":      true,
		"<password>repopwd2</password>":     true,
		"//r.example/:_authToken=x":         true,
		"_auth=eDp5":                        true,
		"url = https://a:b@c.example":       true,
		"[registry]\ntoken = \"x\"":         true,
		"signing.keyPassword=x":             true,
		"-----BEGIN " + "PRIVATE KEY-----":  true,
		strings.Repeat("x", suspectBytes+1): true, // too long to be sure
		"Authorization: Basic dXNlcjpwYXNz": true,
		"x = ghp_0123456789abcdefABCDEF":    true,
	} {
		if got := fileLooksSecret(w.file(w.base+"/f", content)); got != want {
			t.Errorf("%.60q: %v", content, got)
		}
	}
	if !fileLooksSecret(w.base+"/missing") || !fileLooksSecret(w.base) {
		t.Error("what cannot be read must count as a credential")
	}
}
