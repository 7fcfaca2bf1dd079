// Package corpustest gives a room's tests the attacks of the corpus that are that room's.
package corpustest

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus"
	"sallyport.dev/sallyport/internal/selftest"
)

// Run makes every case of these rooms.
func Run(t *testing.T, rooms ...string) {
	t.Helper()
	for _, room := range rooms {
		cases, err := corpus.Of(room)
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) == 0 {
			t.Errorf("room %s has no case", room)
		}
		for _, k := range cases {
			if status, detail := selftest.InRoom(k); status != selftest.Held {
				t.Errorf("%s is %s: %s", k.ID(), status, detail)
			}
		}
	}
}
