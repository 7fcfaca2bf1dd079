package manifest

// DefaultParallel is one check at a time: checks that run beside each other share the machine, and a slow one
// can then fail for another's sake.
const DefaultParallel = 1

func (v *parallel) number() int {
	if v == nil {
		return 0
	}
	return int(*v)
}

// parallel is how many checks run at the same time: the repository's number, else the user's, lowered to the
// ceiling, to the processors, and to what the memory of this machine holds of limits.memory.
func (c *compiler) parallel(memory int64) int {
	n := DefaultParallel
	if u := c.in.User; u != nil && u.Parallel > 0 {
		n = u.Parallel
	}
	if rep := c.in.Repository; rep != nil && rep.Parallel > 0 {
		n = rep.Parallel
	}
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil && op.Parallel > 0 && n > op.Parallel {
			n = op.Parallel
			c.note("parallel is %d: the bound at %s", n, op.Places.at("parallel"))
		}
	}
	if cpus := c.in.Host.CPUs; cpus > 0 && n > cpus {
		n = cpus
		c.note("parallel is %d: this machine has no more processors", n)
	}
	if host := c.in.Host.Memory; host > 0 && memory > 0 && n > 1 && int64(n) > host/memory {
		n = max(1, int(host/memory))
		c.note("parallel is %d: this machine's memory holds no more of limits.memory", n)
	}
	return n
}
