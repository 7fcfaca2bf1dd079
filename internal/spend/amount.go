package spend

import (
	"math"
	"math/bits"
)

// Amount is what something costs, or may cost. The zero value is nothing.
type Amount struct {
	MicroUSD int64 // millionths of a US dollar
	Tokens   int64 // input (read from a cache or not) and output
}

// Add is the sum; it stays at the largest number rather than wrap.
func (a Amount) Add(b Amount) Amount {
	return Amount{MicroUSD: plus(a.MicroUSD, b.MicroUSD), Tokens: plus(a.Tokens, b.Tokens)}
}

// plus adds two numbers of 0 or more.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// cost is what so many tokens cost at a price in micro-dollars per million, rounded up.
func cost(tokens, price int64) int64 {
	if tokens <= 0 || price <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(price))
	if hi >= 1_000_000 {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, 1_000_000)
	if quotient >= math.MaxInt64 {
		return math.MaxInt64
	}
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}
