package evidence

import (
	"bytes"
	"encoding/json"
	"testing"

	"sallyport.dev/sallyport"
)

// What is in the frame of a bundle is the envelope itself, which verifies with the key alone, under the id that the frame names.
func TestBundle(t *testing.T) {
	s := signerOf(1)
	b, err := Bundle(sealed(t, s, nil))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		MediaType            string
		VerificationMaterial map[string]map[string]string
		DSSEEnvelope         json.RawMessage
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.MediaType != "application/vnd.dev.sigstore.bundle.v0.3+json" || len(got.VerificationMaterial) != 1 || len(got.VerificationMaterial["publicKey"]) != 1 ||
		got.VerificationMaterial["publicKey"]["hint"] != s.KeyID() {
		t.Errorf("%s %v", got.MediaType, got.VerificationMaterial)
	}
	if _, err := Verify(got.DSSEEnvelope, []PublicKey{s.trusted()}, Expect{}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoBundle(t *testing.T) {
	two, _, err := sealBytes(t.Context(), PayloadType, []byte("{}"), signerOf(1), signerOf(2))
	if err != nil {
		t.Fatal(err)
	}
	for name, envelope := range map[string][]byte{"two signatures": two, "no envelope": []byte("{}"), "nothing": nil} {
		if _, err := Bundle(envelope); err == nil || sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
