package control_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
)

// signed is what an Attempt's evidence says.
func signed(t *testing.T, at journal.Attempt) evidence.Predicate {
	t.Helper()
	b, err := os.ReadFile(at.Report.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct{ Payload string }
	if err := json.Unmarshal(b, &envelope); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	var s evidence.Statement
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	return s.Predicate
}

func (w *world) logPath(at journal.Attempt, name string) string {
	return filepath.Join(filepath.Dir(w.repo), "state", "attempts", string(at.Report.Attempt), name+".log")
}

func (w *world) log(at journal.Attempt, name string) []byte {
	w.t.Helper()
	b, err := os.ReadFile(w.logPath(at, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// fsck is what Fsck says, and whether it found a fault.
func (w *world) fsck() (string, bool) {
	w.t.Helper()
	lines, err := w.c.Fsck(w.t.Context())
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		w.t.Fatal(err)
	}
	return strings.Join(lines, "\n"), err != nil
}

// Evidence names each log as it was kept; a rerun writes others; what is changed afterwards is found.
func TestLogsAreSigned(t *testing.T) {
	t.Setenv("DB_PASSWORD", "Zq7-x-Kp9-v-mW-tR")
	w := newWorld(t, map[string]string{"sallyport.yaml": policy, "value": "wrong\n", "test.sh": "echo \"$DBP\" and $DBP; grep -q right value\n"})
	at := w.run(sallyport.WorkOrder{Task: "log it", Env: map[string]string{"DBP": "Zq7-x-Kp9-v-mW-tR"}, Command: []string{"sh", "-c", "echo $DBP; echo right > value"}})
	if at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	p := signed(t, at)
	found := map[string]evidence.Log{}
	for _, l := range p.Logs {
		b := w.log(at, l.Name)
		if l.Digest != sallyport.Sum(b) || l.Bytes != int64(len(b)) || l.Redactions != int64(strings.Count(string(b), "[redacted:DB_PASSWORD]")) {
			t.Errorf("%+v of %q", l, b)
		}
		found[l.Name] = l
	}
	if len(found) != 3 || found["agent"].Redactions != 1 || found["check-test-validate"].Redactions != 2 || found["check-test-base"].Bytes == 0 {
		t.Errorf("logs %+v", p.Logs)
	}
	if p.Claims.Output != found["agent"].Digest {
		t.Errorf("output %q", p.Claims.Output)
	}
	if p.Egress == nil || *p.Egress != (evidence.Egress{}) {
		t.Errorf("there was no way out, and egress is %+v", p.Egress)
	}
	before := w.log(at, "check-test-validate")
	for _, name := range []string{"check-test-validate-again", "check-test-validate-again-2"} {
		if _, err := w.c.Check(t.Context(), string(at.Report.Attempt), ""); err != nil {
			t.Fatal(err)
		}
		if again := w.log(at, name); string(again) != string(before) {
			t.Errorf("%s: %q", name, again)
		}
	}
	if said, fault := w.fsck(); fault || !strings.Contains(said, " 5 logs") {
		t.Errorf("%s", said)
	}
	for name, c := range map[string]struct {
		spoil func(string) error
		fault bool
	}{
		"edited":    {func(p string) error { return os.WriteFile(p, []byte(strings.ToUpper(string(before))), 0o600) }, true},
		"shortened": {func(p string) error { return os.Truncate(p, 3) }, true},
		"removed":   {os.Remove, false},
		"restored":  {func(p string) error { return os.WriteFile(p, before, 0o600) }, false},
	} {
		if err := c.spoil(w.logPath(at, "check-test-validate")); err != nil {
			t.Fatal(err)
		}
		said, fault := w.fsck()
		if fault != c.fault || fault != strings.Contains(said, "not as they were recorded: check-test-validate") {
			t.Errorf("%s: %s", name, said)
		}
		if err := os.WriteFile(w.logPath(at, "check-test-validate"), before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What a timeout met is said: of a check in its message, of the agent in a notice. Secrets in it are redacted.
func TestTheEndAtALimitSaysWhatWasRunning(t *testing.T) {
	t.Setenv("DB_PASSWORD", "Zq7-x-Kp9-v-mW-tR")
	env := map[string]string{"DBP": "Zq7-x-Kp9-v-mW-tR"}
	slow := "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 2s}\n"
	w := newWorld(t, map[string]string{"sallyport.yaml": slow, "value": "wrong\n", "test.sh": "grep -q right value || exit 1; sleep 1234\n"})
	at := w.run(sallyport.WorkOrder{Name: "check", Task: "t", Env: env, Command: []string{"sh", "-c", "echo right > value"}})
	if c := at.Report.Checks; len(c) != 1 || c[0].Status != sallyport.CheckFailed || !strings.Contains(c[0].Message, "timeout of 2s; it was running: sleep 1234; sh test.sh") {
		t.Errorf("%+v", c)
	}
	limit := 2 * time.Second
	at = w.run(sallyport.WorkOrder{Name: "agent", Task: "t", Env: env, Limits: sallyport.LimitsProposal{Time: &limit}, Command: []string{"sh", "-c", "perl -e 'sleep 1000' \"$DBP\"; true"}})
	said := strings.Join(at.Report.Notices, "\n")
	if at.Report.Reason.Code != "limit" || !strings.Contains(said, "runtime limit; it was running: perl -e sleep 1000 [redacted:DB_PASSWORD]") {
		t.Errorf("%+v, notices %s", at.Report.Reason, said)
	}
}
