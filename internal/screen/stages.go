package screen

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Silence is how long nothing is said before a heartbeat: long enough not to disturb, short enough that
// nobody wonders whether it still runs.
const Silence = 10 * time.Second

// FloodLines is how many lines a second of an agent's output are shown. More cannot be read, and a terminal
// that cannot keep up would slow the agent down.
const FloodLines = 200

// outputBar begins each line of the agent's output.
const outputBar = "│ "

// maxOutputLine bounds one shown line, in bytes after neutralising.
const maxOutputLine = 4 << 10

// Stages writes a run's progress for a person: stage lines with the time since the start, the agent's output
// as it comes (neutralised; floods folded) and a heartbeat in silence. Safe for concurrent use. A failing
// writer is not reported: losing the screen must not end a run.
type Stages struct {
	w    io.Writer
	now  func() time.Time
	logs string // command that shows everything

	mu     sync.Mutex
	began  time.Time
	said   time.Time // last line of any kind
	stage  string
	since  time.Time // of the stage
	scrub  io.WriteCloser
	line   []byte // of output, not yet written
	cut    bool   // the rest of the line is dropped
	open   bool   // the cursor stands behind text that has no line feed yet
	window time.Time
	count  int // lines in window
	folded int // lines not shown since the flood began
}

// NewStages begins at now(). Attempt is the id (or its short form) for the hint under a folded flood.
func NewStages(w io.Writer, now func() time.Time, attempt string) *Stages {
	s := &Stages{w: w, now: now, logs: "sallyport logs " + Line(attempt), began: now()}
	s.said, s.window, s.since = s.began, s.began, s.began
	s.scrub = NewWriter(lineSink{s})
	return s
}

// Stage says that a stage begins: "   3.2s  running the agent".
func (s *Stages) Stage(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage, s.since = Line(name), s.now()
	s.say(s.stage)
}

// Notice writes one line of our own.
func (s *Stages) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(Line(text))
}

// Write takes the agent's output. It never fails.
func (s *Stages) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.scrub.Write(p)
	return len(p), nil
}

// Tick does what time alone brings: an unfinished line becomes visible, a flood that ended is summed up, and
// silence is broken by a heartbeat. Call it about once a second, or let Run do so.
func (s *Stages) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.roll(now)
	if s.folded == 0 && len(s.line) > 0 {
		s.output("")
		s.said = now
	}
	if now.Sub(s.said) >= Silence && s.folded == 0 {
		s.say(fmt.Sprintf("still at it: %s, for %s", s.stage, Seconds(now.Sub(s.since).Seconds())))
	}
}

// Run ticks each second until ctx ends.
func (s *Stages) Run(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.Tick()
		}
	}
}

// Close writes what is left of the output. It does not close the writer.
func (s *Stages) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.scrub.Close()
	if len(s.line) > 0 || s.cut || s.open {
		s.endLine()
	}
	s.sumUp()
	s.breakLine()
	return nil
}

// lineSink receives neutralised output; the lock is held.
type lineSink struct{ s *Stages }

func (l lineSink) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n':
			l.s.endLine()
		case l.s.cut:
		case len(l.s.line) >= maxOutputLine && b&0xc0 != 0x80: // never inside a character
			l.s.cut = true
		default:
			l.s.line = append(l.s.line, b)
		}
	}
	return len(p), nil
}

// endLine shows or folds one complete line of output.
func (s *Stages) endLine() {
	end := ""
	if s.cut {
		end = " … line cut; `" + s.logs + "` has all"
	}
	s.cut = false
	now := s.now()
	s.roll(now)
	s.count++
	if s.folded > 0 || s.count > FloodLines {
		s.folded++
		s.line = s.line[:0]
		return
	}
	s.output(end + "\n")
	s.open = false
	s.said = now
}

// output writes the line of output so far. The bar tells the agent's lines from ours, which it could imitate.
func (s *Stages) output(end string) {
	bar := outputBar
	if s.open {
		bar = ""
	}
	s.put(bar + string(s.line) + end)
	s.line, s.open = s.line[:0], true
}

// roll begins a new second. A flood has ended when a whole second was within the limit.
func (s *Stages) roll(now time.Time) {
	if now.Sub(s.window) < time.Second {
		return
	}
	if s.count <= FloodLines || now.Sub(s.window) >= 2*time.Second {
		s.sumUp()
	} else if now.Sub(s.said) >= Silence {
		s.sumUp() // a flood that goes on: the next lines are shown again, so that one sees where it is
	}
	s.window, s.count = now, 0
}

func (s *Stages) sumUp() {
	if s.folded == 0 {
		return
	}
	n := s.folded
	s.folded = 0
	s.breakLine()
	word := "lines"
	if n == 1 {
		word = "line"
	}
	s.put(fmt.Sprintf("… %s %s folded; `%s` has all\n", Thousands(n), word, s.logs))
	s.said = s.now()
}

// say writes one line of ours, never behind a piece of output.
func (s *Stages) say(text string) {
	now := s.now()
	s.sumUp()
	if len(s.line) > 0 {
		s.output("")
	}
	s.breakLine()
	s.put(fmt.Sprintf("%7.1fs  %s\n", now.Sub(s.began).Seconds(), text))
	s.said = now
}

func (s *Stages) breakLine() {
	if s.open {
		s.put("\n")
		s.open = false
	}
}

func (s *Stages) put(text string) { _, _ = io.WriteString(s.w, text) }
