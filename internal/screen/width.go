package screen

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Columns is how many terminal columns neutralised text takes: wide East Asian characters and emoji two,
// combining marks none, a tab eight.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case r == '\t':
		return 8
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// maxMarks bounds the combining marks on one character: a hundred of them paint over the lines around.
const maxMarks = 4

// Fit cuts s to n columns, the last of which then shows "…". Combining marks beyond maxMarks on one character
// are left out.
func Fit(s string, n int) string {
	if n <= 0 {
		return ""
	}
	var b strings.Builder
	used, marks := 0, 0
	end := 0 // where the text must be cut to leave room for the ellipsis
	for _, r := range s {
		w := columns(r)
		if w == 0 {
			if marks++; marks > maxMarks {
				continue
			}
		} else {
			marks = 0
		}
		if used+w > n {
			return b.String()[:end] + "…"
		}
		used += w
		b.WriteRune(r)
		if used <= n-1 {
			end = b.Len()
		}
	}
	return b.String()
}

// Seconds is a duration for people: 0.4 s, 12 s, 3 min 20 s.
func Seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	}
	n := int(s + 0.5)
	return fmt.Sprintf("%d min %02d s", n/60, n%60)
}

// Thousands groups digits: 1,234.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
