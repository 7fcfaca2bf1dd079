package pulltext

import (
	"strings"
	"testing"
)

// A line that stands bare, in a commit's message, does nothing either.
func TestInert(t *testing.T) {
	for s, not := range map[string]string{
		"[skip ci] done": "[skip ci]", "[ci skip]": "[ci skip]", "***NO_CI***": "***NO_CI***", "closes #1": "#1", "fixes owner/other#7": "#7",
		"@everyone look": "@e", "see https://example.com/x": "://", "GH-12": "GH-12", "!5": "!5", "a\nb": "\n", "\x1b[31mred": "\x1b",
	} {
		if got := Inert(s, 200); strings.Contains(got, not) {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := Inert(strings.Repeat("word ", 200), 40); len([]rune(got)) > 40 {
		t.Errorf("%d columns", len([]rune(got)))
	}
	if got := Inert("Make Total faster", 200); got != "Make Total faster" {
		t.Errorf("plain words became %q", got)
	}
}
