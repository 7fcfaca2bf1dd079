package checks

import (
	"strconv"
	"strings"
)

// edits are changes of single tokens, conditions and statements that keep the grammar of a language, judged
// by the tokens around them.
func (l *language) edits(src []byte) []edit {
	m := lexMutator{language: l, src: string(src)}
	m.toks = l.tokens(m.src)
	for i := range m.toks {
		m.visit(i)
	}
	return m.out
}

type lexMutator struct {
	*language
	src  string
	toks []lexeme
	out  []edit
}

func (m *lexMutator) add(from, to int, with string, r rank) {
	m.out = append(m.out, edit{from: from, to: to, with: with, rank: r})
}

// near is the token i places from the present one; the zero token beyond the ends.
func (m *lexMutator) near(i int) lexeme {
	if i < 0 || i >= len(m.toks) {
		return lexeme{line: -1}
	}
	return m.toks[i]
}

func (m *lexMutator) visit(i int) {
	t := m.toks[i]
	if m.off(i) {
		return
	}
	if t.first {
		m.statement(i)
	}
	switch t.kind {
	case tokenWord:
		m.word(i)
	case tokenNumber:
		m.number(i)
	case tokenMark:
		m.operator(i)
	}
}

// off reports whether a line is one whose tokens say something else than they seem to: declarations,
// attributes, patterns, types.
func (m *lexMutator) off(i int) bool {
	line := m.lineOf(i)
	head := line[0]
	switch {
	case oneOf(head.text, "import from export use using package #! @ namespace template typedef type interface extends implements case default when match macro_rules"):
		return !(head.text == "export" || head.text == "default" || head.text == "match") || m.typed
	case head.text == "#": // an attribute
		return true
	}
	for _, t := range line {
		switch {
		case t.text == "=>" && m.name == "rust", t.text == "matches" && m.name == "rust", t.text == "let" && m.name == "rust" && line[0].text != "let":
			return true
		case m.narrows && oneOf(t.text, "null undefined nil typeof instanceof is as in"):
			return true
		case t.text == "instanceof" && m.typed, t.text == "operator" && m.name == "c++", t.text == "static_assert", t.text == "constexpr", t.text == "requires", t.text == "where" && m.typed:
			return true
		case t.text == "const" && m.name == "rust":
			return true
		}
	}
	return false
}

// lineOf are the tokens on the line of token i.
func (m *lexMutator) lineOf(i int) []lexeme {
	from, to := i, i+1
	for from > 0 && m.toks[from-1].line == m.toks[i].line {
		from--
	}
	for to < len(m.toks) && m.toks[to].line == m.toks[i].line {
		to++
	}
	return m.toks[from:to]
}

// operand reports whether a token can end, or begin, a value.
func operand(t lexeme, begins bool) bool {
	switch t.kind {
	case tokenNumber, tokenString:
		return true
	case tokenWord:
		return !oneOf(t.text, "return if else elif while for in is not and or yield await case throw new delete typeof raise assert print unless until when then do mut ref move operator")
	}
	if begins {
		return oneOf(t.text, "( [ - ! ~ & *") // what a value begins with
	}
	return oneOf(t.text, ") ] }")
}

var markSwaps = map[string]struct {
	to   string
	rank rank
}{
	"==": {"!=", compared}, "!=": {"==", compared}, "===": {"!==", compared}, "!==": {"===", compared},
	"<": {">=", compared}, "<=": {">", compared}, ">": {"<=", compared}, ">=": {"<", compared},
	"&&": {"||", compared}, "||": {"&&", compared},
	"+": {"-", calculated}, "-": {"+", calculated},
	"+=": {"-=", calculated}, "-=": {"+=", calculated},
}

func (m *lexMutator) operator(i int) {
	t, prev, next := m.toks[i], m.near(i-1), m.near(i+1)
	if t.text == "!" && m.never[0] != "" && !m.indented {
		if prev.to < t.from || oneOf(prev.text, "( [ { , ; && || = !") {
			if !operand(prev, false) && next.from == t.to && (next.kind == tokenWord || next.text == "(" || next.text == "!") && prev.text != "->" && prev.text != ":" && prev.text != "#" {
				m.add(t.from, t.to, "", compared)
			}
		}
		return
	}
	swap, ok := markSwaps[t.text]
	if !ok || !operand(prev, false) || !operand(next, true) || prev.line != t.line || next.line != t.line {
		return
	}
	// Without space around it, an angle may be a bracket, and a sign a reference.
	if !t.spaced && (m.typed || swap.rank == calculated) {
		return
	}
	if swap.rank == calculated && (!m.numbers(prev, next) || m.stringsOn(i)) {
		return
	}
	if (t.text == "<" || t.text == ">") && m.typed && m.generic(i) {
		return
	}
	if (t.text == "&&" || t.text == "||") && m.name == "c++" && (prev.text == "auto" || next.text == "") {
		return
	}
	m.add(t.from, t.to, swap.to, m.unlessLoop(i, swap.rank))
}

// numbers reports that one side is a number and the other is not: two of them may be calculated by the
// compiler, and none of them may be anything.
func (m *lexMutator) numbers(prev, next lexeme) bool {
	return (prev.kind == tokenNumber) != (next.kind == tokenNumber) && prev.kind != tokenString && next.kind != tokenString
}

func (m *lexMutator) stringsOn(i int) bool {
	for _, t := range m.lineOf(i) {
		if t.kind == tokenString && m.name != "python" {
			return true
		}
	}
	return false
}

// generic reports whether the line has what looks like type arguments.
func (m *lexMutator) generic(i int) bool {
	opens := 0
	for _, t := range m.lineOf(i) {
		if t.text == "<" {
			opens++
		}
		if t.text == ">" || t.text == ">>" {
			opens--
		}
	}
	return opens == 0 // both
}

// unlessLoop is r, or looped where the line is the head of a loop.
func (m *lexMutator) unlessLoop(i int, r rank) rank {
	if oneOf(m.lineOf(i)[0].text, "for while until loop do") {
		return looped
	}
	for _, t := range m.lineOf(i) {
		if oneOf(t.text, "while for") {
			return looped
		}
		if oneOf(t.text, "print println printf log logger logging console debug warn panic raise throw") {
			return unseen
		}
	}
	return r
}

func (m *lexMutator) word(i int) {
	t, prev, next := m.toks[i], m.near(i-1), m.near(i+1)
	if prev.text == "." || prev.text == "?." || prev.text == "::" || prev.text == "@" {
		return // a member of this name
	}
	if m.indented && t.text == "not" && next.line == t.line && t.to < next.from {
		m.add(t.from, next.from, "", compared)
		return
	}
	if m.indented && t.text == "is" && next.text != "not" && next.line == t.line && operand(prev, false) {
		m.add(t.from, t.to, "is not", compared)
		return
	}
	with, ok := m.words[t.text]
	switch {
	case !ok, oneOf(next.text, ": =>") && !m.indented, next.text == "=" || next.text == "|" || prev.text == "|":
		return
	case oneOf(t.text, "and or") && (!operand(prev, false) || next.line != t.line || prev.line != t.line):
		return
	case m.typed && (oneOf(prev.text, "( :") && m.unlessLoop(i, compared) == looped || prev.text == ":"):
		return // a loop without end, or a type
	}
	r := compared
	if prev.text == "return" {
		r = answered
	}
	m.add(t.from, t.to, with, m.unlessLoop(i, r))
}

// number makes a small number larger by one after an operator, where it is a value and no pattern or size.
func (m *lexMutator) number(i int) {
	t, prev, next := m.toks[i], m.near(i-1), m.near(i+1)
	v, err := strconv.Atoi(t.text)
	if err != nil || v > 99 || t.text != strconv.Itoa(v) || !oneOf(prev.text, "< > <= >= == != === !== + - += -= return") || prev.line != t.line {
		return
	}
	if oneOf(next.text, ". .. ..=") || m.near(i-2).kind == tokenNumber || m.typed && (!m.near(i-1).spaced && prev.text != "return" || next.text == ">") {
		return
	}
	m.add(t.from, t.to, strconv.Itoa(v+1), m.unlessLoop(i, shifted))
}

// statement looks at a line that begins outside of any string: a condition to turn around, a value not to
// return, a statement not to run.
func (m *lexMutator) statement(i int) {
	line := m.lineOf(i)
	if m.indented {
		m.indentedStatement(i, line)
	} else if m.yes != "" {
		m.bracedStatement(i, line)
	}
}

func (m *lexMutator) indentedStatement(i int, line []lexeme) {
	last := line[len(line)-1]
	if line[0].depth != 0 || !balanced(line) || m.continued(i) || strings.HasSuffix(m.lineText(last.to), "\\") || strings.Contains(m.src[line[0].from:last.to], "\n") {
		return
	}
	head := line[0].text
	switch {
	case (head == "if" || head == "elif") && last.text == ":" && len(line) > 2:
		m.add(line[1].from, line[len(line)-2].to, m.yes+m.src[line[1].from:line[len(line)-2].to]+m.no, turned)
	case head == "return" && len(line) > 1 && !has(line, ";") && line[1].text != "None":
		m.add(line[1].from, last.to, "None", answered)
	case m.simple(line) && last.text != ":" && last.text != ";":
		m.add(line[0].from, line[0].from, m.never[0], left)
	}
}

// simple reports whether a line is a call or an assignment.
func (m *lexMutator) simple(line []lexeme) bool {
	if line[0].kind != tokenWord || len(line) < 3 || !operand(line[0], true) ||
		oneOf(line[0].text, "def class async with try except finally from import global nonlocal del pass break continue lambda match type let const var static final public private protected void function fn pub unsafe goto continue struct enum union typedef extern inline switch catch auto register volatile template using namespace throws abstract synchronized package internal partial override virtual readonly export default super this yield await echo use require include declare const assert __all__") {
		return false
	}
	for _, t := range line[1:] {
		if t.depth == line[0].depth && t.text == ":" {
			return false
		}
	}
	for k, t := range line[1:] {
		switch {
		case t.text == "(":
			return t.depth == line[0].depth
		case t.text == "=" || t.text == "+=" || t.text == "-=":
			return !m.typed && t.depth == line[0].depth
		case t.text == "." || t.text == "->" || t.text == "::" || line[k].text == "." || line[k].text == "->" || line[k].text == "::":
		default:
			return false
		}
	}
	return false
}

func (m *lexMutator) bracedStatement(i int, line []lexeme) {
	last := line[len(line)-1]
	if strings.Contains(m.src[line[0].from:last.to], "\n") {
		return
	}
	m.turn(line)
	prev := m.near(i - 1)
	if m.never[0] != "" && m.simple(line) && last.text == ";" && balanced(line) && !has(line[:len(line)-1], ";") && !has(line, "{") && !has(line, "=>") && !has(line, "->>") &&
		(prev.text == ";" || prev.text == "{" && m.block(i-1) || prev.text == "}" && prev.first) && line[0].depth > 0 {
		m.add(line[0].from, last.to, m.never[0]+m.src[line[0].from:last.to]+m.never[1], left)
	}
}

// block reports whether the brace at token i begins statements: it follows a closing bracket or a word that
// only a block follows.
func (m *lexMutator) block(i int) bool {
	prev := m.near(i - 1)
	return prev.text == ")" || oneOf(prev.text, "else do try finally loop => unsafe")
}

// turn turns an if's condition around, where it stands on one line.
func (m *lexMutator) turn(line []lexeme) {
	for k, t := range line {
		if t.text != "if" || k > 0 && !oneOf(line[k-1].text, "else }") {
			continue
		}
		var from, to int
		if m.name == "rust" {
			if last := line[len(line)-1]; last.text != "{" || len(line)-k < 3 || last.depth != t.depth || has(line[k:len(line)-1], "{") {
				return
			}
			from, to = line[k+1].from, line[len(line)-2].to
		} else {
			end := matching(line, k+1)
			if end < 0 || k+1 >= len(line) || line[k+1].text != "(" || end == k+2 || has(line[k+2:end], "=") || has(line[k+2:end], ";") || has(line[k+2:end], "auto") {
				return
			}
			from, to = line[k+2].from, line[end-1].to
		}
		m.add(from, to, m.yes+m.src[from:to]+m.no, turned)
		return
	}
}

// matching is the index of the bracket that closes the one at index open; -1: none on the line.
func matching(line []lexeme, open int) int {
	if open >= len(line) || line[open].text != "(" {
		return -1
	}
	for k := open + 1; k < len(line); k++ {
		if line[k].text == ")" && line[k].depth == line[open].depth {
			return k
		}
	}
	return -1
}

func has(line []lexeme, text string) bool {
	for _, t := range line {
		if t.text == text && t.kind != tokenString {
			return true
		}
	}
	return false
}

func balanced(line []lexeme) bool {
	depth := 0
	for _, t := range line {
		switch {
		case t.kind != tokenMark:
		case oneOf(t.text, "( [ {"):
			depth++
		case oneOf(t.text, ") ] }"):
			depth--
			if depth < 0 {
				return false
			}
		}
	}
	return depth == 0
}

// continued reports whether the line before goes on with a backslash.
func (m *lexMutator) continued(i int) bool {
	at := strings.LastIndexByte(m.src[:m.toks[i].from], '\n')
	return at > 0 && strings.HasSuffix(strings.TrimRight(m.src[:at], "\r"), "\\")
}

// lineText is the source from at to the end of its line.
func (m *lexMutator) lineText(at int) string {
	line, _, _ := strings.Cut(m.src[at:], "\n")
	return strings.TrimRight(line, "\r")
}
