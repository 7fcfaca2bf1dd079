package lifecycle

import (
	"fmt"
	"testing"

	"sallyport.dev/sallyport"
)

// TestRefusalsAddUp: the same refusal is one with a count, and a hostile agent's many are bounded.
func TestRefusalsAddUp(t *testing.T) {
	s := upTo(t, AttemptLayers)
	apply := func(list ...sallyport.Refusal) {
		t.Helper()
		if err := s.Apply(ev(AttemptRefused, Refused{Refusals: list})); err != nil {
			t.Fatal(err)
		}
	}
	a := sallyport.Refusal{Host: "a.example", Port: 443, Protocol: "https", Reason: "host-not-listed", Count: 1}
	b := a
	b.Host, b.Count = "b.example", 2
	apply(a, b)
	before := s.Clone()
	apply(a)
	if r := s.Report.Refusals; len(r) != 2 || r[0].Count != 2 || r[1].Count != 2 {
		t.Errorf("%+v", r)
	}
	if before.Report.Refusals[0].Count != 1 {
		t.Error("an earlier state has changed")
	}
	for i := range 2 * MaxRefusals {
		c := a
		c.Host = fmt.Sprintf("h%d.example", i)
		apply(c)
	}
	apply(b)
	if r := s.Report.Refusals; len(r) != MaxRefusals || r[1].Count != 4 {
		t.Errorf("%d refusals, %+v", len(r), r[1])
	}
	for _, bad := range []sallyport.Refusal{{Host: "a", Count: 1}, {Host: "a", Reason: "x"}} {
		if err := s.Apply(ev(AttemptRefused, Refused{Refusals: []sallyport.Refusal{bad}})); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
