package sim

import "math/rand/v2"

// chooser makes every choice of a history and remembers it. Replaying, it takes the remembered ones; beyond their end, and
// once it is calm, it takes 0.
type chooser struct {
	rand   *rand.Rand // nil: replaying
	made   []byte
	next   int
	calmed bool
}

// pick is one of 0 to n-1; n is at most 256. 0 is the harmless one.
func (c *chooser) pick(n int) int {
	switch {
	case c.calmed || n < 2:
		return 0
	case c.rand != nil:
		v := c.rand.IntN(n)
		c.made = append(c.made, byte(v))
		return v
	case c.next < len(c.made):
		c.next++
		return int(c.made[c.next-1]) % n
	}
	return 0
}

// once says yes in one of n cases.
func (c *chooser) once(n int) bool { return c.pick(n) == n-1 }

// fresh begins a history from a seed.
func fresh(seed uint64) *chooser {
	return &chooser{rand: rand.New(rand.NewPCG(seed, 0x5a11))}
}
