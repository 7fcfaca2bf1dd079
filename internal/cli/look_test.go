package cli

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// reviewed is an Attempt with something of everything that show has to say.
func reviewed(w *world) {
	a := accepted()
	a.Imported = &lifecycle.Imported{}
	a.Report.Changes = []sallyport.Change{{Path: "a.go", Status: sallyport.ChangeModified}, {Path: "odd/a_test.go", Status: sallyport.ChangeModified}, {Path: "checks/unit", Status: sallyport.ChangeAdded}}
	a.Report.Layers = []sallyport.LayerReport{{Layer: sallyport.LayerMemory, Status: sallyport.LayerNotHeld, Grade: sallyport.GradeObservation, Proof: "no cgroup\x1b[2J", Fix: "delegate one"}}
	a.Report.Findings = []sallyport.Finding{{Rule: "hazard.ci", Severity: sallyport.SeverityWarn, Path: "x\n.yml", Message: "changes CI", Todo: "look at it"}}
	a.Report.NotChecked = []string{"the tests' worth"}
	a.Report.Agent = sallyport.AgentResult{Ended: "exit", Exit: 0, Output: 12345}
	w.control.attempts = []journal.Attempt{a}
	w.control.manifest = func() (sallyport.Manifest, error) {
		return sallyport.Manifest{Task: "Fix #12\nand test it", Agent: sallyport.Agent{Name: "command", Command: []string{"./agent", "--say", "it's done"}}, Base: sallyport.ObjectID(strings.Repeat("b", 40)), BaseRef: "refs/heads/main",
			Policy: sallyport.Source{Kind: "protected-ref", Ref: "refs/heads/main"}, Attempts: 2, Checks: []sallyport.Check{{Name: "test", Tests: []string{"checks/**"}}}}, nil
	}
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	reviewed(w)
	w.want(ExitOK, "show", "01m9")
	golden(t, "show", w.out.String())
	visibleOnly(t, "show", w.out.String())

	w = newWorld(t)
	reviewed(w)
	w.env.Colour = true
	w.want(ExitOK, "show", "01m9")
	if !strings.Contains(w.out.String(), "\x1b[1mAsked\x1b[0m") {
		t.Errorf("no colour:\n%q", w.out)
	}
}

// A Manifest that cannot be read must not take the verdict with it.
func TestShowWithoutManifest(t *testing.T) {
	w := newWorld(t)
	reviewed(w)
	w.control.manifest = func() (sallyport.Manifest, error) { return sallyport.Manifest{}, errors.New("bytes differ") }
	w.want(ExitOK, "show", "01m9")
	for _, want := range []string{"ACCEPTED", "a.go", "what was asked cannot be read: bytes differ"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, w.out)
		}
	}
	if n := len(w.control.attempts[0].Report.Notices); n != 0 {
		t.Errorf("the report was changed: %d notices", n)
	}
}

func TestShowOfALiveAttempt(t *testing.T) {
	w := newWorld(t)
	reviewed(w)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRunning)}
	w.want(ExitOK, "show", "01m9")
	for _, want := range []string{"RUNNING", "sallyport attach 01m9k3v0q8r0", "Fix #12", "test: not run yet", "nothing was collected yet", "nothing is signed yet"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, w.out)
		}
	}
}

func TestLogsAreNeutralised(t *testing.T) {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.output = "a\n" + hostile + "\nb\n"
	w.want(ExitOK, "logs", "01m9")
	if got := w.out.String(); got != "a\nok<CR>FAKE<U+202E> \nb\n" {
		t.Errorf("%q", got)
	}
}

const someDiff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-f(\"\x1b]0;\", 1)\n+f(\"\x1b]0;\", 2); evil() # \x07\u202e\r\n"

func TestDiffSpellsOutWhatHides(t *testing.T) {
	head := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n"
	for args, want := range map[string]string{
		"":        head + "-f(\"<ESC>]0;\", 1)\n+f(\"<ESC>]0;\", 2); evil() # <BEL><U+202E><CR>\n",
		"--words": head + "-f(\"<ESC>]0;\", [-1-])\n+f(\"<ESC>]0;\", {+2+}){+; evil() # <BEL><U+202E><CR>+}\n",
	} {
		w := newWorld(t)
		w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
		w.control.output = someDiff
		w.want(ExitOK, append([]string{"diff", "01m9"}, strings.Fields(args)...)...)
		if got := w.out.String(); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	w := newWorld(t)
	w.env.Colour = true
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.output = someDiff
	w.want(ExitOK, "diff", "01m9", "--words")
	if got := w.out.String(); !strings.Contains(got, "\x1b[31m-f(\"<ESC>]0;\", \x1b[7m1\x1b[27m)\x1b[0m\n\x1b[32m+") || strings.Contains(got, "\x1b]") {
		t.Errorf("%q", got)
	}
}

func TestDiffOptions(t *testing.T) {
	other := at(sallyport.AttemptRejected, func(a *journal.Attempt) { a.Report.Attempt = "att_02zzzz" })
	for _, c := range []struct {
		args, id string
		want     DiffOptions
	}{
		{"diff 01m9", string(attID), DiffOptions{}},
		{"diff 01m9 --stat", string(attID), DiffOptions{Stat: true}},
		{"diff 01m9 --name-only -- a b/c", string(attID), DiffOptions{NameOnly: true, Paths: []string{"a", "b/c"}}},
		{"diff 01m9 02 -- a", "att_02zzzz", DiffOptions{From: string(attID), Paths: []string{"a"}}},
	} {
		w := newWorld(t)
		w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected), other}
		w.want(ExitOK, strings.Fields(c.args)...)
		if !reflect.DeepEqual(w.control.diff, c.want) || w.control.diffID != c.id {
			t.Errorf("%s: %s, %+v", c.args, w.control.diffID, w.control.diff)
		}
	}
	for _, args := range []string{"diff --stat --name-only", "diff --words --stat", "diff --raw"} { // stdout is a terminal
		newWorld(t).stateless().want(ExitInvalid, strings.Fields(args)...)
	}
	w := newWorld(t)
	w.env.Raw = true
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.output = hostile
	w.want(ExitInvalid, "diff", "--raw", "--words", "01m9")
	w.want(ExitOK, "diff", "--raw", "01m9")
	if w.out.String() != hostile {
		t.Errorf("raw: %q", w.out)
	}
}

// pagerWorld has a diff to show, and a pager.
func pagerWorld(t *testing.T, environ ...string) *world {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.output = "line\n"
	w.env.Environ = append(w.env.Environ, environ...)
	return w
}

func TestPager(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "less"), []byte("#!/bin/sh\necho \"less $*\"; cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=:.:" + folder + ":/usr/bin:/bin"
	for _, c := range []struct {
		name    string
		environ []string
		args    string
		want    string
	}{
		{"none", nil, "", "line\n"},
		{"less if it is there", []string{path, "TERM=xterm"}, "", "less -FRX\nline\n"},
		{"less cannot draw", []string{path, "TERM=dumb"}, "", "line\n"},
		{"PAGER", []string{path, "TERM=xterm", "PAGER=sed s/^/p:/"}, "", "p:line\n"},
		{"SALLYPORT_PAGER first", []string{"PAGER=sed s/^/p:/", "SALLYPORT_PAGER=sed s/^/s:/"}, "", "s:line\n"},
		{"empty", []string{path, "TERM=xterm", "PAGER=sed s/^/p:/", "SALLYPORT_PAGER="}, "", "line\n"},
		{"cat", []string{path, "TERM=xterm", "PAGER=cat"}, "", "line\n"},
		{"--no-pager", []string{"PAGER=sed s/^/p:/"}, "--no-pager", "line\n"},
		{"its environment", []string{"LESSOPEN=|touch /tmp/x %s", "LESSKEYIN=k", "PAGER=cat >/dev/null; echo ${LESSOPEN-unset} ${LESSKEYIN-unset} $LESSSECURE $LESS $PWD"}, "", "unset unset 1 FRX /\n"},
		{"the person's own LESS", []string{"LESS=-S", "PAGER=cat >/dev/null; echo $LESS"}, "", "-S\n"},
	} {
		w := pagerWorld(t, c.environ...)
		w.want(ExitOK, append([]string{"diff", "01m9"}, strings.Fields(c.args)...)...)
		if got := w.out.String(); got != c.want || w.err.String() != "" {
			t.Errorf("%s: %q, stderr %q", c.name, got, w.err)
		}
	}
	w := pagerWorld(t, "PAGER=sed s/^/p:/")
	w.env.Raw = true // a file or a pipe
	w.want(ExitOK, "diff", "01m9")
	if w.out.String() != "line\n" {
		t.Errorf("into a file: %q", w.out)
	}
}

// A pager that is not there costs nothing but a word.
func TestPagerThatCannotStart(t *testing.T) {
	w := pagerWorld(t, "PAGER=/nonexistent/pager -x")
	w.control.output = strings.Repeat("line\n", 100_000)
	w.want(ExitOK, "diff", "01m9")
	if w.out.String() != w.control.output || !strings.Contains(w.err.String(), "--no-pager") || w.control.diffs != 2 {
		t.Errorf("%d bytes, asked %d times, stderr %q", len(w.out.String()), w.control.diffs, w.err)
	}
}

// Leaving the pager early is no error, whatever is still to come.
func TestPagerThatIsLeft(t *testing.T) {
	w := pagerWorld(t, "PAGER=head -n 1")
	w.control.output = strings.Repeat("line\n", 1_000_000)
	w.want(ExitOK, "diff", "01m9")
	if w.out.String() != "line\n" || w.control.diffs != 1 {
		t.Errorf("%.100q, asked %d times", w.out, w.control.diffs)
	}
}

// An error is said where it can be read, and no pager is started for it.
func TestErrorsNeedNoPager(t *testing.T) {
	w := pagerWorld(t, "PAGER=echo started")
	w.control.diffErr = &sallyport.Error{Op: "look", Code: sallyport.CodeConflict, Message: "no result was collected"}
	w.control.output = ""
	w.want(ExitInvalid, "diff", "01m9")
	if w.out.String() != "" || !strings.Contains(w.err.String(), "no result was collected") {
		t.Errorf("stdout %q, stderr %q", w.out, w.err)
	}
}

// While a pager has the terminal, Ctrl-C is its own.
func TestInterruptsGoToThePager(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	w := pagerWorld(t, "PAGER=cat; touch "+started+"; sleep 0.5")
	go func() {
		for statError(started) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		w.signals <- unix.SIGINT
		w.signals <- unix.SIGINT
	}()
	w.want(ExitOK, "diff", "01m9")
	s := newSignals(func(error) { t.Error("it was cancelled") })
	release := s.lend()
	s.deliver(unix.SIGINT)
	s.deliver(unix.SIGINT)
	release()
	select {
	case code := <-s.now:
		t.Errorf("it ended with %d", code)
	default:
	}
	ended := false
	s = newSignals(func(error) { ended = true })
	s.lend()()
	if s.deliver(unix.SIGINT); !ended {
		t.Error("after the pager a signal is lost")
	}
}

func TestReport(t *testing.T) {
	w := newWorld(t)
	reviewed(w)
	w.want(ExitOK, "report", "01m9")
	text := w.out.String()
	w = newWorld(t)
	reviewed(w)
	w.want(ExitOK, "show", "01m9")
	if text != w.out.String() {
		t.Errorf("report says\n%s\nand show\n%s", text, w.out)
	}
	for _, args := range []string{"report 01m9 file", "report 01m9 --force"} {
		w := newWorld(t)
		reviewed(w)
		w.want(ExitInvalid, strings.Fields(args)...)
	}
}

func TestReportHTML(t *testing.T) {
	w := newWorld(t)
	reviewed(w)
	w.control.output = someDiff
	file := filepath.Join(w.env.Dir, "sallyport-01m9k3v0q8r0.html")
	old := unix.Umask(0)
	w.want(ExitOK, "report", "01m9", "--html")
	unix.Umask(old)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "Fix #12", "checks/unit", "evil()", "&lt;ESC&gt;]0;", "</html>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.want(ExitInvalid, "report", "01m9", "--html")
	if got, _ := os.ReadFile(file); string(got) != "mine" || !strings.Contains(w.err.String(), "--force replaces it") {
		t.Errorf("%q, stderr %s", got, w.err)
	}
	w.want(ExitOK, "report", "01m9", "--html", "--force")
	if got, _ := os.ReadFile(file); string(got) != string(page) {
		t.Error("--force did not replace it")
	}
	w.want(ExitOK, "report", "01m9", "other.html", "--html")
	w.out.b.Reset()
	w.want(ExitOK, "report", "01m9", "--html", "-")
	if w.out.String() != string(page) {
		t.Errorf("on stdout: %.200s", w.out)
	}
	w.want(ExitInvalid, "report", "01m9", "--html", "no/such/folder/x.html")
	// What cannot be made whole is not made, and nothing is left beside it.
	w.control.diffErr = errors.New("the store is damaged")
	w.want(ExitInternal, "report", "01m9", "--html", "third.html")
	left, err := os.ReadDir(w.env.Dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An Attempt of which nothing was collected has a page too.
func TestReportHTMLWithoutAResult(t *testing.T) {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptFailed)}
	w.control.diffErr = errors.New("it was asked for a diff")
	w.want(ExitOK, "report", "01m9", "--html", "-")
	if !strings.Contains(w.out.String(), "nothing was collected") {
		t.Errorf("%s", w.out)
	}
}
