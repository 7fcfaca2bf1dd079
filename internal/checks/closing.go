package checks

import (
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// A closing form is read by one function that is given each line and the runs so far.
type closing func(s string, r *runs)

type closingReader struct {
	runs
	read closing
}

func closings(read closing) func() reader {
	return func() reader { return &closingReader{read: read} }
}

func (c *closingReader) line(s string)        { c.read(s, &c.runs) }
func (c *closingReader) tally() (count, bool) { return c.total(), c.seen }

// worded matches "3 passed" and the like.
var worded = pattern.New(`(\d+) ([a-z]+)`)

// words sums the numbers of a list such as "1 failed, 2 passed" by their words; others are left out.
func words(list string, passed, failed, skipped string) count {
	var c count
	for _, m := range worded.FindAllStringSubmatch(list, -1) {
		n := number(m[1])
		switch {
		case oneOf(m[2], passed):
			c.passed += n
		case oneOf(m[2], failed):
			c.failed += n
		case oneOf(m[2], skipped):
			c.skipped += n
		}
	}
	return c
}

func oneOf(word, list string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

var (
	pytestCollected = pattern.New(`^collected (\d+) items?\b(?:.* (\d+) selected)?`)
	pytestClosing   = pattern.New(`^=*\s*((?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in [0-9.]+s?(?: seconds)?(?: \([0-9:]+\))?\s*=*$`)
)

func pytest(s string, r *runs) {
	switch {
	case strings.Contains(s, " test session starts "):
		r.start()
	case strings.HasPrefix(s, "collected "):
		if m := pytestCollected.FindStringSubmatch(s); m != nil {
			n := number(m[1])
			if m[2] != "" {
				n = number(m[2])
			}
			r.expect(n)
		}
	case strings.Contains(s, " in "):
		if m := pytestClosing.FindStringSubmatch(s); m != nil {
			r.end(words(m[1], "passed xfailed xpassed", "failed error errors", "skipped"))
		}
	}
}

var (
	unittestRan    = pattern.New(`^Ran (\d+) tests? in [0-9.]+s$`)
	unittestStatus = pattern.New(`^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)
	unittestCount  = pattern.New(`([a-z ]+)=(\d+)`)
)

// unittest reads Python's own.
func unittest(s string, r *runs) {
	if strings.HasPrefix(s, "Ran ") {
		if m := unittestRan.FindStringSubmatch(s); m != nil {
			r.end(count{passed: number(m[1])})
		}
	} else if r.last == nil {
		return
	} else if m := unittestStatus.FindStringSubmatch(s); m != nil {
		r.amend(func(c *count) {
			for _, n := range unittestCount.FindAllStringSubmatch(m[2], -1) {
				switch k := min(number(n[2]), c.passed); strings.TrimSpace(n[1]) {
				case "failures", "errors", "unexpected successes":
					c.passed, c.failed = c.passed-k, c.failed+k
				case "skipped":
					c.passed, c.skipped = c.passed-k, c.skipped+k
				}
			}
		})
	}
}

var nodeClosing = pattern.New(`^(?:ℹ|#) (tests|pass|fail|cancelled|skipped|todo) +(\d+)$`)

// node reads the closing lines of node:test in its spec and TAP form, and those of tape.
func node(s string, r *runs) {
	if npmScript(s) {
		r.next()
		return
	}
	if nodeFile(s) {
		r.idle++
	}
	if !strings.HasPrefix(s, "ℹ ") && !strings.HasPrefix(s, "# ") {
		return
	}
	m := nodeClosing.FindStringSubmatch(s)
	if m == nil {
		return
	}
	n := number(m[2])
	switch m[1] {
	case "tests":
		r.end(count{total: n, counted: true})
	case "pass":
		r.amend(func(c *count) { c.passed = n })
	case "fail", "cancelled":
		r.amend(func(c *count) { c.failed += n })
	default:
		r.amend(func(c *count) { c.skipped += n })
	}
}

var nodeIdle = pattern.New(`^(?:✔|✖|(?:not )?ok \d+ -) /\S.*\.[cm]?[jt]sx?(?: \([0-9.]+ms\))?(?: #.*)?$`)

// nodeFile reports whether a line is the point that node:test counts for a file in which no test ran: one that
// left at once, for example.
func nodeFile(s string) bool { return strings.Contains(s, " /") && nodeIdle.MatchString(s) }

var npmLine = pattern.New(`^> (?:@[\w.-]+/)?[\w.-]+@\S+ \S+`)

// npmScript reports whether npm or pnpm says here that it starts a package's script.
func npmScript(s string) bool { return strings.HasPrefix(s, "> ") && npmLine.MatchString(s) }

var jestClosing = pattern.New(`^Tests: +((?:\d+ [a-z]+, )*)(\d+) total$`)

func jest(s string, r *runs) {
	switch {
	case npmScript(s):
		r.next()
	case strings.HasPrefix(s, "No tests found, exiting with code "):
		r.end(count{})
	case strings.HasPrefix(s, "Tests:"):
		if m := jestClosing.FindStringSubmatch(s); m != nil {
			c := words(m[1], "passed", "failed", "skipped todo")
			c.total, c.counted = number(m[2]), true
			r.end(c)
		}
	}
}

var (
	vitestStart   = pattern.New(`^ *(?:RUN|DEV) +v\d+\.\S+`)
	vitestClosing = pattern.New(`^ +Tests +(?:(.*) \((\d+)\)|no tests)$`)
)

func vitest(s string, r *runs) {
	switch {
	case strings.Contains(s, "RUN ") || strings.Contains(s, "DEV "):
		if vitestStart.MatchString(s) {
			r.start()
		}
	case strings.HasPrefix(s, "No test files found"):
		r.end(count{})
	case strings.Contains(s, " Tests "):
		if m := vitestClosing.FindStringSubmatch(s); m != nil {
			c := words(m[1], "passed", "failed", "skipped todo")
			c.total, c.counted = number(m[2]), true
			r.end(c)
		}
	}
}

var mochaClosing = pattern.New(`^ +(\d+) (passing|failing|pending)(?: \(.*\))?$`)

func mocha(s string, r *runs) {
	if npmScript(s) {
		r.next()
		return
	}
	if !strings.HasPrefix(s, "  ") || !strings.Contains(s, "ing") {
		return
	}
	m := mochaClosing.FindStringSubmatch(s)
	if m == nil {
		return
	}
	switch n := number(m[1]); m[2] {
	case "passing":
		r.end(count{passed: n})
	case "failing":
		r.amend(func(c *count) { c.failed = n })
	default:
		r.amend(func(c *count) { c.skipped = n })
	}
}

var (
	cargoStart   = pattern.New(`^running (\d+) tests?$`)
	cargoClosing = pattern.New(`^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; `)
	nextestStart = pattern.New(`^ +Starting (\d+) tests? across `)
	nextestEnd   = pattern.New(`^ +Summary \[ *[0-9.]+s\] (\d+)(?:/\d+)? tests? run: (.*)$`)
)

// cargo reads `cargo test`, a run per test binary, and nextest. Neither closes what it has not announced.
func cargo(s string, r *runs) {
	var m []string
	switch {
	case strings.HasPrefix(s, "running "):
		m = cargoStart.FindStringSubmatch(s)
	case strings.Contains(s, " Starting "):
		m = nextestStart.FindStringSubmatch(s)
	}
	if m != nil {
		r.start()
		r.expect(number(m[1]))
		return
	}
	if !r.announced || !strings.Contains(s, "test") {
		return
	}
	if m := cargoClosing.FindStringSubmatch(s); m != nil {
		r.end(count{passed: number(m[1]), failed: number(m[2]), skipped: number(m[3])})
	} else if m := nextestEnd.FindStringSubmatch(s); m != nil {
		c := words(m[2], "passed", "failed", "skipped")
		c.total, c.counted = number(m[1])+c.skipped, true
		r.end(c)
	}
}
