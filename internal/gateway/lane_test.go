package gateway

import "testing"

// A lane is wide while its stream fills it, and only so many are at once.
func TestLane(t *testing.T) {
	var l lane
	fits := func(l *lane, last, want int, when string) {
		t.Helper()
		if got := len(l.buffer(last)); got != want {
			t.Fatalf("%s: a buffer of %d bytes, not %d", when, got, want)
		}
	}
	fits(&l, 0, narrow, "at first")
	fits(&l, narrow-1, narrow, "with room left")
	fits(&l, narrow, wide, "when full")
	for range maxLight - 1 {
		fits(&l, 1, wide, "with little to carry")
	}
	fits(&l, narrow+1, wide, "with much again")
	for range maxLight - 1 {
		fits(&l, narrow, wide, "with little to carry")
	}
	fits(&l, 1, narrow, "with little for long")

	var all [maxWides + 1]lane
	for i := range all {
		fits(&all[i], 0, narrow, "at first")
	}
	for i := range maxWides {
		fits(&all[i], narrow, wide, "as one of those that may be wide")
	}
	last := &all[maxWides]
	fits(last, narrow, narrow, "as one too many")
	all[0].leave()
	all[0].leave()
	fits(last, narrow, wide, "after another left")
	for i := range all {
		all[i].leave()
	}
	if n := widesInUse.Load(); n != 0 {
		t.Errorf("%d wide buffers are in use after all left", n)
	}
}
