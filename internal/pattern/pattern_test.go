package pattern

import "testing"

func TestPattern(t *testing.T) {
	p := New(`^(a+)b$`)
	if !p.MatchString("aab") || p.MatchString("b") || p.FindStringSubmatch("aab")[1] != "aa" || p.String() != `^(a+)b$` || p() != p() {
		t.Error("not the expression")
	}
}

// A wrong one is found by the tests of the room that has it, not by a user.
func TestWrongPatternPanicsInTests(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it went unseen")
		}
	}()
	New("(")
}
