// Package id makes identifiers and secrets: the randomness and the clock that the vocabulary must not have.
// What an identifier looks like is package sallyport's (FormatID, CheckID).
package id

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/google/uuid"

	"sallyport.dev/sallyport"
)

// secretBytes gives 256 bits: guessing is hopeless whatever the rate.
const secretBytes = 32

// New returns a fresh identifier of the given kind (sallyport.AttemptPrefix, …). Identifiers sort by the
// millisecond they were made in; within one process also by the order of the calls. CodeUnavailable when the
// kernel gives no randomness.
func New(prefix string) (string, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return "", &sallyport.Error{Op: "make id", Code: sallyport.CodeUnavailable, Message: "the kernel gave no random bytes", Err: err}
	}
	return sallyport.FormatID(prefix, u), nil
}

// Secret returns 32 random bytes as 43 characters of unpadded base64url. It belongs neither in argv nor in
// logs; what may be written down is its digest. CodeUnavailable when the kernel gives no randomness.
func Secret() (string, error) {
	var b [secretBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", &sallyport.Error{Op: "make secret", Code: sallyport.CodeUnavailable, Message: "the kernel gave no random bytes", Err: err}
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}
