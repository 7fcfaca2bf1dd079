package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/screen"
)

func (w *world) console() *fakeConsole {
	c := newConsole()
	w.env.Console = c
	return c
}

// wantCooked demands that the terminal was lent and is back.
func wantCooked(t *testing.T, c *fakeConsole, times int) {
	t.Helper()
	if entered, now := c.mode(); entered != times || now {
		t.Errorf("raw mode entered %d times (want %d), still on: %v", entered, times, now)
	}
}

// cookedWriter demands that the terminal is the user's when we speak.
type cookedWriter struct {
	t *testing.T
	c *fakeConsole
	w io.Writer
}

func (k cookedWriter) Write(p []byte) (int, error) {
	if _, raw := k.c.mode(); raw {
		k.t.Errorf("said while the terminal was lent: %q", p)
	}
	return k.w.Write(p)
}

func TestJSONNeedsTheScreen(t *testing.T) {
	w := newWorld(t).stateless()
	w.console()
	w.want(ExitInvalid, "run", "-it", "--json", "--", "bash")
	document[sallyport.Report](t, w.out.String())
}

func TestInteractiveRun(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	w.env.Stderr = cookedWriter{t, c, w.err}
	w.control.submit = accepts
	attached := make(chan struct{})
	w.control.attach = func(_ context.Context, id string, term Terminal) error {
		if cols, rows := term.Size(); cols != 100 || rows != 40 || id != string(attID) {
			t.Errorf("%s at %d×%d", id, cols, rows)
		}
		c.keys <- []byte("ls\r")
		p := make([]byte, 10)
		n, err := term.In.Read(p)
		if string(p[:n]) != "ls\r" || err != nil {
			t.Errorf("keys %q, %v", p[:n], err)
		}
		_, _ = io.WriteString(term.Out, "\x1b[?1049h\x1b[31mred\x1b[0m\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1bP+q\x1b\\\x1b[6n")
		if _, raw := c.mode(); !raw {
			t.Error("not in raw mode")
		}
		close(attached)
		return nil
	}
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		on.Output([]byte("not shown twice"))
		<-attached
		on.Stage(at(sallyport.AttemptCollecting))
		return at(sallyport.AttemptAccepted), nil
	}
	w.want(ExitOK, "run", "-it", "--", "bash")
	wantCooked(t, c, 1)
	if got, want := c.out.String(), "\x1b[?1049h\x1b[31mred\x1b[0m"+screen.Reset; got != want {
		t.Errorf("terminal got %q, want %q", got, want)
	}
	if strings.Contains(w.err.String(), "not shown twice") || !strings.Contains(w.err.String(), "collecting the result") {
		t.Errorf("stderr:\n%s", w.err)
	}
}

// What we say while the terminal is lent comes after it is back.
func TestWordsWaitForTheTerminal(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	w.env.Stderr = cookedWriter{t, c, w.err}
	w.control.submit = accepts
	noticed, attached := make(chan struct{}), make(chan struct{})
	early := "?"
	w.control.attach = func(_ context.Context, _ string, term Terminal) error {
		close(attached)
		<-noticed
		early = w.err.String()
		return nil
	}
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		<-attached
		on.Notice("said meanwhile")
		close(noticed)
		on.Stage(at(sallyport.AttemptCollecting))
		return at(sallyport.AttemptFailed), nil
	}
	w.want(ExitFailed, "run", "-it", "--", "bash")
	wantCooked(t, c, 1)
	if strings.Contains(early, "said meanwhile") || !strings.Contains(w.err.String(), "said meanwhile") {
		t.Errorf("during: %q\nafter: %q", early, w.err)
	}
}

func TestDetachKeysLeaveTheAttempt(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	w.control.submit = accepts
	w.control.attach = func(ctx context.Context, _ string, term Terminal) error {
		_, _ = io.WriteString(term.Out, "$ ")
		c.keys <- []byte("a\x10")
		c.keys <- []byte("\x11b")
		got, err := io.ReadAll(term.In)
		if string(got) != "a" || err != nil {
			t.Errorf("the agent got %q, %v", got, err)
		}
		<-ctx.Done()
		return errors.New("connection closed")
	}
	w.control.follow = func(ctx context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		<-ctx.Done()
		return journal.Attempt{}, ctx.Err()
	}
	w.want(ExitOK, "run", "-it", "--", "bash")
	wantCooked(t, c, 1)
	if w.control.has("cancel "+string(attID)) || !strings.Contains(w.err.String(), "sallyport attach 01m9k3v0q8r0") {
		t.Errorf("calls %v, stderr %s", w.control.calls, w.err)
	}
}

func TestSignalTakesTheTerminalBack(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	cancelled := make(chan struct{})
	w.control.submit = accepts
	w.control.attach = func(ctx context.Context, _ string, term Terminal) error {
		_, _ = io.WriteString(term.Out, "x")
		w.signals <- syscall.SIGTERM
		<-ctx.Done()
		return ctx.Err()
	}
	w.control.cancel = func(string, string, string) error {
		if _, raw := c.mode(); raw {
			t.Error("the terminal is still lent")
		}
		close(cancelled)
		return nil
	}
	w.control.follow = until(cancelled, at(sallyport.AttemptCancelled), make(chan struct{}))
	w.want(143, "run", "-it", "--", "bash")
	wantCooked(t, c, 1)
	if !strings.HasSuffix(c.out.String(), screen.Reset) {
		t.Errorf("terminal got %q", c.out)
	}
}

func TestPanicTakesTheTerminalBack(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	attached := make(chan struct{})
	w.control.submit = accepts
	w.control.attach = func(ctx context.Context, _ string, _ Terminal) error {
		close(attached)
		<-ctx.Done()
		return ctx.Err()
	}
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Stage(at(sallyport.AttemptRunning))
		<-attached
		panic("boom")
	}
	w.want(ExitInternal, "run", "-it", "--", "bash")
	wantCooked(t, c, 1)
}

func TestAttachFallsBackToOutput(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	asked := make(chan struct{})
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRunning)}
	w.control.attach = func(context.Context, string, Terminal) error {
		defer close(asked)
		return &sallyport.Error{Op: "attach", Code: sallyport.CodeConflict, Message: "it has no terminal"}
	}
	w.control.follow = func(_ context.Context, _ sallyport.AttemptID, on Observer) (journal.Attempt, error) {
		on.Output([]byte("said before\n"))
		on.Stage(at(sallyport.AttemptRunning))
		on.Output([]byte("said early\n"))
		<-asked
		on.Stage(at(sallyport.AttemptCollecting))
		on.Output([]byte("said late\n"))
		return at(sallyport.AttemptAccepted), nil
	}
	w.want(ExitOK, "attach", "01m9")
	wantCooked(t, c, 1)
	if c.out.String() != "" {
		t.Errorf("the terminal was touched: %q", c.out)
	}
	rest := w.err.String()
	for _, line := range []string{"said before\n", "said early\n", "said late\n"} {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Fatalf("no %q in order:\n%s", line, w.err)
		}
		rest = after
	}
}

func TestShell(t *testing.T) {
	w := newWorld(t)
	c := w.console()
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.shell = func(term Terminal) (int, error) {
		c.keys <- []byte("\x10\x11") // no detaching here: the keys are the shell's
		p := make([]byte, 4)
		n, _ := term.In.Read(p)
		if string(p[:n]) != "\x10\x11" {
			t.Errorf("keys %q", p[:n])
		}
		_, _ = io.WriteString(term.Out, "bye")
		return 7, nil
	}
	w.want(7, "shell", "01m9")
	wantCooked(t, c, 1)

	w = newWorld(t)
	w.env.Stdin = strings.NewReader("ls\n")
	w.control.attempts = []journal.Attempt{at(sallyport.AttemptRejected)}
	w.control.shell = func(term Terminal) (int, error) {
		in, _ := io.ReadAll(term.In)
		_, _ = term.Out.Write(append(in, "\x1b]0;x\x07"...))
		return 0, nil
	}
	w.want(0, "shell", "01m9")
	if w.out.String() != "ls\n" {
		t.Errorf("stdout %q", w.out)
	}
}

// chunks is a reader of given pieces.
type chunks [][]byte

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if n == len((*c)[0]) {
		*c = (*c)[1:]
	} else {
		(*c)[0] = (*c)[0][n:]
	}
	return n, nil
}

func drawKeys(t *rapid.T, label string) [][]byte {
	key := rapid.OneOf(
		rapid.SampledFrom(append(append([][]byte{}, ctrlP...), []byte("q"), []byte("\x1b[A"), []byte("\x1b"), []byte("ä"))),
		rapid.SliceOfN(rapid.ByteRange(0x20, 0x7e), 1, 5))
	return rapid.SliceOfN(key, 0, 12).Draw(t, label)
}

// TestDetachesWhereNothingIsTaken: a sandbox that reads none of what was typed before holds nobody.
func TestDetachesWhereNothingIsTaken(t *testing.T) {
	in, detached := chunks{[]byte("typed\x10\x11")}, make(chan struct{})
	d := &detachReader{r: &in, detach: func() { close(detached) }}
	if n, err := d.Read(make([]byte, 64)); n != len("typed") || err != nil {
		t.Fatal(n, err)
	}
	select {
	case <-detached:
	case <-time.After(10 * time.Second):
		t.Error("not detached")
	}
}

// Without the detach keys every byte passes, in order, however it is cut; with them everything before passes,
// nothing after, and it is noticed once.
func TestDetachReaderLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawKeys(t, "before"), drawKeys(t, "after")
		detach := rapid.Bool().Draw(t, "detach")
		pieces := append([][]byte{}, before...)
		if detach {
			pieces = append(pieces, rapid.SampledFrom(ctrlP).Draw(t, "p"), rapid.SampledFrom(ctrlQ).Draw(t, "q"))
		}
		pieces = append(pieces, after...)
		if rapid.Bool().Draw(t, "joined") {
			pieces = [][]byte{bytes.Join(pieces, nil)}
		}
		in := chunks(append([][]byte{}, pieces...))
		var got []byte
		times, early := 0, false
		d := &detachReader{r: &in, detach: func() { times++; early = len(got) < len(bytes.Join(before, nil)) }}
		var err error
		for buf := make([]byte, 7); err == nil; {
			var n int
			n, err = d.Read(buf)
			got = append(got, buf[:n]...)
		}
		if early {
			t.Fatalf("detached when %q of %q was handed over", got, bytes.Join(before, nil))
		}
		want, wantTimes := bytes.Join(before, nil), 0
		if detach {
			wantTimes = 1
		} else {
			want = append(want, bytes.Join(after, nil)...)
		}
		if err != io.EOF || !bytes.Equal(got, want) || times != wantTimes {
			t.Fatalf("got %q (%v), noticed %d times; want %q, %d", got, err, times, want, wantTimes)
		}
	})
}
