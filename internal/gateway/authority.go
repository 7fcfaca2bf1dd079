package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

const (
	// leafLife is how long a certificate is good for that the sandbox sees.
	leafLife = 24 * time.Hour
	// leafLeft: one with less than this left is made anew.
	leafLeft = time.Hour
	// authorityLife is longer than any Attempt with its holds and retries.
	authorityLife = 30 * 24 * time.Hour
	// maxLeaves bounds what names below a wildcard can make us keep; a leaf takes 1 KiB and 0.1 ms.
	maxLeaves = 256
	// minSeed is what the key of a P-256 authority can be worth.
	minSeed = 16
)

// Authority signs the certificates with which a gateway opens TLS. It is one Attempt's: the sandbox trusts its
// certificate, nobody else does. The key never leaves this process. Safe for concurrent use.
type Authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	leafKey *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[egress.Name]*tls.Certificate
}

// NewAuthority derives the key from seed, at least 16 secret bytes: the same seed gives the same key, so that a later
// driver goes on with what the sandbox trusts already. CodeInvalid: a shorter seed.
func NewAuthority(seed []byte, now time.Time) (*Authority, error) {
	if len(seed) < minSeed {
		return nil, invalid("authority", "expected a seed of at least 16 bytes")
	}
	a := &Authority{leaves: map[egress.Name]*tls.Certificate{}}
	var err error
	if a.key, err = derived(seed, "authority"); err != nil {
		return nil, err
	}
	if a.leafKey, err = derived(seed, "leaf"); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Sallyport gateway of one Attempt"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// derived is a key of P-256. A candidate that is no scalar of the curve, one in 2^32, gives way to the next.
func derived(seed []byte, use string) (*ecdsa.PrivateKey, error) {
	for try := 0; ; try++ {
		b, err := hkdf.Key(sha256.New, seed, nil, fmt.Sprintf("sallyport gateway %s %d", use, try), 32)
		if err != nil {
			return nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b); err == nil || try > 64 {
			return key, err
		}
	}
}

// PEM is the certificate that the sandbox is told to trust. It is not secret.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// leaf is the certificate for n.
func (a *Authority) leaf(n egress.Name, now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[n]; c != nil && c.Leaf.NotAfter.Sub(now) > leafLeft {
		return c, nil
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(n)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife - time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if n.IsAddr() {
		template.IPAddresses = []net.IP{n.Addr().AsSlice()}
	} else {
		template.DNSNames = []string{n.String()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey}
	if c.Leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[n] = c
	return c, nil
}

// commonName: RFC 5280 allows 64 characters, names in DNS are up to 253. Clients go by the alternative name.
func commonName(n egress.Name) string {
	if s := n.String(); len(s) <= 64 {
		return s
	}
	return "sallyport"
}

// config opens TLS as n, whatever the client asks for: what it asks for was compared before.
func (a *Authority) config(n egress.Name) (*tls.Config, error) {
	leaf, err := a.leaf(n, time.Now())
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // a ticket would outlive the rules it was opened under
	}, nil
}
