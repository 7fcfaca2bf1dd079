package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode"
)

// maxDepth bounds nesting; our own documents have six levels.
const maxDepth = 32

// checkJSON refuses what two JSON readers could understand differently: member names that are equal, or
// equal but for case, within one object (encoding/json takes the last one and ignores case), null, text that
// is not UTF-8, and anything after the document. It runs before any decoding into Go types.
func checkJSON(b []byte) error {
	if !validText(b) {
		return invalid("json", "expected UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := walkJSON(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("json", "expected nothing after the document")
	}
	return nil
}

func walkJSON(d *json.Decoder, depth int) error {
	if depth > maxDepth {
		return invalid("json", "expected at most %d levels", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return invalid("json", "expected a JSON document: %v", err)
	}
	switch t {
	case nil:
		return invalid("json", "expected a value, found null")
	case json.Delim('{'):
		return walkObject(d, depth)
	case json.Delim('['):
		for d.More() {
			if err := walkJSON(d, depth+1); err != nil {
				return err
			}
		}
		return closeJSON(d)
	}
	return nil
}

func walkObject(d *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return invalid("json", "expected a member name: %v", err)
		}
		name, ok := t.(string)
		if !ok {
			return invalid("json", "expected a member name")
		}
		if f := fold(name); seen[f] {
			return invalid("json", "member %.60q appears twice, or twice but for case", name)
		} else {
			seen[f] = true
		}
		if err := walkJSON(d, depth+1); err != nil {
			return err
		}
	}
	return closeJSON(d)
}

func closeJSON(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return invalid("json", "expected the end of a list or object: %v", err)
	}
	return nil
}

// fold maps all members of a case-folding orbit to its smallest rune: encoding/json matches names under
// simple folding, where for instance U+017F equals "s" (strings.ToLower would miss it).
func fold(s string) string {
	out := []rune(s)
	for i, r := range out {
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		out[i] = low
	}
	return string(out)
}

// members splits an object into exactly the members asked for: a missing, an additional or a differently
// cased one is refused. The document must have passed checkJSON.
func members(b []byte, where string, want ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, invalid(where, "expected an object")
	}
	for _, name := range want {
		if _, ok := m[name]; !ok {
			return nil, invalid(where, "expected the member %q", name)
		}
	}
	if len(m) != len(want) {
		return nil, invalid(where, "expected the members %q and no others", want)
	}
	return m, nil
}

// encodeJSON gives the one byte form of a document.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encoder is a document that knows its own byte form.
type encoder interface{ encode() ([]byte, error) }

// decodeExactly reads an in-toto statement with the given predicate in its one byte form: what it decoded,
// encoded again, must be the same bytes. Unknown, reordered and differently written members and numbers all
// fail that comparison.
func decodeExactly[T encoder](payload []byte, predicateType string) (T, error) {
	var s T
	if err := checkJSON(payload); err != nil {
		return s, err
	}
	// The types come first, so that a foreign statement is named as such and not by its first odd member.
	var head struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return s, invalid("payload", "expected an in-toto statement: %v", err)
	}
	if err := checkTypes(head.Type, head.PredicateType, predicateType); err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, invalid("payload", "expected a statement of this version: %v", err)
	}
	again, err := s.encode()
	if err != nil || !bytes.Equal(again, payload) {
		return s, invalid("payload", "expected the one byte form of a statement: compact JSON, members in order, exact names, no null")
	}
	return s, nil
}

func checkTypes(statement, predicate, want string) error {
	if statement != StatementType {
		return invalid("_type", "expected %q, found %.80q", StatementType, statement)
	}
	if predicate != want {
		return invalid("predicateType", "expected %q, found %.120q", want, predicate)
	}
	return nil
}
