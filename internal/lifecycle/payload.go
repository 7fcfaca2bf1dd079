package lifecycle

import (
	"bytes"
	"encoding/json"

	"sallyport.dev/sallyport"
)

// decode reads the payload of e strictly: an unknown key is an error, because a reader that skips what it
// does not know would fold another history than the writer meant.
func decode[T any](e Event) (T, error) {
	var v T
	if isNull(e.Data) {
		return v, invalid(e.Type, "expected a payload, got none")
	}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, &sallyport.Error{Op: "apply event", Code: sallyport.CodeInvalid, Subject: string(e.Type), Message: "the payload is not of this event's shape", Err: err}
	}
	return v, nil
}

func isNull(b json.RawMessage) bool {
	t := bytes.TrimSpace(b)
	return len(t) == 0 || bytes.Equal(t, []byte("null"))
}

// noPayload accepts null and the empty object.
func noPayload(e Event) error {
	if isNull(e.Data) || bytes.Equal(bytes.TrimSpace(e.Data), []byte("{}")) {
		return nil
	}
	return invalid(e.Type, "expected no payload")
}
