package inspect

import (
	"unicode"
)

// twinsOfLatin are the letters of Cyrillic and Greek that most fonts draw like a Latin one. Letters that
// merely remind of one (к, т, в; ν, ρ, α) are left out: formulas and ordinary words use them.
var twinsOfLatin = func() map[rune]bool {
	m := map[rune]bool{}
	for _, r := range "аеорсухѕіјһԁԛԝӏ" + "АВЕКМНОРСТУХЅІЈԌԚԜӀҮ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "οϲϳ" {
		m[r] = true
	}
	return m
}()

// looksLatin also counts the wide and the mathematical forms of Latin letters, which several languages read
// as the plain ones.
func looksLatin(r rune) bool {
	return twinsOfLatin[r] || r >= 0xFF21 && r <= 0xFF3A || r >= 0xFF41 && r <= 0xFF5A || r >= 0x1D400 && r <= 0x1D6A3
}

func latin(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// homoglyph reports a word with Latin letters in it whose other letters all look Latin: it can be read as
// another word. A word that also has letters of its own script is ordinary text.
func homoglyph(s string) bool {
	runes := []rune(s)
	for at := 0; at < len(runes); at++ {
		if !wordRune(runes[at]) {
			continue
		}
		from := at
		for at < len(runes) && wordRune(runes[at]) {
			at++
		}
		if from > 0 && (runes[from-1] == '\\' || runes[from-1] == '%') && latin(runes[from]) {
			from++ // "\n" or "%s" before a word of another script
		}
		word := runes[from:at]
		if inRange := from > 0 && at < len(runes) && runes[from-1] == '-' && runes[at] == '-' && len(word) == 2; !inRange && disguised(word) {
			return true // "a-zа-я" in a pattern is no word
		}
	}
	return false
}

func disguised(word []rune) bool {
	plainLatin, alike := 0, 0
	for _, r := range word {
		switch {
		case latin(r):
			plainLatin++
		case looksLatin(r):
			alike++
		case unicode.IsLetter(r):
			return false
		}
	}
	return plainLatin > 0 && alike > 0 && !inflected(word)
}

// inflected reports an abbreviation in Latin capitals with a short ending in another script, as people write
// "URLа" in running text.
func inflected(word []rune) bool {
	at := 0
	for at < len(word) && word[at] >= 'A' && word[at] <= 'Z' {
		at++
	}
	ending := word[at:]
	if at < 2 || len(ending) > 3 {
		return false
	}
	for _, r := range ending {
		if !unicode.Is(unicode.Cyrillic, r) && !unicode.Is(unicode.Greek, r) || !unicode.IsLower(r) {
			return false
		}
	}
	return true
}
