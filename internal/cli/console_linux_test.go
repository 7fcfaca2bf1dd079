package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY is a real terminal: what is written to master are keys.
func openPTY(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

func TestOpenConsoleNeedsTerminals(t *testing.T) {
	_, tty := openPTY(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if OpenConsole(tty, tty) == nil {
		t.Error("a terminal was not recognised")
	}
	if OpenConsole(file, tty) != nil || OpenConsole(tty, file) != nil {
		t.Error("a file passes for a terminal")
	}
}

func TestRawModeIsTakenBack(t *testing.T) {
	_, tty := openPTY(t)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	restore, err := OpenConsole(tty, tty).Raw()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("not raw: %v %#x", err, raw.Lflag)
	}
	restore()
	restore()
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("not as before: %v\n%+v\n%+v", err, before, after)
	}
}

func TestSize(t *testing.T) {
	master, tty := openPTY(t)
	c := OpenConsole(tty, tty)
	if cols, rows := c.Size(); cols != 80 || rows != 24 {
		t.Errorf("a terminal without a size: %d×%d", cols, rows)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 132, Row: 43}); err != nil {
		t.Fatal(err)
	}
	if cols, rows := c.Size(); cols != 132 || rows != 43 {
		t.Errorf("%d×%d", cols, rows)
	}
}

func TestResized(t *testing.T) {
	_, tty := openPTY(t)
	events, stop := OpenConsole(tty, tty).Resized()
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	select {
	case <-events:
	case <-time.After(5 * time.Second):
		t.Error("the signal did not arrive")
	}
	stop()
	stop()
}

// A closed reader must leave the next key to the next reader, even if it was waiting.
func TestInputCanBeTakenBack(t *testing.T) {
	master, tty := openPTY(t)
	c := OpenConsole(tty, tty)
	restore, err := c.Raw()
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	first, err := c.Input()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := first.Read(make([]byte, 16))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond) // let it wait in poll
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Close did not end the read")
	}
	if _, err := master.WriteString("key"); err != nil {
		t.Fatal(err)
	}
	if n, err := first.Read(make([]byte, 16)); n != 0 || err != io.EOF {
		t.Errorf("a closed reader read %d bytes, %v", n, err)
	}
	second, err := c.Input()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	p := make([]byte, 16)
	n, err := second.Read(p)
	if string(p[:n]) != "key" || err != nil {
		t.Errorf("the next reader got %q, %v", p[:n], err)
	}
}
