package checks

import (
	"slices"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

var (
	assertWord = pattern.New(`(?i)^(?:assert\w*|expect\w*|refute\w*|should\w*|verify\w*|must_\w+|ensure\w*|check\w*|raises\w*|fail|failnow|ck_assert\w*|cr_assert\w*|g_assert\w*|is_?equal|deepequal\w*|approx)$`)
	// goFails are the methods by which a Go test fails, and packages of assertions.
	goFails   = setOf("Error Errorf Fatal Fatalf Fail FailNow")
	goAsserts = setOf("require assert is qt be")
	rustFails = setOf("panic unwrap unwrap_err expect expect_err unreachable")
)

// assertions counts what can fail in a line.
func assertions(l *language, c codeLine) int {
	n := 0
	for i, t := range c.toks {
		if t.kind != tokenWord || i > 0 && oneOf(c.toks[i-1].text, "func def fn function import from") {
			continue
		}
		var before, after string
		if i > 0 {
			before = c.toks[i-1].text
		}
		if i+1 < len(c.toks) {
			after = c.toks[i+1].text
		}
		switch {
		case l == goLanguage:
			if before == "." && (goFails[t.text] || i > 1 && goAsserts[c.toks[i-2].text]) || before != "." && after == "(" && assertWord.MatchString(t.text) {
				n++
			}
		case l.name == "rust" && rustFails[t.text]:
			n++
		case assertWord.MatchString(t.text):
			// One chain is one assertion: expect(x).to.be, assert.equal.
			if before != "." || !slices.ContainsFunc(c.toks[:i], func(b lexeme) bool { return b.kind == tokenWord && assertWord.MatchString(b.text) }) {
				n++
			}
		case l.name == "javascript" || l.name == "typescript":
			if before == "." && i > 1 && c.toks[i-2].text == "t" && after == "(" && jsAsserts[t.text] {
				n++
			}
		}
	}
	return n
}

var jsAsserts = setOf("is not equal notEqual same notSame deepEqual notDeepEqual strictEqual ok notOk true false truthy falsy throws rejects regex match like deepLooseEqual looseEqual error pass snapshot plan")

// disabling are words that take a test, or a part of it, out of the run; focusing ones take out all others.
var (
	disabling = pattern.New(`\b(?:t|tb|b|f|s|c) \. (?:Skip|Skipf|SkipNow|skip|todo)\b|` +
		`\bpytest \. (?:mark \. )?(?:skip|skipif|xfail|importorskip)\b|\bunittest \. (?:skip\w*|expectedFailure)\b|@ (?:skip\w*|expectedFailure|Disabled\w*|Ignore)\b|\bskipTest \(|\bSkipTest\b|\b__test__ = False|` +
		`\b(?:it|test|describe|context|suite|specify) \. (?:skip\w*|todo|fixme|failing|fails)\b|\bthis \. skip \(|\b(?:skip|todo) : (?:true|["'` + "`" + `])|` +
		`\b(?:xit|xtest|xdescribe|xcontext|xspecify|xscenario|xfeature)\b|` +
		`# \[ (?:ignore|cfg_attr \( .*ignore|cfg \( any \( \) \))|\[ (?:Ignore|Explicit)\b|\bSkip = "|\benabled = false|\bassume(?:True|False|That)\b|` +
		`\bmarkTest(?:Skipped|Incomplete)\b|\bDISABLED_|\b(?:GTEST_SKIP|BOOST_TEST_DISABLED|SUCCEED)\b|@ (?:tag|moduletag) :? ?skip|^(?:skip|pending)\b`)
	focusing = pattern.New(`\b(?:it|test|describe|context|suite|specify) \. only\b|^(?:fit|fdescribe|fcontext|fspecify|ddescribe|iit)\b|\bonly : true|@ focus\b|, :? ?focus (?:=> true|do)\b|focus : true`)
	// swallowing ends a run, or takes its failure for nothing.
	swallowing = pattern.New(`\bos \. (?:_exit|Exit|abort) \( 0? ?\)|\bos \. (?:_exit|Exit) \( 0 \)|\bsys \. exit \( (?:0 )?\)|\bprocess \. (?:exit|reallyExit) \( (?:0 )?\)|\bprocess :: exit \( 0 \)|\bSystem \. exit \( 0 \)|\brecover \( \)|` +
		`\bsuppress \(|\bcatch (?:\( [^)]*\) )?\{ (?:return ;? ?)?\}|\. catch \( (?:\( \w* ?\)|\w+) => (?:\{ \}|null|undefined|void 0) \)|\brescue => nil|\brescue nil\b|\|\| (?:true|:)$|^set \+ e$|\bexit 0$|\bcontinueOnError\b`)
	swallowHead = pattern.New(`^except\b.*:$|^\} ?catch\b.*\{$|^catch\b.*\{$|^rescue\b`)
	swallowBody = pattern.New(`^(?:pass|\.\.\.|return|continue|\}|end|return ;)(?: [;)}]*)?$`)
)

// trivial reports whether an assertion cannot fail: of a constant, or of a thing with itself.
func trivial(l *language, c codeLine) bool {
	if assertions(l, c) == 0 && !(l == goLanguage && strings.HasPrefix(c.text, "if ")) {
		return false
	}
	if constantTruth.MatchString(c.text) {
		return true
	}
	for i, t := range c.toks {
		if t.kind == tokenMark && oneOf(t.text, "== === !=") && sameSides(c.toks, i, "( , && || ; { [") {
			return true
		}
		if t.text == "(" && i > 0 && (c.toks[i-1].kind == tokenWord && assertWord.MatchString(c.toks[i-1].text) || c.toks[i-1].text == "!" || i > 2 && goAsserts[c.toks[i-3].text] || i > 2 && assertWord.MatchString(c.toks[i-3].text)) {
			if args := arguments(c.toks, i); sameArguments(args) {
				return true
			}
		}
	}
	return chain.MatchString(c.text) && sameChain(c.text)
}

var (
	constantTruth = pattern.New(`(?i)\bassert (?:not (?:false|none|0)|true|1)(?: ,.*)?$|\bassert\w* !? ?\( (?:t , )?(?:true|1|! ?false)(?: [,)].*)?$|\b(?:assert|require) \. (?:true|ok|truthy) \( (?:t , )?true\b|\bassert\w* .*(?: or true|\|\| true)\b|\bassert(?:false|nil|null|none)\w* \( (?:false|nil|null|none) \)|^if (?:false|! true)(?: && .*)? \{|^if .* && false \{`)
	chain         = pattern.New(`^(?:await )?expect \( (.+?) \) \. (?:to\w*|to \. \w+|to \. \w+ \. \w+) \( (.+?) \)(?: ;)?$`)
)

func sameChain(text string) bool {
	m := chain.FindStringSubmatch(text)
	return m[1] == m[2]
}

// sameSides reports whether the operator at i has the same text on both sides.
func sameSides(toks []lexeme, i int, stops string) bool {
	left, right := i, i+1
	for left > 0 && (toks[left-1].depth > toks[i].depth || !oneOf(toks[left-1].text, stops) && !oneOf(toks[left-1].text, "assert if return and or not elif while =")) {
		left--
	}
	for right < len(toks) && (toks[right].depth > toks[i].depth || !oneOf(toks[right].text, ") , && || ; { } ] : and or")) {
		right++
	}
	return left < i && join(toks[left:i]) == join(toks[i+1:right])
}

func join(toks []lexeme) string {
	var b strings.Builder
	for _, t := range toks {
		b.WriteString(t.text)
		b.WriteByte(' ')
	}
	return b.String()
}

// arguments are the texts of a call's arguments; open is its bracket.
func arguments(toks []lexeme, open int) []string {
	var out []string
	from := open + 1
	for i := open + 1; i < len(toks); i++ {
		end := toks[i].text == ")" && toks[i].depth == toks[open].depth
		if end || toks[i].text == "," && toks[i].depth == toks[open].depth+1 {
			out = append(out, join(toks[from:i]))
			from = i + 1
		}
		if end {
			return out
		}
	}
	return nil // it goes on in another line
}

// sameArguments reports whether two neighbours among the first three are one: what is expected, and what is.
func sameArguments(args []string) bool {
	for i := 1; i < len(args) && i < 3; i++ {
		if args[i] != "" && args[i] == args[i-1] {
			return true
		}
	}
	return false
}

// strong and weak are comparisons by what they let pass. A step from the first list to the second, or to
// none, lets more pass.
var (
	strong    = pattern.New(`(?i)^(?:assert_?(?:list|dict|tuple|set|sequence|multiline)?_?equals?|assert_?eq|assert_?same|assert_?is|asserteq|equal|equals|equalvalues|exactly|jsoneq|tobe|toequal|tostrictequal|tomatchobject|tohavebeencalledwith|tohavebeencalledtimes|tothrowerror|deepequal|deepstrictequal|strictequal|eq|eql|isequalto|assertarrayequals|assert_called_once_with|assert_called_with|expect_eq|assert_eq|assertcountequal|same|is|elementsmatch|errorIs|errorAs|eqerror|asserterroris|toequaltypeof|assertalmostequal)$`)
	weak      = pattern.New(`(?i)^(?:assert_?true|assert_?false|assert_?is_?not_?none|assert_?not_?none|assert_?not_?null|assert_?in|assert_?is_?instance|assert_?greater\w*|assert_?less\w*|assertregex|assert|ok|true|truthy|false|falsy|notnil|notempty|contains|containselementof|subset|error|noerror|notequal|notequals|greater\w*|less\w*|tobetruthy|tobefalsy|tobedefined|tobenull|tocontain|tocontainequal|tomatch|tohavebeencalled|tohaveproperty|tothrow|tobegreater\w*|tobeless\w*|tobecloseto|tobeinstanceof|include|isnotnull|isnotempty|isnotequalto|assertnotnull|assertnotempty|assertthat|assert_called|assert_called_once|expect_true|assert_ne|match|indelta|inepsilon|withinduration|isnotzero|notzero|assert_not_equal\w*|assertnotequal\w*|not)$`)
	bound     = pattern.New(`(?i)(?:timeout|deadline|toleran|epsilon|^eps$|delta|^abs$|^rel$|rtol|atol|threshold|within|^max|limit|retries|retry|attempts|eventually|closeto|almost|duration|second|minute|^ms$|indelta|inepsilon|sleep|wait|approx|margin|slack|fuzz|error_?rate|flak)`)
	places    = pattern.New(`(?i)(?:places|closeto|digits|decimal|precision)`)
	timeUnits = map[string]int{"Nanosecond": 1, "Microsecond": 2, "Millisecond": 3, "Second": 4, "Minute": 5, "Hour": 6, "from_nanos": 1, "from_micros": 2, "from_millis": 3, "from_secs": 4}
)
