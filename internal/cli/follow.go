package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/screen"
)

// followOptions say how an Attempt is followed.
type followOptions struct {
	began    time.Time
	terminal bool // lend the user's terminal to the agent while it runs
	quiet    bool // only the end
	json     bool // a Report on stdout
	owner    bool // Ctrl-C cancels the Attempt; else it only ends the follower
	// end says what the Attempt's end means; nil: the result, and its exit code.
	end func(journal.Attempt) error
}

// sessionGrace is how long a session may outlive the stage it belongs to: the last output is on its way.
const sessionGrace = 2 * time.Second

// follower shows one Attempt, and the automatic retries after it, until the end.
type follower struct {
	a      *app
	c      Control
	o      followOptions
	p      *progress
	stop   context.CancelCauseFunc // ends following; the driver goes on
	cancel sync.WaitGroup          // a cancel request under way

	mu       sync.Mutex
	last     journal.Attempt
	signal   os.Signal // the first SIGINT or SIGTERM
	unseen   []byte    // output while it is not known yet whether there is a terminal
	attached sallyport.AttemptID
	end      context.CancelFunc // of the session; nil: none
	ended    chan struct{}
}

// follow returns when the Attempt has ended, with its exit code as error, or when the follower was sent away.
func (a *app) follow(ctx context.Context, c Control, id sallyport.AttemptID, o followOptions, start func(context.Context) error) error {
	w := a.Stderr
	if o.quiet {
		w = io.Discard
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &follower{a: a, c: c, o: o, p: startProgress(w, o.began, screen.Short(id)), stop: stop}
	f.last.Report.Attempt = id
	release := a.signals.take(f.onSignal)
	defer release()
	if start != nil {
		if err := start(ctx); err != nil {
			f.p.Close()
			return err
		}
	}
	at, err := c.Follow(ctx, id, Observer{Stage: f.onStage, Output: f.onOutput, Check: f.onCheck, Setup: f.onSetup, Notice: f.onNotice})
	f.endSession()
	f.cancel.Wait()
	f.p.Close()
	if err != nil {
		var left *exitError
		if cause := context.Cause(ctx); errors.As(cause, &left) {
			f.leave(context.WithoutCancel(ctx))
			return left
		}
		return err
	}
	return f.conclude(at)
}

// leave ends following while the Attempt goes on: the document then shows where it stands.
func (f *follower) leave(ctx context.Context) {
	if !f.o.json {
		return
	}
	f.mu.Lock()
	id := f.last.Report.Attempt
	f.mu.Unlock()
	if at, err := f.c.Attempt(ctx, string(id)); err == nil {
		f.a.writeReport(at.Report)
	}
}

func (f *follower) conclude(at journal.Attempt) error {
	if f.o.end != nil {
		return f.o.end(at)
	}
	f.a.showResult(at.Report, f.o.json)
	if f.o.json {
		f.a.writeReport(at.Report)
	}
	code := ExitCode(at)
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Report.State == sallyport.AttemptCancelled && f.signal != nil {
		code = signalCode(f.signal)
	}
	return exit(code)
}

func (f *follower) onStage(at journal.Attempt) {
	f.mu.Lock()
	before := f.last
	f.last = at
	f.mu.Unlock()
	state := at.Report.State
	if state != sallyport.AttemptRunning {
		f.endSession()
	}
	if before.Report.State != "" && before.Report.Attempt != at.Report.Attempt {
		f.p.Notice(fmt.Sprintf("attempt %d %s: %s; attempt %d (%s) is told so and begins",
			before.Report.Number, before.Report.State, before.Report.Reason.Message, at.Report.Number, screen.Short(at.Report.Attempt)))
	}
	if words := stageWords(state); words != "" {
		f.p.Stage(words)
	}
	if state == sallyport.AttemptRunning {
		f.beginSession(at.Report.Attempt)
	}
}

func (f *follower) onOutput(p []byte) {
	f.mu.Lock()
	onScreen := f.o.terminal // the agent writes to the terminal itself
	if onScreen && len(f.unseen)+len(p) <= maxHeld {
		f.unseen = append(f.unseen, p...)
	}
	f.mu.Unlock()
	if !onScreen {
		_, _ = f.p.Write(p)
	}
}

// plain goes over to showing output as it comes: there was no terminal to attach.
func (f *follower) plain() {
	f.mu.Lock()
	f.o.terminal = false
	unseen := f.unseen
	f.unseen = nil
	f.mu.Unlock()
	_, _ = f.p.Write(unseen)
}

func (f *follower) onCheck(r sallyport.CheckResult) {
	f.p.Notice(fmt.Sprintf("check %s: %s in %s", r.Name, r.Status, screen.Seconds(r.Seconds)))
}

func (f *follower) onSetup(r sallyport.SetupResult) {
	words := "setup: " + screen.Fit(screen.Line(r.Run), 60)
	switch {
	case r.Status == sallyport.SetupRunning:
		f.p.Stage(words)
	case r.Reused != "":
		f.p.Notice(words + ": as in attempt " + screen.Short(r.Reused))
	default:
		f.p.Notice(fmt.Sprintf("%s: %s in %s", words, r.Status, screen.Seconds(r.Seconds)))
	}
}

func (f *follower) onNotice(line string) { f.p.Notice(line) }

// onSignal acts on the first signal; the second never gets here.
func (f *follower) onSignal(s os.Signal) {
	f.mu.Lock()
	id := f.last.Report.Attempt
	if s != syscall.SIGHUP {
		f.signal = s
	}
	f.mu.Unlock()
	f.closeSession() // our words need the terminal
	switch {
	case s == syscall.SIGHUP:
		f.stop(&exitError{code: ExitHangup})
	case !f.o.owner:
		f.p.Notice("no longer following; the attempt goes on: `sallyport attach " + screen.Short(id) + "`, `sallyport cancel " + screen.Short(id) + "`")
		f.stop(&exitError{code: signalCode(s)})
	default:
		f.p.Notice("cancelling; what was collected is kept. Once more: do not wait. (`run -d` goes on without you)")
		f.cancel.Add(1)
		go f.askCancel(id, s)
	}
}

// askCancel journals the wish; the driver acts on it, so it must not die with the follower's context.
func (f *follower) askCancel(id sallyport.AttemptID, s os.Signal) {
	defer f.cancel.Done()
	err := f.c.Cancel(context.Background(), string(id), f.a.Who, "signal: "+s.String())
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeConflict { // conflict: it has just ended by itself
		f.p.Notice("cannot cancel: " + err.Error())
	}
}

// beginSession attaches the user's terminal to id's agent, once.
func (f *follower) beginSession(id sallyport.AttemptID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.o.terminal || f.attached == id || f.signal != nil {
		return
	}
	f.attached = id
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	f.end, f.ended = cancel, ended
	f.p.gate.hold()
	go func() {
		defer close(ended)
		err := f.a.session(ctx, true, func(ctx context.Context, t Terminal) error { return f.c.Attach(ctx, string(id), t) })
		f.p.gate.release()
		switch {
		case errors.Is(err, errDetached):
			f.p.Notice("detached; the attempt goes on: `sallyport attach " + screen.Short(id) + "`")
			f.stop(&exitError{code: ExitOK})
		case sallyport.CodeOf(err) == sallyport.CodeConflict, sallyport.CodeOf(err) == sallyport.CodeUnsupported:
			f.plain()
		case err != nil && ctx.Err() == nil:
			f.p.Notice("the terminal is no longer connected: " + err.Error() + "; `sallyport attach " + screen.Short(id) + "`")
		}
	}()
}

// endSession waits for the session's own end, for a while.
func (f *follower) endSession() {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(sessionGrace):
	}
	f.closeSession()
}

// closeSession takes the terminal back now.
func (f *follower) closeSession() {
	f.mu.Lock()
	end, ended := f.end, f.ended
	f.mu.Unlock()
	if ended == nil {
		return
	}
	end()
	f.a.terminal.restore()
	f.p.gate.release()
	<-ended
	f.mu.Lock()
	f.end, f.ended = nil, nil
	f.mu.Unlock()
}
