package checks

import "strings"

// tokenKind is what a token is, as far as it matters.
type tokenKind uint8

const (
	tokenWord tokenKind = iota
	tokenNumber
	tokenString // with characters and regular expressions
	tokenMark   // an operator or a bracket
)

type lexeme struct {
	kind     tokenKind
	from, to int
	text     string
	line     int  // 0-based
	first    bool // on its line, and the line begins outside of any string or comment
	depth    int  // of brackets around it
	spaced   bool // white space on both sides
}

// tokens cuts source into tokens, leaving out white space and comments. It never fails: what it does not
// know is a mark of one byte.
func (l *language) tokens(src string) []lexeme {
	x := lexer{language: l, src: src, bol: true}
	for x.at < len(src) {
		x.next()
	}
	for i := range x.out {
		t := &x.out[i]
		t.spaced = t.from > 0 && isSpace(src[t.from-1]) && t.to < len(src) && isSpace(src[t.to])
	}
	return x.out
}

type lexer struct {
	*language
	src   string
	at    int
	line  int
	depth int
	bol   bool // nothing but space since the line began
	out   []lexeme
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (x *lexer) next() {
	c := x.src[x.at]
	switch {
	case c == '\n':
		x.at, x.line, x.bol = x.at+1, x.line+1, true
	case isSpace(c):
		x.at++
	case x.comment():
	case x.str():
	case isDigit(c):
		x.take(tokenNumber, x.numberEnd())
	case isWord(c):
		x.take(tokenWord, x.wordEnd())
	default:
		x.mark()
	}
}

// take makes a token that ends at end.
func (x *lexer) take(kind tokenKind, end int) {
	t := lexeme{kind: kind, from: x.at, to: end, text: x.src[x.at:end], line: x.line, first: x.bol, depth: x.depth}
	x.out = append(x.out, t)
	x.skip(end)
	x.bol = false
}

// skip goes on to end, counting lines.
func (x *lexer) skip(end int) {
	x.line += strings.Count(x.src[x.at:end], "\n")
	x.at = end
}

func (x *lexer) wordEnd() int {
	i := x.at
	for i < len(x.src) && isWord(x.src[i]) {
		i++
	}
	return i
}

func (x *lexer) numberEnd() int {
	i := x.at
	for i < len(x.src) {
		c := x.src[i]
		fraction := c == '.' && i+1 < len(x.src) && isDigit(x.src[i+1])
		exponent := (c == '+' || c == '-') && x.src[i-1]|0x20 == 'e' && !strings.HasPrefix(x.src[x.at:], "0x")
		if !isWord(c) && !fraction && !(exponent && i > x.at) {
			break
		}
		i++
	}
	return i
}

func (x *lexer) comment() bool {
	rest := x.src[x.at:]
	if x.blocks && strings.HasPrefix(rest, "/*") {
		x.skip(x.at + x.blockEnd(rest))
		return true
	}
	for _, c := range x.comments {
		if !strings.HasPrefix(rest, c) || c == "#" && len(x.comments) > 1 && x.name != "php" && !x.bol {
			continue
		}
		if x.name == "php" && strings.HasPrefix(rest, "#[") {
			continue
		}
		end := strings.IndexByte(rest, '\n')
		// A directive of the C preprocessor goes on after a backslash.
		for c == "#" && x.chars && end > 0 && strings.HasSuffix(strings.TrimRight(rest[:end], "\r"), "\\") {
			more := strings.IndexByte(rest[end+1:], '\n')
			if more < 0 {
				end = -1
				break
			}
			end += 1 + more
		}
		if end < 0 {
			end = len(rest)
		}
		x.skip(x.at + end)
		return true
	}
	return false
}

func (x *lexer) blockEnd(rest string) int {
	depth := 0
	for i := 0; i < len(rest); i++ {
		switch {
		case strings.HasPrefix(rest[i:], "/*") && (depth == 0 || x.nested):
			depth++
			i++
		case strings.HasPrefix(rest[i:], "*/"):
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(rest)
}

// str takes a string, a character or a regular expression.
func (x *lexer) str() bool {
	rest := x.src[x.at:]
	c := rest[0]
	switch {
	case x.hashes && (c == 'r' || c == 'b') && x.raw(rest):
		return true
	case x.triple && (strings.HasPrefix(rest, `"""`) || strings.Contains(x.quotes, "'") && strings.HasPrefix(rest, "'''")):
		x.take(tokenString, x.at+quotedEnd(rest, rest[:3], true))
	case strings.IndexByte(x.quotes, c) >= 0:
		many := c == '`' || x.name == "rust" || x.name == "php" || x.name == "ruby"
		x.take(tokenString, x.at+quotedEnd(rest, rest[:1], many))
	case c == '\'' && x.chars:
		return x.char(rest)
	case c == '/' && x.regexps && x.expression():
		x.take(tokenString, x.at+regexpEnd(rest))
	default:
		return false
	}
	return true
}

// raw takes Rust's r"…", br#"…"# and the like.
func (x *lexer) raw(rest string) bool {
	body := strings.TrimPrefix(rest, "b")
	if !strings.HasPrefix(body, "r") {
		return false
	}
	hashes := len(body[1:]) - len(strings.TrimLeft(body[1:], "#"))
	if !strings.HasPrefix(body[1+hashes:], `"`) {
		return false
	}
	head := len(rest) - len(body) + 2 + hashes
	end := strings.Index(rest[head:], `"`+strings.Repeat("#", hashes))
	if end < 0 {
		x.take(tokenString, len(x.src))
	} else {
		x.take(tokenString, x.at+head+end+1+hashes)
	}
	return true
}

// char takes a character in quotes; a lifetime is left to be a mark and a word.
func (x *lexer) char(rest string) bool {
	end := strings.IndexByte(rest[1:], '\'')
	if strings.HasPrefix(rest, `'\`) && len(rest) > 3 {
		end = strings.IndexByte(rest[3:], '\'') + 2
		if end < 2 {
			return false
		}
	}
	if end < 0 || end > 12 || strings.ContainsAny(rest[1:1+end], "\n") || x.name == "rust" && end > 4 && rest[1] != '\\' {
		return false
	}
	if x.name == "rust" && rest[1] != '\\' && len([]rune(rest[1:1+end])) > 1 {
		return false
	}
	x.take(tokenString, x.at+end+2)
	return true
}

// quotedEnd is where a quoted text ends; one that must not go over lines ends with its line.
func quotedEnd(rest, quote string, many bool) int {
	for i := len(quote); i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case rest[i] == '\n' && !many:
			return i
		case strings.HasPrefix(rest[i:], quote):
			return i + len(quote)
		}
	}
	return len(rest)
}

// expression reports whether an operand is due, so that a slash begins a regular expression.
func (x *lexer) expression() bool {
	if len(x.out) == 0 {
		return true
	}
	switch t := x.out[len(x.out)-1]; t.kind {
	case tokenNumber, tokenString:
		return false
	case tokenWord:
		return oneOf(t.text, "return typeof case in of delete void throw new else do if unless while when and or not yield await")
	default:
		return !oneOf(t.text, ") ] } ++ --")
	}
}

func regexpEnd(rest string) int {
	class := false
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '\n':
			return 1 // it was a division
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				for i++; i < len(rest) && isWord(rest[i]); i++ {
				}
				return i
			}
		}
	}
	return 1
}

// marks of more than one byte, the longest first.
var marks = strings.Fields(">>>= === !== >>> <<= >>= **= &&= ||= ??= ... ..= <=> => -> :: == != <= >= && || ++ -- += -= *= /= %= &= |= ^= ?? ?. << >> ** // .. := !!")

func (x *lexer) mark() {
	c := x.src[x.at]
	switch c {
	case '(', '[', '{':
		x.take(tokenMark, x.at+1)
		x.depth++
		return
	case ')', ']', '}':
		x.depth = max(x.depth-1, 0)
	}
	for _, m := range marks {
		if strings.HasPrefix(x.src[x.at:], m) {
			x.take(tokenMark, x.at+len(m))
			return
		}
	}
	x.take(tokenMark, x.at+1)
}
