package evidence

import (
	"bytes"
	"encoding/json"
)

// BundleType is the media type of what Bundle gives.
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Bundle is a sealed envelope in the frame that Sigstore's tools and stores exchange. Our JSON of an envelope is theirs, so its
// bytes stay as they are. The key is named in it, not contained: who verifies has it from elsewhere. CodeInvalid: an envelope
// of more than one signature, for which that format has no place.
//
// https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto wants the same key id in both places.
func Bundle(envelope []byte) ([]byte, error) {
	e, err := parseEnvelope(envelope, PayloadType)
	if err != nil {
		return nil, err
	}
	if len(e.signatures) != 1 {
		return nil, invalid("signatures", "expected the one signature that a Sigstore bundle has, found %d", len(e.signatures))
	}
	type key struct {
		Hint string `json:"hint"`
	}
	type material struct {
		PublicKey key `json:"publicKey"`
	}
	return json.Marshal(struct {
		MediaType string          `json:"mediaType"`
		Material  material        `json:"verificationMaterial"`
		Envelope  json.RawMessage `json:"dsseEnvelope"`
	}{BundleType, material{key{e.signatures[0].keyID}}, bytes.TrimSuffix(envelope, lineFeed)})
}
