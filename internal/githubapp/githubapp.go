// Package githubapp is how a GitHub App shows who it is: its private key, and the short token signed with it. What is
// then asked for belongs to those who ask: internal/credential mints tokens that read, internal/forge/github those
// that write.
package githubapp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"
)

const (
	// life is well below the ten minutes that GitHub allows; skew is what its documentation asks for.
	life = 2 * time.Minute
	skew = time.Minute
	// leastBits is the shortest key that GitHub has ever made for an App.
	leastBits = 2048
)

// Life is how long a token of Sign is good for.
const Life = life

var errKey = errors.New("no RSA private key of at least 2048 bits in PEM")

// Key reads an App's private key, PKCS #1 or PKCS #8. The error holds nothing of it.
func Key(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errKey
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errKey
		}
		var ok bool
		if key, ok = any.(*rsa.PrivateKey); !ok {
			return nil, errKey
		}
	}
	if key.N.BitLen() < leastBits {
		return nil, errKey
	}
	return key, nil
}

// Sign makes the token that an App signs in with: RS256, a minute back for clocks that differ. app is its client id
// or app id. The key may be anywhere; that it is RSA is the caller's to know. The error holds nothing of it.
func Sign(key crypto.Signer, app string, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"iat": now.Add(-skew).Unix(), "exp": now.Add(life).Unix(), "iss": app})
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return "", errors.New("the App's key cannot sign")
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}
