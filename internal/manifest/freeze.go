package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gowebpki/jcs"

	"sallyport.dev/sallyport"
)

// Version is the only Manifest version this program writes and reads.
const Version = 1

// Freeze gives a Manifest's canonical JSON (RFC 8785) and its SHA-256. Equal Manifests give equal bytes.
// CodeInvalid for a Manifest that would not come back equal: a nil slice or map ("nothing" and "not said"
// must not be confused), text that is not UTF-8, a number beyond 2^53, another version.
func Freeze(m sallyport.Manifest) (canonical []byte, digest sallyport.Digest, err error) {
	if m.Version != Version {
		return nil, "", freezeError("version", fmt.Sprintf("expected version %d, found %d", Version, m.Version))
	}
	if field := firstNil(reflect.ValueOf(m), ""); field != "" {
		return nil, "", freezeError(field, "is nil; expected an empty list or map where there is nothing")
	}
	plain, err := json.Marshal(m)
	if err != nil {
		return nil, "", freezeError("manifest", "cannot be written as JSON: a number has no value")
	}
	canonical, err = jcs.Transform(plain)
	if err != nil {
		return nil, "", freezeError("manifest", "cannot be written as canonical JSON")
	}
	var back sallyport.Manifest
	if err := json.Unmarshal(canonical, &back); err != nil || !reflect.DeepEqual(m, back) {
		return nil, "", freezeError("manifest", "would not come back equal: expected UTF-8 text and whole numbers up to 2^53")
	}
	return canonical, sallyport.Sum(canonical), nil
}

func freezeError(subject, message string) error {
	return &sallyport.Error{Op: "freeze manifest", Code: sallyport.CodeInvalid, Subject: subject, Message: message}
}

// Thaw reads a frozen Manifest that must have the digest want. CodeCorrupt for another digest, unknown or
// repeated keys and any bytes that Freeze would not have written; CodeUnsupported for another version.
func Thaw(data []byte, want sallyport.Digest) (sallyport.Manifest, error) {
	if got := sallyport.Sum(data); got != want {
		return sallyport.Manifest{}, corrupt(string(want), fmt.Sprintf("the bytes have the digest %s", got))
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return sallyport.Manifest{}, corrupt(string(want), "is not a manifest's JSON")
	}
	if v.Version != Version {
		return sallyport.Manifest{}, &sallyport.Error{Op: "read manifest", Code: sallyport.CodeUnsupported, Subject: string(want),
			Message: fmt.Sprintf("expected version %d, found %d", Version, v.Version), Hint: "use the version of sallyport that wrote it"}
	}
	var m sallyport.Manifest
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return sallyport.Manifest{}, corrupt(string(want), "has a key or value that no manifest has")
	}
	// One comparison covers repeated keys, other spellings of a key, order, spacing, null lists and what
	// follows the document: Freeze writes none of them.
	again, _, err := Freeze(m)
	if err != nil || !bytes.Equal(again, data) {
		return sallyport.Manifest{}, corrupt(string(want), "is not in canonical form")
	}
	return m, nil
}

func corrupt(subject, message string) error {
	return &sallyport.Error{Op: "read manifest", Code: sallyport.CodeCorrupt, Subject: subject, Message: message, Hint: "keep the state folder as it is and run `sallyport fsck`"}
}

// firstNil finds a nil slice or map below v; pointers may be nil, they mean "not said".
func firstNil(v reflect.Value, field string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return firstNil(v.Elem(), field)
		}
	case reflect.Map:
		if v.IsNil() {
			return field
		}
	case reflect.Slice:
		if v.IsNil() {
			return field
		}
		for i := range v.Len() {
			if f := firstNil(v.Index(i), fmt.Sprintf("%s[%d]", field, i)); f != "" {
				return f
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Where nothing is written for "nothing", nil is the only form that comes back equal.
			if isOmitted(v.Type().Field(i)) && v.Field(i).IsZero() {
				continue
			}
			if f := firstNil(v.Field(i), join(field, jsonName(v.Type().Field(i)))); f != "" {
				return f
			}
		}
	}
	return ""
}
