package control

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/provider"
)

// opensTLS says that something is held by reading what is inside TLS, so that the agent's programs have to trust the
// Attempt's own authority. Where the model's host is listed as well, its requests are among that.
func opensTLS(m sallyport.Manifest) bool {
	return proxied(m) && (m.Learn || m.Agent.Endpoint != nil || len(m.Credentials) > 0 || readsTLS(m, m.Egress) || m.Spend != nil && listsTLS(m.Egress))
}

// readsTLS says that some rule is held by reading what is inside TLS: for what it says, or since it lists a forge.
func readsTLS(m sallyport.Manifest, rules []sallyport.EgressRule) bool {
	forges := forges(m)
	return slices.ContainsFunc(rules, func(r sallyport.EgressRule) bool {
		return !egress.Unread(r) && r.Protocol != egress.HTTP || egress.ListsForge(r, forges)
	})
}

// listsTLS says that some rule is one for https: under a spend limit its host may be one that is metered.
func listsTLS(rules []sallyport.EgressRule) bool {
	return slices.ContainsFunc(rules, func(r sallyport.EgressRule) bool { return r.Protocol == egress.HTTPS })
}

// storePassword is no secret: Java wants one to read what holds public certificates alone.
const storePassword = "sallyport"

const (
	storeFile     = "gateway-trust.p12"  // as the bundle, for Java
	authorityFile = "gateway-ca.pem"     // the authority alone, for what adds to the usual ones
	bundleFile    = "gateway-bundle.pem" // with the host's, for what takes one file instead of the usual ones
)

// addTrusting and onlyTrusting are the variables by which programs are told whom to trust. Sources: the manuals of Node
// and Deno (add); Go, OpenSSL and Python (SSL_CERT_FILE), curl, git, requests, pip and cargo (one file).
var (
	addTrusting  = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}
	onlyTrusting = []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO"}
)

// hostBundles is where distributions keep the authorities that the host trusts, in one file. The first that is there
// counts, as in Go's crypto/x509.
var hostBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",             // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// trusting is what the agent's programs need so that they trust the authority of seed beside the host's. path is where
// they are looked for.
func trusting(seed string, path []string) (files []provider.File, env map[string]string, err error) {
	a, err := gateway.NewAuthority([]byte(seed), time.Now())
	if err != nil {
		return nil, nil, err
	}
	all := a.PEM()
	for _, path := range hostBundles {
		if b, err := os.ReadFile(path); err == nil {
			all = slices.Concat(b, []byte("\n"), all)
			break
		}
	}
	files = []provider.File{{Name: authorityFile, Data: a.PEM()}, {Name: bundleFile, Data: all}}
	env = map[string]string{}
	for _, name := range addTrusting {
		env[name] = provider.FilesFolder + "/" + authorityFile
	}
	for _, name := range onlyTrusting {
		env[name] = provider.FilesFolder + "/" + bundleFile
	}
	if !slices.ContainsFunc(path, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "java")); return err == nil }) {
		return files, env, nil // Java says at each start that it was told something
	}
	store, err := pkcs12.Modern.EncodeTrustStore(certificates(all), storePassword)
	if err != nil {
		return nil, nil, err
	}
	env["JAVA_TOOL_OPTIONS"] = fmt.Sprintf("-Djavax.net.ssl.trustStore=%s/%s -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=%s", provider.FilesFolder, storeFile, storePassword)
	return append(files, provider.File{Name: storeFile, Data: store}), env, nil
}

// certificates reads a bundle; what it cannot read is left out, as everywhere else.
func certificates(bundle []byte) (all []*x509.Certificate) {
	for {
		var b *pem.Block
		if b, bundle = pem.Decode(bundle); b == nil {
			return all
		}
		if c, err := x509.ParseCertificate(b.Bytes); err == nil {
			all = append(all, c)
		}
	}
}
