package screen

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestSpentIsOnThePage(t *testing.T) {
	r := sallyport.Report{Attempt: "att_1", Name: "x", Number: 1, State: sallyport.AttemptFailed, Spend: &sallyport.Spend{USD: 1.239, Tokens: 34512},
		Refusals: []sallyport.Refusal{{Host: "api.example", Port: 443, Protocol: "https", Method: "POST", Path: "/v1/messages", Reason: "spend-limit", Message: "no", Count: 1}}}
	out := Render(r, Options{Width: 100})
	if first, _, _ := strings.Cut(out, "\n"); !strings.HasSuffix(first, "34,512 tokens, 1.24 USD") {
		t.Error(first)
	}
	// No rule of egress: lifts a spend limit.
	if !strings.Contains(out, "spend-limit") || strings.Contains(out, "--egress") {
		t.Error(out)
	}
	if r.Spend = nil; strings.Contains(Render(r, Options{}), "USD") {
		t.Error("nothing was metered")
	}
	for want, l := range map[string]sallyport.SpendLimit{"2,000,000 tokens, 5.00 USD": {MicroUSD: 5_000_000, Tokens: 2_000_000}, "0.0500 USD": {MicroUSD: 50_000}, "10 tokens": {Tokens: 10}} {
		if got := SpendLimit(&l); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
