package checks

import (
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

var rspecClosing = pattern.New(`^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? occurred outside of examples)?$`)

func rspec(s string, r *runs) {
	if !strings.Contains(s, " example") {
		return
	}
	if m := rspecClosing.FindStringSubmatch(s); m != nil {
		n, bad, pending := number(m[1]), number(m[2]), number(m[3])
		r.end(count{passed: max(n-bad-pending, 0), failed: bad, skipped: pending, total: n, counted: true})
	}
}

var minitestClosing = pattern.New(`^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors, (\d+) (?:skips|pendings)`)

// minitest reads Ruby's, and test-unit.
func minitest(s string, r *runs) {
	if !strings.Contains(s, " assertions, ") {
		return
	}
	if m := minitestClosing.FindStringSubmatch(s); m != nil {
		n, bad, skips := number(m[1]), number(m[2])+number(m[3]), number(m[4])
		r.end(count{passed: max(n-bad-skips, 0), failed: bad, skipped: skips, total: n, counted: true})
	}
}

var (
	phpunitOK     = pattern.New(`^OK \((\d+) tests?, \d+ assertions?\)$`)
	phpunitCounts = pattern.New(`^Tests: (\d+), Assertions: \d+(.*)\.$`)
	phpunitCount  = pattern.New(`, ([A-Z][A-Za-z ]*): (\d+)`)
	phpunitStart  = pattern.New(`^PHPUnit \d+\.\S+ by `)
)

func phpunit(s string, r *runs) {
	switch {
	case strings.HasPrefix(s, "PHPUnit ") && phpunitStart.MatchString(s):
		r.start()
	case strings.HasPrefix(s, "No tests executed!"):
		r.end(count{})
	case strings.HasPrefix(s, "OK ("):
		if m := phpunitOK.FindStringSubmatch(s); m != nil {
			r.end(count{passed: number(m[1])})
		}
	case strings.HasPrefix(s, "Tests: "):
		if m := phpunitCounts.FindStringSubmatch(s); m != nil {
			r.end(phpunitEnd(number(m[1]), m[2]))
		}
	}
}

func phpunitEnd(total int, rest string) count {
	c := count{total: total, counted: true}
	for _, n := range phpunitCount.FindAllStringSubmatch(rest, -1) {
		switch n[1] {
		case "Failures", "Errors":
			c.failed += number(n[2])
		case "Skipped", "Incomplete":
			c.skipped += number(n[2])
		}
	}
	c.passed = max(total-c.failed-c.skipped, 0)
	return c
}

var mavenClosing = pattern.New(`^(?:\[[A-Z]+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`)

// maven reads the closing lines of surefire and failsafe, one per module; those of a class tell its time too.
func maven(s string, r *runs) {
	if strings.HasSuffix(s, "T E S T S") {
		r.start()
		return
	}
	if !strings.Contains(s, "Tests run: ") {
		return
	}
	if m := mavenClosing.FindStringSubmatch(s); m != nil {
		n, bad, skips := number(m[1]), number(m[2])+number(m[3]), number(m[4])
		r.end(count{passed: max(n-bad-skips, 0), failed: bad, skipped: skips, total: n, counted: true})
	}
}

var gradleClosing = pattern.New(`^(\d+) tests? completed(?:, (\d+) failed)?(?:, (\d+) skipped)?$`)

// gradle reads the line that it prints where a test failed; of a pass it says nothing.
func gradle(s string, r *runs) {
	if strings.HasPrefix(s, "> Task :") {
		r.next()
	} else if !strings.Contains(s, " completed") {
		return
	} else if m := gradleClosing.FindStringSubmatch(s); m != nil {
		n, bad, skips := number(m[1]), number(m[2]), number(m[3])
		r.end(count{passed: max(n-bad-skips, 0), failed: bad, skipped: skips, total: n, counted: true})
	}
}

var dotnetClosing = pattern.New(`^(?:Passed|Failed|Skipped)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+), Total: +(\d+)`)

func dotnet(s string, r *runs) {
	if strings.HasPrefix(s, "Starting test execution") {
		r.next()
	} else if !strings.Contains(s, "! ") {
		return
	} else if m := dotnetClosing.FindStringSubmatch(s); m != nil {
		r.end(count{passed: number(m[2]), failed: number(m[1]), skipped: number(m[3]), total: number(m[4]), counted: true})
	}
}

var ctestClosing = pattern.New(`^\d+% tests passed, (\d+) tests? failed out of (\d+)$`)

func ctest(s string, r *runs) {
	if strings.HasPrefix(s, "No tests were found!!!") {
		r.end(count{})
	} else if !strings.Contains(s, "% tests passed, ") {
		return
	} else if m := ctestClosing.FindStringSubmatch(s); m != nil {
		bad, n := number(m[1]), number(m[2])
		r.end(count{passed: max(n-bad, 0), failed: bad, total: n, counted: true})
	}
}

var exunitClosing = pattern.New(`^(?:\d+ doctests?, )?(?:\d+ propert(?:y|ies), )?(\d+) tests?, (\d+) failures?(.*)$`)

func exunit(s string, r *runs) {
	if strings.HasPrefix(s, "There are no tests to run") {
		r.end(count{})
	} else if !strings.Contains(s, " failure") {
		return
	} else if m := exunitClosing.FindStringSubmatch(s); m != nil {
		n, bad, out := number(m[1]), number(m[2]), words(m[3], "", "", "skipped excluded").skipped
		r.end(count{passed: max(n-bad-out, 0), failed: bad, skipped: out, total: n, counted: true})
	}
}
