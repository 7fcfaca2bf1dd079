package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// Signer holds a private key somewhere: a file here, a command or a key service elsewhere. Sign signs msg
// itself (Ed25519 without pre-hashing) and may be called concurrently.
type Signer interface {
	KeyID() string
	Public() ed25519.PublicKey
	Sign(ctx context.Context, msg []byte) ([]byte, error)
}

// PublicKey is a key that the verifier's side chose to trust, and when. Both ends of the validity are
// inclusive and required: a key with an open end would be trusted for longer than anybody said.
type PublicKey struct {
	ID        string
	Key       ed25519.PublicKey
	NotBefore time.Time
	NotAfter  time.Time
}

// KeyID is "ed25519:" and the first 16 hexadecimal characters of the SHA-256 of the raw public key. It is a
// name to look up by, not proof.
func KeyID(k ed25519.PublicKey) string {
	s := sha256.Sum256(k)
	return "ed25519:" + hex.EncodeToString(s[:8])
}

// Check reports CodeInvalid unless k is complete and its id is that of its key.
func (k PublicKey) Check() error {
	if len(k.Key) != ed25519.PublicKeySize || k.ID != KeyID(k.Key) {
		return invalid("public key", "expected an Ed25519 key and its own id, found %.40q", k.ID)
	}
	if k.NotBefore.IsZero() || k.NotAfter.IsZero() || k.NotAfter.Before(k.NotBefore) {
		return invalid("public key "+k.ID, "expected a validity with a beginning and an end")
	}
	return nil
}

// ValidAt reports whether t lies in the key's validity.
func (k PublicKey) ValidAt(t time.Time) bool { return !t.Before(k.NotBefore) && !t.After(k.NotAfter) }

// The lines that precede each block of a public key file. OpenSSL skips them.
const (
	idLine     = "# sallyport evidence key "
	beforeLine = "# not-before "
	afterLine  = "# not-after "
	pemBegin   = "-----BEGIN PUBLIC KEY-----"
	pemEnd     = "-----END PUBLIC KEY-----"
)

// MarshalPublicKeys is the file to hand out: per key three comment lines (id, not-before, not-after) and a
// PKIX block in PEM.
func MarshalPublicKeys(keys []PublicKey) ([]byte, error) {
	var b bytes.Buffer
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKIXPublicKey(k.Key)
		if err != nil {
			return nil, invalid("public key "+k.ID, "cannot be encoded: %v", err)
		}
		fmt.Fprintf(&b, "%s%s\n%s%s\n%s%s\n", idLine, k.ID, beforeLine, Time(k.NotBefore), afterLine, Time(k.NotAfter))
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	return b.Bytes(), nil
}

// ParsePublicKeys reads what MarshalPublicKeys writes, one key or more. Anything else in the file, and an
// empty file, is CodeInvalid.
func ParsePublicKeys(b []byte) ([]PublicKey, error) {
	if len(b) > 1<<20 {
		return nil, invalid("public keys", "expected at most 1 MiB")
	}
	var keys []PublicKey
	lines := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); {
		if strings.TrimSpace(lines[i]) == "" {
			i++
			continue
		}
		k, n, err := parsePublicKey(lines[i:])
		if err != nil {
			return nil, &sallyport.Error{Op: "read public keys", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("line %d", i+1), Err: err,
				Hint: "give the file that `sallyport keys` prints, unchanged"}
		}
		keys = append(keys, k)
		i += n
	}
	if len(keys) == 0 {
		return nil, invalid("public keys", "expected at least one key, found none")
	}
	return keys, nil
}

// parsePublicKey reads one key at the start of lines and says how many it took.
func parsePublicKey(lines []string) (PublicKey, int, error) {
	var k PublicKey
	var err error
	if len(lines) < 5 {
		return k, 0, invalid("", "expected three comment lines and a PEM block")
	}
	id, ok1 := strings.CutPrefix(lines[0], idLine)
	before, ok2 := strings.CutPrefix(lines[1], beforeLine)
	after, ok3 := strings.CutPrefix(lines[2], afterLine)
	if !ok1 || !ok2 || !ok3 || lines[3] != pemBegin {
		return k, 0, invalid("", "expected the lines %q, %q, %q and a PEM block", idLine, beforeLine, afterLine)
	}
	if k.NotBefore, err = parseTime(before); err != nil {
		return k, 0, invalid("not-before", "expected a time in RFC 3339 and UTC")
	}
	if k.NotAfter, err = parseTime(after); err != nil {
		return k, 0, invalid("not-after", "expected a time in RFC 3339 and UTC")
	}
	end := 4
	for end < len(lines) && lines[end] != pemEnd {
		end++
	}
	if end == len(lines) {
		return k, 0, invalid("", "expected the line %q", pemEnd)
	}
	block, rest := pem.Decode([]byte(strings.Join(lines[3:end+1], "\n") + "\n"))
	if block == nil || len(rest) > 0 || len(block.Headers) > 0 {
		return k, 0, invalid("", "expected a PEM block without headers")
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return k, 0, invalid("", "expected a PKIX public key: %v", err)
	}
	key, ok := pub.(ed25519.PublicKey)
	if !ok {
		return k, 0, invalid("", "expected an Ed25519 key, found %T", pub)
	}
	k.ID, k.Key = id, key
	return k, end + 1, k.Check()
}

// checkKeys refuses an empty or ambiguous set of trusted keys.
func checkKeys(keys []PublicKey) error {
	if len(keys) == 0 {
		return &sallyport.Error{Op: "verify evidence", Code: sallyport.CodeInvalid, Subject: "keys",
			Message: "expected at least one key to verify with; a key found in evidence proves nothing",
			Hint:    "give the signer's public key file with --key"}
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		if seen[k.ID] {
			return invalid("keys", "key %s is given twice", k.ID)
		}
		seen[k.ID] = true
	}
	return nil
}
