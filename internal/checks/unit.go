package checks

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// unit is one test of a file, or another function of it; the unit without a name is what stands outside.
type unit struct {
	path  string
	name  string
	test  bool
	lines []codeLine // with decorators above it
}

// codeLine is a line that has code on it.
type codeLine struct {
	number int // 1-based
	toks   []lexeme
	text   string // the tokens, parted by one space
}

func (u unit) line() int {
	if len(u.lines) == 0 {
		return 0
	}
	return u.lines[0].number
}

// goLanguage is for comparing lines only; faults in Go have a parser.
var goLanguage = &language{name: "go", comments: []string{"//"}, blocks: true, quotes: "\"`", chars: true}

// plainLanguage is for what is not known: shell, bats, Perl.
var plainLanguage = &language{name: "plain", comments: []string{"#"}, quotes: `"'`}

func dialect(name string) *language {
	if strings.HasSuffix(name, ".go") {
		return goLanguage
	}
	if l, ok := languageOf(name); ok {
		return l
	}
	if strings.HasSuffix(name, ".ex") || strings.HasSuffix(name, ".exs") {
		return &languages[0]
	}
	return plainLanguage
}

// units cuts a file into its tests, in the order in which they stand.
func units(name string, src []byte) []unit {
	if len(src) == 0 || len(src) > maxSource {
		return nil
	}
	l := dialect(name)
	lines := codeLines(l, string(src))
	if l == goLanguage {
		if out, ok := goUnits(name, src, lines); ok {
			return out
		}
	}
	return cut(name, l, strings.Split(string(src), "\n"), lines)
}

func codeLines(l *language, src string) []codeLine {
	var out []codeLine
	for _, t := range l.tokens(src) {
		if len(out) == 0 || out[len(out)-1].number != t.line+1 {
			out = append(out, codeLine{number: t.line + 1})
		}
		c := &out[len(out)-1]
		c.toks = append(c.toks, t)
		c.text += t.text + " "
	}
	for i := range out {
		out[i].text = strings.TrimSpace(out[i].text)
	}
	return out
}

// goUnits cuts by functions.
func goUnits(name string, src []byte, lines []codeLine) ([]unit, bool) {
	fset := gotoken.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	out := []unit{{path: name}}
	at := 0
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		u := unit{path: name, name: fn.Name.Name, test: fn.Recv == nil && goTest.MatchString(fn.Name.Name)}
		from, to := fset.Position(fn.Pos()).Line, fset.Position(fn.End()).Line
		for ; at < len(lines) && lines[at].number <= to; at++ {
			if lines[at].number < from {
				out[0].lines = append(out[0].lines, lines[at])
			} else {
				u.lines = append(u.lines, lines[at])
			}
		}
		out = append(out, u)
	}
	out[0].lines = append(out[0].lines, lines[at:]...)
	return out, true
}

var goTest = pattern.New(`^(?:Test|Fuzz|Example)(?:$|[^a-z])`)

// heads are how tests and other functions begin, by language. The first group is the name; without one it is
// the first string of the line.
var heads = map[string]struct{ test, other pattern.Pattern }{
	"python":     {pattern.New(`^(?:async\s+)?def\s+(test\w*)|^test\s+"`), pattern.New(`^(?:async\s+)?def\s+(\w+)|^class\s+(\w+)|^describe\s+"`)},
	"javascript": {jsTest, jsOther},
	"typescript": {jsTest, jsOther},
	"rust":       {nil, pattern.New(`^(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\s+(\w+)`)},
	"ruby":       {pattern.New(`^(?:it|specify|test|scenario|example|xit|fit|xspecify|xscenario)\b|^def\s+(test_\w+)`), pattern.New(`^(?:[fx]?(?:describe|context|feature)|RSpec\.describe)\b|^def\s+(\w+)|^class\s+(\w+)`)},
	"c":          {cTest, cOther},
	"c++":        {cTest, cOther},
	"plain":      {pattern.New(`^@test\s+["']|^(?:function\s+)?(test\w*)\s*\(\)|^subtest\s+["']`), pattern.New(`^(?:function\s+)?(\w+)\s*\(\)\s*\{`)},
	// Java, Kotlin, Scala, C#, Swift, PHP: a test has a mark above it, or is named so.
	"": {pattern.New(`^(?:[\w<>\[\],.?]+\s+)*(test\w*|Test\w+|` + "`[^`]+`" + `)\s*\([^;]*$`), pattern.New(`^(?:[\w<>\[\],.?]+\s+)+([\w$]+)\s*\([^;]*$`)},
}

var (
	jsTest  = pattern.New(`^(?:await\s+|return\s+)?(?:it|test|specify|xit|xtest|xspecify|fit|t\.test|Deno\.test)(?:\.\w+)*\s*[(` + "`" + `]`)
	jsOther = pattern.New(`^(?:[fx]?(?:describe|context|suite))(?:\.\w+)*\s*[(` + "`" + `]|^(?:export\s+)?(?:async\s+)?function\s*\*?\s*(\w+)`)
	cTest   = pattern.New(`^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|TEST_CASE_METHOD|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST|Test|Ensure)\s*\(\s*([^)]*)\)`)
	cOther  = pattern.New(`^(?:[\w*&:<>]+\s+)+\**(\w+)\s*\([^;]*$`)
	// testMark is an attribute or annotation that makes a function a test.
	testMark = pattern.New(`^(?:#\s*\[.*\b(?:test|rstest|test_case|quickcheck|proptest)\b|@\s*(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b|\[\s*(?:Test|TestCase|Fact|Theory|TestMethod|DataTestMethod)\b|#\s*\[\s*(?:Test|DataProvider)\b)`)
	notHead  = pattern.New(`^(?:if|for|while|switch|catch|return|else|new|throw|assert|try|do|using|lock|foreach|when|guard)\b`)
)

// cut goes by indentation, as formatted code of any language shows its blocks by it: what is indented deeper
// than the head of a test belongs to it, and the line that closes it.
func cut(name string, l *language, raw []string, lines []codeLine) []unit {
	head, ok := heads[l.name]
	if !ok {
		head = heads[""]
	}
	out := []unit{{path: name}}
	type open struct{ unit, indent int }
	stack := []open{{0, -1}}
	var above []codeLine // decorators that wait for what they stand above
	for _, c := range lines {
		text := strings.TrimSpace(raw[c.number-1])
		in := indent(raw[c.number-1])
		for len(stack) > 1 && in <= stack[len(stack)-1].indent && !closes(text) {
			stack = stack[:len(stack)-1]
		}
		top := &stack[len(stack)-1]
		if decorates(text) && in > top.indent {
			above = append(above, c)
			continue
		}
		if n, test, ok := headOf(text, c, above, head.test, head.other); ok && in > top.indent {
			if up := out[top.unit].name; up != "" {
				n = up + " > " + n
			}
			out = append(out, unit{path: name, name: n, test: test, lines: append(above, c)})
			stack, above = append(stack, open{len(out) - 1, in}), nil
			continue
		}
		u := &out[top.unit]
		u.lines, above = append(append(u.lines, above...), c), nil
		if in == top.indent && closes(text) && !strings.HasSuffix(text, "{") && !strings.HasSuffix(text, ":") {
			stack = stack[:len(stack)-1]
		}
	}
	out[0].lines = append(out[0].lines, above...)
	return out
}

func headOf(text string, c codeLine, above []codeLine, test, other pattern.Pattern) (name string, isTest, ok bool) {
	if notHead.MatchString(text) {
		return "", false, false
	}
	for _, a := range above {
		isTest = isTest || testMark.MatchString(a.text)
	}
	m := []string(nil)
	if test != nil {
		m = test.FindStringSubmatch(text)
	}
	if m != nil {
		isTest = true
	} else if m = other.FindStringSubmatch(text); m == nil {
		return "", false, false
	}
	for _, g := range m[1:] {
		if g != "" {
			return g, isTest, true
		}
	}
	for _, t := range c.toks {
		if t.kind == tokenString {
			return strings.Trim(t.text, "\"'`"), isTest, true
		}
	}
	return c.text, isTest, true
}

func indent(line string) int {
	n := 0
	for _, c := range line {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 8
		default:
			return n
		}
	}
	return n
}

// closes reports whether a line ends a block, or goes on with it after a bracket.
func closes(text string) bool {
	return strings.HasPrefix(text, "}") || strings.HasPrefix(text, ")") || strings.HasPrefix(text, "]") || text == "end" || strings.HasPrefix(text, "{") || text == `"""` || text == "'''"
}

func decorates(text string) bool {
	return strings.HasPrefix(text, "@") && !strings.HasPrefix(text, "@test ") || strings.HasPrefix(text, "#[") || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")
}

// golden reports whether a file holds what tests expect, and is no code.
func golden(name string) bool {
	p := strings.ToLower(name)
	return goldenName.MatchString(path.Base(p)) || goldenFolder.MatchString(path.Dir(p)+"/")
}

var (
	goldenName   = pattern.New(`\.(?:golden|snap|snapshot|expected|approved|ambr|want|stdout|stderr)(?:\.\w+)?$|\.(?:approved|expected|golden|verified|want)\.\w+$|^(?:expected|golden)[._-]`)
	goldenFolder = pattern.New(`(?:^|/)(?:__snapshots__|__image_snapshots__|goldens?|snapshots?|expected|testdata|__fixtures__|fixtures|cassettes)/`)
)
