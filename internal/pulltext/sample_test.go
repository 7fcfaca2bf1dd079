package pulltext

import (
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

// realistic is a change as one sees many: it passes, with something for a reviewer to look at.
func realistic() Options {
	oid := func(c string) sallyport.ObjectID { return sallyport.ObjectID(strings.Repeat(c, 40)) }
	digest := func(s string) sallyport.Digest { return sallyport.Sum([]byte(s)) }
	held := func(l ...sallyport.Layer) (out []evidence.Layer) {
		for _, x := range l {
			out = append(out, evidence.Layer{Layer: x, Status: sallyport.LayerHeld, Grade: sallyport.GradeProbe})
		}
		return out
	}
	p := evidence.Predicate{
		WorkOrder: evidence.WorkOrder{ID: workOrder, Name: "fix-1432"}, Attempt: evidence.Attempt{ID: attempt, Number: 2},
		Manifest: digest("manifest"), Base: evidence.Base{Ref: "refs/heads/main", Commit: oid("a")},
		Result: evidence.Result{Tree: oid("b"), Commit: oid("c")},
		Layers: append(held("worktree", "process", "filesystem", "syscalls", "network", "credentials", "memory", "runtime", "output"),
			evidence.Layer{Layer: "disk", Status: sallyport.LayerWatched}, evidence.Layer{Layer: "cpu", Status: sallyport.LayerNotHeld},
			evidence.Layer{Layer: "pids", Status: sallyport.LayerHeld, Weaker: "per user"}),
		Findings: []evidence.Finding{{Rule: "dependency.lock", Severity: sallyport.SeverityInfo, Path: "go.sum", Message: "a lock file changed"},
			{Rule: "tests.edited", Severity: sallyport.SeverityWarn, Path: "billing/total_test.go", Message: "1 test of the base was edited"}},
		NotChecked: []string{`the check "web" does not apply to this change`, "coverage of lines 10-20 (see @ci)"},
		Attempts:   []evidence.Earlier{{Number: 1, State: sallyport.AttemptRejected, Code: "check-failed"}},
		Decision:   evidence.Decision{Decision: sallyport.DecisionAccepted, Code: "approved", Message: "Every check passed, and a person approved the findings."},
		Separation: "process", Egress: &evidence.Egress{Requests: 41, Refused: 2, BytesUp: 812345, BytesDown: 3456789},
		EgressRules: []sallyport.EgressRule{{Host: "proxy.golang.example", Port: 443, Protocol: "https"}},
		Spend:       &evidence.Spend{InputTokens: 123456, OutputTokens: 7890, MicroUSD: 1234567},
		Setup:       []evidence.Setup{{Number: 1, For: "base", Command: "go mod download", Egress: &evidence.Egress{Requests: 12, BytesDown: 1 << 20}}},
		By:          evidence.By{Independence: evidence.IndependenceEmbedded},
		Claims:      evidence.Claims{Agent: "claude-code", Messages: []string{"Round half to even\n\nFixes #1432. All tests pass, @reviewer please merge.\n/merge"}},
		Checks: []evidence.Check{
			{Name: "test", Command: "go test ./...", Status: sallyport.CheckPassed, StatusBy: "keeper", Seconds: 12.4, BaseStatus: sallyport.CheckPassed, BaseTests: sallyport.CheckPassed,
				Controls: []evidence.Control{{Name: "new-tests-on-base", Held: true, Required: true, Detail: "the new tests fail on the base"}, {Name: "min-tests", Held: true, Detail: "212 of at least 200"}},
				Tests:    &evidence.Tally{Format: "go", Tests: 212, Passed: 212, Skipped: 3}},
			{Name: "vet", Command: "go vet ./...", Status: sallyport.CheckPassed, StatusBy: "keeper", Seconds: 3.2, BaseStatus: sallyport.CheckPassed},
			{Name: "web", Command: "npm test", Status: sallyport.CheckNotRun, StatusBy: "keeper", Exit: -1},
		},
	}
	change := func(path string, s sallyport.ChangeStatus) sallyport.Change {
		return sallyport.Change{Path: path, Status: s}
	}
	return Options{
		Predicate: p, Evidence: digest("evidence"), Issue: "#1432", KeyID: "ed25519:0123456789abcdef",
		Task:          "Fix the rounding of totals\n\nHalf a cent goes to the even neighbour, as in the <Currency> type.",
		Changes:       []sallyport.Change{change("billing/total.go", "modified"), change("billing/total_test.go", "modified"), change("billing/round.go", "added"), change("go.sum", "modified")},
		BaseMoved:     "main has 3 commits that this change was not checked with",
		VerifyCommand: "sallyport verify evidence.json --key team.pub --commit " + string(oid("c")),
		Approvals:     []string{"alice, SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8"},
	}
}
