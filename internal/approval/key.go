package approval

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
	"strings"

	"golang.org/x/crypto/ssh"
)

// minRSABits is NIST's 128 bit strength.
const minRSABits = 3072

// AllowedKey is a key that policy lets approve, and whose it is.
type AllowedKey struct {
	Person string
	Key    ssh.PublicKey
}

// Fingerprint is as ssh-keygen -l shows it: "SHA256:" and unpadded base64.
func (k AllowedKey) Fingerprint() string { return fingerprint(k.Key.Marshal()) }

// ParseKey reads one line of an authorized_keys file, `TYPE BASE64 [COMMENT]`, as a key of person. Options, certificates
// and anything after the line are CodeInvalid, as is every kind of key but ssh-ed25519, sk-ssh-ed25519@openssh.com,
// ecdsa-sha2-nistp256, -384 and -521, and ssh-rsa of 3072 bits or more.
func ParseKey(person, line string) (AllowedKey, error) {
	if err := checkText("person", person, 100); err != nil {
		return AllowedKey{}, err
	}
	line = strings.TrimSpace(line)
	if strings.ContainsAny(line, "\r\n") {
		return AllowedKey{}, invalid("key", "expected one line")
	}
	kind, rest, _ := strings.Cut(line, " ")
	text, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) == 0 {
		return AllowedKey{}, invalid("key", "expected `TYPE BASE64 COMMENT` without options, as in a .pub file")
	}
	key, err := parsePublicKey(raw)
	if err != nil {
		return AllowedKey{}, err
	}
	if key.Type() != kind {
		return AllowedKey{}, invalid("key", "expected the type %q before the key, found %.60q; options are not taken", key.Type(), kind)
	}
	return AllowedKey{Person: person, Key: key}, nil
}

// parsePublicKey reads a key in its one byte form.
func parsePublicKey(raw []byte) (ssh.PublicKey, error) {
	key, err := ssh.ParsePublicKey(raw)
	if err != nil {
		return nil, invalid("key", "expected an SSH public key: %v", err)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if !bytes.Equal(key.Marshal(), raw) {
		return nil, invalid("key", "expected the one byte form of an SSH public key")
	}
	return key, nil
}

func checkKey(key ssh.PublicKey) error {
	if algorithm(key) == "" {
		return invalid("key", "expected ed25519, sk-ed25519, ecdsa or rsa, found %.60q", key.Type())
	}
	if key.Type() != ssh.KeyAlgoRSA {
		return nil
	}
	if n := rsaModulus(key); n == nil || n.Sign() <= 0 || n.BitLen() < minRSABits {
		return invalid("key", "expected at least %d bits of an RSA key", minRSABits)
	}
	return nil
}

// algorithm is the one that a key's signatures must have; "" for a key that may not approve.
func algorithm(key ssh.PublicKey) string {
	switch t := key.Type(); t {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return t
	case ssh.KeyAlgoRSA:
		return ssh.KeyAlgoRSASHA512
	}
	return ""
}

func rsaModulus(key ssh.PublicKey) *big.Int {
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok {
			return k.N
		}
	}
	return nil
}

// checkAllowed refuses a set that is empty, or that says two things of one key.
func checkAllowed(allowed []AllowedKey) error {
	if len(allowed) == 0 {
		return invalid("allowed keys", "expected at least one key; a key found in an approval proves nothing")
	}
	seen := map[string]bool{}
	for _, k := range allowed {
		if k.Key == nil {
			return invalid("allowed keys", "expected a key of %.80q", k.Person)
		}
		if err := checkText("person", k.Person, 100); err != nil {
			return err
		}
		if err := checkKey(k.Key); err != nil {
			return err
		}
		if f := k.Fingerprint(); seen[f] {
			return invalid("allowed keys", "key %s is given twice", f)
		} else {
			seen[f] = true
		}
	}
	return nil
}

func find(allowed []AllowedKey, publicKey []byte) (AllowedKey, bool) {
	for _, k := range allowed {
		if bytes.Equal(k.Key.Marshal(), publicKey) {
			return k, true
		}
	}
	return AllowedKey{}, false
}
