package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// elsewhere explains a key that people look for at the top.
var elsewhere = map[string]string{"spend": "it stands under limits: as limits: {spend: {usd: 5}}"}

type spendFile struct {
	USD        *usd        `yaml:"usd" doc:"US dollars, such as 5 or 0.50."`
	Tokens     *tokens     `yaml:"tokens" doc:"Tokens of input and output, such as 2M or 500k."`
	OnExceeded *onExceeded `yaml:"on-exceeded" doc:"end: the attempt ends (the default). refuse: the request alone is refused."`
}

func (f *spendFile) propose(p *sallyport.LimitsProposal) {
	if f != nil {
		p.SpendMicroUSD, p.SpendTokens, p.SpendOnExceeded = (*int64)(f.USD), (*int64)(f.Tokens), (*string)(f.OnExceeded)
	}
}

// Bounds, which keep every sum exact.
const (
	maxSpendUSD    = int64(1_000_000)
	maxSpendTokens = int64(1_000_000_000_000)
	microUSD       = int64(1_000_000)
)

type (
	usd        int64 // millionths
	tokens     int64
	onExceeded string
)

var (
	usdForm    = pattern.New(`^(0|[1-9][0-9]{0,6})(\.[0-9]{1,6})?$`)
	tokensForm = pattern.New(`^([1-9][0-9]{0,12})([kMG]?)$`)
	// exceedWords from the least to the most cautious; Compile compares by position.
	exceedWords = []string{sallyport.SpendRefuse, sallyport.SpendEnd}
)

// numeral is the text of a plain number, or of a text.
func numeral(n ast.Node) string {
	switch v := n.(type) {
	case *ast.IntegerNode:
		return v.Token.Value
	case *ast.FloatNode:
		return v.Token.Value
	}
	s, _ := textOf(n)
	return s
}

func (v *usd) want() string { return "US dollars such as 5 or 0.50, from 0.000001 to 1000000" }
func (v *usd) read(r *reader, n ast.Node, _ string) error {
	m := usdForm.FindStringSubmatch(numeral(n))
	if m == nil {
		return r.expected(n, v.want())
	}
	whole, err := strconv.ParseInt(m[1], 10, 64)
	part, _ := strconv.ParseInt((strings.TrimPrefix(m[2], ".") + "000000")[:6], 10, 64)
	*v = usd(whole*microUSD + part)
	if err != nil || !goodUSD(float64(*v)) {
		return r.expected(n, v.want())
	}
	return nil
}

func (v *usd) schema() object {
	return object{"oneOf": []object{{"type": "number", "exclusiveMinimum": 0, "maximum": maxSpendUSD}, {"type": "string", "pattern": usdForm.String()}}}
}

func (v *tokens) want() string {
	return "a number of tokens such as 2M, 500k or 1000000, at most 1000G"
}

func (v *tokens) read(r *reader, n ast.Node, _ string) error {
	m := tokensForm.FindStringSubmatch(numeral(n))
	if m == nil {
		return r.expected(n, v.want())
	}
	count, err := strconv.ParseInt(m[1], 10, 64)
	unit := map[string]int64{"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}[m[2]]
	if err != nil || count > maxSpendTokens/unit {
		return r.expected(n, v.want())
	}
	*v = tokens(count * unit)
	return nil
}

func (v *tokens) schema() object {
	return object{"oneOf": []object{{"type": "integer", "minimum": 1, "maximum": maxSpendTokens}, {"type": "string", "pattern": tokensForm.String()}}}
}

func (v *onExceeded) want() string { return "one of " + listed(exceedWords) }
func (v *onExceeded) read(r *reader, n ast.Node, _ string) error {
	return oneOf(r, n, v, exceedWords)
}
func (v *onExceeded) schema() object { return enumSchema(exceedWords) }

func goodUSD(v float64) bool    { return v >= 1 && v <= float64(maxSpendUSD*microUSD) }
func goodTokens(v float64) bool { return v >= 1 && v <= float64(maxSpendTokens) }

func showUSD(v float64) string {
	if math.IsInf(v, 1) {
		return "not limited"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", v/1e6), "0"), ".") + " USD"
}

func showTokens(v float64) string {
	if math.IsInf(v, 1) {
		return "not limited"
	}
	for _, u := range []struct {
		name string
		size float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if v >= u.size && math.Mod(v, u.size) == 0 {
			return fmt.Sprintf("%.0f%s", v/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f", v)
}

// spendFields are compared like the limits of a sandbox; +Inf is "no limit", which holds where nobody says anything.
var spendFields = []limitField{
	{name: "spend.usd", std: math.Inf(1), said: func(l sallyport.LimitsProposal) (float64, bool) { return number(l.SpendMicroUSD) },
		show: showUSD, good: goodUSD, want: (*usd)(nil).want()},
	{name: "spend.tokens", std: math.Inf(1), said: func(l sallyport.LimitsProposal) (float64, bool) { return number(l.SpendTokens) },
		show: showTokens, good: goodTokens, want: (*tokens)(nil).want()},
}

// spend resolves what all Attempts together may spend; nil: no limit.
func (c *compiler) spend() (*sallyport.SpendLimit, error) {
	var out sallyport.SpendLimit
	for i, to := range []*int64{&out.MicroUSD, &out.Tokens} {
		v, err := c.limit(spendFields[i])
		if err != nil {
			return nil, err
		}
		if !math.IsInf(v, 1) {
			*to = int64(v)
		}
	}
	word, err := c.onExceeded()
	if err != nil || out.MicroUSD == 0 && out.Tokens == 0 {
		return nil, err
	}
	out.OnExceeded, out.Prices = word, c.in.Prices
	if c.in.Agent.Endpoint == nil || len(c.in.WorkOrder.Command) > 0 {
		c.note("limits.spend meters an agent's model endpoint, and this run has none: what is reached by egress: is not metered")
	}
	return &out, nil
}

// onExceeded is the most cautious word of policy; the WorkOrder can only be more so, except by flag.
func (c *compiler) onExceeded() (string, error) {
	const field = "limits.spend.on-exceeded"
	rank := func(word string) int { return slices.Index(exceedWords, word) }
	policy, where, ceiling := "", "", false
	look := func(l sallyport.LimitsProposal, p Places, top bool) {
		if w := l.SpendOnExceeded; w != nil && rank(*w) > rank(policy) {
			policy, where, ceiling = *w, p.at(field), top
		}
	}
	if op := c.in.Ceiling; op != nil {
		look(op.Limits, op.Places, true)
	}
	if rep := c.in.Repository; rep != nil {
		look(rep.Limits, rep.Places, false)
	}
	if op := c.in.User; op != nil {
		look(op.Limits, op.Places, false)
	}
	asked := c.in.WorkOrder.Limits.SpendOnExceeded
	switch {
	case asked == nil:
		return either(policy, sallyport.SpendEnd), nil
	case rank(*asked) < 0:
		return "", invalid(c.in.Places.at(field), "expected "+(*onExceeded)(nil).want()+", found "+quoted(*asked), "")
	case rank(*asked) < rank(policy) && (ceiling || !c.mayGrant(field)):
		return "", denied(c.in.Places.at(field), fmt.Sprintf("%s %q is laxer than the %q at %s", field, *asked, policy, where), c.grantHint())
	}
	return *asked, nil
}
