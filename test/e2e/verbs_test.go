package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// TestNoPolicy: without sallyport.yaml nothing shows that a change works; a person decides, and how is said.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("a", "1\n")
	w.commit("no policy")
	r := w.run("plain", "echo 2 > a; mkdir -p .github/workflows; true").want(10)
	rep := r.report()
	if rep.State != sallyport.AttemptAwaitingApproval || rep.Reason.Code != "no-checks" || !strings.Contains(rep.Reason.Message, "no check") {
		t.Errorf("%s %+v", rep.State, rep.Reason)
	}
	if !has(rep.NotChecked, "no check is defined") {
		t.Errorf("not_checked: %q", rep.NotChecked)
	}
	r.says("AWAITING APPROVAL", "sallyport init")
	if w.command(w.repo, "git", "rev-parse", "-q", "--verify", "sallyport/plain").code == 0 {
		t.Error("a change that awaits approval has a branch")
	}
	id := string(rep.Attempt)
	w.sallyport("publish", id).want(40).says("awaiting-approval")
	w.sallyport("approve", id, "--why", "read it").want(0).says("sallyport/plain")
	after := w.sallyport("show", id, "--json").want(0).report()
	accepted(t, w, after)
	w.sallyport("approve", id).want(2)
	w.sallyport("reject", id, "--why", "late").want(2)
	ci := w.run("ci", "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml").want(20).report()
	if len(ci.Findings) == 0 || ci.Findings[0].Path != ".github/workflows/x.yml" {
		t.Errorf("a CI file without policy: %+v", ci.Findings)
	}
}

// TestVerbs goes through what a person does with one rejected and one accepted Attempt.
func TestVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file("docs/x.md", "x\n")
	base := w.commit("docs")
	bad := w.run("job", "echo bad > a; echo new > docs/y.md; echo 'log line one'; printf '\\033[2Jwiped\\n'").want(20).report()
	id := string(bad.Attempt)
	before := w.fingerprint()

	w.sallyport("show", id).want(0).says("REJECTED", "docs/y.md")
	if got := w.sallyport("show", id, "--json").want(0).report(); got.Attempt != bad.Attempt || got.State != bad.State || got.Tree != bad.Tree {
		t.Errorf("show --json is not what run --json was: %+v", got)
	}
	w.sallyport("show", strings.TrimPrefix(id, "att_")[:12]).want(0)
	w.sallyport("show", "nosuchid").want(2).says("nosuchid")
	var ps struct {
		Attempts []sallyport.Report `json:"attempts"`
	}
	w.sallyport("ps", "-a", "--json").want(0).document(&ps)
	if len(ps.Attempts) != 1 || ps.Attempts[0].Attempt != bad.Attempt || ps.Attempts[0].State != "rejected" || ps.Attempts[0].WorkOrder == "" {
		t.Errorf("ps -a --json: %+v", ps)
	}
	w.sallyport("ps", "--json").want(0).document(&ps)
	if len(ps.Attempts) != 0 {
		t.Errorf("ps --json shows ended attempts: %+v", ps)
	}
	w.sallyport("logs", id).want(0).says("log line one", "wiped").silent("\x1b[2J")

	w.sallyport("diff", id).want(0).says("+bad", "+new", "-base")
	w.sallyport("diff", id, "--stat").want(0).says("docs/y.md", "2 files changed")
	if got := w.sallyport("diff", id, "--name-only").want(0).out; got != "a\ndocs/y.md\n" {
		t.Errorf("--name-only: %q", got)
	}
	w.sallyport("diff", id, "--", "docs").want(0).says("+new").silent("+bad")
	w.sallyport("diff", id, "--name-only", "--", "docs/y.md").want(0).silent("a\n")

	dir := filepath.Join(w.dir, "result")
	if os.Getuid() == w.uid {
		w.sallyport("export", id, dir).want(0)
		if got := w.read(filepath.Join(dir, "docs", "y.md")); got != "new\n" {
			t.Errorf("exported: %q", got)
		}
		w.sallyport("export", id, dir).want(2).says(dir)
	}
	w.sallyport("check", id).want(20).says("failed")
	w.sallyport("check", id, "test").want(20)
	w.sallyport("check", id, "nosuch").want(2).says("nosuch", "test")
	w.sallyport("approve", id, "--why", "whatever").want(2)
	w.sallyport("reject", id).want(2).says("--why")
	w.untouched(before)

	again := w.sallyport("retry", id, "-m", "use the word that starts with g", "--json").want(20).report()
	if again.Previous != bad.Attempt || again.Number != 2 || again.WorkOrder != bad.WorkOrder || again.Attempt == bad.Attempt {
		t.Errorf("retry: number %d, previous %s", again.Number, again.Previous)
	}
	if w.git("rev-parse", "HEAD") != base || w.git("status", "--porcelain") != "" {
		t.Error("the checkout moved")
	}
}

// TestRetryIsTold: the feedback file has the reason, the check's output and the person's words, and the next
// sandbox starts from what the last one left.
func TestRetryIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	script := `if [ -z "${SALLYPORT_FEEDBACK:-}" ]; then echo bad > a; echo kept > b; exit 0; fi
grep -q 'not accepted' "$SALLYPORT_FEEDBACK" && grep -q 'looking at a' "$SALLYPORT_FEEDBACK" && grep -q 'starts with g' "$SALLYPORT_FEEDBACK" || { cat "$SALLYPORT_FEEDBACK"; exit 9; }
[ "$(cat b)" = kept ] || exit 8
[ "$(cat a)" = bad ] || exit 7
echo good > a`
	bad := w.run("told", script).want(20).report()
	good := w.sallyport("retry", string(bad.Attempt), "-m", "it starts with g", "--json").want(0).report()
	accepted(t, w, good)
	if got := w.git("show", good.Branch+":b"); got != "kept" {
		t.Errorf("b is %q", got)
	}
	if got := w.git("rev-list", "--count", "main.."+good.Branch); got != "1" {
		t.Errorf("%s commits on the base, want one", got)
	}
	w.sallyport("retry", string(good.Attempt)).want(2)
	auto := w.run("auto", strings.ReplaceAll(script, "&& grep -q 'starts with g' \"$SALLYPORT_FEEDBACK\" ", ""), "--attempts", "3").want(0).report()
	if auto.Number != 2 {
		t.Errorf("attempts: 3 ended with number %d", auto.Number)
	}
	stuck := w.run("stuck", "echo bad > a", "--attempts", "5").want(20).report()
	if stuck.Number != 2 {
		t.Errorf("two equal trees should end the loop at 2; it ended at %d", stuck.Number)
	}
}

// TestReject: a person's no needs a reason and is final; nothing is published.
func TestReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.file("sallyport.yaml", policy("sh t.sh", "publish: {to: branch, approve: always}"))
	w.commit("approve always")
	before := w.fingerprint()
	r := w.run("asked", "echo good > a").want(10).report()
	if r.Reason.Code != "approval-required" {
		t.Errorf("%+v", r.Reason)
	}
	w.sallyport("reject", string(r.Attempt), "--why", "another problem").want(0).says("another problem")
	got := w.sallyport("show", string(r.Attempt), "--json").want(0).report()
	if got.State != sallyport.AttemptRejected || got.Branch != "" {
		t.Errorf("%s %q", got.State, got.Branch)
	}
	w.sallyport("approve", string(r.Attempt)).want(2)
	w.sallyport("publish", string(r.Attempt)).want(40)
	w.untouched(before)
}

// TestEvidence: only the right key verifies, and every mutation of the file fails, with no exit 0.
func TestEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	r := w.run("signed", "echo good > a").want(0).report()
	key := w.file(filepath.Join(w.dir, "key.pem"), w.sallyport("keys").want(0).out)
	evidence := w.file(filepath.Join(w.dir, "evidence.json"), w.read(r.Evidence))
	w.sallyport("verify", evidence, "--key", key).want(0).says(r.Commit.Short())
	w.sallyport("verify", evidence, "--key", key, "--commit", string(r.Commit), "--tree", string(r.Tree), "--attempt", string(r.Attempt)).want(0)
	w.sallyport("verify", evidence, "--key", key, "--commit", strings.Repeat("0", 40)).want(20)
	w.sallyport("verify", evidence).want(2).says("--key")
	w.sallyport("verify", filepath.Join(w.dir, "absent.json"), "--key", key).want(2)

	other := newWorld(t)
	wrong := w.file(filepath.Join(w.dir, "wrong.pem"), other.sallyport("keys").want(0).out)
	if c := w.sallyport("verify", evidence, "--key", wrong).code; c != 20 {
		t.Errorf("wrong key: exit %d, want 20", c)
	}
	text := w.read(evidence)
	var doc map[string]any
	w.must(json.Unmarshal([]byte(text), &doc))
	for name, mutated := range map[string]string{
		"empty":     "",
		"cut":       text[:len(text)/2],
		"payload":   flip(text, strings.Index(text, `"payload"`)+40),
		"signature": flip(text, strings.Index(text, `"sig"`)+20),
		"not JSON":  "hello",
		"no sigs":   `{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}`,
		"two":       text + text,
	} {
		f := w.file(filepath.Join(w.dir, "m.json"), mutated)
		if c := w.sallyport("verify", f, "--key", key).code; c != 20 && c != 2 && c != 1 {
			t.Errorf("%s: exit %d", name, c)
		}
	}
}

// flip changes one base64 character to another.
func flip(s string, i int) string {
	c := byte('A')
	if s[i] == c {
		c = 'B'
	}
	return s[:i] + string(c) + s[i+1:]
}

// TestLiveName: one live Attempt per WorkOrder; its id is named, and cancelling frees the name.
func TestLiveName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	first := strings.TrimSpace(w.sallyport("run", "-d", "--name", "live", "-m", "live", "--", "sh", "-c", "echo good > a; sleep 100").want(0).out)
	w.run("live", "true").want(2).says(first)
	w.sallyport("ps").want(0).says("live")
	w.run("other", "echo good > a").want(0)
	began := time.Now()
	w.sallyport("cancel", first).want(0)
	w.sallyport("wait", first).want(130)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("cancelling took %v", took)
	}
	w.sallyport("cancel", first).want(2)
	w.run("live", "echo good again > a").want(0)
}

// TestOperatorVerbs: schema, gc, fsck, reconcile and version answer.
func TestOperatorVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	r := w.run("x", "echo good > a").want(0).report()
	names := strings.Fields(w.sallyport("schema").want(0).out)
	if len(names) < 4 {
		t.Errorf("schemas: %q", names)
	}
	for _, n := range names {
		if s := w.sallyport("schema", n).want(0); !json.Valid([]byte(s.out)) {
			t.Errorf("schema %s is not JSON: %.200s", n, s.out)
		}
	}
	w.sallyport("schema", "nosuch").want(2)
	w.sallyport("reconcile", "--dry-run").want(0)
	w.sallyport("reconcile").want(0)
	w.sallyport("gc", "--dry-run").want(0)
	w.sallyport("gc").want(0)
	w.sallyport("fsck").want(0).says("chain")
	w.sallyport("diff", string(r.Attempt), "--name-only").want(0).says("a\n")
	w.sallyport("version").want(0)
	w.sallyport("nosuchverb").want(2).says("nosuchverb")
	w.sallyport("run", "--nosuchflag").want(2).says("--nosuchflag")
	w.sallyport("ps", "extra").want(2)
}
