package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
)

// PayloadType is the DSSE payload type of in-toto statements.
const PayloadType = "application/vnd.in-toto+json"

// MaxEnvelopeBytes bounds what Seal writes and what Verify reads.
const MaxEnvelopeBytes = 8 << 20

var lineFeed = []byte("\n")

// maxSignatures bounds the work an envelope can ask for.
const maxSignatures = 16

// pae is the pre-authentication encoding of DSSE 1.0.2: what is signed. It binds the type to the body, so
// that a signature over one kind of document is none over another.
func pae(payloadType string, body []byte) []byte {
	b := make([]byte, 0, len(payloadType)+len(body)+48)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, ' ')
	return append(b, body...)
}

// envelope is a DSSE envelope after base64.
type envelope struct {
	payloadType string
	payload     []byte
	signatures  []signature
}

type signature struct {
	keyID string // a hint, not authenticated
	sig   []byte
}

func (e envelope) encode() ([]byte, error) {
	type wireSig struct {
		KeyID string `json:"keyid"`
		Sig   string `json:"sig"`
	}
	w := struct {
		PayloadType string    `json:"payloadType"`
		Payload     string    `json:"payload"`
		Signatures  []wireSig `json:"signatures"`
	}{e.payloadType, base64.StdEncoding.EncodeToString(e.payload), nil}
	for _, s := range e.signatures {
		w.Signatures = append(w.Signatures, wireSig{s.keyID, base64.StdEncoding.EncodeToString(s.sig)})
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	if b = append(b, '\n'); len(b) > MaxEnvelopeBytes {
		return nil, invalid("envelope", "expected at most %d bytes, it would have %d", MaxEnvelopeBytes, len(b))
	}
	return b, nil
}

// parseEnvelope reads exactly one envelope of the given type. White space and string escapes outside the
// payload are the only freedom it leaves: a rotation is printed inside of other documents.
func parseEnvelope(b []byte, payloadType string) (envelope, error) {
	var e envelope
	if len(b) > MaxEnvelopeBytes {
		return e, invalid("envelope", "expected at most %d bytes, found %d", MaxEnvelopeBytes, len(b))
	}
	if err := checkJSON(b); err != nil {
		return e, err
	}
	m, err := members(b, "envelope", "payloadType", "payload", "signatures")
	if err != nil {
		return e, err
	}
	if e.payloadType, err = text(m["payloadType"], "payloadType"); err != nil {
		return e, err
	}
	if e.payloadType != payloadType {
		return e, invalid("payloadType", "expected %q, found %.80q", payloadType, e.payloadType)
	}
	if e.payload, err = decode64(m["payload"], "payload"); err != nil {
		return e, err
	}
	e.signatures, err = parseSignatures(m["signatures"])
	return e, err
}

// checkForm demands the one byte form that encode writes; a last line feed may be missing. One statement with
// its signatures is one text, and nothing in it is left to the writer.
func (e envelope) checkForm(b []byte) error {
	again, err := e.encode()
	if err != nil || !bytes.Equal(again, slices.Concat(bytes.TrimSuffix(b, lineFeed), lineFeed)) {
		return invalid("envelope", "expected the one byte form of an envelope: compact JSON in one line, members in order")
	}
	return nil
}

func parseSignatures(b []byte) ([]signature, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, invalid("signatures", "expected a list")
	}
	if len(list) == 0 || len(list) > maxSignatures {
		return nil, invalid("signatures", "expected 1 to %d signatures, found %d", maxSignatures, len(list))
	}
	var out []signature
	for i, raw := range list {
		where := "signatures[" + strconv.Itoa(i) + "]"
		m, err := members(raw, where, "keyid", "sig")
		if err != nil {
			return nil, err
		}
		var s signature
		if s.keyID, err = text(m["keyid"], where+".keyid"); err != nil {
			return nil, err
		}
		if s.sig, err = decode64(m["sig"], where+".sig"); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func text(raw json.RawMessage, where string) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", invalid(where, "expected text")
	}
	return s, nil
}

// decode64 takes the standard alphabet with padding in its only canonical form. DSSE also allows the URL
// alphabet; our own envelopes never use it, and one form is easier to reason about than two.
func decode64(raw json.RawMessage, where string) ([]byte, error) {
	s, err := text(raw, where)
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	// Go's decoder skips CR and LF; the comparison does not.
	if err != nil || len(b) == 0 || base64.StdEncoding.EncodeToString(b) != s {
		return nil, invalid(where, "expected canonical base64 of something")
	}
	return b, nil
}
