package world

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a person's terminal with a verb of sallyport on it. What the verb writes is kept as it came. At the
// test's end it is hung up.
type Terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	before unix.Termios
	ended  chan struct{}
	err    error // of the program, after ended

	mu  sync.Mutex
	raw []byte
	at  int // before it everything was seen
}

// Terminal starts a verb in a folder (Path), on a terminal of 100 by 30 of its own.
func (w *World) Terminal(dir string, args ...string) *Terminal {
	w.T.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	w.Must(err)
	var n int
	w.Must(control(master, func(fd int) error {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return errors.Join(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), err)
	}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	w.Must(err)
	t := &Terminal{t: w.T, master: master, slave: slave, ended: make(chan struct{})}
	t.Resize(100, 30)
	t.before = t.settings()
	t.cmd = w.Verb(args...)
	t.cmd.Dir, t.cmd.Env = w.Path(dir), append(t.cmd.Env, "TERM=xterm-256color")
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr.Setsid, t.cmd.SysProcAttr.Setctty = true, true
	w.Must(t.cmd.Start())
	go t.read()
	go func() { t.err = t.cmd.Wait(); close(t.ended) }()
	w.T.Cleanup(t.HangUp)
	return t
}

// control does something with a descriptor that stays the runtime's: after Fd a Close would wait for the reader.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// settings are those of the line.
func (t *Terminal) settings() (s unix.Termios) {
	t.t.Helper()
	err := control(t.slave, func(fd int) error {
		p, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			s = *p
		}
		return err
	})
	if err != nil {
		t.t.Fatal(err)
	}
	return s
}

func (t *Terminal) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		t.raw = append(t.raw, buf[:n]...)
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// HangUp takes the terminal away, as a closed window or a lost connection does, and waits for the verb's end.
func (t *Terminal) HangUp() {
	t.slave.Close()
	t.master.Close()
	select {
	case <-t.ended:
	case <-time.After(10 * time.Second):
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
}

// Resize gives it another size.
func (t *Terminal) Resize(cols, rows uint16) {
	t.t.Helper()
	size := &unix.Winsize{Col: cols, Row: rows}
	if err := control(t.master, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) }); err != nil {
		t.t.Fatal(err)
	}
}

// Keys are what the person types.
func (t *Terminal) Keys(s string) {
	t.t.Helper()
	if _, err := t.master.WriteString(s); err != nil {
		t.t.Fatal(err)
	}
}

// Type types a line as a person does: agents take what comes at once for a paste.
func (t *Terminal) Type(line string) {
	t.t.Helper()
	for _, c := range line {
		t.Keys(string(c))
		time.Sleep(40 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	t.Keys("\r")
}

// Bytes is all that the verb wrote.
func (t *Terminal) Bytes() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// Shows waits until the text stands in what came since the text before it, sequences taken out.
func (t *Terminal) Shows(text string) *Terminal {
	t.t.Helper()
	if err := t.Look(text, 40*time.Second); err != nil {
		t.t.Fatal(err)
	}
	return t
}

// Look is Shows with another patience, and no failure of the test.
func (t *Terminal) Look(text string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		select {
		case <-t.ended: // then what it wrote is all there is, once it was read
			time.Sleep(50 * time.Millisecond)
			deadline = time.Time{}
		default:
		}
		if t.seen(text) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the screen does not show %q:\n%s", text, t.tail())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (t *Terminal) seen(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !strings.Contains(plain(string(t.raw[t.at:])), text) {
		return false
	}
	t.at = len(t.raw)
	return true
}

// Exits waits for the program's end and fails the test unless its code is the one expected and the terminal is
// as it was found.
func (t *Terminal) Exits(code int) {
	t.t.Helper()
	select {
	case <-t.ended:
	case <-time.After(60 * time.Second):
		t.t.Fatalf("it does not end:\n%s", t.tail())
	}
	got := 0
	var exit *exec.ExitError
	if errors.As(t.err, &exit) {
		got = exit.ExitCode()
	} else if t.err != nil {
		t.t.Fatal(t.err)
	}
	if got != code {
		t.t.Fatalf("exit %d, want %d:\n%s", got, code, t.tail())
	}
	time.Sleep(50 * time.Millisecond) // its last bytes
	t.restored()
}

// Signal sends the verb a signal.
func (t *Terminal) Signal(s os.Signal) {
	t.t.Helper()
	if err := t.cmd.Process.Signal(s); err != nil {
		t.t.Fatal(err)
	}
}

// restored compares the line's settings, and what the sequences so far leave of the screen's.
func (t *Terminal) restored() {
	t.t.Helper()
	if after := t.settings(); after != t.before {
		t.t.Errorf("stty before: %+v, after: %+v", t.before, after)
	}
	if left := Modes(t.Bytes()); len(left) > 0 {
		t.t.Errorf("the screen is left with %q", left)
	}
}

var (
	anySequence = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])|[\x00-\x08\x0b-\x1f\x7f]`)
	privateMode = regexp.MustCompile(`\x1b\[\?([0-9;]+)([hl])`)
	attribute   = regexp.MustCompile(`\x1b\[([0-9;:]*)m`)
	region      = regexp.MustCompile(`\x1b\[([0-9;]*)r`)
	charset     = regexp.MustCompile(`\x1b\(([0AB])`)
)

// plain is text without sequences and carriage returns.
func plain(s string) string { return anySequence.ReplaceAllString(s, "") }

// Modes lists what a terminal that got these bytes is left with, other than what it starts with: a cursor,
// line wrap, and nothing else.
func Modes(s string) (left []string) {
	on := map[string]bool{"25": true, "7": true}
	for _, m := range privateMode.FindAllStringSubmatch(s, -1) {
		for _, mode := range strings.Split(m[1], ";") {
			if mode == "1049" || mode == "47" { // one screen under three names
				mode = "1047"
			}
			on[mode] = m[2] == "h"
		}
	}
	for mode, is := range on {
		if is != (mode == "25" || mode == "7") {
			left = append(left, fmt.Sprintf("mode %s: %v", mode, is))
		}
	}
	for name, last := range map[string]*regexp.Regexp{"attribute": attribute, "region": region, "charset": charset} {
		if all := last.FindAllStringSubmatch(s, -1); len(all) > 0 {
			if v := all[len(all)-1][1]; v != "" && v != "0" && v != "B" {
				left = append(left, name+" "+v)
			}
		}
	}
	slices.Sort(left)
	return left
}

func (t *Terminal) tail() string {
	s := plain(t.Bytes())
	return s[max(0, len(s)-3000):]
}
