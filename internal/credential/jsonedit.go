package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// place is where a value stands in a JSON text: its bytes without space around them.
type place struct{ start, end int }

var (
	errAbsent = errors.New("it has no such field")
	errTwice  = errors.New("it has the same field twice")
)

// find is the place of the value at path, object by object. A key that is there twice is an error: two readers could
// see two values.
func find(doc []byte, path ...string) (place, error) {
	at := place{0, len(doc)}
	for i, key := range path {
		inner, err := member(doc[at.start:at.end], key)
		if err != nil {
			return place{}, fmt.Errorf("%s: %w", strings.Join(path[:i+1], "."), err)
		}
		at = place{at.start + inner.start, at.start + inner.end}
	}
	return at, nil
}

func member(object []byte, key string) (found place, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return found, errAbsent
	}
	seen := false
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return found, errors.New("it is no JSON")
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return found, errors.New("it is no JSON")
		}
		if t != key {
			continue
		}
		if seen {
			return found, errTwice
		}
		end := int(d.InputOffset())
		seen, found = true, place{end - len(raw), end}
	}
	if !seen {
		return found, errAbsent
	}
	return found, nil
}

// oneObject says whether doc is one JSON object and nothing else.
func oneObject(doc []byte) bool {
	d := json.NewDecoder(bytes.NewReader(doc))
	var all map[string]json.RawMessage
	if err := d.Decode(&all); err != nil || all == nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

func get[T any](doc []byte, path []string) (v T, err error) {
	at, err := find(doc, path...)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(doc[at.start:at.end], &v); err != nil {
		return v, fmt.Errorf("%s: is of another kind", strings.Join(path, "."))
	}
	return v, nil
}

// edit is one value to be put in another's place.
type edit struct {
	Path  []string        `json:"path"`
	Value json.RawMessage `json:"value"`
}

// edited is doc with other values in their places, and every other byte as it was. A value whose place is not there is
// left out: nothing is added to a file of somebody else's.
func edited(doc []byte, edits []edit) ([]byte, error) {
	type patch struct {
		place
		value []byte
	}
	var patches []patch
	for _, e := range edits {
		at, err := find(doc, e.Path...)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patches = append(patches, patch{at, e.Value})
	}
	slices.SortFunc(patches, func(a, b patch) int { return a.start - b.start })
	var out bytes.Buffer
	last := 0
	for _, p := range patches {
		if p.start < last {
			return nil, errors.New("two of its fields overlap")
		}
		out.Write(doc[last:p.start])
		out.Write(p.value)
		last = p.end
	}
	out.Write(doc[last:])
	return out.Bytes(), nil
}
