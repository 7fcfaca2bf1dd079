package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/journal"
)

// TestLearnPrintsTheBlock: on stdout stands what a file takes, and nothing else; no rule stands for two.
func TestLearnPrintsTheBlock(t *testing.T) {
	w := newWorld(t)
	end := at(sallyport.AttemptFailed, func(a *journal.Attempt) {
		a.Report.Agent = sallyport.AgentResult{Exit: 1, Ended: "exit"}
		a.Report.Refusals = []sallyport.Refusal{
			{Host: "b.example", Port: 443, Protocol: "https", Reason: "host-not-listed", Line: "x", Count: 2},
			{Host: "b.example", Port: 443, Protocol: "https", Method: "GET", Path: "/x", Reason: "host-not-listed", Line: "x", Count: 1},
			{Host: "a.example", Port: 80, Protocol: "http", Method: "GET", Path: "/x", Reason: "host-not-listed", Line: "x", Count: 1},
			{Host: "g.example", Port: 443, Protocol: "https", Method: "GET", Path: "/team/lib.git/info/refs", Reason: "host-not-listed", Line: "{host: g.example, protocol: git, paths: [/team/lib]}", Count: 1},
			{Host: "c.example", Port: 443, Protocol: "https", Reason: "address", Message: "an address of this machine\x1b[2J", Line: "{host: 10.0.0.1}", Count: 1},
			{Asked: "not a host", Reason: "malformed-name", Message: "no host", Count: 1},
		}
	})
	r := submittedBy(t, w, end, "learn", "-m", "x", "--", "npm", "ci")
	if !r.Flags.Learn || r.Flags.Publish == nil || r.Flags.Publish.To != "none" {
		t.Errorf("%+v", r.Flags)
	}
	want := "egress:\n  - {host: a.example, protocol: http, paths: [/x]}\n  - b.example\n  - {host: g.example, protocol: git, paths: [/team/lib]}\n"
	if w.out.String() != want {
		t.Errorf("stdout:\n%s", w.out)
	}
	for _, said := range []string{"no rule is proposed for https c.example:443: an address of this machine; if it is meant: {host: 10.0.0.1}", `no rule is proposed for "not a host"`} {
		if !strings.Contains(w.err.String(), said) {
			t.Errorf("stderr does not say %q:\n%s", said, w.err)
		}
	}
	visibleOnly(t, "stderr", w.err.String())
}

// submittedBy runs a command line over an Attempt that ends so; it must exit with 0.
func submittedBy(t *testing.T, w *world, end journal.Attempt, args ...string) (got Request) {
	t.Helper()
	w.control.submit = func(ctx context.Context, r Request) (sallyport.AttemptID, error) {
		got = r
		return accepts(ctx, r)
	}
	w.control.follow = script(end)
	w.want(ExitOK, args...)
	return got
}

func TestLearnOfAnAgentThatNeverRan(t *testing.T) {
	w := newWorld(t)
	w.control.submit, w.control.follow = accepts, script(at(sallyport.AttemptFailed))
	w.want(ExitFailed, "learn", "--", "true")
	if w.out.String() != "" {
		t.Errorf("stdout: %s", w.out)
	}
	newWorld(t).stateless().want(ExitInvalid, "learn", "--publish", "branch", "--", "true")
	newWorld(t).stateless().want(ExitInvalid, "learn", "npm")
}

// TestEgressPresets: each with its rules.
func TestEgressPresets(t *testing.T) {
	w := newWorld(t).stateless()
	w.want(ExitOK, "egress", "presets")
	for _, want := range []string{"npm ", "  - {host: registry.npmjs.org, paths: ["} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("no %q in\n%s", want, w.out)
		}
	}
	w = newWorld(t).stateless()
	w.want(ExitOK, "egress", "presets", "--json")
	var list []egress.PresetList
	if err := json.Unmarshal([]byte(w.out.String()), &list); err != nil || len(list) != len(egress.Presets()) || len(list[0].Rules) == 0 {
		t.Errorf("%v\n%s", err, w.out)
	}
}
