package checks

import (
	"encoding/json"
	"hash/fnv"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// maxNames bounds how many tests are told apart; further ones are not counted.
const maxNames = 1 << 20

// outcome is how far one test came. A later one never takes back a failure.
type outcome uint8

const (
	running outcome = iota + 1
	skipped
	passed
	failed
)

// names are the tests of a run by a hash of their name: one that collides is not counted.
type names map[uint64]outcome

func nameOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

func (n names) begin(id uint64) {
	if n[id] == 0 && len(n) < maxNames {
		n[id] = running
	}
}

// finish believes only in the end of what has begun.
func (n names) finish(id uint64, o outcome) {
	if was := n[id]; was != 0 && o > was {
		n[id] = o
	}
}

func (n names) count() count {
	var c count
	for _, o := range n {
		switch o {
		case passed:
			c.passed++
		case failed:
			c.failed++
		case skipped:
			c.skipped++
		}
	}
	return c
}

// goJSON reads `go test -json`. Subtests are tests.
type goJSON struct {
	names names
	seen  bool
}

func newGoJSON() reader { return &goJSON{names: names{}} }

var goActions = map[string]outcome{"run": running, "pass": passed, "fail": failed, "skip": skipped}

func (g *goJSON) line(s string) {
	if !strings.HasPrefix(s, `{`) || !strings.Contains(s, `"Action":"`) {
		return
	}
	// In an event's own text quotes are escaped, so this is no text.
	if strings.Contains(s, `"Action":"output"`) {
		g.seen = true
		return
	}
	var e struct{ Action, Package, Test, ImportPath string }
	if json.Unmarshal([]byte(s), &e) != nil || e.Action == "" || e.Package+e.ImportPath == "" {
		return
	}
	g.seen = true
	o := goActions[e.Action]
	if e.Test == "" || o == 0 {
		return
	}
	id := nameOf(e.Package, e.Test)
	if o == running {
		g.names.begin(id)
	} else {
		g.names.finish(id, o)
	}
}

func (g *goJSON) tally() (count, bool) { return g.names.count(), g.seen }

// goText reads `go test`. With -v it counts tests and subtests; without, a package whose tests ran counts as
// one, since nothing more is known. Where one package tells its tests, a package that tells none has none: its
// TestMain left at once.
type goText struct {
	told    count // by packages that name their tests
	quiet   count // packages that do not
	names   names // of the present package
	verbose bool  // the present package names its tests
	chatty  bool  // some package did
	seen    bool
}

func newGo() reader { return &goText{names: names{}} }

var (
	goRun     = pattern.New(`^=== RUN   (\S+)$`)
	goEnd     = pattern.New(`^(?: {4})*--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$`)
	goPackage = pattern.New(`^(ok  |FAIL|\?   |)\t(\S+)(\s+(?:\(cached\)|[0-9.]+s))?(.*)$`)
)

func (g *goText) line(s string) {
	switch {
	case strings.HasPrefix(s, "=== RUN "):
		if m := goRun.FindStringSubmatch(s); m != nil {
			g.names.begin(nameOf(m[1]))
			g.verbose, g.chatty, g.seen = true, true, true
		}
	case strings.Contains(s, "--- "):
		if m := goEnd.FindStringSubmatch(s); m != nil {
			g.names.finish(nameOf(m[2]), map[string]outcome{"PASS": passed, "FAIL": failed, "SKIP": skipped}[m[1]])
		}
	case strings.HasPrefix(s, "ok  \t"), strings.HasPrefix(s, "FAIL\t"), strings.HasPrefix(s, "?   \t"):
		if m := goPackage.FindStringSubmatch(s); m != nil {
			g.end(m)
		}
	}
}

func (g *goText) end(m []string) {
	g.seen = true
	ran := m[3] != "" && !strings.Contains(m[4], "[no tests to run]") && !strings.Contains(m[4], "[no test files]")
	switch {
	case !ran:
	case g.verbose:
		g.told = g.told.plus(g.names.count())
	case m[1] == "FAIL":
		g.quiet.failed++
	default:
		g.quiet.passed++
	}
	clear(g.names)
	g.verbose = false
}

// tally includes a package that has no closing line: a test binary that was started by itself.
func (g *goText) tally() (count, bool) {
	c := g.told.plus(g.names.count())
	if !g.chatty {
		c = c.plus(g.quiet)
	}
	return c, g.seen
}
