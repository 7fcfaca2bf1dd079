package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/publisher"
)

// TestSecretFile: a secret that others can read is refused. One that systemd loaded for the unit is root's, and shows a bit for the group.
func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode   os.FileMode
		loaded string
		ok     bool
	}{
		{0o600, "", true}, {0o400, "", true}, {0o440, "", false}, {0o644, "", false},
		{0o440, dir, os.Geteuid() == 0}, {0o440, filepath.Dir(dir), false}, {0o444, dir, false}, {0o460, dir, false},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", c.loaded)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		s, err := secretFile(path)(t.Context())
		if (err == nil) != c.ok || c.ok && s != "abc" {
			t.Errorf("mode %o, loaded from %q: %q, %v", c.mode, c.loaded, s, err)
		}
	}
}

// TestCertificateAuthoritysFile: the key that signs is read for each certificate, and only if nobody else can read it.
func TestCertificateAuthoritysFile(t *testing.T) {
	dir := t.TempDir()
	_, text := forgetest.NewKey(t)
	path := filepath.Join(dir, "ca")
	d, err := driver(publisher.Target{Repository: "https://git.example/tool", Push: "ssh://git@git.example/tool.git", Kind: "git", Credential: publisher.Source{
		KnownHost: filepath.Join(dir, "hosts"), SSHCA: &publisher.SSHCA{Key: path, Principal: "git", Folder: filepath.Join(dir, "certificates")}}})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Describe().Mints {
		t.Error("it mints nothing")
	}
	if _, err := d.Mint(t.Context(), "mark"); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := secretBytes(link)(t.Context()); err == nil {
		t.Error("a link is followed")
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640, 0o604, 0o660, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		g, err := d.Mint(t.Context(), "mark")
		if mode&0o077 == 0 {
			if err != nil || g.Class != forge.ClassMinted || !strings.Contains(d.Remote(g).SSH, "CertificateFile=") {
				t.Errorf("mode %o: %v, %v", mode, g, err)
			}
			continue
		}
		if sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(sallyport.HintOf(err), "chmod 600") {
			t.Errorf("mode %o: %v", mode, err)
		}
		for line := range strings.Lines(string(text)) {
			if err != nil && strings.Contains(err.Error(), strings.TrimSpace(line)) {
				t.Errorf("mode %o: the error has a line of the key", mode)
			}
		}
	}
}
