package manifest

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// The leaves of the YAML files: each reads itself, says what it expects and describes itself to the schema.

type (
	version       int
	text          string // not empty
	argument      string // may be empty
	duration      time.Duration
	size          int64
	pids          int64
	cpus          float64
	attempts      int
	history       string
	nameText      string
	checkName     string
	revision      string
	glob          string
	relative      string
	toolPath      string
	cacheName     string
	layerName     string
	agentName     string
	refName       string
	publishTo     string
	repositoryURL string
	approverCount int
	approve       string
	grantRule     string

	fileName       string
	parallel       int
	onBase         sallyport.CheckStatus // empty: anything
	newTestsOnBase sallyport.CheckStatus
	plantedFault   string
	minTests       int
	retries        int
	yes            bool
	reportFormat   string
)

// leaf reads text, applies a rule and stores it.
func leaf[T ~string](r *reader, n ast.Node, out *T, want string, rule func(string) string) error {
	s, ok := textOf(n)
	if !ok {
		return r.expected(n, want)
	}
	if w := rule(s); w != "" {
		return r.expected(n, w)
	}
	*out = T(s)
	return nil
}

// whole reads a plain decimal number.
func whole(n ast.Node, low, high int64) (int64, bool) {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(i.Token.Value, 10, 64)
	return v, err == nil && v >= low && v <= high && i.Token.Value == strconv.FormatInt(v, 10)
}

// numberLeaf reads a whole number within bounds.
func numberLeaf[T ~int](r *reader, n ast.Node, out *T, want string, low, high int64) error {
	i, ok := whole(n, low, high)
	if !ok {
		return r.expected(n, want)
	}
	*out = T(i)
	return nil
}

func oneOf[T ~string](r *reader, n ast.Node, out *T, names []string) error {
	return leaf(r, n, out, "one of "+listed(names), func(s string) string {
		return unless(!slices.Contains(names, s), "one of "+listed(names))
	})
}

func (v *version) want() string { return `the format's version: "version: 1"` }
func (v *version) read(r *reader, n ast.Node, _ string) error {
	if _, ok := whole(n, 1, 1); !ok {
		return invalid(r.where(n), "expected version 1, the only one this program knows, found "+foundOf(n), "")
	}
	*v = 1
	return nil
}

func (v *text) want() string { return "text" }
func (v *text) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, "text", textRule)
}

func (v *argument) want() string { return "text" }
func (v *argument) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, "text", argumentRule)
}

func (v *duration) want() string { return wantDuration }
func (v *duration) read(r *reader, n ast.Node, _ string) error {
	s, _ := textOf(n)
	d, ok := parseDuration(s)
	if !ok {
		return r.expected(n, wantDuration)
	}
	*v = duration(d)
	return nil
}

func (v *size) want() string { return wantSize }
func (v *size) read(r *reader, n ast.Node, _ string) error {
	s, _ := textOf(n)
	b, ok := parseSize(s)
	if !ok {
		return r.expected(n, wantSize)
	}
	*v = size(b)
	return nil
}

func (v *pids) want() string { return "a number of processes from 1 to 4194304" }
func (v *pids) read(r *reader, n ast.Node, _ string) error {
	i, ok := whole(n, 1, maxPIDs)
	if !ok {
		return r.expected(n, v.want())
	}
	*v = pids(i)
	return nil
}

func (v *cpus) want() string { return "a number of processors from 0.01 to 4096, such as 2 or 0.5" }
func (v *cpus) read(r *reader, n ast.Node, _ string) error {
	var f float64
	switch x := n.(type) {
	case *ast.IntegerNode:
		i, _ := whole(n, 1, maxCPUs)
		f = float64(i)
	case *ast.FloatNode:
		f = x.Value
	}
	if !cpuOK(f) {
		return r.expected(n, v.want())
	}
	*v = cpus(f)
	return nil
}

func cpuOK(f float64) bool { return !math.IsNaN(f) && f >= 0.01 && f <= maxCPUs }

func (v *attempts) want() string { return "a number of attempts from 1 to 20" }
func (v *attempts) read(r *reader, n ast.Node, _ string) error {
	return numberLeaf(r, n, v, v.want(), 1, maxAttempts)
}

func (v *history) want() string { return wantHistory }
func (v *history) read(r *reader, n ast.Node, _ string) error {
	s, ok := textOf(n)
	if i, isNumber := whole(n, 1, 1_000_000); isNumber {
		s, ok = strconv.FormatInt(i, 10), true
	}
	if !ok || historyRule(s) != "" {
		return r.expected(n, wantHistory)
	}
	*v = history(s)
	return nil
}

func (v *nameText) want() string { return wantName }
func (v *nameText) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, wantName, nameRule)
}

func (v *checkName) want() string { return wantCheck }
func (v *checkName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, wantCheck, checkNameRule)
}

func (v *revision) want() string { return wantRevision }
func (v *revision) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, wantRevision, revisionRule)
}

func (v *glob) want() string { return `a path pattern such as "docs/**" or "**/*.go"` }
func (v *glob) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), globRule)
}

func (v *relative) want() string { return "a folder below the repository such as web" }
func (v *relative) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), relativeRule)
}

func (v *toolPath) want() string { return "an absolute path or one below ~/" }
func (v *toolPath) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), toolRule)
}

func (v *cacheName) want() string                               { return "one of " + listed(KnownCaches()) }
func (v *cacheName) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, KnownCaches()) }

func (v *layerName) want() string                               { return "one of " + listed(layerNames()) }
func (v *layerName) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, layerNames()) }

func (v *agentName) want() string { return `the name of an agent such as claude-code` }
func (v *agentName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		return unless(checkNameRule(s) != "", v.want())
	})
}

func (v *refName) want() string {
	return `the name of a branch or ref such as main or refs/remotes/origin/main`
}
func (v *refName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		return unless(!isRef(s), v.want())
	})
}

// isRef admits what git-check-ref-format(1) takes, of the characters of refRule.
func isRef(s string) bool {
	if !refRule.MatchString(s) || strings.Contains(s, "..") || strings.HasSuffix(s, ".") {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// refRule is stricter than git: no character that means something to a shell or in a revision.
var refRule = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)

// The words of publish and grants, from the least to the most cautious or far-reaching; Compile compares
// by position.
var (
	publishWords = []string{"none", "branch", "pr"}
	approveWords = []string{"never", "on-finding", "always"}
	grantWords   = []string{"allow", "forbid"}
)

func (v *publishTo) want() string                               { return "one of " + listed(publishWords) }
func (v *publishTo) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, publishWords) }

func (v *approverCount) want() string { return fmt.Sprintf("a number from 1 to %d", maxApprovers) }
func (v *approverCount) read(r *reader, n ast.Node, _ string) error {
	return numberLeaf(r, n, v, v.want(), 1, maxApprovers)
}

// maxApprovers is more people than read one change.
const maxApprovers = 20

func (v *repositoryURL) want() string {
	return "the address of a repository such as https://forge.example/owner/name"
}
func (v *repositoryURL) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		u, err := url.Parse(s)
		return unless(err != nil || !addressForm.MatchString(s) || u.User != nil || u.RawQuery+u.Fragment != "", v.want())
	})
}

// addressForm is what url.Parse is asked about: no user, no white space, something after the scheme.
var addressForm = pattern.New(`^(https?|ssh|file)://[^@\s]{3,900}$`)

func (v *approve) want() string                               { return "one of " + listed(approveWords) }
func (v *approve) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, approveWords) }

func (v *grantRule) want() string                               { return "one of " + listed(grantWords) }
func (v *grantRule) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, grantWords) }
