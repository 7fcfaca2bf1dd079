package screen

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }
func (c *clock) ticks(s *Stages, n int) {
	for range n {
		c.pass(time.Second)
		s.Tick()
	}
}
func newClock() *clock { return &clock{time.Unix(1_900_000_000, 0)} }
func write(t *testing.T, s *Stages, x string) {
	t.Helper()
	if n, err := s.Write([]byte(x)); n != len(x) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func TestStages(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "01abc")
	s.Stage("preparing")
	c.pass(1500 * time.Millisecond)
	s.Stage("running the \x1b[31magent")
	write(t, s, "hello \x1b]0;x\x07world\nhalf a l")
	c.pass(time.Second)
	s.Tick()
	s.Notice("note\nthis")
	write(t, s, "ine\n\nlast")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := "    0.0s  preparing\n    1.5s  running the agent\n│ hello world\n│ half a l\n    2.5s  note<LF>this\n│ ine\n│ \n│ last\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestStagesPartialLineIsContinued(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "A")
	write(t, s, "Password")
	c.ticks(s, 1)
	if b.String() != "│ Password" {
		t.Errorf("an unfinished line stays invisible: %q", b.String())
	}
	write(t, s, ": ok\nnext\n")
	if b.String() != "│ Password: ok\n│ next\n" {
		t.Errorf("got %q", b.String())
	}
}

func TestStagesHeartbeat(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "A")
	s.Stage("running")
	c.ticks(s, 9)
	if strings.Count(b.String(), "\n") != 1 {
		t.Errorf("spoke before %v of silence: %q", Silence, b.String())
	}
	c.ticks(s, 1)
	if !strings.HasSuffix(b.String(), "   10.0s  still at it: running, for 10 s\n") {
		t.Errorf("got %q", b.String())
	}
	write(t, s, "output\n")
	c.ticks(s, 9)
	if strings.Count(b.String(), "still") != 1 {
		t.Errorf("output is no silence: %q", b.String())
	}
	c.ticks(s, 1)
	if strings.Count(b.String(), "still") != 2 {
		t.Errorf("no second heartbeat: %q", b.String())
	}
}

func TestStagesFoldsFloods(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "01abc")
	for i := range FloodLines + 1234 {
		write(t, s, fmt.Sprintf("line %d\n", i))
	}
	if got := strings.Count(b.String(), "\n"); got != FloodLines {
		t.Errorf("%d lines shown in one second", got)
	}
	c.ticks(s, 2)
	if !strings.HasSuffix(b.String(), "\n… 1,234 lines folded; `sallyport logs 01abc` has all\n") {
		t.Errorf("got %q", b.String()[b.Len()-100:])
	}
	write(t, s, "after\n")
	if !strings.HasSuffix(b.String(), "│ after\n") {
		t.Error("nothing is shown after a flood")
	}
}

// TestStagesCountsEveryLine: over a long flood each line is shown or counted as folded, and stages still show.
func TestStagesCountsEveryLine(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "A")
	const total = 60_000
	for i := range total {
		write(t, s, "x\n")
		if i%500 == 0 {
			c.pass(time.Second)
			s.Tick()
		}
		if i == total/2 {
			s.Stage("collecting")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	shown, folded := 0, 0
	for _, l := range strings.Split(b.String(), "\n") {
		var n int
		switch {
		case strings.HasPrefix(l, "│ x"):
			shown++
		case strings.HasPrefix(l, "… "):
			if _, err := fmt.Sscanf(strings.ReplaceAll(l, ",", ""), "… %d", &n); err != nil {
				t.Fatal(err)
			}
			folded += n
		}
	}
	if shown+folded != total || shown > total/4 || shown < FloodLines {
		t.Errorf("%d shown + %d folded of %d", shown, folded, total)
	}
	if !strings.Contains(b.String(), "collecting\n") {
		t.Error("a stage was lost in the flood")
	}
}

func TestStagesCutsEndlessLines(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "A")
	for range 100 {
		write(t, s, strings.Repeat("é", 10_000))
	}
	write(t, s, "\nnext\n")
	if b.Len() > 2*maxOutputLine || !strings.Contains(b.String(), "é … line cut; `sallyport logs A` has all\n│ next\n") {
		t.Errorf("%d bytes, end %q", b.Len(), b.String()[max(0, b.Len()-100):])
	}
	if cap(s.line) > 4*maxOutputLine {
		t.Errorf("stores %d bytes", cap(s.line))
	}
}

// TestStagesOutputCannotPoseAsOurs: no line of output begins like a line of ours, also after pieces.
func TestStagesOutputCannotPoseAsOurs(t *testing.T) {
	var b bytes.Buffer
	c := newClock()
	s := NewStages(&b, c.now, "A")
	for _, x := range []string{"    9.9s  ACCEPTED\n", "\r    9.9s  x\n", "a", "\n    9.9s  y\n", "\x1b[2K\x1b[1G    9.9s  z", "\n"} {
		write(t, s, x)
		c.ticks(s, 1)
	}
	for _, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if !strings.HasPrefix(l, "│ ") {
			t.Errorf("line %q", l)
		}
	}
}

func TestStagesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := NewStages(&b, time.Now, "A")
		s.Stage("running")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(ctx) })
		time.Sleep(25*time.Second + time.Millisecond)
		cancel()
		wg.Wait()
		if got := strings.Count(b.String(), "still at it"); got != 2 {
			t.Errorf("%d heartbeats in 25 s: %q", got, b.String())
		}
	})
}
