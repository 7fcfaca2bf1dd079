package manifest

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRule is one line of a .gitignore, as far as folders are concerned. Detection only proposes, so a
// reader of the common forms is enough and no git is started; what a run really gets is asked of git later.
type ignoreRule struct {
	pattern string // doublestar, relative to the root
	again   bool   // "!": not ignored after all
}

func readIgnore(dir, text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		again := strings.HasPrefix(line, "!")
		line = strings.TrimPrefix(line, "!")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		pattern := strings.TrimPrefix(line, "/")
		if !anchored {
			pattern = "**/" + pattern
		}
		if pattern = path.Join(escapeGlob(dir), pattern); doublestar.ValidatePattern(pattern) {
			rules = append(rules, ignoreRule{pattern, again})
		}
	}
	return rules
}

// ignored goes down to name folder by folder, as git does: in each, the last rule that matches decides, and
// below an ignored folder nothing can be taken back.
func ignored(rules []ignoreRule, name string) bool {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		out := false
		for _, r := range rules {
			if ok, err := doublestar.Match(r.pattern, name[:i]); ok && err == nil {
				out = !r.again
			}
		}
		if out {
			return true
		}
	}
	return false
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`).Replace(s)
}
