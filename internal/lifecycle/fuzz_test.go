package lifecycle

import (
	"bytes"
	"encoding/json"
	"testing"

	"sallyport.dev/sallyport"
)

// FuzzApply: whatever records a journal holds, each is folded or refused with a code; a refused one leaves the state as it
// was; and a replay of those that were taken, through their JSON as a store keeps it, ends in the same state.
func FuzzApply(f *testing.F) {
	line := func(e Event) []byte {
		b, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		return append(b, '\n')
	}
	var whole []byte
	for _, e := range life() {
		whole = append(whole, line(e)...)
		f.Add(bytes.Clone(whole))
	}
	f.Add([]byte(`{"type":"attempt.created","attempt":"a","data":null}` + "\n" + `{"type":"attempt.stage","attempt":"a","data":{"state":"accepted","seconds":1e999}}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		var s, again State
		for l := range bytes.Lines(lines) {
			var e Event
			if json.Unmarshal(l, &e) != nil {
				continue
			}
			was := marshal(s)
			if err := s.Apply(e); err != nil {
				if c := sallyport.CodeOf(err); c != sallyport.CodeConflict && c != sallyport.CodeInvalid {
					t.Fatalf("%s: code %v: %v", e.Type, c, err)
				}
				if marshal(s) != was {
					t.Fatalf("a refused %s changed the state", l)
				}
				continue
			}
			kept, err := json.Marshal(e)
			if err != nil {
				t.Fatalf("%s was folded and cannot be kept: %v", l, err)
			}
			var read Event
			if err := json.Unmarshal(kept, &read); err != nil {
				t.Fatal(err)
			}
			if err := again.Apply(read); err != nil {
				t.Fatalf("%s does not replay: %v", kept, err)
			}
		}
		if marshal(again) != marshal(s) {
			t.Fatalf("replay and live operation differ:\n%s\n%s", marshal(again), marshal(s))
		}
	})
}
