package evidence

import (
	"crypto/ed25519"
	"fmt"
	"strings"
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
	Patch      sallyport.Digest
	// Since is a point of the journal that the verifier knows: evidence from before it is stale, and evidence
	// of another journal, or of another history of this one, is somebody else's.
	Since Head
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
// verify, an unknown type or member, a missing subject, a digest that differs, a stale checkpoint, or a key
// that was not valid at the statement's time are all errors. CodeDenied: well formed, but not by these keys or
// not about this; the subject names all that did not match. CodeInvalid: not evidence of ours at all.
func Verify(envelope []byte, keys []PublicKey, want Expect) (Verified, error) {
	payload, signers, err := open(envelope, keys)
	if err != nil {
		return Verified{}, err
	}
	s, err := decodeStatement(payload)
	if err != nil {
		return Verified{}, err
	}
	key, ok := signers[s.Predicate.By.KeyID]
	if !ok {
		return Verified{}, denied("signature", "the statement names key %.40q, which did not sign it", s.Predicate.By.KeyID)
	}
	at, err := validAt(key, s.Predicate.Signed)
	if err != nil {
		return Verified{}, err
	}
	if err := verifyJournalRef(s.Predicate.Journal, key.Key); err != nil {
		return Verified{}, err
	}
	if err := since(s.Predicate.Journal, want.Since); err != nil {
		return Verified{}, err
	}
	compared, err := compare(expected(s.Predicate, want))
	if err != nil {
		return Verified{}, err
	}
	if want.Since != (Head{}) {
		compared = append(compared, "journal")
	}
	return Verified{Statement: s, Key: key, SignedAt: at, Envelope: sallyport.Sum(envelope), Payload: sallyport.Sum(payload), Compared: compared}, nil
}

// open gives the payload of an envelope, and those of keys that signed these very bytes.
func open(envelope []byte, keys []PublicKey) ([]byte, map[string]PublicKey, error) {
	if err := checkKeys(keys); err != nil {
		return nil, nil, err
	}
	e, err := parseEnvelope(envelope, PayloadType)
	if err != nil {
		return nil, nil, err
	}
	if err := e.checkForm(envelope); err != nil {
		return nil, nil, err
	}
	signers, err := e.verify(keys)
	return e.payload, signers, err
}

// verify returns the given keys that signed. Each signature is tried with each key: what names a given key
// must be by it, and what is by a given key must name it, so that nothing in an envelope can be changed
// without breaking it but the signatures of strangers.
func (e envelope) verify(keys []PublicKey) (map[string]PublicKey, error) {
	msg := pae(e.payloadType, e.payload)
	valid := map[string]PublicKey{}
	for _, s := range e.signatures {
		for _, k := range keys {
			by := len(s.sig) == ed25519.SignatureSize && ed25519.Verify(k.Key, msg, s.sig)
			switch {
			case by && k.ID == s.keyID:
				valid[k.ID] = k
			case by:
				return nil, denied("signature", "the signature by key %s names %.40q", k.ID, s.keyID)
			case k.ID == s.keyID:
				return nil, denied("signature", "the signature that names key %s does not verify", k.ID)
			}
		}
	}
	if len(valid) == 0 {
		return nil, denied("signature", "no signature by a given key")
	}
	return valid, nil
}

// validAt reads the time that a statement was signed at, which must lie in the key's validity.
func validAt(key PublicKey, signed string) (time.Time, error) {
	at, err := parseTime(signed)
	if err != nil {
		return at, invalid("signed", "expected a time in RFC 3339 and UTC, found %.40q", signed)
	}
	if !key.ValidAt(at) {
		return at, denied("key "+key.ID, "signed at %s, outside the key's validity from %s to %s", Time(at), Time(key.NotBefore), Time(key.NotAfter))
	}
	return at, nil
}

// since refuses a statement from before a point of the journal that the verifier knows. Zero: none is known.
func since(j JournalRef, known Head) error {
	switch {
	case known == Head{}:
		return nil
	case j.Origin != known.Origin:
		return denied("journal", "expected the journal %.80q, the evidence is tied to %.80q", known.Origin, j.Origin)
	case j.Seq < known.Seq:
		return denied("journal", "stale: the evidence is from record %d, and the journal stood at %d already", j.Seq, known.Seq)
	case j.Seq == known.Seq && j.Hash != known.Hash:
		return denied("journal", "another history: record %d has the hash %s, expected %s", j.Seq, j.Hash, known.Hash)
	}
	return nil
}

// pair is one thing that the verifier holds, and what the statement says of it.
type pair struct{ name, want, have string }

func expected(p Predicate, want Expect) []pair {
	return []pair{
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
		{"patch", string(want.Patch), string(p.Result.Patch)},
	}
}

// compare returns the names of what was given, or an error that names everything that did not match.
func compare(pairs []pair) ([]string, error) {
	var matched, failed, why []string
	for _, f := range pairs {
		switch {
		case f.want == "":
		case f.want == f.have:
			matched = append(matched, f.name)
		default:
			failed = append(failed, f.name)
			why = append(why, fmt.Sprintf("%s: expected %.80q, the evidence is about %.80q", f.name, f.want, f.have))
		}
	}
	if failed == nil {
		return matched, nil
	}
	if len(failed) == 1 {
		why[0] = strings.TrimPrefix(why[0], failed[0]+": ") // the error's subject says it
	}
	if matched != nil {
		why = append(why, "what does match: "+strings.Join(matched, ", "))
	}
	return nil, denied(strings.Join(failed, ", "), "%s", strings.Join(why, "; "))
}

func denied(subject, format string, args ...any) error {
	err := invalid(subject, format, args...).(*sallyport.Error)
	err.Op, err.Code = "verify evidence", sallyport.CodeDenied
	return err
}
