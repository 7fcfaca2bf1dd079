package review

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"sallyport.dev/sallyport"
)

var update = flag.Bool("update", false, "rewrite golden files")

// hostile is text that an agent would like to see acted on.
const hostile = "\x1b]52;c;AAAA\x07<script>alert(1)</script>\u202e\x1b[2Jx"

func subject() Subject {
	oid := sallyport.ObjectID(strings.Repeat("ab", 20))
	return Subject{
		Report: sallyport.Report{Attempt: "att_00000000000000000000000001", Name: "fix-1432", Number: 2, State: sallyport.AttemptRejected,
			Reason: sallyport.Reason{Code: "control-not-held", Message: "the check passes with a fault " + hostile, Hint: "look"},
			Tree:   oid, Commit: oid, Evidence: "/state/with space/evidence.json",
			Changes: []sallyport.Change{
				{Path: "billing/total.go", Status: sallyport.ChangeModified, OldMode: "100644", NewMode: "100644"},
				{Path: "billing/" + hostile + ".go", Status: sallyport.ChangeAdded, NewMode: "100755"},
				{Path: "billing/total_test.go", Status: sallyport.ChangeModified, OldMode: "100644", NewMode: "100644"},
				{Path: "README", Status: sallyport.ChangeDeleted, OldMode: "100644"},
			},
			Checks: []sallyport.CheckResult{
				{Name: "test", Run: "go test ./...", Status: sallyport.CheckPassed, BaseStatus: sallyport.CheckPassed, StatusBy: "keeper", Tail: hostile,
					Tests: &sallyport.Tally{Format: "go", Tests: 12, Passed: 12}, BaseTally: &sallyport.Tally{Format: "go", Tests: 11},
					Controls: []sallyport.Control{{Name: "planted-fault", Required: true, Detail: "it passes with a fault: " + hostile}, {Name: "min-tests", Held: true}, {Name: "new-tests-on-base"}}},
				{Name: "web", Run: "npm test", Status: sallyport.CheckNotRun},
			},
			Findings:   []sallyport.Finding{{Rule: "name.control", Severity: sallyport.SeverityBlock, Path: hostile, Message: hostile, Todo: "rename it"}},
			Layers:     []sallyport.LayerReport{{Layer: sallyport.LayerNetwork, Status: sallyport.LayerHeld, Grade: "probe", Proof: "tried"}, {Layer: sallyport.LayerDisk, Status: sallyport.LayerWatched, Proof: "polled", Fix: "quota"}},
			NotChecked: []string{`check "test" has no control`}, Notices: []string{hostile}, Timings: map[string]float64{"running": 1.5, "queued": 0.1}},
		Manifest: sallyport.Manifest{Task: "Fix the rounding\n" + hostile, Base: oid, BaseRef: "refs/heads/main", Attempts: 3, Policy: sallyport.Source{Kind: "protected-ref", Ref: "refs/heads/main"}, Agent: sallyport.Agent{Name: "claude-code"}},
		Judges:   func(p string) bool { return strings.HasSuffix(p, "_test.go") },
	}
}

const patch = "diff --git a/x.go b/x.go\nindex 1..2 100644\n--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,3 @@ func f\n a\n--- b\n+++ c\n d\ndiff --git a/y b/y\nnew file mode 100644\n@@ -0,0 +1 @@\n+\x1b[31m<b>\n\\ No newline at end of file\n"

func render(t *testing.T, s Subject, patch string) (text, html string) {
	t.Helper()
	p := New(s)
	var a, b bytes.Buffer
	if err := Text(&a, p, false); err != nil {
		t.Fatal(err)
	}
	diffs, left, err := Patch(strings.NewReader(patch))
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	if err := HTML(&b, p, diffs, left); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

func TestGolden(t *testing.T) {
	text, html := render(t, subject(), patch)
	_, body, _ := strings.Cut(html, "<body>") // the style is looked at in a browser, not here
	for name, got := range map[string]string{"page.txt": text, "page.body.html": body} {
		path := filepath.Join("testdata", name)
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
}

// inOrder fails unless every text comes after the one before it.
func inOrder(t *testing.T, name, got string, order ...string) {
	t.Helper()
	at := 0
	for _, want := range order {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%s: %q is missing after %q", name, want, got[max(0, at-80):at])
		}
		at += i + len(want)
	}
}

func TestThePageSaysEverythingInOrder(t *testing.T) {
	text, html := render(t, subject(), patch)
	inOrder(t, "text", text, "Fix the rounding", "attempt 2 of at most 3", "4 files: 3 in 3 folders, 1 that judges it", "to look at first", "total_test.go", "./", "billing/", "total.go", "test: passed on the base → passed", "12 tests; 11 on the base",
		"control planted-fault does not hold", "control min-tests held", "control new-tests-on-base could not be shown", "nothing shows that it can fail", "web: not-run", "block name.control", "rename it", "network", "fix: quota", "Not checked", "has no control", "Verify", "sallyport verify '/state/with space/evidence.json'", "queued", "running")
	inOrder(t, "html", html, "REJECTED: fix-1432", "Fix the rounding", "Tests and what checks run by, to look at first", "total_test.go", "billing/", "passed on the base", "does not hold", "could not be shown", "name.control", "network", "has no control", "sallyport verify", "x.go")
}

// TestNothingOfTheAgentActs: no escape, no control character, no bidirectional override, no markup of the agent
// and no address reaches either form.
func TestNothingOfTheAgentActs(t *testing.T) {
	text, html := render(t, subject(), patch+"diff --git a/z b/z\n@@ -1 +1 @@\n-"+strings.ReplaceAll(hostile, "\n", "")+"\n+"+hostile+"</div><script>\n")
	for name, s := range map[string]string{"text": text, "html": html} {
		for _, r := range s {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Errorf("%s contains %U", name, r)
			}
		}
	}
	for _, bad := range []string{"<script", "<b>", "http://", "https://", "src=", "url("} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if strings.Count(html, "href=") != strings.Count(html, `href="#`) {
		t.Error("the page has an address")
	}
	if !strings.Contains(html, "default-src 'none'") {
		t.Error("the page has no policy against loading")
	}
	if !strings.Contains(html, "&lt;ESC&gt;]52;c;AAAA&lt;BEL&gt;") || !strings.Contains(html, "&lt;U&#43;202E&gt;") && !strings.Contains(html, "&lt;U+202E&gt;") {
		t.Error("what an editor would not show is not spelled out")
	}
}

// TestEveryElementIsClosed reads the page as a browser does.
func TestEveryElementIsClosed(t *testing.T) {
	_, page := render(t, subject(), patch)
	z := html.NewTokenizer(strings.NewReader(page))
	var open []string
	ids, targets := map[string]bool{}, []string{}
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) != 0 {
				t.Errorf("%v, %q are not closed", z.Err(), open)
			}
			for _, id := range targets {
				if !ids[id] {
					t.Errorf("no element has the id %q", id)
				}
			}
			return
		case html.StartTagToken:
			tok := z.Token()
			for _, a := range tok.Attr {
				switch a.Key {
				case "id":
					ids[a.Val] = true
				case "href":
					targets = append(targets, strings.TrimPrefix(a.Val, "#"))
				}
			}
			if !slices.Contains([]string{"meta", "br"}, tok.Data) {
				open = append(open, tok.Data)
			}
		case html.EndTagToken:
			if tok := z.Token(); len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Fatalf("</%s> closes %q", tok.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// TestBeforeTheEnd: what is not known yet is said to be so, and nothing reads as if it had been looked at.
func TestBeforeTheEnd(t *testing.T) {
	s := subject()
	s.Manifest.Checks = []sallyport.Check{{Name: "unit", Run: "make test"}}
	for state, want := range map[sallyport.AttemptState][]string{
		sallyport.AttemptQueued: {"nothing was collected yet", "unit: not run yet", "nothing was looked at yet", "no sandbox was made yet", "nothing is signed yet"},
		sallyport.AttemptFailed: {"nothing was collected\n", "unit: not run ", "nothing was looked at\n", "no sandbox was made\n", "nothing is signed\n"},
	} {
		s.Report = sallyport.Report{Attempt: s.Report.Attempt, Name: "x", Number: 1, State: state}
		text, page := render(t, s, "")
		inOrder(t, string(state), text, want...)
		inOrder(t, string(state), page, strings.TrimSpace(want[0]), strings.TrimSpace(want[2]))
		if strings.Contains(text, "none") || strings.Contains(text, "\n  nothing\n") {
			t.Errorf("%s: something is said to have been found empty:\n%s", state, text)
		}
	}
	s.Report.Tree, s.Report.Timings = "t", map[string]float64{"inspecting": 1}
	if text, _ := render(t, s, ""); !strings.Contains(text, "\n  nothing\n") || !strings.Contains(text, "Findings\n  none\n") {
		t.Errorf("what was looked at and is empty:\n%s", text)
	}
}

// TestManyFiles: the page stays one, counts what it leaves out, and leaves out no test.
func TestManyFiles(t *testing.T) {
	s := subject()
	s.Report.Changes = nil
	for d := range 100 {
		for f := range 30 {
			s.Report.Changes = append(s.Report.Changes, sallyport.Change{Path: fmt.Sprintf("d%03d/f%02d.go", d, f), Status: sallyport.ChangeAdded}, sallyport.Change{Path: fmt.Sprintf("d%03d/f%02d_test.go", d, f), Status: sallyport.ChangeModified})
		}
	}
	c := New(s).Changed
	listed := c.More
	for _, f := range c.Folders {
		listed++
		if len(f.Files)+f.More != 30 {
			t.Errorf("%s: %d files and %d more", f.Name, len(f.Files), f.More)
		}
	}
	if listed != 100 || len(c.Folders) != maxFolders || len(c.Judges) != 3000 {
		t.Errorf("%d folders of 100, %d shown, %d judges of 3000", listed, len(c.Folders), len(c.Judges))
	}
}
