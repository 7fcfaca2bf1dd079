// Package pattern has regular expressions that are compiled when they are first used. Sallyport has some hundred of
// them and a run of it needs a few: compiling all cost each start of the program several milliseconds.
//
// Not for: expressions that are not known when the program is built.
package pattern

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

var inTest = strings.HasSuffix(os.Args[0], ".test")

// Pattern is a regular expression. Safe for concurrent use; the first use compiles it.
type Pattern func() *regexp.Regexp

// New is the Pattern of expr, of package regexp's syntax. A wrong one panics: in tests at once, so that none is found
// by a user, else when it is used.
func New(expr string) Pattern {
	p := Pattern(sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) }))
	if inTest {
		p()
	}
	return p
}

// MatchString is regexp.Regexp's.
func (p Pattern) MatchString(s string) bool { return p().MatchString(s) }

// FindStringSubmatch is regexp.Regexp's.
func (p Pattern) FindStringSubmatch(s string) []string { return p().FindStringSubmatch(s) }

// FindAllStringSubmatch is regexp.Regexp's.
func (p Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p().FindAllStringSubmatch(s, n)
}

// String is the expression.
func (p Pattern) String() string { return p().String() }
