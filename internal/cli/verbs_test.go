package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
)

func TestRootHelp(t *testing.T) {
	w := newWorld(t).stateless()
	w.want(ExitOK)
	golden(t, "help", w.out.String())
	first := w.out.String()
	w = newWorld(t).stateless()
	w.want(ExitOK, "help")
	if w.out.String() != first {
		t.Error("help differs from no arguments")
	}
}

func TestRunHelp(t *testing.T) {
	w := newWorld(t).stateless()
	w.want(ExitOK, "run", "--help")
	golden(t, "help-run", w.out.String())
}

func TestEveryVerbIsExplained(t *testing.T) {
	w := newWorld(t)
	a := &app{Env: w.env, signals: newSignals(nil), terminal: &restorer{}}
	for _, c := range a.root().Commands() {
		if c.Short == "" || !strings.Contains(c.Example, "sallyport "+c.Name()) || c.GroupID == "" || c.Long == "" && !c.Hidden {
			t.Errorf("%s: short %q, example %q, group %q", c.Name(), c.Short, c.Example, c.GroupID)
		}
		if len(c.Short) > 72 {
			t.Errorf("%s: short text is too long", c.Name())
		}
	}
}

// The tree is built anew for each run: a flag of one must not be seen by the next.
func TestTwoRunsShareNothing(t *testing.T) {
	w := newWorld(t)
	if r := submitted(t, w, "run", "--include-dirty", "--allow", "x", "--", "true"); !r.Flags.IncludeDirty {
		t.Fatalf("%+v", r)
	}
	if r := submitted(t, w, "run", "--", "true"); r.Flags.IncludeDirty || r.Flags.Scope != nil {
		t.Errorf("%+v", r.Flags)
	}
}

func TestTypos(t *testing.T) {
	for _, c := range []struct{ args, hint string }{
		{"rnu", "did you mean `sallyport run`?"}, {"aprove 01", "did you mean `sallyport approve`?"}, {"dif --stat", "did you mean `sallyport diff`?"},
		{"frobnicate", "sallyport help"}, {"show --jsn", "did you mean --json?"}, {"run --atempts 3", "did you mean --attempts?"},
		{"approve", "sallyport approve 01m9k3v0"}, {"reject 01m9", `sallyport reject 01m9 --why "REASON"`}, {"ps x", "usage: sallyport ps"},
		{"export 01m9", "sallyport export"}, {"diff a b c", "paths go behind --"}, {"--bogus", "sallyport help"},
	} {
		w := newWorld(t).stateless()
		w.want(ExitInvalid, strings.Fields(c.args)...)
		if !strings.Contains(w.err.String(), "hint: ") || !strings.Contains(w.err.String(), c.hint) {
			t.Errorf("%s: %s", c.args, w.err)
		}
		if w.out.String() != "" {
			t.Errorf("%s: stdout %q", c.args, w.out)
		}
	}
}

func TestNewestOfThisRepository(t *testing.T) {
	w := newWorld(t)
	root := w.repository()
	in := func(repository string, id sallyport.AttemptID) journal.Attempt {
		return at(sallyport.AttemptRejected, func(a *journal.Attempt) { a.Report.Repository, a.Report.Attempt = repository, id })
	}
	w.control.attempts = []journal.Attempt{in("/elsewhere", "att_zzz"), in(root, "att_newer"), in(root, "att_older")}
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(deep, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, deep, link} {
		w.out.b.Reset()
		w.env.Dir = dir
		w.want(ExitOK, "show", "--json")
		if r := document[sallyport.Report](t, w.out.String()); r.Attempt != "att_newer" {
			t.Errorf("from %s: %s", dir, r.Attempt)
		}
	}
	// A repository inside a repository is its own.
	if err := os.Mkdir(filepath.Join(root, "a", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.env.Dir = deep
	w.want(ExitInvalid, "show")
	if !strings.Contains(w.err.String(), "no attempt of this repository") {
		t.Errorf("stderr %s", w.err)
	}
}

func TestPs(t *testing.T) {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	list := []journal.Attempt{
		at(sallyport.AttemptRunning, func(a *journal.Attempt) {
			a.Report.Created, a.Report.Repository = ago(90*time.Second), "/src/a\x1b[31m"
		}),
		at(sallyport.AttemptAccepted, func(a *journal.Attempt) {
			a.Report.Attempt, a.Report.Created = "att_01m9k3v0q8r0000000000000b1", ago(50*time.Hour)
		}),
	}
	w := newWorld(t)
	w.control.attempts = list
	w.want(ExitOK, "ps")
	if lines := strings.Split(strings.TrimSpace(w.out.String()), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "01m9k3v0q8r0  fix-12  1    running  1m   /src/a") {
		t.Errorf("ps:\n%s", w.out)
	}
	visibleOnly(t, "ps", w.out.String())

	w = newWorld(t)
	w.control.attempts = list
	w.want(ExitOK, "ps", "-a")
	// The two share their first characters: then both are shown whole.
	for _, want := range []string{"01m9k3v0q8r0000000000000a0", "01m9k3v0q8r0000000000000b1", "2d"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("ps -a lacks %q:\n%s", want, w.out)
		}
	}
	w = newWorld(t)
	w.control.attempts = list
	w.want(ExitOK, "ps", "-a", "--json")
	if doc := document[Attempts](t, w.out.String()); len(doc.Attempts) != 2 || doc.Attempts[0].State != sallyport.AttemptRunning {
		t.Errorf("document %+v", doc)
	}
	w = newWorld(t)
	w.want(ExitOK, "ps", "--json")
	if got := strings.Join(strings.Fields(w.out.String()), ""); got != `{"attempts":[]}` {
		t.Errorf("empty: %s", got)
	}
}

func TestDecisions(t *testing.T) {
	published := func(a *journal.Attempt) { a.Publication, a.Published = &lifecycle.Publication{}, true }
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptAwaitingApproval)}
	w.control.decide = func(verb, who, why string) (journal.Attempt, error) {
		if verb != "approve" || who != "alice" || why != "read it" {
			t.Errorf("%s by %q because %q", verb, who, why)
		}
		return at(sallyport.AttemptAccepted, published), nil
	}
	w.want(ExitOK, "approve", "01m9", "--why", "read it")

	w = newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptAwaitingApproval)}
	w.control.decide = func(_, _, why string) (journal.Attempt, error) {
		if why != "no" {
			t.Errorf("why %q", why)
		}
		return at(sallyport.AttemptRejected), nil
	}
	w.want(ExitOK, "reject", "01m9", "--why", "no")
	newWorld(t).stateless().want(ExitInvalid, "reject", "01m9")

	// Approved, and somebody else's commit is on the branch: the word counts, the code says 10.
	w = newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptAwaitingApproval)}
	w.control.decide = func(string, string, string) (journal.Attempt, error) {
		w.control.attempts = []journal.Attempt{at(sallyport.AttemptAccepted, func(a *journal.Attempt) { a.Publication = &lifecycle.Publication{} })}
		return journal.Attempt{}, &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Message: "the branch is not free"}
	}
	w.want(ExitAwaiting, "approve", "01m9")
	if !strings.Contains(w.err.String(), "the branch is not free") {
		t.Errorf("stderr %s", w.err)
	}

	// The same error for an Attempt that awaits nobody stays an error.
	w = newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.decide = func(string, string, string) (journal.Attempt, error) {
		return journal.Attempt{}, &sallyport.Error{Op: "approve", Code: sallyport.CodeConflict, Message: "rejected"}
	}
	w.want(ExitInvalid, "approve", "01m9")
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptAccepted)}
	w.control.checks = []sallyport.CheckResult{{Name: "test", Run: "go test ./...", Status: sallyport.CheckFailed, Exit: 1, Tail: "FAIL\x1b[2J\nline"}}
	w.want(ExitRejected, "check", "01m9", "test")
	if !w.control.has("check test") || !strings.Contains(w.out.String(), "--- test\nFAIL\nline\n") {
		t.Errorf("calls %v, stdout %q", w.control.calls, w.out)
	}
}

func TestExportIsRelativeToTheUser(t *testing.T) {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptAccepted)}
	w.want(ExitOK, "export", "01m9", "out")
	if w.control.exportDir != filepath.Join(w.env.Dir, "out") {
		t.Errorf("exported to %q", w.control.exportDir)
	}
}

func TestOperatorVerbs(t *testing.T) {
	w := newWorld(t)
	w.control.lines = []string{"destroy alc_1 \x1b[31m", "adopt att_2"}
	w.want(ExitOK, "reconcile", "--dry-run")
	if w.out.String() != "destroy alc_1 \nadopt att_2\n" || !w.control.has("reconcile dry") {
		t.Errorf("stdout %q, calls %v", w.out, w.control.calls)
	}
	w = newWorld(t)
	w.control.lines, w.control.linesErr = []string{"journal: 12 records"}, &sallyport.Error{Op: "fsck", Code: sallyport.CodeCorrupt, Subject: "record 13", Message: "expected another hash"}
	w.want(ExitInternal, "fsck")
	if w.out.String() != "journal: 12 records\n" || !strings.Contains(w.err.String(), "record 13") || !strings.Contains(w.err.String(), "hint: ") {
		t.Errorf("stdout %q, stderr %q", w.out, w.err)
	}
	w = newWorld(t)
	w.want(ExitOK, "gc")
	if w.out.String() != "nothing to remove\n" {
		t.Errorf("stdout %q", w.out)
	}
}

func TestDoctor(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "fixed")
	state := func() Doctor {
		_, err := os.Stat(touched)
		d := Doctor{OK: err == nil, Facts: []Fact{{Name: "kernel", Value: "6.18", OK: true}},
			Layers: []sallyport.LayerReport{{Layer: sallyport.LayerSyscalls, Status: sallyport.LayerHeld, Required: true, Proof: "AF_VSOCK: not permitted"}}}
		if !d.OK {
			d.Fixes = []Fix{{Why: "user namespaces are restricted", Command: "touch '" + touched + "'"}}
		}
		return d
	}
	w := newWorld(t)
	w.control.doctor = state
	w.want(ExitRefused, "doctor", "--json")
	if doc := document[Doctor](t, w.out.String()); doc.OK || len(doc.Fixes) != 1 || len(doc.Layers) != 1 {
		t.Errorf("document %+v", doc)
	}
	w = newWorld(t)
	w.control.doctor = state
	w.want(ExitRefused, "doctor", "--fix") // not root: shown, not run
	if !strings.Contains(w.out.String(), "\ntouch '") || !errors.Is(statError(touched), os.ErrNotExist) {
		t.Errorf("stdout %s", w.out)
	}
	w = newWorld(t)
	w.control.doctor, w.env.Root = state, true
	w.want(ExitOK, "doctor", "--fix")
	if statError(touched) != nil || !strings.Contains(w.err.String(), "+ touch '") {
		t.Errorf("stderr %s", w.err)
	}
	w = newWorld(t)
	w.env.Root = true
	w.control.doctor = func() Doctor {
		return Doctor{Fixes: []Fix{{Why: "x", Command: "exit 3"}, {Why: "y", Command: "touch /nonexistent/x"}}}
	}
	w.want(ExitInternal, "doctor", "--fix")
	if strings.Contains(w.err.String(), "# y") {
		t.Errorf("went on after a failure:\n%s", w.err)
	}
}

func statError(path string) error {
	_, err := os.Stat(path)
	return err
}

func TestTrust(t *testing.T) {
	asks := Trust{Repository: "/src/a", Asks: []manifest.Ask{{What: "deps x", Why: "y"}}, Digest: sallyport.Sum(nil)}
	for _, c := range []struct {
		name, answer string
		args         []string
		trust        Trust
		terminal     bool
		code         int
		granted      bool
	}{
		{"nothing asked", "", []string{"trust"}, Trust{}, false, 0, false},
		{"already", "", []string{"trust"}, Trust{Asks: asks.Asks, Granted: true}, false, 0, false},
		{"show", "y\n", []string{"trust", "--show"}, asks, true, 0, false},
		{"no terminal", "y\n", []string{"trust"}, asks, false, 40, false},
		{"yes flag", "", []string{"trust", "--yes"}, asks, false, 0, true},
		{"said yes", "y\n", []string{"trust"}, asks, true, 0, true},
		{"said no", "n\n", []string{"trust"}, asks, true, 40, false},
		{"said nothing", "", []string{"trust"}, asks, true, 40, false},
	} {
		w := newWorld(t)
		w.control.trust = c.trust
		w.env.Stdin = strings.NewReader(c.answer)
		if c.terminal {
			w.env.Console = newConsole()
		}
		w.want(c.code, c.args...)
		if got := len(w.control.granted) == 1; got != c.granted {
			t.Errorf("%s: granted %v", c.name, w.control.granted)
		}
		if c.code == 40 && !c.terminal && !strings.Contains(w.err.String(), "hint: sallyport trust --yes") {
			t.Errorf("%s: stderr %s", c.name, w.err)
		}
	}
}

func TestInit(t *testing.T) {
	w := newWorld(t).stateless()
	root := w.repository()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(root, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	w.env.Dir = sub
	w.want(ExitOK, "init")
	data, err := os.ReadFile(filepath.Join(root, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := manifest.ParseRepository("sallyport.yaml", data)
	if err != nil || len(rep.Checks) != 1 || !strings.Contains(w.out.String(), rep.Checks[0].Run) {
		t.Errorf("%v, checks %+v, stdout %s", err, rep.Checks, w.out)
	}
	w.want(ExitInvalid, "init") // never overwritten
	if again, err := os.ReadFile(filepath.Join(root, manifest.FileName)); err != nil || string(again) != string(data) {
		t.Errorf("the file changed: %v", err)
	}
	w = newWorld(t).stateless()
	w.want(ExitInvalid, "init")
	if !strings.Contains(w.err.String(), "hint: git init") {
		t.Errorf("stderr %s", w.err)
	}
}

// init grants exactly what it wrote, and nothing later.
func TestInitGrantsItsOwnAsks(t *testing.T) {
	w := newWorld(t).stateless()
	root := w.repository()
	config := t.TempDir()
	w.env.Environ = []string{"HOME=/nonexistent", "XDG_CONFIG_HOME=" + config}
	rep, err := manifest.ParseRepository("x", []byte("version: 1\ndeps: [web/node_modules]\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Env: w.env}
	if err := a.grantOwn(root, rep); err != nil {
		t.Fatal(err)
	}
	g := manifest.OpenGrants(manifest.GrantsPath(config))
	other, err := manifest.ParseRepository("x", []byte("version: 1\ndeps: [web/node_modules, .venv]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rep  manifest.Repository
		want bool
	}{{rep, true}, {other, false}} {
		if ok, err := g.Granted(root, manifest.AsksDigest(c.rep)); ok != c.want || err != nil {
			t.Errorf("%v: granted %v, %v", c.rep.Deps, ok, err)
		}
	}
}

func TestSchema(t *testing.T) {
	w := newWorld(t).stateless()
	w.want(ExitOK, "schema")
	names := strings.Fields(w.out.String())
	if len(names) < 7 {
		t.Errorf("names %v", names)
	}
	for _, n := range append(names, "report.schema.json") {
		w := newWorld(t).stateless()
		w.want(ExitOK, "schema", n)
		if s := document[map[string]any](t, w.out.String()); s["$schema"] == nil {
			t.Errorf("%s: %v", n, s)
		}
	}
	newWorld(t).stateless().want(ExitInvalid, "schema", "nothing")
}

func TestVersion(t *testing.T) {
	w := newWorld(t).stateless()
	w.want(ExitOK, "version")
	if !strings.HasPrefix(w.out.String(), "sallyport v0.0.0-test (go1.") {
		t.Errorf("stdout %q", w.out)
	}
}

// signed makes real evidence and the file of its public key.
func signed(t *testing.T, dir string) (file, key string, p evidence.Predicate) {
	t.Helper()
	ring, err := evidence.OpenKeyring(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ring.Signer()
	if err != nil {
		t.Fatal(err)
	}
	const origin = "sallyport.dev/journal/fac_00000000000000000000000000"
	hash := sallyport.Sum([]byte("journal"))
	note, err := evidence.SignCheckpoint(t.Context(), s, origin, 7, hash)
	if err != nil {
		t.Fatal(err)
	}
	oid := func(c string) sallyport.ObjectID { return sallyport.ObjectID(strings.Repeat(c, 40)) }
	r := sallyport.Report{Attempt: sallyport.AttemptID(sallyport.FormatID("att", [16]byte{2})), WorkOrder: sallyport.WorkOrderID(sallyport.FormatID("wo", [16]byte{1})),
		Name: "fix \x1b[31m it", Number: 1, Manifest: sallyport.Sum([]byte("m")), Base: oid("a"), Tree: oid("c"), Commit: oid("d"), Bundle: sallyport.Sum([]byte("b")),
		Decision: sallyport.DecisionAccepted, Reason: sallyport.Reason{Code: "checks-passed", Message: "passed"}, Separation: "none",
		Created: evidence.Time(time.Now().Add(-time.Minute)), Ended: evidence.Time(time.Now())}
	p = evidence.FromReport(r)
	p.Attempt.Nonce = "0123456789abcdef0123"
	p.Base.Ref, p.Base.Tree, p.Base.StartTree = "refs/heads/main", oid("b"), oid("b")
	p.Result.TreeSHA256 = sallyport.Sum([]byte("tree"))
	p.Policy = evidence.Policy{Kind: "none"}
	p.Journal = evidence.JournalRef{Origin: origin, Seq: 7, Hash: hash, Note: note}
	p.Provider, p.Host = "local", evidence.Host{Kernel: "6.18.0"}
	p.Started, p.Ended, p.Signed = r.Created, r.Ended, evidence.Time(time.Now())
	p.By.Version, p.By.Independence = "0.1.0", evidence.IndependenceEmbedded
	p.Claims.Command = []string{"agent"}
	p.Checks = []evidence.Check{
		{Name: "test", Command: "make test", Status: sallyport.CheckPassed, StatusBy: "keeper", Controls: []evidence.Control{{Name: "planted-fault", Held: true, Required: true, Detail: "3 of 3 noticed"}}},
		{Name: "lint", Command: "make lint", Status: sallyport.CheckPassed, StatusBy: "keeper"}}
	p.NotChecked = []string{"the meaning of the change"}
	data, _, err := evidence.Seal(context.Background(), s, evidence.New(p))
	if err != nil {
		t.Fatal(err)
	}
	v, err := evidence.Verify(data, ring.Keys(), evidence.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	vsa, err := evidence.Summarise(v, sallyport.DecisionAccepted, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	summary, _, err := evidence.SealVSA(t.Context(), s, vsa)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := ring.Public()
	if err != nil {
		t.Fatal(err)
	}
	file, key = filepath.Join(dir, "evidence.json"), filepath.Join(dir, "key.pem")
	for path, b := range map[string][]byte{file: data, key: pem, filepath.Join(dir, "summary.json"): summary} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file, key, p
}

// checkpoint makes a signed note of the same journal, by the key of signed(t, dir).
func checkpoint(t *testing.T, dir string, seq int64) string {
	t.Helper()
	ring, err := evidence.OpenKeyring(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ring.Signer()
	if err != nil {
		t.Fatal(err)
	}
	note, err := evidence.SignCheckpoint(t.Context(), s, "sallyport.dev/journal/fac_00000000000000000000000000", seq, sallyport.Sum([]byte("later")))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "checkpoint")
	if err := os.WriteFile(path, []byte(note), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	file, key, p := signed(t, dir)
	other := t.TempDir()
	_, otherKey, _ := signed(t, other)
	commit := string(p.Result.Commit)
	for _, c := range []struct {
		name string
		args []string
		env  string
		code int
		says string
	}{
		{"with a key", []string{file, "--key", key}, "", 0, "Proved: key ed25519:"},
		{"with several keys", []string{file, "--key", otherKey, "--key", key}, "", 0, "Proved"},
		{"key from the environment", []string{file}, key, 0, "Proved"},
		{"the flag wins over the environment", []string{file, "--key", otherKey}, key, 20, ""},
		{"about this commit", []string{file, "--key", key, "--commit", commit}, "", 0, "matches what you hold in: commit"},
		{"about another commit", []string{file, "--key", key, "--commit", strings.Repeat("e", 40)}, "", 20, ""},
		{"about another tree", []string{file, "--key", key, "--tree", strings.Repeat("e", 40)}, "", 20, ""},
		{"several that do not match", []string{file, "--key", key, "--commit", strings.Repeat("e", 40), "--tree", strings.Repeat("f", 40), "--base", string(p.Base.Commit)}, "", 20, "verify evidence: tree, commit: tree: expected"},
		{"and what does", []string{file, "--key", key, "--commit", strings.Repeat("e", 40), "--base", string(p.Base.Commit)}, "", 20, "what does match: base"},
		{"the tree's SHA-256", []string{file, "--key", key, "--tree-sha256", string(p.Result.TreeSHA256)}, "", 0, "matches what you hold in: tree sha256"},
		{"another SHA-256", []string{file, "--key", key, "--tree-sha256", string(sallyport.Sum(nil))}, "", 20, "tree sha256"},
		{"no SHA-256", []string{file, "--key", key, "--tree-sha256", "sha256:12"}, "", 2, "--tree-sha256"},
		{"a control", []string{file, "--key", key}, "", 0, `control planted-fault of check "test", which policy asks for, held ("3 of 3 noticed").`},
		{"no control", []string{file, "--key", key}, "", 0, `check "lint" ("make lint") passed with exit status 0 in 0.0 s; nothing showed that it can fail.`},
		{"what was not checked", []string{file, "--key", key}, "", 0, "Not checked: the meaning of the change."},
		{"not stale", []string{file, "--key", key, "--since", file}, "", 0, "matches what you hold in: journal"},
		{"stale", []string{file, "--key", key, "--since", checkpoint(t, dir, 8)}, "", 20, "stale: the evidence is from record 7"},
		{"since a stranger's word", []string{file, "--key", key, "--since", checkpoint(t, other, 1)}, "", 20, "no valid signature"},
		{"with its summary", []string{file, "--key", key, "--summary", filepath.Join(dir, "summary.json")}, "", 0, "Proved: the SLSA summary says PASSED of the same tree, tree sha256, commit, manifest, evidence, work order."},
		{"with another's summary", []string{file, "--key", key, "--key", otherKey, "--summary", filepath.Join(other, "summary.json")}, "", 20, "evidence: expected"},
		{"with a summary that is none", []string{file, "--key", key, "--summary", file}, "", 20, "predicateType"},
		{"abbreviated", []string{file, "--key", key, "--commit", commit[:12]}, "", 2, ""},
		{"a ref", []string{file, "--key", key, "--commit", "main"}, "", 2, ""},
		{"no key", []string{file}, "", 2, "sallyport keys > key.pem"},
		{"another key", []string{file, "--key", otherKey}, "", 20, "no signature by a given key"},
		{"no such file", []string{"missing", "--key", key}, "", 2, "missing"},
		{"no such key", []string{file, "--key", "missing"}, "", 2, "missing"},
		{"not a key", []string{file, "--key", file}, "", 2, "file of public keys"},
		{"not evidence", []string{key, "--key", key}, "", 20, ""},
	} {
		w := newWorld(t).stateless()
		if c.env != "" {
			w.env.Environ = append(w.env.Environ, "SALLYPORT_KEY="+c.env)
		}
		w.want(c.code, append([]string{"verify"}, c.args...)...)
		if all := w.out.String() + w.err.String(); !strings.Contains(all, c.says) {
			t.Errorf("%s: does not say %q:\n%s", c.name, c.says, all)
		}
		if c.code != 0 && w.out.String() != "" {
			t.Errorf("%s: stdout %q", c.name, w.out)
		}
		visibleOnly(t, c.name, w.out.String()+w.err.String())
	}
}

// Whatever single byte of the evidence is changed, it is no longer verified.
func TestVerifyTampered(t *testing.T) {
	file, key, _ := signed(t, t.TempDir())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var env struct{ Payload string }
	if err := json.Unmarshal(data, &env); err != nil || len(env.Payload) < 100 {
		t.Fatal(err)
	}
	begin := strings.Index(string(data), env.Payload)
	for i := begin; i < begin+len(env.Payload)-4; i += 97 {
		bad := append([]byte{}, data...)
		bad[i] = map[bool]byte{true: 'B', false: 'A'}[bad[i] == 'A']
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		newWorld(t).stateless().want(ExitRejected, "verify", file, "--key", key)
	}
}

func TestVerifyRefusesAPrivateKey(t *testing.T) {
	file, _, _ := signed(t, t.TempDir())
	private := filepath.Join(t.TempDir(), "id.pem")
	if err := os.WriteFile(private, []byte("-----BEGIN PRIVATE KEY-----\n"+strings.Repeat("A", ed25519.PrivateKeySize)+"\n-----END PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t).stateless()
	w.want(ExitInvalid, "verify", file, "--key", private)
	if strings.Contains(w.err.String(), "AAAA") || !strings.Contains(w.err.String(), "found a private one") {
		t.Errorf("stderr %s", w.err)
	}
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	w.control.output = "-----BEGIN PUBLIC KEY-----\n"
	w.want(ExitOK, "keys")
	if w.out.String() != w.control.output {
		t.Errorf("stdout %q", w.out)
	}
}
