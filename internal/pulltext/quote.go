package pulltext

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"sallyport.dev/sallyport/internal/screen"
)

const (
	spanColumns = 160 // of one code span
	lineColumns = 200 // of one line of a block
	// bytesPerColumn bounds what combining marks can make of a column; a wide character with none has two for three.
	bytesPerColumn = 4
)

// bar begins each line of a block of foreign text.
const bar = "│ "

// breaks puts a space where a forge would begin to act. Each works on the text alone, whatever Markdown makes of it, and
// rather too often: to some forges, an underscore is the border of a word.
var breaks = []struct {
	at   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`@(\S)`), "@ $1"},
	{regexp.MustCompile(`([#!])(\p{Nd})`), "$1 $2"},
	{regexp.MustCompile(`(?i)((?:\b|_)GH-)(\p{Nd})`), "$1 $2"},
	{regexp.MustCompile(`://`), ": //"},
	{regexp.MustCompile(`(?i)\[((?:skip|no|ci|actions)[ _-]+(?:skip|ci|actions))`), "[ $1"},
	{regexp.MustCompile(`(?i)\*\*\*(NO_CI)`), "*** $1"},
	// References of other trackers (ABC-12) are words like any other (UTF-8); after a closing word they are not.
	{regexp.MustCompile(`(?i)((?:` + closingWords + `)[\s\p{Zs}:]+(?:issues?[\s\p{Zs}:]+)?[A-Za-z][A-Za-z0-9_]*-)(\p{Nd})`), "$1 $2"},
}

// closingWords are those of GitHub, GitLab and Gitea together, with those that open again.
const closingWords = `clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|complet(?:e[sd]?|ing)|reopen(?:s|ed|ing)?`

// titleBreaks are for what is no Markdown on its own page, and is put into Markdown elsewhere: release notes, lists.
var titleBreaks = []struct {
	at   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b[0-9A-Fa-f]{7,}\b`), ""}, // see shortenHex
	{regexp.MustCompile(`([~%$&^])(\w|")`), "$1 $2"},
	{regexp.MustCompile(`(?i)(www|ftp)\.`), "$1 ."},
	{regexp.MustCompile(`(?i)(mailto|xmpp):`), "$1 :"},
	{regexp.MustCompile(`\[`), "("},
	{regexp.MustCompile(`\]`), ")"},
}

// quoter neutralises, and remembers whether it had to change a letter.
type quoter struct{ altered bool }

// inert is s without anything that a forge or a terminal acts on. Line feeds stay; tabs become spaces.
func (q *quoter) inert(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\t", "    ")
	out := strings.ReplaceAll(screen.Source([]byte(s)), "<", "‹")
	for _, b := range breaks {
		for { // "@@@" holds overlapping places
			next := b.at.ReplaceAllString(out, b.with)
			if next == out {
				break
			}
			out = next
		}
	}
	q.altered = q.altered || out != s
	return out
}

// line is inert text in one line of at most n columns.
func (q *quoter) line(s string, n int) string {
	s, cut := head(strings.TrimSpace(s), n)
	s = fit(strings.TrimSpace(strings.ReplaceAll(q.inert(s), "\n", "‹LF›")), n)
	if cut && !strings.HasSuffix(s, "…") {
		s += "…"
	}
	return s
}

// head is the beginning of s that is worth looking at for n columns, so that a long text costs no more than a short one.
func head(s string, n int) (string, bool) {
	n *= 4 * bytesPerColumn
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}

// fit is screen.Fit with a bound on bytes also.
func fit(s string, n int) string {
	s = screen.Fit(s, n)
	if len(s) <= n*bytesPerColumn {
		return s
	}
	end := n * bytesPerColumn
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// code is s as a code span.
func (q *quoter) code(s string) string { return q.span(s, spanColumns) }

// name is code for an id or a digest: the longest has 71 characters.
func (q *quoter) name(s string) string { return q.span(s, 80) }

func (q *quoter) span(s string, n int) string {
	s = q.line(s, n)
	if s == "" {
		return "(empty)"
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// codes are several code spans, of which the first most are shown.
func (q *quoter) codes(list []string, most int) string {
	var out []string
	for i, s := range list {
		if i == most {
			out = append(out, "… "+count(len(list)-most, "more"))
			break
		}
		out = append(out, q.code(s))
	}
	return strings.Join(out, ", ")
}

// word is a word of the wire format in plain letters, and a code span if it is anything else.
var word = regexp.MustCompile(`^[A-Za-z]+(?:-[A-Za-z]+)*$|^\d{1,6}(?:\.\d{1,3})?$`)

var hexWord = regexp.MustCompile(`(?i)^[0-9a-f]{7,}$`)

// sentence is s as it is where it is made of plain words and can mean nothing to a forge, and a code span otherwise.
// It is for what the trusted side wrote; the agent's and the repository's words are always code.
func (q *quoter) sentence(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), ".")
	if len(s) > 2*spanColumns || s == "" || !(s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z') {
		return q.code(s)
	}
	for w := range strings.SplitSeq(s, " ") {
		core := strings.TrimRight(strings.TrimLeft(w, "(\"'"), ")\"',;:.?")
		if !word.MatchString(core) || hexWord.MatchString(core) {
			return q.code(s)
		}
	}
	return s
}

// block is s as a fenced block of at most n lines and about limit bytes; what was cut is said in its last line.
func (q *quoter) block(s string, n, limit int) string {
	lines := strings.Split(strings.Trim(s, "\r\n "), "\n")
	var b strings.Builder
	for i, l := range lines {
		l = strings.TrimRight(bar+q.indented(l), " ") + "\n"
		if i == n || b.Len()+len(l) > limit {
			b.WriteString(bar + "… " + count(len(lines)-i, "more line") + " left out for length\n")
			break
		}
		b.WriteString(l)
	}
	return fenced(b.String())
}

// indented is a line that keeps the space it begins with.
func (q *quoter) indented(s string) string {
	s = strings.TrimRight(s, " \t\r")
	rest := strings.TrimLeft(s, " ")
	return strings.Repeat(" ", min(len(s)-len(rest), lineColumns/4)) + q.line(rest, lineColumns)
}

// command is a command to copy: without a bar, unless something in it had to be changed.
func (q *quoter) command(s string) string {
	var own quoter
	if l := own.line(s, 1000); !own.altered && l == s && s != "" && (s[0] >= 'a' && s[0] <= 'z') {
		return fenced(s + "\n")
	}
	return q.block(s, 1, 1500)
}

func fenced(text string) string {
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	return fence + "text\n" + text + fence
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// Inert is one line of foreign text that does nothing at a forge, also where it stands bare, as in a commit's message: no
// mention, closing word, reference, link, or word that tells a forge's own checks to stay away. It has at most n columns.
func Inert(s string, n int) string { return new(quoter).line(s, n) }
