package sallyport

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is "sha256:" and 64 lower-case hexadecimal characters. The zero value is "no digest" and equals
// nothing that was ever computed.
type Digest string

// Sum is the digest of b.
func Sum(b []byte) Digest {
	s := sha256.Sum256(b)
	return DigestOf(s)
}

// DigestOf wraps a finished SHA-256.
func DigestOf(s [sha256.Size]byte) Digest { return Digest("sha256:" + hex.EncodeToString(s[:])) }

// Hex is the digest without its algorithm; empty for a malformed digest.
func (d Digest) Hex() string {
	if d.Check() != nil {
		return ""
	}
	return string(d[len("sha256:"):])
}

// Check reports CodeInvalid unless d has exactly the form above.
func (d Digest) Check() error {
	h, ok := strings.CutPrefix(string(d), "sha256:")
	if ok && isLowerHex(h, 64) {
		return nil
	}
	return &Error{Op: "parse digest", Code: CodeInvalid, Subject: string(d), Message: `expected "sha256:" and 64 lower-case hexadecimal characters`}
}

// ObjectID is a git object name: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal characters.
type ObjectID string

// Check reports CodeInvalid unless id has exactly one of the two forms.
func (id ObjectID) Check() error {
	if isLowerHex(string(id), 40) || isLowerHex(string(id), 64) {
		return nil
	}
	return &Error{Op: "parse object id", Code: CodeInvalid, Subject: fmt.Sprintf("%.80q", string(id)), Message: "expected 40 or 64 lower-case hexadecimal characters"}
}

// Short is the first 12 characters, for people.
func (id ObjectID) Short() string {
	if len(id) < 12 {
		return string(id)
	}
	return string(id[:12])
}

func isLowerHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
