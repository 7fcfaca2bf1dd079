package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/journal"
)

var update = flag.Bool("update", false, "rewrite golden files")

const attID = sallyport.AttemptID("att_01m9k3v0q8r0000000000000a0")

// fake is a scripted Mission Control. What a test does not script fails it.
type fake struct {
	t testing.TB

	mu       sync.Mutex
	calls    []string
	attempts []journal.Attempt // newest first

	submit    func(context.Context, Request) (sallyport.AttemptID, error)
	start     func(context.Context, sallyport.AttemptID) error
	follow    func(context.Context, sallyport.AttemptID, Observer) (journal.Attempt, error)
	attach    func(context.Context, string, Terminal) error
	cancel    func(id, who, why string) error
	output    string
	decide    func(verb, who, why string) (journal.Attempt, error)
	retry     func(id, message string) (sallyport.AttemptID, error)
	checks    []sallyport.CheckResult
	shell     func(Terminal) (int, error)
	doctor    func() Doctor
	trust     Trust
	granted   []Trust
	lines     []string
	linesErr  error
	diff      DiffOptions
	diffID    string
	diffs     int   // how often it was asked for
	diffErr   error // after the output
	manifest  func() (sallyport.Manifest, error)
	exportDir string
	drive     func(context.Context, sallyport.AttemptID) error
}

func (f *fake) called(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *fake) has(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.calls, call)
}

func (f *fake) unscripted(name string) error {
	f.t.Errorf("unexpected call of %s", name)
	return errors.New("unexpected call of " + name)
}

func (f *fake) Close() error             { f.called("close"); return nil }
func (f *fake) Journal() journal.Journal { return fakeJournal{f: f} }

type fakeJournal struct {
	journal.Journal
	f *fake
}

func (j fakeJournal) Attempts(_ context.Context, all bool) ([]journal.Attempt, error) {
	var out []journal.Attempt
	for _, a := range j.f.attempts {
		if all || !a.Report.State.Ended() {
			out = append(out, a)
		}
	}
	return out, nil
}

func (f *fake) Attempt(_ context.Context, prefix string) (journal.Attempt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.attempts {
		if strings.HasPrefix(string(a.Report.Attempt), prefix) || strings.HasPrefix(string(a.Report.Attempt), "att_"+prefix) {
			return a, nil
		}
	}
	return journal.Attempt{}, &sallyport.Error{Op: "find", Code: sallyport.CodeNotFound, Subject: prefix, Message: "no such attempt"}
}

func (f *fake) Submit(ctx context.Context, r Request) (sallyport.AttemptID, error) {
	f.called("submit")
	if f.submit == nil {
		return "", f.unscripted("Submit")
	}
	return f.submit(ctx, r)
}

func (f *fake) StartDriver(ctx context.Context, id sallyport.AttemptID) error {
	f.called("start " + string(id))
	if f.start != nil {
		return f.start(ctx, id)
	}
	return nil
}

func (f *fake) Drive(ctx context.Context, id sallyport.AttemptID) error { return f.drive(ctx, id) }

func (f *fake) Follow(ctx context.Context, id sallyport.AttemptID, on Observer) (journal.Attempt, error) {
	f.called("follow " + string(id))
	if f.follow == nil {
		return journal.Attempt{}, f.unscripted("Follow")
	}
	return f.follow(ctx, id, on)
}

func (f *fake) Attach(ctx context.Context, id string, t Terminal) error {
	f.called("attach " + id)
	if f.attach == nil {
		return f.unscripted("Attach")
	}
	return f.attach(ctx, id, t)
}

func (f *fake) Logs(_ context.Context, _ string, follow bool, w io.Writer) error {
	if follow {
		f.called("logs -f")
	}
	_, err := io.WriteString(w, f.output)
	return err
}

func (f *fake) Manifest(journal.Attempt) (sallyport.Manifest, error) {
	if f.manifest == nil {
		return sallyport.Manifest{}, nil
	}
	return f.manifest()
}

func (f *fake) Diff(_ context.Context, id string, o DiffOptions, w io.Writer) error {
	f.diff, f.diffID = o, id
	f.diffs++
	for rest := f.output; rest != ""; { // as a pipe delivers it
		n := min(len(rest), 32<<10)
		if _, err := io.WriteString(w, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return f.diffErr
}

func (f *fake) Export(_ context.Context, _, dir string) error { f.exportDir = dir; return nil }

func (f *fake) Shell(_ context.Context, _ string, t Terminal) (int, error) { return f.shell(t) }

func (f *fake) Check(_ context.Context, _, name string) ([]sallyport.CheckResult, error) {
	f.called("check " + name)
	return f.checks, nil
}

func (f *fake) Cancel(_ context.Context, id, who, why string) error {
	f.called("cancel " + id)
	if f.cancel == nil {
		return f.unscripted("Cancel")
	}
	return f.cancel(id, who, why)
}

func (f *fake) SignApproval(_ context.Context, id string, _ sallyport.Digest, who string, _ approval.Signer) error {
	f.called("sign " + id + " " + who)
	return nil
}

func (f *fake) Approve(_ context.Context, _, who, why string) (journal.Attempt, error) {
	return f.decide("approve", who, why)
}
func (f *fake) Reject(_ context.Context, _, who, why string) (journal.Attempt, error) {
	return f.decide("reject", who, why)
}
func (f *fake) Publish(context.Context, string) (journal.Attempt, error) {
	return f.decide("publish", "", "")
}

func (f *fake) Retry(_ context.Context, id, message string) (sallyport.AttemptID, error) {
	return f.retry(id, message)
}

func (f *fake) Reconcile(_ context.Context, dry bool) ([]string, error) {
	if dry {
		f.called("reconcile dry")
	}
	return f.lines, f.linesErr
}
func (f *fake) Fsck(context.Context) ([]string, error)           { return f.lines, f.linesErr }
func (f *fake) GC(context.Context, bool) ([]string, error)       { return f.lines, f.linesErr }
func (f *fake) Doctor(context.Context) (Doctor, error)           { return f.doctor(), nil }
func (f *fake) TrustAsks(context.Context, string) (Trust, error) { return f.trust, nil }
func (f *fake) Grant(_ context.Context, t Trust) error           { f.granted = append(f.granted, t); return nil }
func (f *fake) PublicKeys() ([]byte, error)                      { return []byte(f.output), nil }
func (f *fake) RotateKey(context.Context) error                  { f.output = "rotated\n"; return nil }

// lockedBuffer may be written and read by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is one command line with its surroundings.
type world struct {
	t        testing.TB
	env      Env
	out, err *lockedBuffer
	signals  chan os.Signal
	control  *fake
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, out: &lockedBuffer{}, err: &lockedBuffer{}, signals: make(chan os.Signal, 4), control: &fake{t: t}}
	w.env = Env{Stdin: strings.NewReader(""), Stdout: w.out, Stderr: w.err, Dir: t.TempDir(), Who: "alice", Version: "v0.0.0-test", Signals: w.signals,
		Environ: []string{"HOME=" + t.TempDir()},
		Open:    func(context.Context) (Control, error) { return w.control, nil }}
	return w
}

// stateless makes opening Mission Control an error of the test.
func (w *world) stateless() *world {
	w.env.Open = func(context.Context) (Control, error) {
		w.t.Error("this verb opened Mission Control")
		return nil, errors.New("opened")
	}
	return w
}

func (w *world) run(args ...string) int {
	w.t.Helper()
	w.env.Args = args
	return Main(context.Background(), w.env)
}

func (w *world) want(code int, args ...string) {
	w.t.Helper()
	if got := w.run(args...); got != code {
		w.t.Errorf("%q: exit %d, want %d\nstdout:\n%s\nstderr:\n%s", args, got, code, w.out, w.err)
	}
}

// repository makes a folder that counts as a work tree.
func (w *world) repository() string {
	w.t.Helper()
	dir, err := filepath.EvalSymlinks(w.t.TempDir())
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, ".git"), 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.env.Dir = dir
	return dir
}

// document demands that s is exactly one JSON document and decodes it.
func document[T any](t testing.TB, s string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stdout is not the document: %v\n%s", err, s)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one document:\n%s", s)
	}
	return v
}

func at(state sallyport.AttemptState, change ...func(*journal.Attempt)) journal.Attempt {
	a := journal.Attempt{Report: sallyport.Report{Attempt: attID, Name: "fix-12", Number: 1, State: state}}
	for _, c := range change {
		c(&a)
	}
	return a
}

// script follows through the given states and returns the last.
func script(states ...journal.Attempt) func(context.Context, sallyport.AttemptID, Observer) (journal.Attempt, error) {
	return func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		for _, s := range states {
			on.Stage(s)
		}
		return states[len(states)-1], nil
	}
}

var elapsed = regexp.MustCompile(`(?m)^ *[0-9]+\.[0-9]s  `)

// golden compares with testdata/name; times are made equal first.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = elapsed.ReplaceAllString(got, "    0.0s  ")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
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

// visibleOnly demands text without a control character other than line feed and tab.
func visibleOnly(t testing.TB, what, s string) {
	t.Helper()
	for i, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			t.Errorf("%s has the control character %U at byte %d: %.60q", what, r, i, s[max(0, i-20):])
			return
		}
	}
}
