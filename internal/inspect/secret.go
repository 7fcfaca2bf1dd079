package inspect

import (
	"bytes"
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/secret"
)

// secrets reports the credentials in added lines: rule and line, never the value. Lines that follow one another
// are looked at together, since a value may go over several.
func (i *inspection) secrets(c sallyport.Change, b []byte, known lines) {
	say := i.sayer(c.Path, "line %d: the added text contains %s")
	addedRuns(b, known, func(first int, run []byte) {
		i.credentials(c.Path, run, func(rule string, line int, what string) {
			switch {
			case rule == secret.RuleAssigned && i.test(c.Path):
				return // tests are full of made-up passwords
			case rule == "secret.private-key" && i.test(c.Path):
				rule = "secret.private-key-in-test"
			}
			say(rule, first+line-1, what)
		})
	})
}

// spoken reports credentials where no file is: in the messages that would be published with the change, and
// known values in names. Other credentials in names are found with the names.
func (i *inspection) spoken() {
	for n, m := range i.Messages {
		say := i.sayer("", fmt.Sprintf("message %d, line %%d: it contains %%s", n+1))
		i.credentials("", []byte(m), say)
	}
	if i.Known == nil {
		return
	}
	for _, c := range i.Changes {
		for _, name := range i.Known([]byte(c.Path)) {
			i.found.add("secret.known-value", c.Path, "the name contains the value of "+name)
		}
	}
}

// credentials calls found for those in one text, with its line from 1. A text that is not
// searched to its end is a finding.
func (i *inspection) credentials(path string, text []byte, found func(rule string, line int, what string)) {
	hits, done := secret.Scan(path, text, i.end)
	for _, h := range hits {
		found(h.Rule, h.Line, "what looks like "+article(h.Kind))
	}
	if !done {
		i.found.add("scan.incomplete", path, "it was not searched for credentials to its end: the time limit was met or the search failed")
	}
	i.values(text, found)
}

// values calls found for the known secrets whose value is in a text.
func (i *inspection) values(text []byte, found func(rule string, line int, what string)) {
	if i.Known == nil {
		return
	}
	names := i.Known(text)
	if len(names) == 0 {
		return
	}
	n, placed := 0, map[string]bool{}
	for line := range bytes.Lines(text) {
		n++
		for _, name := range i.Known(line) {
			placed[name] = true
			found("secret.known-value", n, "the value of "+name)
		}
	}
	for _, name := range names {
		if !placed[name] {
			found("secret.known-value", 1, "here and in what follows the value of "+name)
		}
	}
}

// sayer reports findings about one text: of each rule one per line and perFile in all.
func (i *inspection) sayer(path, format string) func(rule string, line int, what string) {
	said, count := map[string]bool{}, map[string]int{}
	return func(rule string, line int, what string) {
		key := fmt.Sprint(rule, line)
		if said[key] {
			return
		}
		said[key] = true
		if count[rule]++; count[rule] <= perFile {
			i.found.add(rule, path, fmt.Sprintf(format, line, what))
		}
	}
}

// addedRuns calls f for every run of lines that the base's version does not have, with its first line's number.
func addedRuns(b []byte, known lines, f func(first int, run []byte)) {
	if known == nil {
		f(1, b)
		return
	}
	n, offset := 0, 0    // the line before, and where the present one begins
	first, start := 0, 0 // of the present run; first is 0 between two
	for line := range bytes.Lines(b) {
		n++
		switch has := known.has(bytes.TrimSuffix(line, []byte{'\n'})); {
		case has && first > 0:
			f(first, b[start:offset])
			first = 0
		case !has && first == 0:
			first, start = n, offset
		}
		offset += len(line)
	}
	if first > 0 {
		f(first, b[start:])
	}
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// redact replaces the credentials in a name.
func redact(s string) string { return secret.Redact(s) }
