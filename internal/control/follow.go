package control

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/journal"
)

// Observer hears what happens to an Attempt, in order, on one goroutine. Any field may be nil.
type Observer struct {
	Stage  func(at journal.Attempt)
	Output func(p []byte) // the agent's: redacted, not neutralised
	// Raw: Output gets every byte; else a preset's event lines are turned into what a person follows.
	Raw    bool
	Check  func(r sallyport.CheckResult)
	Setup  func(r sallyport.SetupResult) // when it begins, and when it has ended
	Notice func(line string)
	Next   func(at journal.Attempt) // an automatic retry begins
}

// followPoll is how soon a follower sees a change. The journal is the truth, so a poll misses nothing.
const followPoll = 40 * time.Millisecond

// maxUndriven is how many drivers in a row may end without having taken the lease: then the next one would too.
const maxUndriven = 5

// undrivable says why drivers end at once. What a driver says lies in its log, unless there is no room for it.
func (c *Control) undrivable(at journal.Attempt) error {
	e := &sallyport.Error{Op: "follow", Code: sallyport.CodeUnavailable, Subject: string(at.Report.Attempt), Message: "its drivers end before they can write to the journal",
		Hint: "look into " + filepath.Join(c.attemptFolder(at.Report.Attempt), "driver.log") + ", then `sallyport attach " + string(at.Report.Attempt) + "` goes on"}
	var fs unix.Statfs_t
	if unix.Statfs(c.cfg.State, &fs) == nil && fs.Bavail*uint64(fs.Bsize) < 1<<20 {
		e.Subject, e.Message = c.cfg.State, "no space left there: the Attempt "+string(at.Report.Attempt)+" cannot be driven"
		e.Hint = "free space there, then `sallyport attach " + string(at.Report.Attempt) + "` goes on"
	}
	return e
}

// StartDriver starts a driver for an Attempt, in a session of its own: it outlives this process.
func (c *Control) StartDriver(ctx context.Context, id sallyport.AttemptID) error {
	path := filepath.Join(c.attemptFolder(id), "driver.log")
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return stateError(path, err)
	}
	defer log.Close()
	at, err := c.journal.Attempt(ctx, id)
	if err != nil {
		return err
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil {
		return err
	}
	return c.cfg.Driver(id, log, credentialVariables(m))
}

// Follow calls back until the Attempt and its automatic retries have ended, and returns the last one. It
// drives nothing: ended or detached, the Attempt goes on. A dead driver is replaced.
func (c *Control) Follow(ctx context.Context, id sallyport.AttemptID, on Observer) (journal.Attempt, error) {
	f := follower{c: c, on: on}
	defer f.close()
	f.begin(id)
	lastLook := time.Now()
	undriven := 0 // looks in a row at which nobody held the lease
	for {
		at, err := c.journal.Attempt(ctx, f.id)
		if err != nil {
			return at, err
		}
		f.show(at)
		if at.Report.State.Ended() && !at.Publishing {
			next, err := c.successor(ctx, at)
			if err != nil || next == "" {
				return at, err
			}
			f.begin(next)
			if on.Next != nil {
				if n, err := c.journal.Attempt(ctx, next); err == nil {
					on.Next(n)
				}
			}
			continue
		}
		if time.Since(lastLook) > 2*time.Second {
			lastLook = time.Now()
			if undriven++; !free(at.Lease) {
				undriven = 0
			}
			if undriven > maxUndriven {
				return at, c.undrivable(at)
			}
			if err := c.revive(ctx, at); err != nil {
				return at, err
			}
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(f.pause()):
		}
	}
}

// pause is how long to wait before the next look: short while one step follows the other, longer while an
// agent or a check works, whose output alone is then looked at more often.
func (f *follower) pause() time.Duration {
	switch f.state {
	case sallyport.AttemptRunning, sallyport.AttemptValidating:
		return followPoll
	}
	return followPoll / 5
}

// successor is the automatic retry of an ended Attempt; its driver makes it right after the end, so one that still
// holds its lease is waited for. So is one that has only the summary left to write: who is told of the end may use
// everything at once.
func (c *Control) successor(ctx context.Context, at journal.Attempt) (sallyport.AttemptID, error) {
	for range 100 {
		all, err := c.journal.OfWorkOrder(ctx, at.Report.WorkOrder)
		if err != nil {
			return "", err
		}
		released := false
		for _, a := range all {
			if a.Report.Previous == at.Report.Attempt {
				return a.Report.Attempt, nil
			}
			none := a.Lease == nil || at.Report.Decision != sallyport.DecisionRejected && free(a.Lease)
			released = released || a.Report.Attempt == at.Report.Attempt && none
		}
		if released {
			return "", nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(followPoll):
		}
	}
	return "", nil
}

// free: given back, run out, or its holder is proven dead. A holder that only hangs keeps nothing for ever: what
// it still appends after another has the lease is refused.
func free(l *journal.Lease) bool {
	if l == nil || journal.DeadOnThisHost(l.Holder) {
		return true
	}
	boot, err := journal.BootID()
	return err == nil && !l.Live(boot, journal.BootTime())
}

// revive starts a driver where nobody drives any more.
func (c *Control) revive(ctx context.Context, at journal.Attempt) error {
	if (at.Report.State.Ended() && !at.Publishing) || !free(at.Lease) {
		return nil
	}
	// A queued Attempt's first driver may still be on its way: then there are two, and one takes the lease.
	return c.StartDriver(ctx, at.Report.Attempt)
}

// adopt starts a driver for every live Attempt that nobody drives any more, so that any command of a person
// picks up what a crash left.
func (c *Control) adopt(ctx context.Context) error {
	live, err := c.journal.Attempts(ctx, false)
	if err != nil {
		return err
	}
	for _, at := range live {
		if err := c.revive(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

type follower struct {
	c       *Control
	on      Observer
	id      sallyport.AttemptID
	state   sallyport.AttemptState
	checks  int
	setups  map[string]sallyport.SetupStatus // shown so far
	notices int
	log     *os.File
	offset  int64
	out     io.Writer // to on.Output
}

// outputFunc is on.Output as a writer.
type outputFunc func(p []byte)

func (f outputFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func (f *follower) begin(id sallyport.AttemptID) {
	f.close()
	*f = follower{c: f.c, on: f.on, id: id}
	if f.on.Output == nil {
		return
	}
	f.out = outputFunc(f.on.Output)
	at, err := f.c.journal.Attempt(context.Background(), id)
	if err != nil || f.on.Raw {
		return
	}
	if m, err := f.c.manifest(at.Report.Manifest); err == nil && !m.Terminal {
		f.out = agent.Readable(m.Agent.Name, f.out)
	}
}

func (f *follower) close() {
	if last, ok := f.out.(interface{ Flush() error }); ok {
		_ = last.Flush()
	}
	if f.log != nil {
		f.log.Close()
		f.log = nil
	}
}

func (f *follower) show(at journal.Attempt) {
	if f.on.Notice != nil {
		for ; f.notices < len(at.Report.Notices); f.notices++ {
			f.on.Notice(at.Report.Notices[f.notices])
		}
	}
	f.setup(at)
	// What belongs to the stage that ends comes before the line that says the next one began.
	switch at.Report.State {
	case sallyport.AttemptRunning:
		f.stage(at)
		f.copy()
	case sallyport.AttemptValidating:
		f.copy()
		f.stage(at)
		f.check(at)
	default:
		f.copy()
		f.check(at)
		f.stage(at)
	}
}

func (f *follower) stage(at journal.Attempt) {
	if at.Report.State == f.state {
		return
	}
	f.state = at.Report.State
	if f.on.Stage != nil {
		f.on.Stage(at)
	}
}

func (f *follower) setup(at journal.Attempt) {
	if f.on.Setup == nil {
		return
	}
	if len(at.Report.Setup) > 0 && f.state == sallyport.AttemptQueued {
		f.stage(at) // they belong to a later one
	}
	for _, r := range at.Report.Setup {
		key := fmt.Sprint(r.Number, r.For)
		if f.setups[key] == r.Status {
			continue
		}
		if f.setups == nil {
			f.setups = map[string]sallyport.SetupStatus{}
		}
		f.setups[key] = r.Status
		f.on.Setup(r)
	}
}

func (f *follower) check(at journal.Attempt) {
	if f.on.Check == nil {
		return
	}
	for ; f.checks < len(at.Report.Checks); f.checks++ {
		f.on.Check(at.Report.Checks[f.checks])
	}
}

// copy sends what the agent has said since. A later driver writes the same bytes again from the start; a
// file that is shorter than what was shown is waited for.
func (f *follower) copy() {
	if f.on.Output == nil {
		return
	}
	path := filepath.Join(f.c.attemptFolder(f.id), LogAgent+".log")
	if f.log == nil {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		f.log = file
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := f.log.ReadAt(buf, f.offset)
		if n > 0 {
			f.offset += int64(n)
			_, _ = f.out.Write(buf[:n])
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// Logs copies an Attempt's output to w: what there is, or with follow until it has ended.
func (c *Control) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return err
	}
	if follow && !at.Report.State.Ended() {
		_, err := c.Follow(ctx, at.Report.Attempt, Observer{Raw: true, Output: func(p []byte) { _, _ = w.Write(p) }})
		return err
	}
	f, err := os.Open(filepath.Join(c.attemptFolder(at.Report.Attempt), LogAgent+".log"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
