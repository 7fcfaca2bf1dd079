package pulltext

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

var update = flag.Bool("update", false, "rewrite golden files")

// hostile texts, each with what must not be in what is made of it.
var hostile = []struct{ name, text, gone string }{
	{"mention", "ask @everyone and @org/team", "@everyone"},
	{"many at signs", "@@@root", "@root"},
	{"closing", "Fixes #1, closes: GH-1, resolves owner/repo#1", "#1"},
	{"closing of GitLab", "Closes !5 and implements group/project!6", "!5"},
	{"closing by address", "Closes https://forge.example/o/r/issues/1", "://"},
	{"closing of a tracker", "fix: ABC-12\nImplements issue XY-3", "ABC-12"},
	{"an issue without a word", "see GH-12, gh-13 and group/project!6", "GH-12"},
	{"quick actions", "/merge\n/approve\n /close\n\t/assign @me", "\n/approve"},
	{"quick actions after a fence", "```\n/merge\n```\n/merge\n````\n/merge", "\n/merge"},
	{"image", "![x](https://evil.example/p.png)", "://"},
	{"link", "[click](javascript:alert(1)) <https://evil.example> www.evil.example", "<"},
	{"reference link", "[x]: https://evil.example\n\n[x] [x][] [^1]\n\n[^1]: note", "://"},
	{"HTML", "<script>alert(1)</script><details><img src=x>", "<"},
	{"our marker", markerLine("att_0000000000000000000000000c"), "<!--"},
	{"comment", "<!-- hidden -->\n<!-- sallyport:", "<!--"},
	{"fence escape", "```\n# free\n~~~\n``````````\n<b>", "\n# free"},
	{"backticks", "` `` ``` ```` a`b``c", ""},
	{"only backticks", "````````", ""},
	{"headings", "# one\ntwo\n===\nthree\n---\n", "\n---"},
	{"table", "| a | b |\n|---|---|\n| c | d |", "\n|"},
	{"task list", "- [ ] do\n- [x] done\n1. [ ] no", "\n- [x]"},
	{"terminal", "\x1b]52;c;AAAA\x07\x1b[2J\u009b31m", "\x1b"},
	{"bidi", "a\u202eb\u2066c\u200bd\ufeff\u00ade\U000e0041", "\u202e"},
	{"not UTF-8", "a\xff\xfeb\xc3", "\xff"},
	{"carriage return", "a\rb\r\n/merge\r/merge", "\r"},
	{"line separators", "a\u2028/merge\u2029/close\u0085/close\v/close\f/close", "\u2028"},
	{"entities", "&#64;everyone &lt;b&gt; &commat;x", ""},
	{"escapes", `\@x \#1 \<b> \` + "`" + `code\`, "@x"},
	{"skip", "[skip ci] [ci skip] [no ci] ***NO_CI***", "[skip ci]"},
	{"trailers", "x\n\nCo-authored-by: a <a@b.example>\nskip-checks: true\n", "\nskip-checks"},
	{"draft", "Draft: WIP: [Draft] x", "\nDraft"},
	{"commit", "see deadbeefdeadbeefdeadbeefdeadbeefdeadbeef and 1234567", ""},
	{"references", "~bug %\"1.0\" $12 &3 ^alert#4 [[wiki]] :tada:", "#4"},
	{"mail", "mailto:x@evil.example x@evil.example xmpp:x@y", "x@evil"},
	{"marks", "a" + strings.Repeat("\u0301", 5000), ""},
	{"long", strings.Repeat("@a #1 `` ", 20000), "@a"},
	{"many lines", strings.Repeat("/close\n", 20000), "\n/close"},
	{"wide", strings.Repeat("漢字", 5000), ""},
	{"empty", "", ""},
	{"blank", " \n\t\n ", ""},
	{"a sentence", "No test of the base was run.", ""},
	{"a list in a sentence", "1. one", ""},
	{"math", "$`x`$ $$y$$ {+ a +} #ff0000", ""},
}

func markerLine(a sallyport.AttemptID) string {
	return Marker{WorkOrder: workOrder, Attempt: a, Evidence: sallyport.Sum(nil)}.String()
}

func TestHostileTextDoesNothing(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			o := everywhere(h.text)
			law(t, o, "\x00")
			title, body := Render(o)
			m, _ := ParseMarker(body)
			if rest := strings.TrimSuffix(body, m.String()+"\n"); h.gone != "" && strings.Contains(rest+title, h.gone) {
				t.Errorf("%q is still there:\n%s\n%s", h.gone, title, body)
			}
		})
	}
}

// What is taken away is not hidden from the reader.
func TestWhatBecomesOfText(t *testing.T) {
	for in, want := range map[string]string{
		"go test ./...":           "`go test ./...`",
		"a`b``c":                  "```a`b``c```",
		"`x`":                     "`` `x` ``",
		"node_modules/@types/x":   "`node_modules/@ types/x`",
		"a\u202eb <i>\x1b[1m":     "`a‹U+202E>b ‹i>‹ESC>[1m`",
		"one\ntwo":                "`one‹LF›two`",
		"":                        "(empty)",
		"  ":                      "(empty)",
		"fixes UTF-8, and UTF-16": "`fixes UTF- 8, and UTF-16`",
		strings.Repeat("x", 200):  "`" + strings.Repeat("x", 159) + "…`",
	} {
		var q quoter
		if got := q.code(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`check "test" has no control, it ran 3 times.`: `check "test" has no control, it ran 3 times`,
		"see deadbeef":   "`see deadbeef`",
		"*bold* text":    "`*bold* text`",
		"www.evil.com":   "`www.evil.com`",
		"1. first":       "`1. first`",
		"for ABC-12":     "`for ABC-12`",
		"two  spaces":    "`two  spaces`",
		"a line\nbroken": "`a line‹LF›broken`",
	} {
		var q quoter
		if got := q.sentence(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestTitle(t *testing.T) {
	for task, want := range map[string]string{
		"\n  Fix the rounding \nof totals": "sallyport: Fix the rounding",
		"":                                 "sallyport: fix-1432",
		"Draft: fixes #12 for @me":         "sallyport: Draft: fixes # 12 for @ me",
		"revert 0123456789abcdef":          "sallyport: revert 012345…",
		"[x](https://e.example) `a`|b":     "sallyport: (x)(https: //e.example) 'a'¦b",
		strings.Repeat("word ", 40):        "sallyport: " + strings.Repeat("word ", 12) + "…",
	} {
		o := Options{Task: task, Predicate: evidence.Predicate{WorkOrder: evidence.WorkOrder{Name: "fix-1432"}}}
		if got, _ := Render(o); got != want {
			t.Errorf("%q: %q, want %q", task, got, want)
		}
	}
}

func TestIssue(t *testing.T) {
	for _, c := range []struct {
		issue string
		close bool
		want  string // "": shown as text
	}{
		{"#12", false, "For #12"},
		{" #12 ", true, "Closes #12"},
		{"owner/re_po.x#7", true, "Closes owner/re_po.x#7"},
		{"https://forge.example:8443/o/r/issues/12", false, "For https://forge.example:8443/o/r/issues/12"},
		{"https://forge.example/g/sub/r/-/issues/12", true, "Closes https://forge.example/g/sub/r/-/issues/12"},
		{"#12, closes #13", true, ""},
		{"#012", true, ""},
		{"#12\n/merge", true, ""},
		{"https://forge.example/o/r/issues/12?x=@y", true, ""},
		{"https://user@forge.example/o/r/issues/12", true, ""},
		{"javascript:alert(1)", false, ""},
		{"_a_/b#1", true, ""},
		{"@me", false, ""},
	} {
		o := everywhere("x y")
		o.Issue, o.CloseIssue = c.issue, c.close
		_, body := Render(o)
		if c.want != "" && !strings.Contains(body, "\n"+c.want+"\n") {
			t.Errorf("%q: no %q", c.issue, c.want)
		}
		if c.want == "" {
			c.want = "\x00"
			if !strings.Contains(body, "\nFor `") {
				t.Errorf("%q is not shown as text", c.issue)
			}
		}
		law(t, o, c.want)
	}
}

// One section cannot push another out, and what is missing is counted.
func TestEveryListIsBounded(t *testing.T) {
	o := everywhere(strings.Repeat("漢\u0301\u0302\u0303\u0304", 300) + "\n" + strings.Repeat("line @x\n", 500))
	p := &o.Predicate
	for range 1000 {
		p.Checks = append(p.Checks, p.Checks[0])
		p.Checks[0].Controls = append(p.Checks[0].Controls, p.Checks[0].Controls[0])
		p.Findings, p.NotChecked = append(p.Findings, p.Findings[0]), append(p.NotChecked, p.NotChecked[0])
		p.Layers, p.Attempts = append(p.Layers, p.Layers[0]), append(p.Attempts, p.Attempts[0])
		p.EgressRules, p.Setup = append(p.EgressRules, p.EgressRules[0]), append(p.Setup, p.Setup[0])
		p.Claims.Messages, o.Approvals = append(p.Claims.Messages, p.Claims.Messages[0]), append(o.Approvals, o.Approvals[0])
		o.Changes = append(o.Changes, sallyport.Change{Path: string(rune('a'+len(o.Changes)%26)) + o.Changes[0].Path + string(rune(0x4e00+len(o.Changes))) + "/x"})
	}
	law(t, o, "\x00")
	_, body := Render(o)
	sections := strings.Split(body, "### ")
	for _, s := range sections[1:] {
		if name, _, _ := strings.Cut(s, "\n"); !strings.Contains(s, "more") && name != "What it cost" && name != "How to verify" {
			t.Errorf("section %q does not say what was left out", name)
		}
	}
	if last := sections[len(sections)-1]; strings.Contains(last, "left out for length\n\n<!--") || !strings.Contains(last, "Separation") {
		t.Errorf("how to verify is cut:\n%s", last)
	}
}

func TestMarker(t *testing.T) {
	line := markerLine(attempt)
	for body, ok := range map[string]bool{
		"text\n" + line + "\n":               true,
		"text\r\n\r\n" + line + "\r\n":       true,
		line:                                 true,
		"":                                   false,
		"text " + line:                       false,
		line + " ":                           false,
		line + "\n" + line:                   false,
		line + "\n<!-- sallyport: more":      false,
		strings.Replace(line, "wo_", "x", 1): false,
		strings.Replace(line, " evidence", "  evidence", 1): false,
		strings.ToUpper(line):                               false,
	} {
		m, got := ParseMarker(body)
		if got != ok || ok && m.String() != line {
			t.Errorf("%q: %v %v", body, m, got)
		}
	}
	if s := (Marker{WorkOrder: workOrder, Attempt: "att_x --> <b>", Evidence: sallyport.Sum(nil)}).String(); s != "" {
		t.Errorf("a marker of what is no id: %s", s)
	}
}

func TestGolden(t *testing.T) {
	title, body := Render(realistic())
	law(t, realistic(), "For #1432")
	got, path := title+"\n\n"+body, filepath.Join("testdata", "body.golden.md")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", path, got)
	}
}

// FuzzRender: foreign text, alone or beside another, neither links, mentions, closes, hides nor ends what quotes it, wherever it stands.
func FuzzRender(f *testing.F) {
	for _, h := range hostile {
		if len(h.text) < 10000 {
			f.Add(h.text, "x")
			f.Add("x", h.text)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		o := everywhere(a)
		law(t, o, "\x00")
		// Two texts side by side must not make together what neither is.
		o.Predicate.Checks[0].Command, o.Predicate.Findings[0].Path, o.Predicate.Claims.Messages[1], o.Task = b, b, b, a+"\n"+b
		o.Issue, o.VerifyCommand = b, a
		if issueNumber.MatchString(strings.TrimSpace(b)) || issueAddress.MatchString(strings.TrimSpace(b)) {
			o.Issue = ""
		}
		law(t, o, "\x00")
	})
}
