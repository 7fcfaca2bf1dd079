package sallyport_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// TestChangeKeepsItsPath: whatever bytes a path has, JSON brings them back, and is UTF-8 itself.
func TestChangeKeepsItsPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := sallyport.Change{Path: string(rapid.SliceOf(rapid.Byte()).Draw(t, "path")), Status: sallyport.ChangeAdded, NewMode: "100644", Size: 3}
		b, err := json.Marshal(want)
		if err != nil || !utf8.Valid(b) {
			t.Fatalf("%q: %v", b, err)
		}
		var got sallyport.Change
		if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s came back as %+v, %v", b, got, err)
		}
	})
}
