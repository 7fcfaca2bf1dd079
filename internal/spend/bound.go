package spend

// overhead is for what an API adds to a prompt by itself: instructions on tools are documented with up to about 700 tokens.
const overhead = 4096

// Reserved is what one request can cost at most, and what its answer is priced by.
type Reserved struct {
	API    string
	Model  string
	Input  int64 // tokens, at most
	Output int64 // tokens, at most
	Amount Amount

	row                     Model
	inputPrice, outputPrice int64 // that Amount is made of
	hidden                  bool  // it may think where nobody sees it
}

// Bound reads the whole body of a priced call. Without an error the request costs at most Amount, and the very bytes of body
// are to be sent: another writing of the same JSON may mean something else.
func (b Book) Bound(api string, body []byte) (Reserved, *Refusal) {
	read := dialects[api]
	if read == nil {
		return Reserved{}, refuse(ReasonCall, "no price is known for this call of the API")
	}
	w, no := begin(body)
	if no != nil {
		return Reserved{}, no
	}
	if no := read.request(w); no != nil {
		return Reserved{}, no
	}
	if w.tired() {
		return Reserved{}, refuse(ReasonBody, "the body's blocks are nested too often")
	}
	if w.model == "" {
		return Reserved{}, refuse(ReasonModel, "expected the request to name its model")
	}
	m, ok := b.Model(w.model)
	if !ok {
		return Reserved{}, refuse(ReasonModel, "no price is known for the model %s; add it to prices.yaml in the operator's configuration", shown(w.model))
	}
	r := Reserved{API: api, Model: w.model, row: m, hidden: m.Hidden == "true" || m.Hidden == "asked" && w.thinking}
	if r.Output, no = output(w.facts, m); no != nil {
		return Reserved{}, no
	}
	if w.images > 0 && m.Image == 0 {
		return Reserved{}, refuse(ReasonMedia, "nothing says what an image costs with the model %s", shown(w.model))
	}
	r.Input = weigh(body) - w.imageData + w.images*m.Image + overhead
	if m.Context > 0 {
		r.Input = min(r.Input, m.Context) // what is longer the API refuses
	}
	if r.Input > maxTokens {
		return Reserved{}, refuse(ReasonBody, "the body is too long to be bounded")
	}
	r.inputPrice, r.outputPrice = dearest(m.Price, w.cache), m.Output
	if m.Long != nil && r.Input > m.LongAbove {
		r.inputPrice, r.outputPrice = max(r.inputPrice, dearest(*m.Long, w.cache)), max(r.outputPrice, m.Long.Output)
	}
	r.Amount = Amount{MicroUSD: plus(cost(r.Input, r.inputPrice), cost(r.Output, r.outputPrice)), Tokens: r.Input + r.Output}
	return r, nil
}

// output is the greatest of the maxima that the body names, else the model's.
func output(f facts, m Model) (int64, *Refusal) {
	most := int64(-1)
	for _, n := range f.output {
		if n > maxTokens {
			return 0, refuse(ReasonOutput, "the answer's maximum is too large to be bounded")
		}
		most = max(most, n)
	}
	switch {
	case most >= 0:
		return most, nil
	case m.MaxOutput > 0:
		return m.MaxOutput, nil
	}
	return 0, refuse(ReasonOutput, "expected a maximum for the answer's length (max_tokens or its like): none is known for the model")
}

// dearest is the most that a token of the prompt can cost, given which caches the body asks for.
func dearest(p Price, c cacheUse) int64 {
	price := max(p.Input, p.CacheRead)
	if c >= cacheShort {
		price = max(price, p.CacheWrite)
	}
	if c >= cacheHour {
		price = max(price, p.CacheWrite1h)
	}
	return price
}
