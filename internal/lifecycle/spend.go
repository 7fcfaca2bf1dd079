package lifecycle

import (
	"maps"
	"math"

	"sallyport.dev/sallyport"
)

// UnsentRequest is the Settled.How of a request that did not leave, and is not counted as one.
const UnsentRequest = "unsent"

// Spend is what an Attempt's requests to model APIs cost.
type Spend struct {
	Requests     int64 `json:"requests"`
	InputTokens  int64 `json:"input_tokens"` // settled, like the next two
	OutputTokens int64 `json:"output_tokens"`
	MicroUSD     int64 `json:"micro_usd"`
	// Open are the reservations that nobody has settled: under way, or of a driver that was ended.
	Open map[string]Reserved `json:"open,omitempty"`
}

// All is what counts against a limit: what was settled, and all of what was not. A nil Spend is nothing.
func (s *Spend) All() (input, output, microUSD int64) {
	if s == nil {
		return 0, 0, 0
	}
	input, output, microUSD = s.InputTokens, s.OutputTokens, s.MicroUSD
	for _, r := range s.Open {
		input, output, microUSD = add(input, r.InputTokens), add(output, r.OutputTokens), add(microUSD, r.MicroUSD)
	}
	return input, output, microUSD
}

// add stays at the greatest number rather than wrap.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func reserved(s *State, e Event, p Reserved) error {
	switch {
	case p.ID == "" || len(p.ID) > 64:
		return invalid(e.Type, "expected an id of at most 64 bytes")
	case min(p.InputTokens, p.OutputTokens, p.MicroUSD) < 0:
		return invalid(e.Type, "expected numbers of 0 or more")
	}
	now := s.spend()
	if _, twice := now.Open[p.ID]; twice {
		return conflict(string(e.Type), "not allowed: "+p.ID+" is reserved already", "reserve under an id of its own")
	}
	now.Open[p.ID] = p
	now.Requests++
	s.spent(now)
	return nil
}

func settled(s *State, e Event, p Settled) error {
	switch {
	case p.How == "":
		return invalid(e.Type, "expected what the settlement rests on")
	case min(p.InputTokens, p.OutputTokens, p.MicroUSD) < 0:
		return invalid(e.Type, "expected numbers of 0 or more")
	}
	now := s.spend()
	if _, open := now.Open[p.ID]; !open {
		return conflict(string(e.Type), "not allowed: nothing is reserved under this id", "append attempt.reserved first, and settle once")
	}
	delete(now.Open, p.ID)
	if p.How == UnsentRequest {
		now.Requests--
	}
	now.InputTokens, now.OutputTokens, now.MicroUSD = add(now.InputTokens, p.InputTokens), add(now.OutputTokens, p.OutputTokens), add(now.MicroUSD, p.MicroUSD)
	s.spent(now)
	return nil
}

// spend is a copy to change.
func (s *State) spend() Spend {
	var now Spend
	if s.Spend != nil {
		now = *s.Spend
	}
	now.Open = maps.Clone(now.Open)
	if now.Open == nil {
		now.Open = map[string]Reserved{}
	}
	return now
}

func (s *State) spent(now Spend) {
	s.Spend = &now
	input, output, microUSD := now.All()
	s.Report.Spend = &sallyport.Spend{USD: float64(microUSD) / 1e6, Tokens: add(input, output), Requests: now.Requests, InputTokens: input, OutputTokens: output, Unsettled: int64(len(now.Open))}
	s.voidEvidence()
}
