package checks

import (
	"path"
	"strings"
)

// language is as much of a language's spelling as is needed to tell its code from its comments and strings,
// and to change an operator without breaking its grammar.
type language struct {
	name     string
	ends     []string          // of file names
	comments []string          // that go to the end of a line
	blocks   bool              // /* */
	nested   bool              // and they nest
	quotes   string            // of strings; ` and triple quotes may hold line ends
	triple   bool              // """ and, where ' is a quote, '''
	chars    bool              // ' begins a character or a lifetime, and is no string
	regexps  bool              // / may begin a regular expression
	indented bool              // lines end statements, and blocks are by indentation
	typed    bool              // a compiler judges types: only what cannot upset it is changed
	narrows  bool              // comparisons with null, or of kinds, tell the compiler what a variable is
	hashes   bool              // r#"…"#
	words    map[string]string // operators and values that are words
	yes, no  string            // how a condition is turned around: before and after it
	never    [2]string         // how a statement is not run: before and after it; empty: no such way
}

var (
	cWords      = map[string]string{"true": "false", "false": "true"}
	pythonWords = map[string]string{"True": "False", "False": "True", "and": "or", "or": "and"}
	rubyWords   = map[string]string{"true": "false", "false": "true", "and": "or", "or": "and"}
)

var languages = []language{
	{name: "python", ends: []string{".py", ".pyw"}, comments: []string{"#"}, quotes: `"'`, triple: true, indented: true, words: pythonWords, yes: "not (", no: ")", never: [2]string{"if False: ", ""}},
	{name: "javascript", ends: []string{".js", ".mjs", ".cjs", ".jsx"}, comments: []string{"//"}, blocks: true, quotes: "\"'`", regexps: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (false) ", ""}},
	{name: "typescript", ends: []string{".ts", ".mts", ".cts", ".tsx"}, comments: []string{"//"}, blocks: true, quotes: "\"'`", regexps: true, typed: true, narrows: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (false) ", ""}},
	{name: "rust", ends: []string{".rs"}, comments: []string{"//"}, blocks: true, nested: true, quotes: `"`, chars: true, hashes: true, typed: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if false { ", " }"}},
	{name: "java", ends: []string{".java"}, comments: []string{"//"}, blocks: true, quotes: `"`, triple: true, chars: true, typed: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (false) ", ""}},
	{name: "kotlin", ends: []string{".kt", ".kts"}, comments: []string{"//"}, blocks: true, nested: true, quotes: `"`, triple: true, chars: true, typed: true, narrows: true, words: cWords, yes: "!(", no: ")"},
	{name: "scala", ends: []string{".scala"}, comments: []string{"//"}, blocks: true, nested: true, quotes: `"`, triple: true, chars: true, typed: true, words: cWords, yes: "!(", no: ")"},
	{name: "csharp", ends: []string{".cs"}, comments: []string{"//", "#"}, blocks: true, quotes: `"`, triple: true, chars: true, typed: true, narrows: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (false) ", ""}},
	{name: "c", ends: []string{".c", ".h"}, comments: []string{"//", "#"}, blocks: true, quotes: `"`, chars: true, typed: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (0) ", ""}},
	{name: "c++", ends: []string{".cc", ".cpp", ".cxx", ".hpp", ".hh"}, comments: []string{"//", "#"}, blocks: true, quotes: `"`, chars: true, typed: true, words: cWords, yes: "!(", no: ")", never: [2]string{"if (0) ", ""}},
	{name: "swift", ends: []string{".swift"}, comments: []string{"//"}, blocks: true, nested: true, quotes: `"`, triple: true, typed: true, narrows: true, words: cWords},
	{name: "ruby", ends: []string{".rb"}, comments: []string{"#"}, quotes: "\"'`", regexps: true, words: rubyWords},
	{name: "php", ends: []string{".php"}, comments: []string{"//", "#"}, blocks: true, quotes: "\"'`", words: cWords, yes: "!(", no: ")", never: [2]string{"if (false) ", ""}},
}

func languageOf(name string) (*language, bool) {
	end := strings.ToLower(path.Ext(name))
	for i := range languages {
		for _, e := range languages[i].ends {
			if e == end {
				return &languages[i], true
			}
		}
	}
	return nil, false
}
