package screen

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

var update = flag.Bool("update", false, "rewrite golden files")

func report(state sallyport.AttemptState) sallyport.Report {
	return sallyport.Report{
		Attempt: sallyport.AttemptID(sallyport.FormatID("att", [16]byte{1, 0x9a, 3, 4, 5, 6, 7, 8})), Name: "fix-login", Number: 1, State: state,
		Reason: sallyport.Reason{Code: "checks-passed", Message: "all checks pass and nothing was found"},
		Commit: sallyport.ObjectID(strings.Repeat("d", 40)), Tree: sallyport.ObjectID(strings.Repeat("c", 40)), Branch: "refs/heads/sallyport/fix-login",
		Changes: []sallyport.Change{
			{Path: "cmd/login.go", Status: sallyport.ChangeModified}, {Path: "cmd/login_test.go", Status: sallyport.ChangeAdded},
			{Path: "docs/login.md", Status: sallyport.ChangeModified}, {Path: "old.go", Status: sallyport.ChangeDeleted},
		},
		Checks: []sallyport.CheckResult{
			{Name: "test", Status: sallyport.CheckPassed, Seconds: 3.21, BaseStatus: sallyport.CheckFailed, StatusBy: "keeper", Controls: []sallyport.Control{{Name: "base", Held: true}}},
			{Name: "lint", Status: sallyport.CheckNotRun},
		},
		Layers: []sallyport.LayerReport{
			{Layer: sallyport.LayerNetwork, Status: sallyport.LayerHeld, Required: true}, {Layer: sallyport.LayerProcess, Status: sallyport.LayerHeld, Required: true, Weaker: "own uid"},
			{Layer: sallyport.LayerMemory, Status: sallyport.LayerWatched}, {Layer: sallyport.LayerDisk, Status: sallyport.LayerNotHeld},
		},
		Timings: map[string]float64{"running": 40, "validating": 3.4},
	}
}

func rejected() sallyport.Report {
	r := report(sallyport.AttemptRejected)
	r.Reason = sallyport.Reason{Code: "check-failed", Message: `check "test" fails on the change`}
	r.Checks[0].Status, r.Checks[0].BaseStatus, r.Checks[0].BaseTests = sallyport.CheckFailed, sallyport.CheckPassed, sallyport.CheckFailed
	r.Checks[0].Controls = nil
	var tail strings.Builder
	for i := range 30 {
		fmt.Fprintf(&tail, "line %d \x1b[31mof\x1b[0m output\r\n", i+1)
	}
	r.Checks[0].Tail = tail.String()
	r.Findings = []sallyport.Finding{
		{Rule: "hazard.ci", Severity: sallyport.SeverityWarn, Path: ".github/workflows/x.yml", Message: "changes what CI runs"},
		{Rule: "secret.github-token", Severity: sallyport.SeverityBlock, Path: "cmd/login.go", Message: "a GitHub token", Todo: "remove and revoke it"},
		{Rule: "size.large", Severity: sallyport.SeverityInfo, Message: "120 kB added"},
	}
	return r
}

// controlled has every kind of check that is less than it seems.
func controlled() sallyport.Report {
	r := report(sallyport.AttemptAwaitingApproval)
	r.Reason = sallyport.Reason{Code: "control-not-shown", Message: `control "planted-fault" of check "unit" could not be shown`}
	base := sallyport.Control{Name: "base", Held: true}
	pass, fail := sallyport.CheckPassed, sallyport.CheckFailed
	r.Checks = []sallyport.CheckResult{
		{Name: "shown", Status: pass, BaseStatus: fail, Seconds: 1, Controls: []sallyport.Control{base}, Reused: r.Attempt},
		{Name: "plain", Status: pass, BaseStatus: pass, Seconds: 2},
		{Name: "unit", Status: pass, BaseStatus: pass, Seconds: 3, Controls: []sallyport.Control{{Name: "planted-fault"}, {Name: "min-tests", Held: true}, {Name: "collected", Required: true}}},
		{Name: "web", Status: sallyport.CheckFlaky, BaseStatus: pass, Seconds: 4, Runs: []sallyport.Run{{Status: fail}, {Status: fail}, {Status: pass}}},
	}
	return r
}

func failed() sallyport.Report {
	r := report(sallyport.AttemptFailed)
	r.Agent = sallyport.AgentResult{Exit: 3, Ended: "exit"}
	r.Reason = sallyport.Reason{Code: "agent-failed", Message: "the agent ended with status 3", Hint: "sallyport logs 00d0"}
	r.Changes, r.Checks, r.Tree, r.Commit = nil, nil, "", ""
	return r
}

func TestRenderGolden(t *testing.T) {
	for name, r := range map[string]sallyport.Report{
		"accepted": report(sallyport.AttemptAccepted), "awaiting-approval": report(sallyport.AttemptAwaitingApproval), "rejected": rejected(), "failed": failed(), "controls": controlled(),
	} {
		t.Run(name, func(t *testing.T) {
			got := Render(r, Options{Width: 100})
			path := filepath.Join("testdata", "result-"+name+".golden.txt")
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
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]+m")

// TestGreenIsShown: only a pass that something shows to be able to fail is green.
func TestGreenIsShown(t *testing.T) {
	for name, want := range map[string]string{"shown": green, "plain": yellow, "unit": red, "web": red} {
		for _, c := range controlled().Checks {
			if c.Name == name && checkColour(c) != want {
				t.Errorf("%s has colour %s, want %s", name, checkColour(c), want)
			}
		}
	}
}

func TestRenderColourOnlyAdds(t *testing.T) {
	for _, r := range []sallyport.Report{report(sallyport.AttemptAccepted), rejected(), failed(), controlled()} {
		plain, coloured := Render(r, Options{}), Render(r, Options{Colour: true})
		if plain == coloured || sgr.ReplaceAllString(coloured, "") != plain {
			t.Errorf("with colour\n%s\nwithout\n%s", coloured, plain)
		}
	}
}

// TestRenderLaws: whatever a report holds, the page above the tails has at most MaxLines lines, each within
// the width, is neutral text, and never drops a failed check for a passed one.
func TestRenderLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a\nb", "\x1b[2J", "\u202egp.exe", "日本語日本語日本語", "x\rACCEPTED", strings.Repeat("é́́́́́́", 50), "", "; rm -rf '"}))
		r := sallyport.Report{
			Name: text.Draw(t, "name"), Number: rapid.Int().Draw(t, "number"), Attempt: sallyport.AttemptID(text.Draw(t, "attempt")), Branch: text.Draw(t, "branch"),
			State:  sallyport.AttemptState(rapid.SampledFrom([]string{"accepted", "rejected", "awaiting-approval", "failed", "cancelled", "running", "x\ny"}).Draw(t, "state")),
			Reason: sallyport.Reason{Message: text.Draw(t, "why"), Hint: text.Draw(t, "hint")}, Tree: sallyport.ObjectID(text.Draw(t, "tree")), Commit: sallyport.ObjectID(text.Draw(t, "commit")),
		}
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			r.Changes = append(r.Changes, sallyport.Change{Path: text.Draw(t, "path"), Status: sallyport.ChangeStatus(rapid.SampledFrom([]string{"added", "deleted", "mode", "odd"}).Draw(t, "status"))})
		}
		failures := 0
		for range rapid.IntRange(0, 8).Draw(t, "checks") {
			c := sallyport.CheckResult{Name: text.Draw(t, "check"), Status: sallyport.CheckStatus(rapid.SampledFrom([]string{"passed", "failed", "not-run", "odd\n"}).Draw(t, "status")), Message: text.Draw(t, "message"), Tail: text.Draw(t, "tail")}
			if c.Status == sallyport.CheckFailed {
				failures++
				c.Name = fmt.Sprintf("BAD%d", failures)
			}
			r.Checks = append(r.Checks, c)
		}
		for range rapid.IntRange(0, 5).Draw(t, "findings") {
			r.Findings = append(r.Findings, sallyport.Finding{Rule: text.Draw(t, "rule"), Severity: sallyport.Severity(rapid.SampledFrom([]string{"info", "warn", "block", "odd"}).Draw(t, "severity")), Path: text.Draw(t, "path"), Message: text.Draw(t, "message")})
		}
		for _, l := range sallyport.Layers() {
			r.Layers = append(r.Layers, sallyport.LayerReport{Layer: l, Status: sallyport.LayerStatus(rapid.SampledFrom([]string{"held", "not-held", "watched", "", "not-required"}).Draw(t, "layer")), Required: rapid.Bool().Draw(t, "required")})
		}
		rows := maxCheckRows
		for range rapid.IntRange(0, 4).Draw(t, "refusals") {
			rows = minCheckRows
			r.Refusals = append(r.Refusals, sallyport.Refusal{Host: text.Draw(t, "host"), Asked: text.Draw(t, "asked"), Method: text.Draw(t, "method"), Line: text.Draw(t, "line"), Reason: text.Draw(t, "reason"), Count: 1})
		}
		width := rapid.IntRange(40, 120).Draw(t, "width")
		out := Render(r, Options{Width: width})
		for _, c := range out {
			if c != '\n' && c != '\t' && !visible(c) {
				t.Fatalf("%U in %q", c, out)
			}
		}
		top, _, _ := strings.Cut(out, "\n\n---")
		lines := strings.Split(strings.TrimSuffix(top, "\n"), "\n")
		if len(lines) > MaxLines {
			t.Fatalf("%d lines:\n%s", len(lines), top)
		}
		for _, l := range lines {
			if Columns(l) > width {
				t.Fatalf("%d columns: %q", Columns(l), l)
			}
		}
		for i := 1; i <= min(failures, rows-1); i++ {
			if !strings.Contains(top, fmt.Sprintf("BAD%d", i)) {
				t.Fatalf("failed check %d is not shown:\n%s", i, top)
			}
		}
	})
}

func TestRenderTail(t *testing.T) {
	out := Render(rejected(), Options{})
	if !strings.Contains(out, "--- test: last 20 lines\n│ line 11 of output\n") || !strings.HasSuffix(out, "│ line 30 of output\n") || strings.Contains(out, "line 10 of") {
		t.Errorf("tail:\n%s", out)
	}
}

func TestRenderSaysThatNoCheckRan(t *testing.T) {
	r := report(sallyport.AttemptAwaitingApproval)
	r.Checks, r.Decision = nil, sallyport.DecisionAwaitingApproval
	if out := Render(r, Options{}); !strings.Contains(out, "checks    none ran") {
		t.Errorf("got\n%s", out)
	}
	if out := Render(failed(), Options{}); strings.Contains(out, "checks") {
		t.Errorf("a run that never came to checks speaks of them:\n%s", out)
	}
}

// TestRenderFullPage: with every row at its largest there are exactly MaxLines, and the last is still there.
func TestRenderFullPage(t *testing.T) {
	r := rejected()
	r.State = sallyport.AttemptAccepted
	for range 8 {
		r.Checks = append(r.Checks, sallyport.CheckResult{Name: "more", Status: sallyport.CheckPassed})
	}
	top, _, _ := strings.Cut(Render(r, Options{}), "\n\n---")
	lines := strings.Split(top, "\n")
	if len(lines) != MaxLines || !strings.Contains(lines[MaxLines-1], "git merge") || !strings.Contains(top, "… and 6 passed, 1 not-run") {
		t.Errorf("%d lines:\n%s", len(lines), top)
	}
}

// TestRenderRefusals: the first two with the line that would allow them, and how many more; nothing else is lost.
func TestRenderRefusals(t *testing.T) {
	r := rejected()
	r.State = sallyport.AttemptAccepted
	for range 8 {
		r.Checks = append(r.Checks, sallyport.CheckResult{Name: "more", Status: sallyport.CheckPassed})
	}
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		r.Refusals = append(r.Refusals, sallyport.Refusal{Host: host, Port: 443, Protocol: "https", Reason: "host-not-listed", Line: "{host: " + host + "}", Count: 3})
	}
	r.Refusals[1].Line = ""
	top, _, _ := strings.Cut(Render(r, Options{}), "\n\n---")
	lines := strings.Split(top, "\n")
	for _, want := range []string{"refused   {host: a.example}  host-not-listed, 3 times", "https b.example:443  host-not-listed", "1 more: sallyport show", "git merge", "8 passed", "layers"} {
		if !strings.Contains(top, want) {
			t.Errorf("no %q in\n%s", want, top)
		}
	}
	if len(lines) > MaxLines || strings.Contains(top, "c.example") {
		t.Errorf("%d lines:\n%s", len(lines), top)
	}
	r.Refusals = r.Refusals[:1]
	if out := Render(r, Options{}); !strings.Contains(out, "--egress 'LINE'") {
		t.Errorf("how to allow it is not said:\n%s", out)
	}
}

func TestRenderNeverAcceptsWhatHasNotEnded(t *testing.T) {
	r := report(sallyport.AttemptDeciding)
	r.Decision = sallyport.DecisionAccepted
	if out := Render(r, Options{}); !strings.HasPrefix(out, "DECIDING") || strings.Contains(out, "git merge") {
		t.Errorf("got\n%s", out)
	}
}

func TestNextQuotesTheBranch(t *testing.T) {
	r := report(sallyport.AttemptAccepted)
	for branch, want := range map[string]string{"refs/heads/sallyport/a-b": "git merge sallyport/a-b", "refs/heads/a;id": "git merge 'a;id'", "refs/heads/a'b": `git merge 'a'\''b'`, "refs/heads/-x": "git merge '-x'"} {
		r.Branch = branch
		if got := next(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNextOfAPullRequest: where the branch is at a forge, nothing here can merge it.
func TestNextOfAPullRequest(t *testing.T) {
	r := report(sallyport.AttemptAccepted)
	r.Branch, r.PullRequest = "refs/heads/sallyport/a", "https://forge.example/owner/shop/pulls/1"
	out := Render(r, Options{Width: 100})
	if !strings.Contains(out, "at the forge\n") || !strings.Contains(out, "  https://forge.example/owner/shop/pulls/1   review and merge it there\n") || strings.Contains(out, "git merge") {
		t.Errorf("got\n%s", out)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"hello", 5, "hello"}, {"hello!", 5, "hell…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"日本", 1, "…"}, {"x", 0, ""}, {"", 3, ""},
		{"e\u0301\u0301\u0301\u0301\u0301\u0301x", 5, "e\u0301\u0301\u0301\u0301x"},
	} {
		if got := Fit(c.in, c.n); got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for s, want := range map[float64]string{0.04: "0.0 s", 9.94: "9.9 s", 12.4: "12 s", 119: "119 s", 200.4: "3 min 20 s"} {
		if got := Seconds(s); got != want {
			t.Errorf("%v: %q, want %q", s, got, want)
		}
	}
}
