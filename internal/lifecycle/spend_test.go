package lifecycle

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestSpendIsCounted(t *testing.T) {
	s := upTo(t, AttemptLayers)
	apply := func(on Type, p any) {
		t.Helper()
		if err := s.Apply(ev(on, p)); err != nil {
			t.Fatal(err)
		}
	}
	apply(AttemptReserved, Reserved{ID: "1", API: "a", Model: "m", InputTokens: 100, OutputTokens: 50, MicroUSD: 2_000_000})
	before := s
	apply(AttemptReserved, Reserved{ID: "2", InputTokens: 10, OutputTokens: 5, MicroUSD: 500_000})
	if len(before.Spend.Open) != 1 {
		t.Error("an earlier state was changed")
	}
	// While it is open it counts in full: that is what a crash leaves.
	if got, want := *s.Report.Spend, (sallyport.Spend{USD: 2.5, Tokens: 165, Requests: 2, InputTokens: 110, OutputTokens: 55, Unsettled: 2}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	apply(AttemptSettled, Settled{ID: "1", How: "usage", InputTokens: 20, OutputTokens: 3, MicroUSD: 250_000})
	if got, want := *s.Report.Spend, (sallyport.Spend{USD: 0.75, Tokens: 38, Requests: 2, InputTokens: 30, OutputTokens: 8, Unsettled: 1}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	apply(AttemptSettled, Settled{ID: "2", How: UnsentRequest})
	if got, want := *s.Report.Spend, (sallyport.Spend{USD: 0.25, Tokens: 23, Requests: 1, InputTokens: 20, OutputTokens: 3}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	for _, bad := range []struct {
		on   Type
		p    any
		code sallyport.Code
	}{
		{AttemptReserved, Reserved{}, sallyport.CodeInvalid}, {AttemptReserved, Reserved{ID: strings.Repeat("x", 65)}, sallyport.CodeInvalid}, {AttemptReserved, Reserved{ID: "3", MicroUSD: -1}, sallyport.CodeInvalid},
		{AttemptSettled, Settled{ID: "1", How: "usage"}, sallyport.CodeConflict}, {AttemptSettled, Settled{ID: "9", How: "usage"}, sallyport.CodeConflict}, {AttemptSettled, Settled{ID: "1"}, sallyport.CodeInvalid},
	} {
		was := *s.Report.Spend
		if err := s.Apply(ev(bad.on, bad.p)); sallyport.CodeOf(err) != bad.code || *s.Report.Spend != was {
			t.Errorf("%s %+v: %v", bad.on, bad.p, err)
		}
	}
	apply(AttemptReserved, Reserved{ID: "3"})
	if err := s.Apply(ev(AttemptReserved, Reserved{ID: "3"})); sallyport.CodeOf(err) != sallyport.CodeConflict {
		t.Errorf("twice: %v", err)
	}
}
