package sallyport

// What happens to the request that would go over a spend limit, and to its Attempt.
const (
	SpendEnd    = "end"    // the request is refused and the Attempt ends
	SpendRefuse = "refuse" // the request is refused; what costs less may still go through
)

// SpendLimit bounds what all Attempts of one WorkOrder may spend on model APIs together. A unit of 0 is not limited.
type SpendLimit struct {
	MicroUSD   int64  `json:"micro_usd,omitempty"` // millionths of a US dollar
	Tokens     int64  `json:"tokens,omitempty"`    // input (read from a cache or not) and output
	OnExceeded string `json:"on_exceeded"`         // SpendEnd or SpendRefuse
	// Prices is the operator's own price file, as it was when this was frozen; empty: the embedded table alone.
	Prices string `json:"prices,omitempty"`
}

// Spend is what an Attempt did spend, as far as the gateway saw it. What was reserved and never settled (a driver was ended
// in between) is in it in full.
type Spend struct {
	USD          float64 `json:"usd"`
	Tokens       int64   `json:"tokens"`
	Requests     int64   `json:"requests"`      // that left, or may have
	InputTokens  int64   `json:"input_tokens"`  // from a cache or not
	OutputTokens int64   `json:"output_tokens"` // with what the model thought
	Unsettled    int64   `json:"unsettled"`     // of the requests: counted at the most that they can have cost
}
