package gitlab

import (
	"regexp"
	"strings"
)

// draftPrefix is how GitLab is told a draft: https://docs.gitlab.com/user/project/merge_requests/drafts/
const draftPrefix = "Draft: "

// action is a line that GitLab would carry out and not show: `/merge`, `/close`, `/assign @x`, in a description as in a
// comment (https://docs.gitlab.com/user/project/quick_actions/). No text of ours may act. GitLab takes all \r out before
// it looks, and compares without case in Unicode's sense (lib/gitlab/quick_actions/extractor.rb in its repository), so
// \r and every letter count here. Backslashes before the slash are ones that quiet put there, or the text's own.
var (
	action  = regexp.MustCompile(`^(\s*)(\\*)(/[\r_\pL\pM\pN]+(?:\s|$))`)
	quieted = regexp.MustCompile(`^(\s*)\\(\\*)(/[\r_\pL\pM\pN]+(?:\s|$))`)
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
