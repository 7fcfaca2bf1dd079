package forge

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
)

// Where crypto/x509 looks for the system's authorities on Linux: in the first file that there is, and in all folders.
var (
	systemFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}
	systemFolders = "/etc/ssl/certs:/etc/pki/tls/certs"
)

// inherited is the path of the first file that a child is given beside its standard three. Every process below it has it.
const inherited = "/proc/self/fd/3"

// nobody is a folder without an authority in it, in place of the system's, which curl may have built in and would believe
// beside a file.
const nobody = "/proc/self/fdinfo"

// trusted has the authorities that our own clients believe where the operator names some by SSL_CERT_FILE or SSL_CERT_DIR, as
// one file without a name. Git reads neither, and its own options take one folder, with files named by hashes where it is
// built with OpenSSL. nil: neither is set, and git's own are the system's.
func trusted() (*os.File, error) {
	file, folders := os.Getenv("SSL_CERT_FILE"), os.Getenv("SSL_CERT_DIR")
	if file == "" && folders == "" {
		return nil, nil
	}
	files := systemFiles
	if file != "" {
		files = []string{file}
	}
	var all authorities
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil { // what cannot be read is believed by nobody, here and there
			all.add(b)
			break
		}
	}
	for _, folder := range strings.Split(cmp.Or(folders, systemFolders), ":") {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			b, _ := os.ReadFile(filepath.Join(folder, e.Name()))
			all.add(b)
		}
	}
	return spooled(all.b.Bytes())
}

// authorities are certificates, each once: a folder has them under several names.
type authorities struct {
	b    bytes.Buffer
	seen map[string]bool
}

// add takes what x509.CertPool takes of a file: one that is damaged does not spoil the others.
func (a *authorities) add(b []byte) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 || a.seen[string(block.Bytes)] {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			a.seen[string(block.Bytes)] = true
			_ = pem.Encode(&a.b, block) // a buffer takes everything
		}
	}
}
