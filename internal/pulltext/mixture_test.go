package pulltext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fragments are what the syntaxes of forges are made of; texts of them reach what single bytes seldom do.
var fragments = []string{"@", "#", "!", "1", "22", "a", "b c", "fixes ", "Closes: ", "implement issues ", "GH-", "ABC-1", "o/r", "`", "```", "````", "~~~",
	"\n", "\n\n", "\r", "\t", "    ", " ", "/merge", "<", ">", "<!--", "-->", "<b>", "[", "](", ")", "![", "[x]: ", "[^1]", "|", "|-|-|", "---", "===", "# ", "> ",
	"- ", "- [ ] ", "1. ", "\\", "://", "https", "www.", ".com", "mailto:", "\u202e", "\u200b", "\x1b[1m", "\x9b", "\xff", "&#64;", "&lt;", "*", "**", "_", "~~", "$", "{", ":tada:",
	"deadbeef", "[skip ci]", "…", "│ ", "‹", "sallyport: ", "Draft: ", "é", "漢", "\u0301", "### Checks\n", "\u2028", "\u0085", "\u00a0"}

func TestMixturesDoNothing(t *testing.T) {
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 30), func(l []string) string { return strings.Join(l, "") })
	rapid.Check(t, func(r *rapid.T) {
		a, b := text.Draw(r, "a"), text.Draw(r, "b")
		o := everywhere(a)
		o.Predicate.Checks[0].Command, o.Predicate.Findings[0].Path, o.Predicate.Claims.Messages[1], o.Task = b, b, b, a+"\n"+b
		o.VerifyCommand = "sallyport verify " + b
		law(r, o, "\x00")
	})
}
