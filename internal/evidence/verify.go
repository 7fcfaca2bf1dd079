package evidence

import (
	"crypto/ed25519"
	"time"

	"sallyport.dev/sallyport"
)

// Expect is what the verifier holds itself. Every field that is not zero must match exactly; nothing is
// compared for a zero one, and Verified.Compared tells which were. A publisher sets all of them.
type Expect struct {
	Tree       sallyport.ObjectID
	TreeSHA256 sallyport.Digest
	Commit     sallyport.ObjectID
	Manifest   sallyport.Digest
	Base       sallyport.ObjectID // commit
	Bundle     sallyport.Digest
	Attempt    sallyport.AttemptID
	WorkOrder  sallyport.WorkOrderID
	Nonce      string
	Decision   sallyport.Decision
}

// Verified is a statement whose signature, form and expected digests were checked. Its texts are still
// whatever the repository and the agent wrote: neutralise before showing.
type Verified struct {
	Statement Statement
	Key       PublicKey
	SignedAt  time.Time        // the signer's word, within the key's validity
	Envelope  sallyport.Digest // of the envelope's bytes; an approval binds this
	Payload   sallyport.Digest // of the signed bytes
	Compared  []string         // which of Expect were given, and matched
}

// Verify says whether envelope is evidence by one of keys about what want names. It needs no network and no
// clock and fails closed: no keys, no valid signature, a signature that names a known key and does not
// verify, an unknown type or member, a missing subject, a digest that differs, or a key that was not valid at
// the statement's time are all errors. CodeDenied: well formed, but not by these keys or not about this;
// CodeInvalid: not evidence of ours at all.
func Verify(envelope []byte, keys []PublicKey, want Expect) (Verified, error) {
	if err := checkKeys(keys); err != nil {
		return Verified{}, err
	}
	e, err := parseEnvelope(envelope, PayloadType)
	if err != nil {
		return Verified{}, err
	}
	valid, err := e.verify(keys)
	if err != nil {
		return Verified{}, err
	}
	// Only now are the payload's bytes read, and they are the very bytes that were verified.
	s, err := decodeStatement(e.payload)
	if err != nil {
		return Verified{}, err
	}
	key, ok := valid[s.Predicate.By.KeyID]
	if !ok {
		return Verified{}, denied("signature", "the statement names key %.40q, which did not sign it", s.Predicate.By.KeyID)
	}
	at, err := parseTime(s.Predicate.Signed)
	if err != nil {
		return Verified{}, invalid("signed", "expected a time")
	}
	if !key.ValidAt(at) {
		return Verified{}, denied("key "+key.ID, "signed at %s, outside the key's validity from %s to %s", Time(at), Time(key.NotBefore), Time(key.NotAfter))
	}
	if err := verifyJournalRef(s.Predicate.Journal, key.Key); err != nil {
		return Verified{}, err
	}
	compared, err := compare(s.Predicate, want)
	if err != nil {
		return Verified{}, err
	}
	return Verified{Statement: s, Key: key, SignedAt: at, Envelope: sallyport.Sum(envelope), Payload: sallyport.Sum(e.payload), Compared: compared}, nil
}

// verify returns the given keys that signed. The key id in the envelope is a hint that anybody can change,
// so each signature is tried with each key; but a hint that names a given key must be true.
func (e envelope) verify(keys []PublicKey) (map[string]PublicKey, error) {
	msg := pae(e.payloadType, e.payload)
	valid := map[string]PublicKey{}
	for _, s := range e.signatures {
		for _, k := range keys {
			if len(s.sig) == ed25519.SignatureSize && ed25519.Verify(k.Key, msg, s.sig) {
				valid[k.ID] = k
			} else if k.ID == s.keyID {
				return nil, denied("signature", "the signature that names key %s does not verify", k.ID)
			}
		}
	}
	if len(valid) == 0 {
		return nil, denied("signature", "no signature by a given key")
	}
	return valid, nil
}

func compare(p Predicate, want Expect) ([]string, error) {
	var compared []string
	for _, f := range []struct{ name, want, have string }{
		{"tree", string(want.Tree), string(p.Result.Tree)},
		{"tree sha256", string(want.TreeSHA256), string(p.Result.TreeSHA256)},
		{"commit", string(want.Commit), string(p.Result.Commit)},
		{"manifest", string(want.Manifest), string(p.Manifest)},
		{"base", string(want.Base), string(p.Base.Commit)},
		{"bundle", string(want.Bundle), string(p.Result.Bundle)},
		{"attempt", string(want.Attempt), string(p.Attempt.ID)},
		{"work order", string(want.WorkOrder), string(p.WorkOrder.ID)},
		{"nonce", want.Nonce, p.Attempt.Nonce},
		{"decision", string(want.Decision), string(p.Decision.Decision)},
	} {
		if f.want == "" {
			continue
		}
		if f.want != f.have {
			return nil, denied(f.name, "expected %.80q, the evidence is about %.80q", f.want, f.have)
		}
		compared = append(compared, f.name)
	}
	return compared, nil
}

func denied(subject, format string, args ...any) error {
	err := invalid(subject, format, args...).(*sallyport.Error)
	err.Op, err.Code = "verify evidence", sallyport.CodeDenied
	return err
}
