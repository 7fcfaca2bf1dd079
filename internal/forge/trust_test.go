package forge_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

// TestGitTrustsWhatWeTrust: git believes the authorities that SSL_CERT_FILE and SSL_CERT_DIR name, as our own clients do, and a
// configured file alone.
func TestGitTrustsWhatWeTrust(t *testing.T) {
	p := newPlace(t)
	address, authority := forgetest.ServeGitTLS(t, p.theirs, "bot", secret)
	p.remote = forge.Remote{URL: address, Header: "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bot:"+secret))}
	dir, empty := t.TempDir(), t.TempDir()
	write := func(folder, name string, b []byte) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	company := write(dir, "company.crt", append([]byte("Our own authority:\n"), authority...)) // no name that OpenSSL looks for
	write(dir, "README", []byte("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"))
	none := write(empty, "none.pem", nil)
	for name, c := range map[string]struct {
		file, folders, configured string
		trusts                    bool
	}{
		"nothing is named":               {"", "", "", false},
		"a file":                         {company, "", "", true},
		"a file that is not there":       {company + "-gone", "", "", false},
		"a folder":                       {"", dir, "", true},
		"a folder among others":          {none, empty + ":" + dir + ":/nonexistent", "", true},
		"folders without it":             {none, empty, "", false},
		"the target's file":              {"", "", company, true},
		"the target's file goes before":  {company, dir, none, false},
		"the target's file, and another": {none, empty, company, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SSL_CERT_FILE", c.file)
			t.Setenv("SSL_CERT_DIR", c.folders)
			p.remote.CAFile = c.configured
			_, err := forge.Tip(t.Context(), p.remote, ref)
			if c.trusts && err != nil || !c.trusts && (err == nil || sallyport.CodeOf(err) != sallyport.CodeUnavailable && sallyport.CodeOf(err) != sallyport.CodeInvalid) {
				t.Fatalf("%v", err)
			}
			if c.trusts {
				if err := p.push(t, p.one, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
