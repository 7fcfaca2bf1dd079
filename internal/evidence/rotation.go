package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"

	"sallyport.dev/sallyport"
)

// RotationType is the DSSE payload type of a rotation: not an in-toto statement, so neither can be taken for
// the other.
const RotationType = "application/vnd.sallyport.key-rotation.v1+json"

// Rotation says that one key hands over to another. Old and new sign it: the old one vouches, the new one
// shows that it exists.
type Rotation struct {
	Old          string `json:"old"` // key ids
	OldNotAfter  string `json:"old_not_after"`
	New          string `json:"new"`
	NewPublic    string `json:"new_public"` // raw key in base64
	NewNotBefore string `json:"new_not_before"`
	NewNotAfter  string `json:"new_not_after"`
	At           string `json:"at"`
}

// RotationRecord is what goes into the journal: the rotation and the envelope that proves it.
type RotationRecord struct {
	Rotation Rotation        `json:"rotation"`
	Envelope json.RawMessage `json:"envelope"`
}

// Rotate makes a new current key and ends the old one's validity now. It returns the record for the journal;
// after a crash before it was appended, Rotations has it again. Every call is a rotation of its own.
func (k *Keyring) Rotate(ctx context.Context) (RotationRecord, error) {
	var record RotationRecord
	err := k.locked(func() error {
		if err := k.load(); err != nil { // another process may have rotated
			return err
		}
		old, ok := k.keys[k.current]
		if !ok {
			return k.fault(sallyport.CodeCorrupt, k.dir, "expected a current key to rotate from", nil)
		}
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return k.fault(sallyport.CodeUnavailable, k.dir, "no randomness", err)
		}
		next, err := k.add(private)
		if err != nil {
			return err
		}
		if record, err = k.introduce(ctx, old, next); err != nil {
			return err
		}
		if err := k.write(stem(next.public.ID)+".rotation", record.Envelope); err != nil {
			return err
		}
		// Just before this a crash leaves a key that nobody appointed, which signs nothing. Just after, the next
		// OpenKeyring ends the old key's validity.
		if err := k.appoint(next.public.ID); err != nil {
			return err
		}
		return k.finishRotation()
	})
	return record, err
}

func (k *Keyring) introduce(ctx context.Context, old, next keyFile) (RotationRecord, error) {
	// To the nanosecond: what the old key signed a moment ago must stay verifiable.
	now := k.now().UTC()
	end := now
	if old.public.NotAfter.Before(end) {
		end = old.public.NotAfter // an expired key does not get longer by being replaced
	}
	if end.Before(old.public.NotBefore) {
		end = old.public.NotBefore
	}
	r := Rotation{Old: old.public.ID, OldNotAfter: Time(end), New: next.public.ID, NewPublic: base64.StdEncoding.EncodeToString(next.public.Key),
		NewNotBefore: Time(next.public.NotBefore), NewNotAfter: Time(next.public.NotAfter), At: Time(now)}
	payload, err := json.Marshal(r)
	if err != nil {
		return RotationRecord{}, k.fault(sallyport.CodeInvalid, r.New, "the rotation cannot be encoded", err)
	}
	b, _, err := sealBytes(ctx, RotationType, payload, old, next)
	return RotationRecord{r, bytes.TrimSpace(b)}, err
}

// finishRotation makes the old key end where the current key's rotation says. It runs after each rotation and
// at each opening, so a crash in between is only a delay.
func (k *Keyring) finishRotation() error {
	r, err := k.rotationOf(k.current)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the first key
	}
	if err != nil {
		return err
	}
	old, ok := k.keys[r.Rotation.Old]
	if !ok {
		return nil // an operator may have moved an old private key away
	}
	end, err := parseTime(r.Rotation.OldNotAfter)
	if err != nil || !end.Before(old.public.NotAfter) {
		return nil
	}
	old.public.NotAfter = end
	if err := k.writeValidity(old.public); err != nil {
		return err
	}
	k.keys[old.public.ID] = old
	return nil
}

func (k *Keyring) rotationOf(id string) (RotationRecord, error) {
	b, err := k.read(stem(id) + ".rotation")
	if err != nil {
		return RotationRecord{}, err
	}
	current, ok := k.keys[id]
	if !ok {
		return RotationRecord{}, k.fault(sallyport.CodeCorrupt, id, "a rotation to a key that is not there", nil)
	}
	r, err := parseRotation(b, current.public.Key)
	if err != nil {
		return RotationRecord{}, k.fault(sallyport.CodeCorrupt, stem(id)+".rotation", "expected a rotation that this key signed", err)
	}
	return RotationRecord{r, bytes.TrimSpace(b)}, nil
}

// Rotations lists the records of all rotations up to the current key, newest first: what the journal must
// hold, for a caller that crashed between Rotate and Append.
func (k *Keyring) Rotations() ([]RotationRecord, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []RotationRecord
	for id, n := k.current, 0; n <= len(k.keys); n++ {
		r, err := k.rotationOf(id)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		if id = r.Rotation.Old; k.keys[id].private == nil {
			break
		}
	}
	return out, nil
}

// VerifyRotation checks a rotation against a key that the verifier already trusts, and returns that key with
// its shortened validity and the new key. Both signatures must be there.
func VerifyRotation(envelope []byte, trusted PublicKey) (old, next PublicKey, err error) {
	if err := trusted.Check(); err != nil {
		return old, next, err
	}
	r, err := parseRotation(envelope, trusted.Key)
	if err != nil {
		return old, next, err
	}
	if r.Old != trusted.ID {
		return old, next, denied("rotation", "it is from key %.40q, not from %s", r.Old, trusted.ID)
	}
	end, err1 := parseTime(r.OldNotAfter)
	at, err2 := parseTime(r.At)
	begin, err3 := parseTime(r.NewNotBefore)
	after, err4 := parseTime(r.NewNotAfter)
	raw, err5 := base64.StdEncoding.DecodeString(r.NewPublic)
	if errors.Join(err1, err2, err3, err4, err5) != nil {
		return old, next, invalid("rotation", "expected times in RFC 3339 and UTC, and a key in base64")
	}
	// A rotation can end the old key earlier, never later.
	if end.After(trusted.NotAfter) || end.Before(trusted.NotBefore) || end.After(at) {
		return old, next, denied("rotation", "it would not end key %s within its validity", trusted.ID)
	}
	next = PublicKey{ID: r.New, Key: raw, NotBefore: begin, NotAfter: after}
	if err := next.Check(); err != nil {
		return old, PublicKey{}, err
	}
	if _, err := parseRotation(envelope, next.Key); err != nil {
		return old, PublicKey{}, err
	}
	old = trusted
	old.NotAfter = end
	return old, next, nil
}

// parseRotation reads a rotation that key signed.
func parseRotation(b []byte, key ed25519.PublicKey) (Rotation, error) {
	var r Rotation
	e, err := parseEnvelope(b, RotationType)
	if err != nil {
		return r, err
	}
	signed := false
	for _, s := range e.signatures {
		signed = signed || ed25519.Verify(key, pae(e.payloadType, e.payload), s.sig)
	}
	if !signed {
		return r, denied("rotation", "not signed by key %s", KeyID(key))
	}
	if err := checkJSON(e.payload); err != nil {
		return r, err
	}
	if err := json.Unmarshal(e.payload, &r); err != nil {
		return r, invalid("rotation", "expected a rotation")
	}
	if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, e.payload) {
		return r, invalid("rotation", "expected the one byte form of a rotation")
	}
	return r, nil
}
