package checks

import "bytes"

// maxEdits bounds the search for a shortest edit; above it, lines are told apart by whether base has them.
const maxEdits = 1000

// splitLines cuts text into lines without their ends. Text that ends in a line feed has no line after it.
func splitLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	var out []string
	for l := range bytes.SplitSeq(text, []byte("\n")) {
		out = append(out, string(bytes.TrimSuffix(l, []byte("\r"))))
	}
	return out
}

// pairing of a's lines with equal ones of b: the index in the other side, or -1.
type pairing struct{ a, b []int }

// pair finds which lines stayed, by a shortest edit (Myers).
func pair(a, b []string) pairing {
	p := pairing{make([]int, len(a)), make([]int, len(b))}
	for i := range p.a {
		p.a[i] = -1
	}
	for i := range p.b {
		p.b[i] = -1
	}
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		p.join(head, head)
		head++
	}
	ea, eb := len(a), len(b)
	for ea > head && eb > head && a[ea-1] == b[eb-1] {
		ea, eb = ea-1, eb-1
		p.join(ea, eb)
	}
	if !p.shortest(a[head:ea], b[head:eb], head) {
		p.anywhere(a[head:ea], b[head:eb], head)
	}
	return p
}

func (p pairing) join(i, j int) { p.a[i], p.b[j] = j, i }

// shortest pairs along a shortest edit of at most maxEdits; false: there is none so short.
func (p pairing) shortest(a, b []string, off int) bool {
	most := min(len(a)+len(b), maxEdits)
	at := make([]int, 2*most+3) // the furthest reach in a, by diagonal
	zero := most + 1
	var trace [][]int
	for d := 0; d <= most; d++ {
		trace = append(trace, append([]int(nil), at[zero-d:zero+d+1]...))
		for k := -d; k <= d; k += 2 {
			x := at[zero+k-1] + 1
			if k == -d || k != d && at[zero+k-1] < at[zero+k+1] {
				x = at[zero+k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			at[zero+k] = x
			if x >= len(a) && x-k >= len(b) {
				p.back(a, b, off, trace)
				return true
			}
		}
	}
	return false
}

// back walks the way that shortest found, from its end. trace[d] is the reach before step d, by diagonal
// from -d to d.
func (p pairing) back(a, b []string, off int, trace [][]int) {
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		k, from := x-y, 0
		reach := func(k int) int {
			if k < -d || k > d {
				return 0
			}
			return trace[d][k+d]
		}
		if k == -d || k != d && reach(k-1) < reach(k+1) {
			from = k + 1
		} else {
			from = k - 1
		}
		px := reach(from)
		py := px - from
		for x > px && y > py && x > 0 && y > 0 && a[x-1] == b[y-1] {
			x, y = x-1, y-1
			p.join(off+x, off+y)
		}
		if d > 0 {
			x, y = px, py
		}
	}
}

// anywhere pairs equal lines in order, wherever they stand.
func (p pairing) anywhere(a, b []string, off int) {
	where := map[string][]int{}
	for i, l := range a {
		where[l] = append(where[l], i)
	}
	for j, l := range b {
		if w := where[l]; len(w) > 0 {
			p.join(off+w[0], off+j)
			where[l] = w[1:]
		}
	}
}

// fresh reports for each line of changed whether it is new or modified. A nil base: all are.
func fresh(base, changed []byte) []bool {
	b := splitLines(changed)
	out := make([]bool, len(b))
	p := pairing{b: make([]int, len(b))}
	if base != nil {
		p = pair(splitLines(base), b)
	}
	for i := range out {
		out[i] = base == nil || p.b[i] < 0
	}
	return out
}
