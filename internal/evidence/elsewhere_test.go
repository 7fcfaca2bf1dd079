package evidence

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"sallyport.dev/sallyport"
)

// theirs is a key for the DSSE implementation that in-toto's own tools use.
type theirs struct{ key PublicKey }

func (k theirs) KeyID() (string, error)   { return k.key.ID, nil }
func (k theirs) Public() crypto.PublicKey { return k.key.Key }
func (k theirs) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(k.key.Key, data, sig) {
		return errors.New("not by this key")
	}
	return nil
}

// TestVerifiesElsewhere: what we seal verifies under an implementation that is not ours, and what it refuses we
// refuse.
func TestVerifiesElsewhere(t *testing.T) {
	s, other := signerOf(7), signerOf(9)
	v := accepted(t, s)
	for name, b := range map[string][]byte{"evidence": sealed(t, s, nil), "summary": sealedVSA(t, s, v, sallyport.DecisionAccepted)} {
		var e dsse.Envelope
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatal(err)
		}
		verify := func(key PublicKey) error {
			verifier, err := dsse.NewEnvelopeVerifier(theirs{key})
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := verifier.Verify(t.Context(), &e)
			if err == nil && (len(accepted) != 1 || accepted[0].KeyID != key.ID) {
				t.Errorf("%s: accepted keys %v", name, accepted)
			}
			return err
		}
		if err := verify(s.trusted()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if verify(other.trusted()) == nil {
			t.Errorf("%s: verified under another key", name)
		}
		body, err := e.DecodeB64Payload()
		if err != nil || string(body) != string(payloadOf(t, b)) {
			t.Errorf("%s: another payload: %v", name, err)
		}
		if string(dsse.PAE(e.PayloadType, body)) != string(pae(PayloadType, body)) {
			t.Errorf("%s: another pre-authentication encoding", name)
		}
		var statement struct {
			Type          string `json:"_type"`
			PredicateType string `json:"predicateType"`
		}
		if err := json.Unmarshal(body, &statement); err != nil || statement.Type != StatementType {
			t.Errorf("%s: %+v, %v", name, statement, err)
		}
	}
}
