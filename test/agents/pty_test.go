package agents

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// terminal is a person's terminal with a program of ours on it. What the program writes is kept as it came.
type terminal struct {
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

// terminal starts a verb in a folder of the repository, on a terminal of 100 by 30 of its own.
func (w *world) terminal(dir string, args ...string) *terminal {
	w.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	w.must(err)
	w.must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	w.must(err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	w.must(err)
	t := &terminal{t: w.t, master: master, slave: slave, ended: make(chan struct{})}
	t.resize(100, 30)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	w.must(err)
	t.before = *before
	t.cmd = w.prepare(exec.Command(w.program(), args...))
	t.cmd.Dir = filepath.Join(w.repo, dir)
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr.Setsid, t.cmd.SysProcAttr.Setctty = true, true
	w.must(t.cmd.Start())
	go t.read()
	go func() { t.err = t.cmd.Wait(); close(t.ended) }()
	w.t.Cleanup(t.close)
	return t
}

func (t *terminal) read() {
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

// close hangs up.
func (t *terminal) close() {
	t.slave.Close()
	t.master.Close()
	select {
	case <-t.ended:
	case <-time.After(10 * time.Second):
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
}

func (t *terminal) resize(cols, rows uint16) {
	t.t.Helper()
	if err := unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) keys(s string) {
	t.t.Helper()
	if _, err := t.master.WriteString(s); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) bytes() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// shows waits until the text stands in what came since the text before it, sequences taken out.
func (t *terminal) shows(text string) *terminal {
	t.t.Helper()
	if err := t.wait(text, 40*time.Second); err != nil {
		t.t.Fatal(err)
	}
	return t
}

func (t *terminal) wait(text string, patience time.Duration) error {
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
			return fmt.Errorf("the screen does not show %q:\n%s", text, tail(plain(t.bytes()), 3000))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (t *terminal) seen(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !strings.Contains(plain(string(t.raw[t.at:])), text) {
		return false
	}
	t.at = len(t.raw)
	return true
}

// exits waits for the program's end and fails the test unless its code is the one expected and the terminal is
// as it was found.
func (t *terminal) exits(code int) {
	t.t.Helper()
	select {
	case <-t.ended:
	case <-time.After(60 * time.Second):
		t.t.Fatalf("it does not end:\n%s", tail(plain(t.bytes()), 3000))
	}
	got := 0
	var exit *exec.ExitError
	if errors.As(t.err, &exit) {
		got = exit.ExitCode()
	} else if t.err != nil {
		t.t.Fatal(t.err)
	}
	if got != code {
		t.t.Fatalf("exit %d, want %d:\n%s", got, code, tail(plain(t.bytes()), 3000))
	}
	time.Sleep(50 * time.Millisecond) // its last bytes
	t.restored()
}

// restored compares the line's settings, and what the sequences so far leave of the screen's.
func (t *terminal) restored() {
	t.t.Helper()
	after, err := unix.IoctlGetTermios(int(t.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.t.Fatal(err)
	}
	if *after != t.before {
		t.t.Errorf("stty before: %+v, after: %+v", t.before, *after)
	}
	if left := modes(t.bytes()); len(left) > 0 {
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

// modes lists what a terminal that got these bytes is left with, other than what it starts with: a cursor,
// line wrap, and nothing else.
func modes(s string) (left []string) {
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

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
