package githubapp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

func TestATokenIsSignedForItsApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Key(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	token, err := Sign(read, "Iv1.app", now)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], sig); err != nil {
		t.Error(err)
	}
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	b, _ := base64.RawURLEncoding.DecodeString(parts[1])
	if err := json.Unmarshal(b, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Iss != "Iv1.app" || claims.Iat != now.Unix()-60 || claims.Exp <= now.Unix() || claims.Exp > now.Unix()+600-60 {
		t.Errorf("claims are %+v", claims)
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eight, _ := x509.MarshalPKCS8PrivateKey(curve)
	for name, text := range map[string][]byte{
		"nothing":     nil,
		"no PEM":      []byte("key"),
		"no key":      pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("x")}),
		"too short":   pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(small)}),
		"another one": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: eight}),
	} {
		if _, err := Key(text); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
