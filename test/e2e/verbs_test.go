package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// TestNoPolicy: without sallyport.yaml nothing shows that a change works; a person decides, and how is said.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.File("a", "1\n")
	w.Commit("no policy")
	r := w.Run("plain", "echo 2 > a; mkdir -p .github/workflows; true").Want(10)
	rep := r.Report()
	if rep.State != sallyport.AttemptAwaitingApproval || rep.Reason.Code != "no-checks" || !strings.Contains(rep.Reason.Message, "no check") {
		t.Errorf("%s %+v", rep.State, rep.Reason)
	}
	if !has(rep.NotChecked, "no check is defined") {
		t.Errorf("not_checked: %q", rep.NotChecked)
	}
	r.Says("AWAITING APPROVAL", "sallyport init")
	if w.Command(w.Repo, "git", "rev-parse", "-q", "--verify", "sallyport/plain").Code == 0 {
		t.Error("a change that awaits approval has a branch")
	}
	id := string(rep.Attempt)
	w.Sallyport("publish", id).Want(40).Says("awaiting-approval")
	w.Sallyport("approve", id, "--why", "read it").Want(0).Says("sallyport/plain")
	after := w.Sallyport("show", id, "--json").Want(0).Report()
	accepted(t, w, after)
	w.Sallyport("approve", id).Want(2)
	w.Sallyport("reject", id, "--why", "late").Want(2)
	ci := w.Run("ci", "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml").Want(20).Report()
	if len(ci.Findings) == 0 || ci.Findings[0].Path != ".github/workflows/x.yml" {
		t.Errorf("a CI file without policy: %+v", ci.Findings)
	}
}

// TestVerbs goes through what a person does with one rejected and one accepted Attempt.
func TestVerbs(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File("docs/x.md", "x\n")
	base := w.Commit("docs")
	bad := w.Run("job", "echo bad > a; echo new > docs/y.md; echo 'log line one'; printf '\\033[2Jwiped\\n'").Want(20).Report()
	id := string(bad.Attempt)
	before := w.Fingerprint()

	w.Sallyport("show", id).Want(0).Says("REJECTED", "docs/y.md")
	if got := w.Sallyport("show", id, "--json").Want(0).Report(); got.Attempt != bad.Attempt || got.State != bad.State || got.Tree != bad.Tree {
		t.Errorf("show --json is not what run --json was: %+v", got)
	}
	w.Sallyport("show", strings.TrimPrefix(id, "att_")[:12]).Want(0)
	w.Sallyport("show", "nosuchid").Want(2).Says("nosuchid")
	var ps struct {
		Attempts []sallyport.Report `json:"attempts"`
	}
	w.Sallyport("ps", "-a", "--json").Want(0).Document(&ps)
	if len(ps.Attempts) != 1 || ps.Attempts[0].Attempt != bad.Attempt || ps.Attempts[0].State != "rejected" || ps.Attempts[0].WorkOrder == "" {
		t.Errorf("ps -a --json: %+v", ps)
	}
	w.Sallyport("ps", "--json").Want(0).Document(&ps)
	if len(ps.Attempts) != 0 {
		t.Errorf("ps --json shows ended attempts: %+v", ps)
	}
	w.Sallyport("logs", id).Want(0).Says("log line one", "wiped").Silent("\x1b[2J")

	w.Sallyport("diff", id).Want(0).Says("+bad", "+new", "-base")
	w.Sallyport("diff", id, "--stat").Want(0).Says("docs/y.md", "2 files changed")
	if got := w.Sallyport("diff", id, "--name-only").Want(0).Out; got != "a\ndocs/y.md\n" {
		t.Errorf("--name-only: %q", got)
	}
	w.Sallyport("diff", id, "--", "docs").Want(0).Says("+new").Silent("+bad")
	w.Sallyport("diff", id, "--name-only", "--", "docs/y.md").Want(0).Silent("a\n")

	dir := filepath.Join(w.Dir, "result")
	if os.Getuid() == w.UID {
		w.Sallyport("export", id, dir).Want(0)
		if got := w.Read(filepath.Join(dir, "docs", "y.md")); got != "new\n" {
			t.Errorf("exported: %q", got)
		}
		w.Sallyport("export", id, dir).Want(2).Says(dir)
	}
	w.Sallyport("check", id).Want(20).Says("failed")
	w.Sallyport("check", id, "test").Want(20)
	w.Sallyport("check", id, "nosuch").Want(2).Says("nosuch", "test")
	w.Sallyport("approve", id, "--why", "whatever").Want(2).Says("approve: "+id+": it is rejected", "awaiting-approval can be approved").Silent("attempt.approved")
	w.Sallyport("reject", id).Want(2).Says("--why")
	w.Untouched(before)

	again := w.Sallyport("retry", id, "-m", "use the word that starts with g", "--json").Want(20).Report()
	if again.Previous != bad.Attempt || again.Number != 2 || again.WorkOrder != bad.WorkOrder || again.Attempt == bad.Attempt {
		t.Errorf("retry: number %d, previous %s", again.Number, again.Previous)
	}
	if w.Git("rev-parse", "HEAD") != base || w.Git("status", "--porcelain") != "" {
		t.Error("the checkout moved")
	}
}

// TestRetryIsTold: the feedback file has the reason, the check's output and the person's words, and the next
// sandbox starts from what the last one left.
func TestRetryIsTold(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	script := `if [ -z "${SALLYPORT_FEEDBACK:-}" ]; then echo bad > a; echo kept > b; exit 0; fi
grep -q 'not accepted' "$SALLYPORT_FEEDBACK" && grep -q 'looking at a' "$SALLYPORT_FEEDBACK" && grep -q 'starts with g' "$SALLYPORT_FEEDBACK" || { cat "$SALLYPORT_FEEDBACK"; exit 9; }
[ "$(cat b)" = kept ] || exit 8
[ "$(cat a)" = bad ] || exit 7
echo good > a`
	bad := w.Run("told", script).Want(20).Report()
	good := w.Sallyport("retry", string(bad.Attempt), "-m", "it starts with g", "--json").Want(0).Report()
	accepted(t, w, good)
	if got := w.Git("show", good.Branch+":b"); got != "kept" {
		t.Errorf("b is %q", got)
	}
	if got := w.Git("rev-list", "--count", "main.."+good.Branch); got != "1" {
		t.Errorf("%s commits on the base, want one", got)
	}
	w.Sallyport("retry", string(good.Attempt)).Want(2)
	auto := w.Run("auto", strings.ReplaceAll(script, "&& grep -q 'starts with g' \"$SALLYPORT_FEEDBACK\" ", ""), "--attempts", "3").Want(0).Report()
	if auto.Number != 2 {
		t.Errorf("attempts: 3 ended with number %d", auto.Number)
	}
	stuck := w.Run("stuck", "echo bad > a", "--attempts", "5").Want(20).Report()
	if stuck.Number != 2 {
		t.Errorf("two equal trees should end the loop at 2; it ended at %d", stuck.Number)
	}
}

// TestReject: a person's no needs a reason and is final; nothing is published.
func TestReject(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File("sallyport.yaml", world.Policy("sh t.sh", "publish: {to: branch, approve: always}"))
	w.Commit("approve always")
	before := w.Fingerprint()
	r := w.Run("asked", "echo good > a").Want(10).Report()
	if r.Reason.Code != "approval-required" {
		t.Errorf("%+v", r.Reason)
	}
	w.Sallyport("reject", string(r.Attempt), "--why", "another problem").Want(0).Says("another problem")
	got := w.Sallyport("show", string(r.Attempt), "--json").Want(0).Report()
	if got.State != sallyport.AttemptRejected || got.Branch != "" {
		t.Errorf("%s %q", got.State, got.Branch)
	}
	w.Sallyport("approve", string(r.Attempt)).Want(2)
	w.Sallyport("publish", string(r.Attempt)).Want(40)
	w.Untouched(before)
}

// TestEvidence: only the right key verifies, and every mutation of the file fails, with no exit 0.
func TestEvidence(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	r := w.Run("signed", "echo good > a").Want(0).Report()
	key := w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)
	evidence := w.File(filepath.Join(w.Dir, "evidence.json"), w.Read(r.Evidence))
	w.Sallyport("verify", evidence, "--key", key).Want(0).Says(r.Commit.Short())
	w.Sallyport("verify", evidence, "--key", key, "--commit", string(r.Commit), "--tree", string(r.Tree), "--attempt", string(r.Attempt)).Want(0)
	w.Sallyport("verify", evidence, "--key", key, "--commit", strings.Repeat("0", 40)).Want(20)
	w.Sallyport("verify", evidence).Want(2).Says("--key")
	w.Sallyport("verify", filepath.Join(w.Dir, "absent.json"), "--key", key).Want(2)

	other := world.New(t)
	wrong := w.File(filepath.Join(w.Dir, "wrong.pem"), other.Sallyport("keys").Want(0).Out)
	if c := w.Sallyport("verify", evidence, "--key", wrong).Code; c != 20 {
		t.Errorf("wrong key: exit %d, want 20", c)
	}
	text := w.Read(evidence)
	var doc map[string]any
	w.Must(json.Unmarshal([]byte(text), &doc))
	for name, mutated := range map[string]string{
		"empty":     "",
		"cut":       text[:len(text)/2],
		"payload":   flip(text, strings.Index(text, `"payload"`)+40),
		"signature": flip(text, strings.Index(text, `"sig"`)+20),
		"not JSON":  "hello",
		"no sigs":   `{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}`,
		"two":       text + text,
	} {
		f := w.File(filepath.Join(w.Dir, "m.json"), mutated)
		if c := w.Sallyport("verify", f, "--key", key).Code; c != 20 && c != 2 && c != 1 {
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
	w := world.New(t)
	w.Small()
	first := strings.TrimSpace(w.Sallyport("run", "-d", "--name", "live", "-m", "live", "--", "sh", "-c", "echo good > a; sleep 100").Want(0).Out)
	w.Run("live", "true").Want(2).Says(first)
	w.Sallyport("ps").Want(0).Says("live")
	w.Run("other", "echo good > a").Want(0)
	began := time.Now()
	w.Sallyport("cancel", first).Want(0)
	w.Sallyport("wait", first).Want(130)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("cancelling took %v", took)
	}
	w.Sallyport("cancel", first).Want(2)
	w.Run("live", "echo good again > a").Want(0)
}

// TestOperatorVerbs: schema, gc, fsck, reconcile and version answer.
func TestOperatorVerbs(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	r := w.Run("x", "echo good > a").Want(0).Report()
	names := strings.Fields(w.Sallyport("schema").Want(0).Out)
	if len(names) < 4 {
		t.Errorf("schemas: %q", names)
	}
	for _, n := range names {
		if s := w.Sallyport("schema", n).Want(0); !json.Valid([]byte(s.Out)) {
			t.Errorf("schema %s is not JSON: %.200s", n, s.Out)
		}
	}
	w.Sallyport("schema", "nosuch").Want(2)
	w.Sallyport("reconcile", "--dry-run").Want(0)
	w.Sallyport("reconcile").Want(0)
	w.Sallyport("check", string(r.Attempt)).Want(0)
	w.Sallyport("gc", "--dry-run").Want(0).Says("nothing to remove")
	w.Sallyport("gc").Want(0).Says("nothing to remove")
	w.Folder(filepath.Join(w.State, "attempts", string(r.Attempt), "layers", "left"))
	w.Folder(filepath.Join(w.State, "cache-layers", "left", "layer_left"))
	dry := w.Sallyport("gc", "--dry-run").Want(0).Says("remove layers of "+string(r.Attempt), "layer_left")
	if done := w.Sallyport("gc").Want(0); done.Out != dry.Out {
		t.Errorf("gc did\n%s\nand had announced\n%s", done.Out, dry.Out)
	}
	w.Sallyport("gc").Want(0).Says("nothing to remove")
	w.Sallyport("fsck").Want(0).Says("chain")
	w.Sallyport("diff", string(r.Attempt), "--name-only").Want(0).Says("a\n")
	w.Sallyport("version").Want(0)
	w.Sallyport("nosuchverb").Want(2).Says("nosuchverb")
	w.Sallyport("run", "--nosuchflag").Want(2).Says("--nosuchflag")
	w.Sallyport("ps", "extra").Want(2)
}
