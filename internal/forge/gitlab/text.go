package gitlab

import (
	"regexp"
	"strings"
)

// draftPrefix is how GitLab is told a draft: https://docs.gitlab.com/user/project/merge_requests/drafts/
const draftPrefix = "Draft: "

// action is a line that GitLab would carry out and not show: `/merge`, `/close`, `/assign @x`, in a description as in a
// comment (https://docs.gitlab.com/user/project/quick_actions/). No text of ours may act. Backslashes before the slash
// are ones that quiet put there, or that the text has of its own.
var (
	action  = regexp.MustCompile(`^(\s*)(\\*)(/[A-Za-z_]+(?:\s|$))`)
	quieted = regexp.MustCompile(`^(\s*)\\(\\*)(/[A-Za-z_]+(?:\s|$))`)
)

// quiet puts a backslash before what would be carried out: Markdown does not show it. aloud takes it away again.
func quiet(s string) string { return lines(s, action, `${1}\${2}${3}`) }

func aloud(s string) string { return lines(s, quieted, `${1}${2}${3}`) }

func lines(s string, re *regexp.Regexp, with string) string {
	all := strings.SplitAfter(s, "\n")
	for i, line := range all {
		all[i] = re.ReplaceAllString(line, with)
	}
	return strings.Join(all, "")
}

// title is a title as GitLab keeps it.
func title(s string, draft bool) string {
	if draft {
		return draftPrefix + s
	}
	return s
}

// bare is a title without what makes it a draft.
func bare(s string, draft bool) string {
	if draft {
		return strings.TrimPrefix(s, draftPrefix)
	}
	return s
}
