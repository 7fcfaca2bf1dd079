package inspect

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
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
		if hides(bytes.TrimSuffix(line, []byte{'\r'})) {
			report("text.control", n, "a control character or a rare line end")
		}
		if far(line) {
			report("text.far", n, "text after more than "+strconv.Itoa(farBlanks)+" blanks")
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
		if !isProse(c.Path) && utf8.Valid(line) && homoglyph(string(line)) {
			report("text.homoglyph", n, "a word in two scripts that look alike")
		}
		return true
	})
}

// hides reports characters that overwrite, ring, or end a line for some programs only. Tab, form feed and the
// escape character (another rule) are not meant.
func hides(line []byte) bool {
	for at, c := range line {
		switch {
		case c < 0x20 && c != '\t' && c != '\f' && c != 0x1b, c == 0x7f:
			return true
		case c == 0xc2 && at+1 < len(line) && line[at+1] == 0x85, // NEL
			c == 0xe2 && at+2 < len(line) && line[at+1] == 0x80 && (line[at+2] == 0xa8 || line[at+2] == 0xa9): // line and paragraph separator
			return true
		}
	}
	return false
}

// farBlanks is more than any table or indentation needs and wider than screens are.
const farBlanks = 200

func far(line []byte) bool {
	if len(line) <= farBlanks {
		return false
	}
	run := 0
	for _, c := range line {
		if c == ' ' || c == '\t' {
			run++
		} else if c != '\r' && run > farBlanks {
			return true
		} else {
			run = 0
		}
	}
	return false
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
