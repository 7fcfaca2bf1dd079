package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/runner"
)

// command is the one command of a sandbox, running.
type command struct {
	pid      int
	terminal *os.File // nil without one
	began    time.Time
	cause    string // why we ended it; empty: it ended by itself
	doing    string // what ran when its time was over
}

// Start implements wire.Host: once, durably. A keeper that was replaced after the mark was written does not
// start it again; the command's end is then "lost".
func (k *keeper) Start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.started {
		return nil
	}
	if k.sandbox == nil {
		return &sallyport.Error{Op: "start", Code: sallyport.CodeConflict, Message: "the sandbox is gone"}
	}
	// Commit point: a crash before finds nothing started; a crash after finds a command that may have run.
	if err := k.mark(FileStarted); err != nil {
		return &sallyport.Error{Op: "start", Code: sallyport.CodeUnavailable, Message: "the mark could not be made durable", Err: err}
	}
	c, output, err := k.sandbox.launch()
	k.started = true
	if err != nil {
		go k.finish(provider.Exit{Code: -1, Cause: "start", Message: startMessage(err)})
		return nil
	}
	k.command = c
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(k.spool, output)
		output.Close()
		close(drained)
	}()
	go k.watch(c)
	go k.reap(c, drained)
	return nil
}

func startMessage(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("%v: not in the sandbox's PATH", err)
	default:
		return err.Error()
	}
}

// staged is the Spec's command, about to start inside: whatever takes time and needs no mark is done already.
type staged struct {
	thread         *runner.Staged
	output, inside *os.File // a pipe's two ends; nil: it has a terminal
	err            error    // why there is no thread
	launched       bool
}

// stage makes the command of s ready.
func (k *keeper) stage(s *sandbox) *staged {
	spec := k.setup.Spec.Command
	g := &staged{}
	cmd := runner.Command{Argv: spec.Argv, Dir: spec.Dir, Env: environ(spec.Env), Terminal: spec.Terminal, Fork: k.cgroup.Start}
	if !spec.Terminal {
		if g.output, g.inside, g.err = os.Pipe(); g.err != nil {
			return g
		}
		cmd.Stdout = g.inside
	}
	g.thread = runner.Stage(k.prepared, s.enter, cmd)
	return g
}

// launch starts the command; its output comes on the returned file. Once.
func (s *sandbox) launch() (*command, *os.File, error) {
	g := s.staged
	if g.err != nil {
		return nil, nil, g.err
	}
	g.launched = true
	pid, terminal, err := g.thread.Start()
	if g.inside != nil {
		g.inside.Close()
	}
	if err != nil {
		if g.output != nil {
			g.output.Close()
		}
		return nil, nil, err
	}
	output := g.output
	if terminal != nil {
		output = terminal
	}
	return &command{pid: pid, terminal: terminal, began: time.Now()}, output, nil
}

// drop leaves nothing of a command that was not launched: its thread would hold the sandbox's namespaces.
func (g *staged) drop() {
	if g == nil || g.launched || g.err != nil {
		return
	}
	g.thread.Drop()
	for _, f := range []*os.File{g.output, g.inside} {
		if f != nil {
			f.Close()
		}
	}
}

func environ(env map[string]string) []string {
	var kv []string
	for k, v := range env {
		kv = append(kv, k+"="+v)
	}
	sort.Strings(kv)
	return kv
}

// killedInShell is how a shell passes on that its last command was killed: 128 and SIGKILL.
const killedInShell = 128 + int(unix.SIGKILL)

// reap waits for the command's own process. The kernel reports to us: nothing inside can speak for it.
func (k *keeper) reap(c *command, drained chan struct{}) {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(c.pid, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	e := provider.Exit{Started: true, Code: -1, By: "keeper", Seconds: time.Since(c.began).Seconds()}
	lost := ws.Signaled() && ws.Signal() == unix.SIGKILL && k.firstIsGone()
	switch {
	case ws.Exited():
		e.Cause, e.Code = "exit", ws.ExitStatus()
	case ws.Signaled():
		e.Cause, e.Signal = "signal", unix.SignalName(ws.Signal())
	}
	k.mu.Lock()
	if c.cause != "" {
		if e.Cause = c.cause; e.Cause == "runtime" {
			e.Message = c.doing
		}
	} else if (ws.Signaled() && ws.Signal() == unix.SIGKILL || ws.ExitStatus() == killedInShell) && k.outOfMemory() {
		e.Cause = "memory"
	} else if lost {
		e.Cause, e.Message = "lost", "the sandbox's first process was ended from outside"
	}
	s := k.sandbox
	k.sandbox = nil
	k.mu.Unlock()
	if s != nil {
		s.kill()
	}
	<-drained
	k.finish(e)
}

// firstPatience is for what comes with the end of a command that was killed: a first process that is about to end, and
// this keeper, whose other threads may already be dead. Its last one must say nothing of a command that died with them.
const firstPatience = 200 * time.Millisecond

// firstIsGone reports whether the sandbox's first process has ended or is ending: then its end is why the kernel killed the
// command. Nothing inside can end it.
func (k *keeper) firstIsGone() bool {
	k.mu.Lock()
	s := k.sandbox
	k.mu.Unlock()
	if s == nil {
		return false
	}
	select {
	case <-s.gone:
		return true
	case <-time.After(firstPatience):
		return s.id.Ending()
	}
}

// finish makes the end durable, then known.
func (k *keeper) finish(e provider.Exit) {
	k.mu.Lock()
	s := k.sandbox
	k.sandbox = nil
	k.mu.Unlock()
	if s != nil {
		s.kill()
	}
	if e.By == "" {
		e.By = "keeper"
	}
	e.Output, e.Dropped = k.spool.finish()
	k.closeEgress()
	for k.record(FileExit, e) != nil {
		// A full disk: the end is not acknowledged until it is durable.
		time.Sleep(time.Second)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.exit == nil {
		k.exit = &e
		close(k.ended)
	}
}

// end stops whatever runs, for cause. Repeat: nothing.
func (k *keeper) end(cause string) {
	k.mu.Lock()
	c, s := k.command, k.sandbox
	if c != nil && c.cause == "" {
		c.cause = cause
	}
	idle := s != nil && c == nil && !k.started
	if idle {
		k.started = true // nothing may start any more
	}
	k.mu.Unlock()
	switch {
	case idle:
		k.finish(provider.Exit{Code: -1, Cause: cause, Message: "it had not been started"})
	case s != nil:
		_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	}
}

// Stop implements wire.Host.
func (k *keeper) Stop(ctx context.Context, why string) error {
	k.end("stopped")
	_, err := k.Wait(ctx)
	return err
}

// The keeper's polls. Runtime is exact enough at the timer's resolution; disk is found late by nature.
const (
	diskFirst = 500 * time.Millisecond
	diskMost  = 10 * time.Second
)

// watch enforces what the kernel does not enforce for us.
func (k *keeper) watch(c *command) {
	l := k.setup.Spec.Limits
	before := k.space()
	counted, at := space{}, time.Now() // what the disk had free when its use was last counted, and when
	runtime := time.NewTimer(positive(l.Time))
	defer runtime.Stop()
	every := diskFirst
	poll := time.NewTimer(every)
	defer poll.Stop()
	for {
		select {
		case <-k.ended:
			return
		case <-runtime.C:
			doing := k.running()
			k.mu.Lock()
			c.doing = doing
			k.mu.Unlock()
			k.end("runtime")
			return
		case <-poll.C:
			began, now := time.Now(), k.space()
			if l.Disk > 0 && (!steady(counted, now) || began.Sub(at) >= diskMost) {
				counted, at = now, began
				if k.diskUsed(l.Disk) > l.Disk || crowds(before, now, l.Disk) {
					k.end("disk")
					return
				}
			}
			if !k.setup.Cgroup.MemoryHeld && l.Memory > 0 && k.memoryUsed() > l.Memory {
				k.end("memory")
				return
			}
			// A walk of a large tree must not become the machine's main work: at most a twentieth of the time.
			every = min(max(diskFirst, 20*time.Since(began)), diskMost)
			poll.Reset(every)
		}
	}
}

func positive(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Nanosecond // no limit was never agreed: end at once
	}
	return d
}

func setSize(f *os.File, cols, rows int) error {
	if cols < 1 || rows < 1 || cols > 10000 || rows > 10000 {
		return &sallyport.Error{Op: "resize", Code: sallyport.CodeInvalid, Message: "expected 1 to 10000 columns and rows"}
	}
	return unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
}
