package manifest

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestSpendIsRead(t *testing.T) {
	for text, want := range map[string][2]int64{
		"{usd: 5, tokens: 2M}":           {5_000_000, 2_000_000},
		`{usd: "0.50", tokens: 500k}`:    {500_000, 500_000},
		"{usd: 0.000001, tokens: 1}":     {1, 1},
		"{usd: 12.345678, tokens: 1000}": {12_345_678, 1000},
		"{usd: 1000000, tokens: 1G}":     {1_000_000_000_000, 1_000_000_000},
	} {
		rep, err := ParseRepository("x", []byte("version: 1\nlimits: {spend: "+text+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [2]int64{*rep.Limits.SpendMicroUSD, *rep.Limits.SpendTokens}; got != want {
			t.Errorf("%s: %v, expected %v", text, got, want)
		}
	}
}

// TestSpendNarrows: like every limit, and it is in the Manifest only where somebody set one.
func TestSpendNarrows(t *testing.T) {
	policy := "limits: {spend: {usd: 5, tokens: 2M}}\n"
	usd := func(micro int64) sallyport.WorkOrder {
		return sallyport.WorkOrder{Limits: sallyport.LimitsProposal{SpendMicroUSD: &micro}}
	}
	word := func(s string) sallyport.WorkOrder {
		return sallyport.WorkOrder{Limits: sallyport.LimitsProposal{SpendOnExceeded: &s}}
	}
	limit := func(micro, tokens int64, on string) *sallyport.SpendLimit {
		return &sallyport.SpendLimit{MicroUSD: micro, Tokens: tokens, OnExceeded: on}
	}
	for name, c := range map[string]struct {
		in   func() Input
		want *sallyport.SpendLimit
		says string // a notice, or the refusal
	}{
		"nobody says":         {func() Input { return input(nil) }, nil, ""},
		"the repository says": {func() Input { return input(repository(t, policy)) }, limit(5_000_000, 2_000_000, "end"), "this run has none"},
		"a work order lowers": {func() Input { return order(t, input(repository(t, policy)), "limits: {spend: {usd: 1}}\n") }, limit(1_000_000, 2_000_000, "end"), ""},
		"a work order raises": {func() Input { return order(t, input(repository(t, policy)), "limits: {spend: {usd: 6}}\n") }, nil, "limits.spend.usd 6 USD is above the 5 USD at sallyport.yaml:2:23"},
		"a flag raises":       {func() Input { return flags(input(repository(t, policy)), usd(6_000_000)) }, limit(6_000_000, 2_000_000, "end"), "granted by flag"},
		"a ceiling lowers": {func() Input {
			in := input(repository(t, policy))
			in.Ceiling = operator(t, "/etc/sallyport/policy.yaml", "limits: {spend: {tokens: 1M}}\n")
			return in
		}, limit(5_000_000, 1_000_000, "end"), "limits.spend.tokens is 1M: the ceiling at"},
		"a ceiling alone": {func() Input {
			in := input(nil)
			in.Ceiling = operator(t, "/etc/sallyport/policy.yaml", "limits: {spend: {usd: 1}}\n")
			return in
		}, limit(1_000_000, 0, "end"), ""},
		"a flag above a ceiling": {func() Input {
			in := flags(input(nil), usd(2_000_000))
			in.Ceiling = operator(t, "/etc/sallyport/policy.yaml", "limits: {spend: {usd: 1}}\n")
			return in
		}, nil, "above the ceiling of 1 USD"},
		"refuse": {func() Input { return input(repository(t, "limits: {spend: {usd: 5, on-exceeded: refuse}}\n")) }, limit(5_000_000, 0, "refuse"), ""},
		"end, by a work order": {func() Input {
			return order(t, input(repository(t, "limits: {spend: {usd: 5, on-exceeded: refuse}}\n")), "limits: {spend: {on-exceeded: end}}\n")
		}, limit(5_000_000, 0, "end"), ""},
		"refuse, by work order": {func() Input {
			return order(t, input(repository(t, "limits: {spend: {usd: 5, on-exceeded: end}}\n")), "limits: {spend: {on-exceeded: refuse}}\n")
		}, nil, `is laxer than the "end" at sallyport.yaml:2:39`},
		"refuse, by flag": {func() Input {
			return flags(input(repository(t, "limits: {spend: {usd: 5, on-exceeded: end}}\n")), word("refuse"))
		}, limit(5_000_000, 0, "refuse"), ""},
		"a word without a limit": {func() Input { return flags(input(nil), word("refuse")) }, nil, ""},
		"no such word":           {func() Input { return flags(input(nil), word("stop")) }, nil, "expected one of refuse, end"},
		"nothing":                {func() Input { return flags(input(nil), usd(0)) }, nil, "expected US dollars"},
	} {
		m, err := Compile(c.in())
		text := strings.Join(m.Notices, "\n")
		if err != nil {
			text = err.Error()
		}
		switch {
		case c.want == nil && (m.Spend != nil || c.says != "" && err == nil), c.want != nil && (m.Spend == nil || *m.Spend != *c.want):
			t.Errorf("%s: %+v, %v", name, m.Spend, err)
		case !strings.Contains(text, c.says):
			t.Errorf("%s: %q does not say %q", name, text, c.says)
		}
	}
}
