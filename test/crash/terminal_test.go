package crash_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// terminal is a pseudo terminal with one program on it.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd

	mu   sync.Mutex
	seen bytes.Buffer
}

// onTerminal starts the command line as the leader of a session on a new terminal.
func (w *world) onTerminal(args ...string) *terminal {
	w.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Fatalf("missing capability: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		w.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		w.t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer slave.Close()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30}); err != nil {
		w.t.Fatal(err)
	}
	t := &terminal{master: master, cmd: w.command(args...)}
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := t.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	// A second descriptor, so that closing the terminal does not wait for the reader.
	fd, err := unix.Dup(int(master.Fd()))
	if err != nil {
		w.t.Fatal(err)
	}
	go t.read(fd)
	return t
}

func (t *terminal) read(fd int) {
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, 50); err != nil && err != unix.EINTR {
			return
		}
		t.mu.Lock()
		gone := t.master == nil
		t.mu.Unlock()
		if gone {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			if fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
				return
			}
			continue
		}
		n, err := unix.Read(fd, buf)
		if n > 0 {
			t.mu.Lock()
			t.seen.Write(buf[:n])
			t.mu.Unlock()
		}
		if err != nil && err != unix.EINTR {
			return
		}
	}
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen.String()
}

// hangUp takes the terminal away, as a closed window or a lost connection does.
func (t *terminal) hangUp() {
	t.mu.Lock()
	m := t.master
	t.master = nil
	t.mu.Unlock()
	if m != nil {
		m.Close()
	}
}

func (w *world) see(t *terminal, text string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the terminal shows %q", t.text())
		}
	}()
	w.await(fmt.Sprintf("%q on the terminal", text), func() bool { return bytes.Contains([]byte(t.text()), []byte(text)) })
}

// TestTerminalIsLost: a run with -it outlives its terminal, and attach gives it another.
func TestTerminalIsLost(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"hung up", "killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.onTerminal("run", "-it", "--name", w.name, "-m", "make it right", "--", "sh", "-c",
				`echo hello from the agent; echo screen one; read x; echo "got <$x>"; echo ran >> ran; echo right > value`)
			w.see(one, "screen one")
			id := w.events()[0].Attempt
			driver := w.driver()
			if how == "killed" {
				w.kill(one.cmd.Process.Pid)
			}
			one.hangUp()
			_ = one.cmd.Wait()
			if dead(driver) || w.report(id).State != sallyport.AttemptRunning {
				t.Fatalf("the run went with its terminal\n%s", w.story())
			}
			two := w.onTerminal("attach", string(id))
			defer two.hangUp()
			w.see(two, "screen one")
			if _, err := two.master.Write([]byte("good day\r")); err != nil {
				t.Fatal(err)
			}
			w.see(two, "got <good day>")
			if code := exitCode(two.cmd.Wait()); code != 0 {
				t.Errorf("attach: exit %d\n%s", code, two.text())
			}
			w.awaitEnd(id)
			if n := w.count(lifecycle.LeaseAcquired, "", id); n != 1 {
				t.Errorf("%d drivers\n%s", n, w.story())
			}
			w.accepted(id)
		})
	}
}

// TestDriverOfATerminalIsKilled: the terminal's session goes over to the next driver.
func TestDriverOfATerminalIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.onTerminal("run", "-it", "--name", w.name, "-m", "make it right", "--", "sh", "-c",
		`echo hello from the agent; echo screen one; read x; echo "got <$x>"; echo ran >> ran; echo right > value`)
	w.see(one, "screen one")
	id := w.events()[0].Attempt
	w.kill(one.cmd.Process.Pid)
	one.hangUp()
	_ = one.cmd.Wait()
	w.kill(w.driver())
	two := w.onTerminal("attach", string(id))
	defer two.hangUp()
	w.see(two, "screen one")
	if _, err := two.master.Write([]byte("good day\r")); err != nil {
		t.Fatal(err)
	}
	w.see(two, "got <good day>")
	if code := exitCode(two.cmd.Wait()); code != 0 {
		t.Errorf("attach: exit %d\n%s", code, two.text())
	}
	w.awaitEnd(id)
	w.accepted(id)
}
