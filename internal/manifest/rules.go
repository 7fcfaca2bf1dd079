package manifest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// The rules for single values, used by the YAML reader and, for what came from flags, by Compile. Each
// returns what was expected, in words; "" means the value is good.

// Bounds. Numbers travel through canonical JSON, whose numbers are exact only up to 2^53.
const (
	maxDuration  = 720 * time.Hour
	maxSize      = int64(1) << 50
	minSize      = int64(1) << 20
	maxPIDs      = 4_194_304 // the kernel's PID_MAX_LIMIT
	maxCPUs      = 4096
	maxAttempts  = 20
	maxText      = 64 << 10 // one argument of execve holds 128 KiB
	maxGlob      = 512
	maxGlobBrace = 4
	maxName      = 64
)

// KnownCaches are the names that `caches:` takes.
func KnownCaches() []string {
	return []string{"go", "npm", "pnpm", "pip", "uv", "cargo", "maven", "gradle"}
}

const (
	wantDuration = `a duration such as "45m" or "2h", from 1s to 720h`
	wantSize     = `a size such as 8GiB or 256MiB, from 1MiB to 1024TiB`
	wantName     = "a name of at most 64 letters, digits, dots, dashes and underscores that begins with a letter or digit, has no two dots in a row and does not end in a dot or .lock"
	wantCheck    = "a name of at most 64 lower-case letters, digits and dashes that begins with a letter or digit"
	wantHistory  = `a number of commits from 1 to 1000000, or "full"`
	wantRevision = "a revision such as main, v1.2 or a commit id"
)

var (
	durationForm = pattern.New(`^([0-9]+(\.[0-9]+)?(h|m|s))+$`)
	sizeForm     = pattern.New(`^([1-9][0-9]{0,15})(MiB|GiB|TiB)$`)
	nameForm     = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	checkForm    = pattern.New(`^[a-z0-9][a-z0-9-]*$`)
	envForm      = pattern.New(`^[A-Z_][A-Z0-9_]*$`)
	historyForm  = pattern.New(`^[1-9][0-9]{0,6}$`)
)

func parseDuration(s string) (time.Duration, bool) {
	if !durationForm.MatchString(s) {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= time.Second && d <= maxDuration
}

func parseSize(s string) (int64, bool) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := map[string]uint{"MiB": 20, "GiB": 30, "TiB": 40}[m[2]]
	if err != nil || n > maxSize>>shift {
		return 0, false
	}
	return n << shift, true
}

func formatSize(n int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func formatDuration(d time.Duration) string {
	s := d.String()
	s = strings.TrimSuffix(s, "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// nameRule admits what is at once one component of a git ref (git-check-ref-format) and a file name.
func nameRule(s string) string {
	bad := len(s) > maxName || !nameForm.MatchString(s) || strings.Contains(s, "..") ||
		strings.HasSuffix(s, ".") || strings.HasSuffix(strings.ToLower(s), ".lock")
	return unless(bad, wantName)
}

func checkNameRule(s string) string {
	return unless(len(s) > maxName || !checkForm.MatchString(s), wantCheck)
}

func historyRule(s string) string {
	n, err := strconv.Atoi(s)
	return unless(s != "full" && (!historyForm.MatchString(s) || err != nil || n > 1_000_000), wantHistory)
}

func revisionRule(s string) string {
	bad := s == "" || len(s) > 255 || s[0] == '-' || strings.ContainsAny(s, " \t\r\n\x00") || !printable(s)
	return unless(bad, wantRevision)
}

func textRule(s string) string {
	if s == "" || strings.TrimSpace(s) == "" {
		return "text that is not empty"
	}
	return argumentRule(s)
}

// argumentRule admits what can be one argument or one environment value of a process.
func argumentRule(s string) string {
	return unless(len(s) > maxText || strings.ContainsRune(s, 0) || !utf8.ValidString(s), "text of at most 64 KiB without NUL")
}

// globRule admits doublestar patterns on slash-separated paths, relative to the repository. What another
// tool would read differently ("!", "\", a leading or closing slash, "a**") is refused, not guessed.
func globRule(s string) string {
	switch {
	case s == "":
		return `a path pattern such as "docs/**" or "**/*.go"`
	case len(s) > maxGlob || !printable(s):
		return "a path pattern of at most 512 printable characters"
	case strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~"):
		return "a path pattern relative to the repository, without a leading / or ~"
	case strings.HasSuffix(s, "/"):
		return `a path pattern that names files: a folder and all below it is "folder/**"`
	case strings.HasPrefix(s, "!"):
		return `a path pattern without "!": what is excluded stands in a list of its own`
	case strings.Contains(s, `\`):
		return `a path pattern with "/" between folders and without "\"`
	case strings.Count(s, "{") > maxGlobBrace:
		return "a path pattern with at most 4 groups in braces"
	case !doublestar.ValidatePattern(s):
		return "a valid path pattern: a bracket or brace is not closed"
	}
	for seg := range strings.SplitSeq(s, "/") {
		switch {
		case seg == "" || seg == "." || seg == "..":
			return `a path pattern without empty, "." or ".." parts`
		case strings.Contains(seg, "**") && seg != "**" && !strings.ContainsAny(seg, "{}"):
			return `a path pattern where "**" stands alone between slashes`
		}
	}
	return ""
}

// relativeRule admits a clean path below the repository's root.
func relativeRule(s string) string {
	return below(s, "folder", `a folder below the repository such as web or web/node_modules, without ".." and without a leading or closing slash`)
}

// below admits a clean path below the repository's root and outside of any .git; want is the complaint about
// its form, kind is what the path names.
func below(s, kind, want string) string {
	bad := s == "" || len(s) > 1024 || path.IsAbs(s) || path.Clean(s) != s || s == "." || s == ".." ||
		strings.HasPrefix(s, "../") || strings.HasPrefix(s, "~") || strings.Contains(s, `\`) || !printable(s)
	if bad {
		return want
	}
	for seg := range strings.SplitSeq(s, "/") {
		if strings.EqualFold(seg, ".git") {
			return "a " + kind + " outside .git"
		}
	}
	return ""
}

// toolRule admits a host path that may be shown to a sandbox. Roots so wide that they would show
// everything, and the kernel's own file systems, are refused whoever asks.
func toolRule(s string) string {
	rest, home := strings.CutPrefix(s, "~/")
	abs := s
	if home {
		abs = "/home/user/" + rest
	}
	if !path.IsAbs(abs) || path.Clean(abs) != abs || len(s) > 1024 || !printable(s) || (home && rest == "") {
		return "an absolute path or one below ~/, without .. and without a closing slash"
	}
	if slices.Contains([]string{"/", "/home", "/root", "/mnt", "/media", "/var", "/etc"}, abs) || path.Dir(abs) == "/home" {
		return "a smaller path: " + s + " would show nearly everything"
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev", "/run"} {
		if abs == kernel || strings.HasPrefix(abs, kernel+"/") {
			return "a path outside /proc, /sys, /dev and /run"
		}
	}
	return ""
}

// envNameRule admits variables that cannot turn a trusted tool into something else.
func envNameRule(s string) string {
	switch {
	case len(s) > 128 || !envForm.MatchString(s):
		return "a variable name of capital letters, digits and underscores"
	case s == "PATH" || s == "HOME":
		return "another variable: " + s + " is set by Sallyport"
	case strings.HasPrefix(s, "LD_"), strings.HasPrefix(s, "GIT_"), strings.HasPrefix(s, "SALLYPORT_"):
		return "another variable: names that begin with " + s[:strings.Index(s, "_")+1] + " are refused"
	}
	return ""
}

func layerRule(s string) string {
	return unless(!slices.Contains(sallyport.Layers(), sallyport.Layer(s)), "one of "+listed(layerNames()))
}

func layerNames() []string {
	var names []string
	for _, l := range sallyport.Layers() {
		names = append(names, string(l))
	}
	return names
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) })
}

func unless(bad bool, want string) string {
	if bad {
		return want
	}
	return ""
}
