package inspect

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// prose are files that people read as text, where right-to-left languages have their place. Everything else
// counts as code.
var prose = []string{".md", ".markdown", ".txt", ".rst", ".adoc", ".po", ".pot", ".xlf", ".xliff", ".arb", ".srt", ".vtt", ".html", ".htm", ".tex", ".ftl", ".properties", ".strings", ".stringsdict", ".resx", ".csv", ".tsv"}

func isProse(p string) bool {
	ext := strings.ToLower(path.Ext(p))
	for _, e := range prose {
		if e == ext {
			return true
		}
	}
	return false
}

// perFile bounds the lines that one rule lists for one file.
const perFile = 5

// text looks for characters that make added text read otherwise than it is.
func (i *inspection) text(c sallyport.Change, b []byte, known lines) {
	count := map[string]int{}
	report := func(rule string, n int, what string) {
		if count[rule]++; count[rule] <= perFile {
			i.found.add(rule, c.Path, fmt.Sprintf("line %d: the added text contains %s", n, what))
		}
	}
	addedLines(b, known, func(n int, line []byte) bool {
		if bytes.IndexByte(line, 0x1b) >= 0 || bytes.Contains(line, []byte("\u009b")) {
			report("text.escape", n, "a terminal escape character")
		}
		if plainASCII(line) {
			return true
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if bytes.ContainsFunc(line, bidi) {
			rule := "text.bidi"
			if isProse(c.Path) {
				rule = "text.bidi-prose"
			}
			report(rule, n, "characters that reverse how it is shown")
		}
		if unseen(line) {
			report("text.invisible", n, "invisible characters")
		}
		return true
	})
}

func plainASCII(line []byte) bool {
	for _, c := range line {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unseen reports invisible characters other than direction controls (another rule), direction marks, soft
// hyphens, and the joiners and selectors of the character before them.
func unseen(line []byte) bool {
	prev := rune(0)
	for _, r := range string(line) {
		if invisible(r) && !bidi(r) && !bidiMark(r) && r != 0xAD && !(joiner(r) && prev > 0x2FF || r == 0xFE0F && prev != 0) {
			// A braille blank among braille patterns, a selector tag after a flag: text, not a trick.
			if !(r == 0x2800 && prev >= 0x2800 && prev <= 0x28FF) && !(r >= 0xE0020 && r <= 0xE007F && (prev == 0x1F3F4 || prev >= 0xE0020 && prev <= 0xE007F && bytes.ContainsRune(line, 0x1F3F4))) {
				return true
			}
		}
		prev = r
	}
	return false
}
