package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sallyport.dev/sallyport"
)

// The bounds of one file. The YAML parser recurses and copies its path at each level (20,000 open brackets
// cost it seconds, a million could end the process), so tokens and depth are bounded before it runs.
const (
	maxFileBytes = 1 << 20
	maxTokens    = 20_000
	maxDepth     = 24
)

var utf8BOM = []byte("\xef\xbb\xbf")

// invalid is the one shape of a complaint about a file: where, and what was expected.
func invalid(subject, message, hint string) *sallyport.Error {
	return &sallyport.Error{Op: "parse", Code: sallyport.CodeInvalid, Subject: subject, Message: message, Hint: hint}
}

func at(file string, line, column int) string {
	return fmt.Sprintf("%s:%d:%d", file, line, max(column, 1))
}

func atToken(file string, tk *token.Token) string {
	if tk == nil || tk.Position == nil {
		return at(file, 1, 1)
	}
	return at(file, tk.Position.Line, tk.Position.Column)
}

// load turns the bytes of one file into its only document's root. Everything that makes YAML ambiguous or
// expensive is refused before the tree is built.
func load(file string, data []byte) (root ast.Node, err error) {
	defer func() {
		// The parser is not ours and the bytes are anybody's: its panic must not become ours.
		if p := recover(); p != nil {
			root, err = nil, invalid(at(file, 1, 1), "this is not YAML that can be read", "")
		}
	}()
	if err := checkBytes(file, data); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(data, utf8BOM)))
	if err := checkTokens(file, tokens); err != nil {
		return nil, err
	}
	// Duplicate keys are found by the reader, which can say where the first one stands.
	f, perr := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if perr != nil {
		return nil, syntaxError(file, perr)
	}
	for _, d := range f.Docs {
		if d.Body != nil {
			return d.Body, nil
		}
	}
	return nil, invalid(at(file, 1, 1), `the file is empty; expected at least "version: 1"`, "")
}

func checkBytes(file string, data []byte) error {
	if len(data) > maxFileBytes {
		return invalid(at(file, 1, 1), fmt.Sprintf("the file has %d bytes; expected at most 1 MiB", len(data)), "")
	}
	line, column := 1, 1
	for rest := bytes.TrimPrefix(data, utf8BOM); len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && n == 1:
			return invalid(at(file, line, column), "expected UTF-8 text", "")
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0:
			return invalid(at(file, line, column), fmt.Sprintf("control character %U; expected printable text", c), "")
		case c == '\n':
			line, column = line+1, 0
		}
		column, rest = column+1, rest[n:]
	}
	return nil
}

// checkTokens refuses what this format does not use: references (an alias bomb is the known case), tags,
// directives, a second document; and bounds number and depth.
func checkTokens(file string, tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return invalid(at(file, 1, 1), fmt.Sprintf("the file has %d parts; expected at most %d", len(tokens), maxTokens), "")
	}
	flow, run, line, documents, content := 0, 0, 0, 0, false
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, run = tk.Position.Line, 0
		}
		where := atToken(file, tk)
		switch tk.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return invalid(where, "anchors, aliases and merge keys are refused; expected the value itself",
				`text that begins with & or * needs quotes: "*.go"`)
		case token.TagType:
			return invalid(where, "tags are refused; expected the value itself", "text that begins with ! needs quotes")
		case token.DirectiveType:
			return invalid(where, "directives are refused; expected a key", "text that begins with % needs quotes")
		case token.DocumentHeaderType, token.DocumentEndType:
			documents++
			if content || documents > 1 {
				return invalid(where, "a second document begins here; expected one document in the file", "")
			}
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			run++ // "- - - a" nests without brackets and without deeper indentation
		}
		content = content || (tk.Type != token.CommentType && tk.Type != token.DocumentHeaderType)
		if flow+run > maxDepth || tk.Position.IndentNum > 4*maxDepth {
			return invalid(where, fmt.Sprintf("nested too deeply; expected at most %d levels", maxDepth), "")
		}
		if tk.Type == token.InvalidType && strings.Contains(tk.Error, "\t") {
			return invalid(where, "a tab is used for indentation; expected spaces", "")
		}
	}
	return nil
}

// syntaxError keeps the parser's sentence and position, never its excerpt: an excerpt would repeat file
// content over several lines.
func syntaxError(file string, err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return invalid(at(file, 1, 1), "this is not YAML that can be read", "")
	}
	msg, _, _ := strings.Cut(ye.GetMessage(), "\n")
	msg = strings.Map(func(c rune) rune { // it may repeat a character of the file
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, msg)
	return invalid(atToken(file, ye.GetToken()), "this is not valid YAML: "+msg, "")
}
