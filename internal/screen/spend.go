package screen

import (
	"fmt"

	"sallyport.dev/sallyport"
)

// Spent is what model APIs cost, in a few words: "34,512 tokens, 0.42 USD". "" where nothing was metered.
func Spent(s *sallyport.Spend) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s tokens, %s USD", Thousands(int(s.Tokens)), usd(s.USD))
}

// usd shows cents, and less where there are none.
func usd(v float64) string {
	if v > 0 && v < 0.1 {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// SpendLimit is a limit in the same words; "" for none.
func SpendLimit(l *sallyport.SpendLimit) string {
	if l == nil {
		return ""
	}
	text := ""
	if l.Tokens > 0 {
		text = Thousands(int(l.Tokens)) + " tokens"
	}
	if l.MicroUSD > 0 {
		if text != "" {
			text += ", "
		}
		text += usd(float64(l.MicroUSD)/1e6) + " USD"
	}
	return text
}
