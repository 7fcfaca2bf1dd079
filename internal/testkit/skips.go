package testkit

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

var skipLine = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+)`)

// Skips looks at what a test binary has printed (-test.v) that a test has run again, elsewhere or as somebody else.
// byNature are the tests that cannot run there; each other that was skipped is told, and with CI=true fails t: a skip
// in there must not hide from whoever counts the skips out here.
func Skips(t testing.TB, output string, byNature ...string) {
	t.Helper()
	for _, m := range skipLine.FindAllStringSubmatch(output, -1) {
		switch name := m[1]; {
		case slices.Contains(byNature, name):
			t.Logf("not to be run here: %s", name)
		case os.Getenv("CI") == "true":
			t.Errorf("skipped, and it should run here: %s", name)
		default:
			t.Logf("skipped: %s", name)
		}
	}
}
