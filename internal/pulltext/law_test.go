package pulltext

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/screen"
)

// forge is CommonMark with what the forges add, by a parser that knows nothing of ours.
var forge = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser()

var headings = []string{"What was asked", "What changed", "Checks", "Findings", "What held the agent", "What left the sandbox",
	"What it cost", "What was not checked", "Approved by", "Claims of the agent", "How to verify"}

// acts is what forges act on wherever it stands: in code, in a commit message.
var acts = map[string]*regexp.Regexp{
	"mention":      regexp.MustCompile(`@[\p{L}\p{N}_/-]`),
	"issue":        regexp.MustCompile(`[#!]\d`),
	"GH issue":     regexp.MustCompile(`(?i)(^|[^a-z0-9])GH-\d`),
	"address":      regexp.MustCompile(`://`),
	"closing word": regexp.MustCompile(`(?i)(close[sd]?|closing|fix(e[sd]|ing)?|resolve[sd]?|resolving|implement(s|ed|ing)?|reopen(s|ed)?):?\s+(issues?\s+)?([\w./-]*[#!]\d|[a-z]+-\d|\S+://)`),
	"quick action": regexp.MustCompile(`(?m)^\s*/`),
	"less-than":    regexp.MustCompile(`<`),
	"skip ci":      regexp.MustCompile(`(?i)\[(skip|no|ci)[ _-](ci|skip)\]|\*\*\*NO_CI`),
	"trailer":      regexp.MustCompile(`(?im)^\s*(co-authored-by|signed-off-by|skip-checks|change-id):`),
}

// outside are the letters that stand outside of code.
var outside = regexp.MustCompile(`^[A-Za-z0-9 ,.;:?()'"→…‹-]*$`)

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// law holds one rendering to everything that must be true whatever is in o. issue: how o.Issue and its verb appear.
func law(t reporter, o Options, issue string) {
	t.Helper()
	title, body := Render(o)
	if t2, b2 := Render(o); t2 != title || b2 != body {
		t.Fatal("two renderings differ")
	}
	lawOfTitle(t, title)
	m, ok := ParseMarker(body)
	if !ok || m.Attempt != o.Predicate.Attempt.ID || m.WorkOrder != o.Predicate.WorkOrder.ID || m.Evidence != o.Evidence {
		t.Fatalf("the marker reads %v %v", m, ok)
	}
	rest, ok := strings.CutSuffix(body, "\n"+m.String()+"\n")
	if !ok || len(body) > MaxBodyBytes {
		t.Fatalf("%d bytes, ending in %q", len(body), body[max(0, len(body)-100):])
	}
	lawOfLetters(t, strings.Replace(rest, issue+"\n", "\n", 1))
	lawOfMarkdown(t, body, m.String(), o, issue)
}

func lawOfLetters(t reporter, s string) {
	t.Helper()
	for name, re := range acts {
		if at := re.FindStringIndex(s); at != nil {
			t.Errorf("%s: %q", name, s[max(0, at[0]-20):min(len(s), at[1]+20)])
		}
	}
	for i, r := range s {
		if r == utf8.RuneError || r != '\n' && !unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			t.Errorf("%U at %d", r, i)
		}
	}
}

func lawOfTitle(t reporter, title string) {
	t.Helper()
	if screen.Columns(title) > 72 || !strings.HasPrefix(title, "sallyport: ") || strings.ContainsAny(title, "\n`|[]\\") {
		t.Errorf("title %q", title)
	}
	lawOfLetters(t, title)
	if m := regexp.MustCompile(`\b[0-9a-fA-F]{7,}\b|(?i:www\.)|[~%$&]\w`).FindString(title); m != "" {
		t.Errorf("title %q links %q", title, m)
	}
	src := []byte("* " + title + "\n")
	visit(t, src, func(n ast.Node) {
		switch n.Kind() {
		case ast.KindLink, ast.KindImage, ast.KindAutoLink, ast.KindRawHTML, ast.KindHTMLBlock, ast.KindHeading, ast.KindCodeSpan:
			t.Errorf("title %q has a %s", title, n.Kind())
		}
	})
}

func visit(t reporter, src []byte, f func(ast.Node)) {
	t.Helper()
	err := ast.Walk(forge.Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			f(n)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lawOfMarkdown: what a reader sees is made of our headings, paragraphs, lists, emphasis, code, and one comment.
func lawOfMarkdown(t reporter, body, marker string, o Options, issue string) {
	t.Helper()
	src := []byte(body)
	var heads []string
	comments := 0
	var plain strings.Builder
	visit(t, src, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Document, *ast.List, *ast.ListItem, *ast.Emphasis, *ast.CodeSpan:
		case *ast.Paragraph, *ast.TextBlock:
			plain.WriteString("\n")
		case *ast.Heading:
			heads = append(heads, string(n.Lines().Value(src)))
		case *ast.FencedCodeBlock:
			for _, l := range n.Lines().Sliced(0, n.Lines().Len()) {
				if s := string(l.Value(src)); !strings.HasPrefix(s, "│") && s != o.VerifyCommand+"\n" {
					t.Errorf("a line of a block is %q", s)
				}
			}
		case *ast.HTMLBlock:
			if comments++; strings.TrimSpace(string(n.Lines().Value(src))) != marker {
				t.Errorf("HTML %q", n.Lines().Value(src))
			}
		case *ast.AutoLink:
			if !strings.HasSuffix(issue, " "+string(n.URL(src))) {
				t.Errorf("link to %q", n.URL(src))
			}
		case *ast.Text:
			if n.Parent().Kind() != ast.KindCodeSpan {
				plain.Write(n.Segment.Value(src))
			}
		default:
			t.Errorf("%s in the body", n.Kind())
		}
	})
	want := slices.DeleteFunc(slices.Clone(headings), func(h string) bool { return h == "Approved by" && len(o.Approvals) == 0 })
	if !slices.Equal(heads, want) || comments != 1 {
		t.Errorf("headings %q, %d comments", heads, comments)
	}
	said := strings.Replace(plain.String(), "\n"+issue+"\n", "\n", 1)
	for l := range strings.Lines(said) {
		if !outside.MatchString(strings.TrimSuffix(l, "\n")) {
			t.Errorf("outside of code: %q", l)
		}
	}
}

// everywhere puts s into every text that Options has.
func everywhere(s string) Options {
	p := evidence.Predicate{
		WorkOrder: evidence.WorkOrder{ID: workOrder, Name: s}, Attempt: evidence.Attempt{ID: attempt, Number: 2},
		Manifest: sallyport.Digest(s), Base: evidence.Base{Ref: s, Commit: sallyport.ObjectID(s)},
		Result:      evidence.Result{Tree: sallyport.ObjectID(s), Commit: sallyport.ObjectID(s)},
		Layers:      []evidence.Layer{{Layer: sallyport.Layer(s), Status: sallyport.LayerHeld, Weaker: s}, {Layer: sallyport.Layer(s), Status: sallyport.LayerStatus(s)}},
		Findings:    []evidence.Finding{{Rule: s, Severity: sallyport.Severity(s), Path: s, Message: s, Default: sallyport.Severity(s)}},
		NotChecked:  []string{s},
		Attempts:    []evidence.Earlier{{State: sallyport.AttemptState(s), Code: s}},
		Decision:    evidence.Decision{Decision: sallyport.Decision(s), Code: s, Message: s},
		Setup:       []evidence.Setup{{Command: s, Egress: &evidence.Egress{}}},
		EgressRules: []sallyport.EgressRule{{Host: s, Protocol: sallyport.Protocol(s)}},
		By:          evidence.By{Independence: s},
		Claims:      evidence.Claims{Agent: s, Messages: []string{s, s}},
		Checks: []evidence.Check{{Name: s, Command: s, Status: sallyport.CheckStatus(s), StatusBy: s, BaseStatus: sallyport.CheckStatus(s), BaseTests: sallyport.CheckStatus(s),
			Controls: []evidence.Control{{Name: s, Detail: s}}, Message: s, Reused: sallyport.AttemptID(s), Runs: make([]evidence.Run, 3), Tests: &evidence.Tally{Format: s}}},
	}
	return Options{Predicate: p, Evidence: sallyport.Sum([]byte("x")), Task: s, Separation: s, BaseMoved: s, KeyID: s, VerifyCommand: s,
		Changes: []sallyport.Change{{Path: s, Status: sallyport.ChangeStatus(s)}, {Path: s + "/x", Status: sallyport.ChangeAdded}}, Approvals: []string{s}}
}

const (
	workOrder sallyport.WorkOrderID = "wo_00000000000000000000000004"
	attempt   sallyport.AttemptID   = "att_00000000000000000000000008"
)
