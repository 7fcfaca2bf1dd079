package evidence

import (
	"context"
	"crypto/ed25519"

	"sallyport.dev/sallyport"
)

// Seal signs s and returns the envelope, one line of JSON, and the digest of its bytes. It fills
// predicate.by.key_id when that is empty and refuses one of another key. An incomplete or contradictory
// statement is CodeInvalid and is not signed; a signer that fails or answers with a signature that does not
// verify is CodeUnavailable. Equal input gives equal bytes, so a repeat after a crash is the same evidence.
func Seal(ctx context.Context, signer Signer, s Statement) ([]byte, sallyport.Digest, error) {
	if s.Predicate.By.KeyID == "" {
		s.Predicate.By.KeyID = signer.KeyID()
	}
	if s.Predicate.By.KeyID != signer.KeyID() {
		return nil, "", invalid("by.key_id", "expected the signer's own id %s, found %.40q", signer.KeyID(), s.Predicate.By.KeyID)
	}
	s.Predicate = s.Predicate.filled()
	if err := s.Check(); err != nil {
		return nil, "", err
	}
	if err := verifyJournalRef(s.Predicate.Journal, signer.Public()); err != nil {
		return nil, "", err
	}
	payload, err := s.encode()
	if err != nil {
		return nil, "", invalid("statement", "cannot be encoded: %v", err)
	}
	// What cannot be read back must not be signed (text that is not UTF-8, for instance).
	if _, err := decodeStatement(payload); err != nil {
		return nil, "", err
	}
	return sealBytes(ctx, PayloadType, payload, signer)
}

// sealBytes signs payload with every signer, in order.
func sealBytes(ctx context.Context, payloadType string, payload []byte, signers ...Signer) ([]byte, sallyport.Digest, error) {
	e := envelope{payloadType: payloadType, payload: payload}
	msg := pae(payloadType, payload)
	for _, signer := range signers {
		sig, err := signChecked(ctx, signer, msg)
		if err != nil {
			return nil, "", err
		}
		e.signatures = append(e.signatures, signature{signer.KeyID(), sig})
	}
	out, err := e.encode()
	if err != nil {
		return nil, "", err
	}
	return out, sallyport.Sum(out), nil
}

// signChecked never lets out a signature that nobody could verify.
func signChecked(ctx context.Context, signer Signer, msg []byte) ([]byte, error) {
	pub := signer.Public()
	if len(pub) != ed25519.PublicKeySize || KeyID(pub) != signer.KeyID() {
		return nil, invalid("signer", "expected an Ed25519 key and its own id, found %.40q", signer.KeyID())
	}
	sig, err := signer.Sign(ctx, msg)
	if err != nil {
		return nil, &sallyport.Error{Op: "sign", Code: sallyport.CodeUnavailable, Subject: signer.KeyID(), Message: "the signer failed", Err: err}
	}
	if !ed25519.Verify(pub, msg, sig) {
		return nil, &sallyport.Error{Op: "sign", Code: sallyport.CodeUnavailable, Subject: signer.KeyID(), Message: "the signer's answer does not verify under its own public key"}
	}
	return sig, nil
}

// checked is a statement that can tell whether it is complete.
type checked interface {
	encoder
	Check() error
}

// sealExactly signs a statement in its one byte form. What cannot be read back is not signed.
func sealExactly[T checked](ctx context.Context, signer Signer, s T, predicateType string) ([]byte, sallyport.Digest, error) {
	if err := s.Check(); err != nil {
		return nil, "", err
	}
	payload, err := s.encode()
	if err != nil {
		return nil, "", invalid("statement", "cannot be encoded: %v", err)
	}
	if _, err := decodeExactly[T](payload, predicateType); err != nil {
		return nil, "", err
	}
	return sealBytes(ctx, PayloadType, payload, signer)
}

// openExactly reads a statement that sealExactly signed, and gives those of keys that signed it.
func openExactly[T checked](envelope []byte, keys []PublicKey, predicateType string) (s T, signers map[string]PublicKey, err error) {
	payload, signers, err := open(envelope, keys)
	if err != nil {
		return s, nil, err
	}
	if s, err = decodeExactly[T](payload, predicateType); err == nil {
		err = s.Check()
	}
	return s, signers, err
}
