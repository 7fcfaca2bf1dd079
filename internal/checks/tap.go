package checks

import (
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// tap reads the Test Anything Protocol, versions 12 to 14, and the closing line of prove. It counts the
// innermost points; above the plan it believes none.
type tap struct {
	runs
	inside   [tapDepth + 1]bool // a point was seen at this depth since the last one above it
	all      count
	points   int // at the outermost depth
	planned  int
	isTAP    bool // its version, or an empty plan, was seen
	diagnose bool // in a YAML block, where nothing is a point
}

const tapDepth = 16

func newTAP() reader { return &tap{} }

var (
	tapPoint = pattern.New(`^( *)(not )?ok(?: +\d+)?(?: (.*))?$`)
	tapPlan  = pattern.New(`^1\.\.(\d+)(?: *#.*)?$`)
	tapSkip  = pattern.New(`(?i)(?:^|[^\\])# *(skip|todo)`)
	prove    = pattern.New(`^Files=\d+, Tests=(\d+), `)
)

func (t *tap) line(s string) {
	bare := strings.TrimLeft(s, " ")
	switch {
	case strings.HasPrefix(s, "TAP version 1"):
		t.isTAP, t.diagnose = true, false
	case strings.HasPrefix(s, "1.."):
		if m := tapPlan.FindStringSubmatch(s); m != nil {
			t.planned += number(m[1])
			t.isTAP, t.diagnose = t.isTAP || m[1] == "0", false
		}
	case bare == "---":
		t.diagnose = true
	case bare == "...":
		t.diagnose = false
	case strings.HasPrefix(s, "Files="):
		if m := prove.FindStringSubmatch(s); m != nil {
			t.end(count{passed: number(m[1])})
		}
	case !t.diagnose && (strings.HasPrefix(bare, "ok") || strings.HasPrefix(bare, "not ok")):
		if nodeFile(s) {
			t.points++
		} else if m := tapPoint.FindStringSubmatch(s); m != nil && len(m[1])%4 == 0 && len(m[1])/4 < tapDepth {
			t.point(len(m[1])/4, m[2] == "", m[3])
		}
	}
}

// point counts a point unless it sums up deeper ones.
func (t *tap) point(depth int, ok bool, text string) {
	sums := t.inside[depth+1] || strings.HasSuffix(text, " {") // deeper ones came before, or follow
	for i := depth + 1; i <= tapDepth; i++ {
		t.inside[i] = false
	}
	t.inside[depth] = true
	if depth == 0 {
		t.points++
	}
	switch {
	case sums:
	case tapSkip.MatchString(text):
		t.all.skipped++
	case ok:
		t.all.passed++
	default:
		t.all.failed++
	}
}

func (t *tap) tally() (count, bool) {
	if !t.isTAP && (t.planned == 0 || t.points == 0) {
		return t.total(), t.seen
	}
	if over := t.points - t.planned; over > 0 {
		return t.all.within(t.all.tests() - over), true
	}
	return t.all, true
}
