package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
)

// hostile is what an agent may print: a title, the clipboard, a line that overwrites another, bidi.
const hostile = "\x1b]0;root@host\x07\x1b]52;c;ZXZpbA==\x07ok\rFAKE\x1b[2J\u202e \x9b31m"

func accepts(_ context.Context, r Request) (sallyport.AttemptID, error) {
	r.Announce("3 changed, 1 untracked files are not in the base; --include-dirty takes them in")
	return attID, nil
}

// accepted is a full, hostile result.
func accepted() journal.Attempt {
	return at(sallyport.AttemptAccepted, func(a *journal.Attempt) {
		a.Published, a.Publication = true, &lifecycle.Publication{}
		r := &a.Report
		r.Decision, r.Branch = sallyport.DecisionAccepted, "sallyport/fix-12"
		r.Reason = sallyport.Reason{Code: "checks-passed", Message: "passed in a fresh sandbox: test"}
		r.Commit, r.Tree = sallyport.ObjectID(strings.Repeat("c", 40)), sallyport.ObjectID(strings.Repeat("d", 40))
		r.Changes = []sallyport.Change{{Path: "a\x1b]52;c;x\x07.go", Status: sallyport.ChangeModified}}
		r.Checks = []sallyport.CheckResult{{Name: "test", Status: sallyport.CheckPassed, Seconds: 3.2, BaseStatus: sallyport.CheckFailed}}
		r.Timings = map[string]float64{"running": 2, "validating": 3.2}
	})
}

func work(end journal.Attempt) func(context.Context, sallyport.AttemptID, Observer) (journal.Attempt, error) {
	return func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptQueued))
		on.Stage(at(sallyport.AttemptPreparing))
		on.Notice("policy: source: worktree \x1b[31m")
		on.Stage(at(sallyport.AttemptRunning))
		on.Output([]byte("editing a.go\n" + hostile))
		on.Output([]byte("\ndone\n"))
		on.Stage(at(sallyport.AttemptCollecting))
		on.Stage(at(sallyport.AttemptInspecting))
		on.Stage(at(sallyport.AttemptValidating))
		on.Check(sallyport.CheckResult{Name: "test", Status: sallyport.CheckPassed, Seconds: 3.2})
		on.Stage(at(sallyport.AttemptDeciding))
		on.Stage(end)
		return end, nil
	}
}

func TestRunScreen(t *testing.T) {
	w := newWorld(t)
	w.control.submit, w.control.follow = accepts, work(accepted())
	w.want(ExitOK, "run", "-m", "fix it", "--agent", "codex")
	golden(t, "run.stderr", w.err.String())
	golden(t, "run.stdout", w.out.String())
	visibleOnly(t, "stderr", w.err.String())
	visibleOnly(t, "stdout", w.out.String())
	if !w.control.has("start "+string(attID)) || !w.control.has("close") {
		t.Errorf("calls: %v", w.control.calls)
	}
}

func TestRunQuiet(t *testing.T) {
	w := newWorld(t)
	w.control.submit, w.control.follow = accepts, work(accepted())
	w.want(ExitOK, "run", "-q", "--", "true")
	if w.err.String() != "" || !strings.Contains(w.out.String(), "ACCEPTED") {
		t.Errorf("stderr %q, stdout %q", w.err, w.out)
	}
}

func TestRunJSONIsOneDocument(t *testing.T) {
	w := newWorld(t)
	w.control.submit, w.control.follow = accepts, work(accepted())
	w.want(ExitOK, "run", "--json", "--", "true")
	r := document[sallyport.Report](t, w.out.String())
	if r.Attempt != attID || r.Decision != sallyport.DecisionAccepted || len(r.Changes) != 1 {
		t.Errorf("report %+v", r)
	}
	for _, part := range []string{`"findings": []`, `"layers": []`, `"controls": []`} {
		if !strings.Contains(w.out.String(), part) {
			t.Errorf("no %s in\n%s", part, w.out)
		}
	}
	if !strings.Contains(w.err.String(), "ACCEPTED") {
		t.Errorf("the page is not on stderr:\n%s", w.err)
	}
	visibleOnly(t, "stdout", w.out.String())
}

func TestRunJSONWhenRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		args []string
		err  error
		want string
	}{
		{"denied", 40, []string{"run", "--json", "--", "true"}, &sallyport.Error{Op: "run", Code: sallyport.CodeDenied, Message: "not granted", Hint: "sallyport trust"}, "denied"},
		{"internal", 1, []string{"run", "--json", "--", "true"}, errors.New("disk gone"), "internal"},
		{"unknown flag before", 2, []string{"run", "--tiem=1h", "--json", "--", "true"}, nil, "invalid"},
		{"no command", 2, []string{"run", "--json", "--"}, nil, "invalid"},
		{"retry of nothing", 2, []string{"retry", "zzz", "--json"}, nil, "not-found"},
		{"show of nothing", 2, []string{"show", "zzz", "--json"}, nil, "not-found"},
		{"wait without a repository", 2, []string{"wait", "--json"}, nil, "invalid"},
	} {
		w := newWorld(t)
		w.control.submit = func(context.Context, Request) (sallyport.AttemptID, error) { return "", c.err }
		w.want(c.code, c.args...)
		r := document[sallyport.Report](t, w.out.String())
		if r.Reason.Code != c.want || r.Reason.Message == "" || r.Attempt != "" || r.State != "" {
			t.Errorf("%s: %+v", c.name, r)
		}
		if !strings.Contains(w.err.String(), "sallyport: ") {
			t.Errorf("%s: stderr %q", c.name, w.err)
		}
	}
	// --json behind "--" belongs to the command.
	w := newWorld(t)
	w.control.submit = func(context.Context, Request) (sallyport.AttemptID, error) { return "", errors.New("x") }
	w.want(1, "run", "--", "prog", "--json")
	if w.out.String() != "" {
		t.Errorf("stdout: %s", w.out)
	}
}

// The first words must not wait for anything: they are there before Mission Control is opened.
func TestFirstOutputComesFirst(t *testing.T) {
	w := newWorld(t)
	open := w.env.Open
	seen := ""
	w.env.Open = func(ctx context.Context) (Control, error) {
		seen = w.err.String()
		return open(ctx)
	}
	w.control.submit, w.control.follow = accepts, work(accepted())
	w.want(ExitOK, "run", "--", "true")
	if !strings.Contains(seen, "compiling the work order") {
		t.Errorf("before opening: %q", seen)
	}
}

func TestRunDetached(t *testing.T) {
	w := newWorld(t)
	w.control.submit = accepts
	w.want(ExitOK, "run", "-d", "-m", "x", "--agent", "codex")
	if w.out.String() != string(attID)+"\n" {
		t.Errorf("stdout %q", w.out)
	}
	if !strings.Contains(w.err.String(), "sallyport attach 01m9k3v0q8r0") {
		t.Errorf("stderr %q", w.err)
	}

	w = newWorld(t)
	w.control.submit = accepts
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptQueued)}
	w.want(ExitOK, "run", "-d", "-it", "--json", "--", "bash") // a terminal is needed only to attach
	if r := document[sallyport.Report](t, w.out.String()); r.State != sallyport.AttemptQueued {
		t.Errorf("report %+v", r)
	}
}

func TestDriverThatDoesNotStart(t *testing.T) {
	for _, args := range [][]string{{"run", "--", "true"}, {"run", "-d", "--", "true"}} {
		w := newWorld(t)
		w.control.submit = accepts
		w.control.start = func(context.Context, sallyport.AttemptID) error {
			return &sallyport.Error{Op: "start driver", Code: sallyport.CodeUnavailable, Message: "no more processes"}
		}
		w.control.cancel = func(string, string, string) error { return nil }
		w.want(ExitInternal, args...)
		if !w.control.has("cancel "+string(attID)) || w.out.String() != "" {
			t.Errorf("calls %v, stdout %q", w.control.calls, w.out)
		}
	}
}

func TestAutomaticRetryIsTold(t *testing.T) {
	w := newWorld(t)
	second := func(a *journal.Attempt) {
		a.Report.Attempt, a.Report.Number = "att_01m9k3v0zzz000000000000000", 2
	}
	w.control.submit = accepts
	w.control.follow = script(at(sallyport.AttemptRunning),
		at(sallyport.AttemptRejected, func(a *journal.Attempt) { a.Report.Reason.Message = "check \"test\" \x1b[1mfails" }),
		at(sallyport.AttemptPreparing, second), at(sallyport.AttemptRejected, second))
	w.want(ExitRejected, "run", "--attempts", "2", "--", "true")
	if want := `attempt 1 rejected: check "test" fails; attempt 2 (01m9k3v0zzz0) is told so and begins`; !strings.Contains(w.err.String(), want) {
		t.Errorf("stderr lacks %q:\n%s", want, w.err)
	}
	visibleOnly(t, "stderr", w.err.String())
}

func TestGrantIsAskedOnATerminalOnly(t *testing.T) {
	asks := []manifest.Ask{{What: "deps web/node_modules\x1b]0;x\x07", Why: "can be read"}}
	if r := submitted(t, newWorld(t), "run", "--", "true"); r.Grant != nil {
		t.Error("asked without a terminal")
	}
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "": false, "yeah\n": false} {
		w := newWorld(t)
		w.env.Console, w.env.Stdin = newConsole(), strings.NewReader(answer)
		r := submitted(t, w, "run", "--", "true")
		if got := r.Grant(asks); got != want {
			t.Errorf("%q: %v", answer, got)
		}
		if !strings.Contains(w.err.String(), "deps web/node_modules  (can be read)") {
			t.Errorf("stderr %q", w.err)
		}
		visibleOnly(t, "the question", w.err.String())
	}
}

// until ends a Follow when the fake is cancelled.
func until(cancelled <-chan struct{}, end journal.Attempt, running chan<- struct{}) func(context.Context, sallyport.AttemptID, Observer) (journal.Attempt, error) {
	return func(ctx context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		close(running)
		select {
		case <-cancelled:
			on.Stage(end)
			return end, nil
		case <-ctx.Done():
			return journal.Attempt{}, ctx.Err()
		}
	}
}

func TestFirstSignalCancelsAndWaits(t *testing.T) {
	for _, c := range []struct {
		sig  syscall.Signal
		end  sallyport.AttemptState
		want int
	}{
		{syscall.SIGINT, sallyport.AttemptCancelled, 130},
		{syscall.SIGTERM, sallyport.AttemptCancelled, 143},
		{syscall.SIGINT, sallyport.AttemptAccepted, 0}, // the signal came too late, and the code says what is
	} {
		w := newWorld(t)
		cancelled, running := make(chan struct{}), make(chan struct{})
		w.control.submit = accepts
		w.control.follow = until(cancelled, at(c.end), running)
		w.control.cancel = func(_, who, why string) error {
			if who != "alice" || !strings.Contains(why, c.sig.String()) {
				t.Errorf("cancelled by %q because %q", who, why)
			}
			close(cancelled)
			return nil
		}
		go func() { <-running; w.signals <- c.sig }()
		w.want(c.want, "run", "--", "sleep", "100")
		for _, says := range []string{"what was collected is kept", "run -d"} {
			if !strings.Contains(w.err.String(), says) {
				t.Errorf("%v: stderr does not say %q:\n%s", c.sig, says, w.err)
			}
		}
	}
}

// The wish to cancel is recorded even if the Attempt ends meanwhile: nothing closes under it.
func TestCancelIsNotCutShort(t *testing.T) {
	w := newWorld(t)
	asked, ended := make(chan struct{}), make(chan struct{})
	w.control.submit = accepts
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		w.signals <- syscall.SIGINT
		<-asked
		close(ended)
		return at(sallyport.AttemptFailed), nil
	}
	w.control.cancel = func(string, string, string) error {
		close(asked)
		<-ended
		time.Sleep(20 * time.Millisecond)
		if w.control.has("close") {
			t.Error("Mission Control was closed during the call")
		}
		return &sallyport.Error{Code: sallyport.CodeConflict, Message: "it has ended"}
	}
	w.want(ExitFailed, "run", "--", "true")
	if strings.Contains(w.err.String(), "cannot cancel") {
		t.Errorf("stderr %s", w.err)
	}
}

func TestSecondSignalIsImmediate(t *testing.T) {
	w := newWorld(t)
	running, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	w.control.submit = accepts
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		close(running)
		<-never // deaf to everything
		return journal.Attempt{}, nil
	}
	asked := make(chan struct{})
	w.control.cancel = func(string, string, string) error {
		close(asked)
		<-never
		return nil
	}
	go func() { // exactly two
		<-running
		w.signals <- syscall.SIGINT
		<-asked
		w.signals <- syscall.SIGINT
	}()
	w.want(130, "run", "--", "sleep", "100")
}

func TestHangupLeavesTheAttempt(t *testing.T) {
	w := newWorld(t)
	running := make(chan struct{})
	w.control.submit = accepts
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRunning)}
	w.control.follow = until(nil, at(sallyport.AttemptAccepted), running)
	go func() { <-running; w.signals <- syscall.SIGHUP }()
	w.want(ExitHangup, "run", "--json", "--", "sleep", "100")
	if w.control.has("cancel " + string(attID)) {
		t.Error("a lost terminal cancelled the attempt")
	}
	if r := document[sallyport.Report](t, w.out.String()); r.State != sallyport.AttemptRunning {
		t.Errorf("report %+v", r)
	}
}

func TestSignalWhileSubmitting(t *testing.T) {
	w := newWorld(t)
	w.control.submit = func(ctx context.Context, _ Request) (sallyport.AttemptID, error) {
		w.signals <- syscall.SIGTERM
		<-ctx.Done()
		return "", &sallyport.Error{Op: "compile", Err: ctx.Err()}
	}
	w.want(143, "run", "--json", "--", "true")
	if r := document[sallyport.Report](t, w.out.String()); r.Reason.Code != "cancelled" {
		t.Errorf("report %+v", r)
	}

	// Submitted all the same: then it must not stay queued.
	w = newWorld(t)
	w.control.submit = func(ctx context.Context, _ Request) (sallyport.AttemptID, error) {
		w.signals <- syscall.SIGINT
		<-ctx.Done()
		return attID, nil
	}
	w.control.cancel = func(string, string, string) error { return nil }
	w.want(130, "run", "--", "true")
	if !w.control.has("cancel "+string(attID)) || w.control.has("start "+string(attID)) {
		t.Errorf("calls: %v", w.control.calls)
	}
}

func TestSignalOnlyEndsAFollower(t *testing.T) {
	for _, verb := range []string{"wait", "attach"} {
		w := newWorld(t)
		running := make(chan struct{})
		w.control.attempts = []journal.Attempt{at(sallyport.AttemptRunning)}
		w.control.follow = until(nil, at(sallyport.AttemptAccepted), running)
		go func() { <-running; w.signals <- syscall.SIGINT }()
		w.want(130, verb, "01m9")
		if w.control.has("cancel " + string(attID)) {
			t.Errorf("%s cancelled the attempt", verb)
		}
	}
}

func TestPanicShowsNoStack(t *testing.T) {
	w := newWorld(t)
	w.control.submit = func(context.Context, Request) (sallyport.AttemptID, error) { panic("boom\x1b[2J") }
	w.want(ExitInternal, "run", "--json", "--", "true")
	if s := w.err.String(); !strings.Contains(s, "internal error: boom") || strings.Contains(s, "goroutine") || strings.Contains(s, ".go:") {
		t.Errorf("stderr:\n%s", s)
	}
	visibleOnly(t, "stderr", w.err.String())
}

func TestErrorsAreNeutralised(t *testing.T) {
	w := newWorld(t)
	w.control.submit = func(context.Context, Request) (sallyport.AttemptID, error) {
		return "", &sallyport.Error{Op: "compile", Code: sallyport.CodeInvalid, Subject: "evil\x1b]0;t\x07.yaml:3:1", Message: "line\nbreak", Hint: "look\x1b[2J"}
	}
	w.want(ExitInvalid, "run", "-q", "--", "true")
	if want := "sallyport: compile: evil.yaml:3:1: line<LF>break\nhint: look\n"; w.err.String() != want {
		t.Errorf("stderr %q, want %q", w.err, want)
	}
}

func TestRetry(t *testing.T) {
	w := newWorld(t)
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	next := at(sallyport.AttemptAccepted, func(a *journal.Attempt) { a.Report.Attempt = "att_next" })
	w.control.retry = func(id, message string) (sallyport.AttemptID, error) {
		if id != string(attID) || message != "be careful" {
			t.Errorf("retry %q %q", id, message)
		}
		return "att_next", nil
	}
	w.control.follow = script(next)
	w.want(ExitOK, "retry", "01m9", "-m", "be careful")
	if !w.control.has("start att_next") || !w.control.has("follow att_next") {
		t.Errorf("calls %v", w.control.calls)
	}
}

func TestDriveIsDeafToHangup(t *testing.T) {
	w := newWorld(t)
	w.control.drive = func(ctx context.Context, id sallyport.AttemptID) error {
		w.signals <- syscall.SIGHUP
		select {
		case <-ctx.Done():
			t.Error("a lost terminal ended the driver")
		case <-time.After(50 * time.Millisecond):
		}
		w.signals <- syscall.SIGTERM
		<-ctx.Done()
		return ctx.Err()
	}
	if code := w.run("drive", string(attID)); code != 143 && code != 130 {
		t.Errorf("exit %d", code)
	}
}
