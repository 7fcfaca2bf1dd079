package checks

import "strconv"

// count is what one closing line, or the sum of several, says.
type count struct {
	passed, failed, skipped int
	counted                 bool // it names a total, too
	total                   int  // passed, failed and skipped together
}

func (c count) tests() int { return c.passed + c.failed }

// within is c with at most n tests: of what exceeds it, passes go first.
func (c count) within(n int) count {
	n = max(n, 0)
	if over := c.tests() - n; over > 0 {
		pass := min(over, c.passed)
		c.passed, c.failed = c.passed-pass, c.failed-(over-pass)
	}
	return c
}

// held is c within the total that it names itself.
func (c count) held() count {
	if c.counted {
		return c.within(c.total - c.skipped)
	}
	return c
}

func (c count) plus(d count) count {
	return count{passed: c.passed + d.passed, failed: c.failed + d.failed, skipped: c.skipped + d.skipped}
}

func (c count) less(d count) bool {
	return c.tests() < d.tests() || c.tests() == d.tests() && c.passed < d.passed
}

// number reads a count of tests; more than a billion is nobody's.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1_000_000_000 {
		return 0
	}
	return n
}

// runs keeps what runners announced and what they closed with. A run begins with a header and ends with a
// closing line. Several closings of one run contradict each other, and the lowest counts; runs are summed.
// Once a header of the runner itself was seen, closings before the first one are nobody's.
type runs struct {
	sum       count
	low, last *count // of the present run: the lowest closing before the last, and the last
	limit     int    // what the present run announced
	limited   bool
	seen      bool // the runner spoke
	announced bool // by a header of its own
	idle      int  // of what the present run counts: files without a test
}

// start announces a run by a header of the runner.
func (r *runs) start() {
	if r.announced {
		r.next()
	}
	r.low, r.last, r.seen, r.announced, r.idle = nil, nil, true, true, 0
}

// next begins another run, as something else than the runner says.
func (r *runs) next() {
	r.sum = r.total()
	r.low, r.last, r.limited, r.idle = nil, nil, false, 0
}

// expect says how many tests the present run collected.
func (r *runs) expect(n int) {
	if !r.limited || n < r.limit {
		r.limit, r.limited = n, true
	}
}

// end closes the present run.
func (r *runs) end(c count) {
	r.fold()
	r.last, r.seen = &c, true
}

// amend completes the last closing, where it is spread over lines.
func (r *runs) amend(f func(c *count)) {
	if r.last != nil {
		f(r.last)
	}
}

func (r *runs) fold() {
	if r.last == nil {
		return
	}
	if c := r.last.held(); r.low == nil || c.less(*r.low) {
		r.low = &c
	}
	r.last = nil
}

// total is the sum with the present run as it stands.
func (r *runs) total() count {
	low := r.low
	if r.last != nil {
		if c := r.last.held(); low == nil || c.less(*low) {
			low = &c
		}
	}
	if low == nil {
		return r.sum
	}
	c := low.within(low.tests() - r.idle)
	if r.limited {
		c = c.within(r.limit)
	}
	return r.sum.plus(c)
}
