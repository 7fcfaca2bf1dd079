package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenAs has answer talk to whoever dials the returned socket, which a process of uid listens on.
func listenAs(t *testing.T, uid int, answer func(net.Conn)) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "spm-") // short: a socket's path is at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "private")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), socket)
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	listening := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel remembers who listens; this thread ends with its goroutine
		_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if e != 0 {
			listening <- e
			return
		}
		listening <- unix.Listen(fd, 8)
	}()
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); answer(c) }()
		}
	}()
	return socket
}

// A socket that somebody else listens on is not the user's manager: nothing is read from it.
func TestManagerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: only root can listen as somebody else")
	}
	told := make(chan int, 1)
	socket := listenAs(t, userID, func(c net.Conn) {
		n, _ := c.Read(make([]byte, 100))
		told <- n
	})
	_, err := dialManager(t.Context(), socket)
	if err == nil || !strings.Contains(err.Error(), "uid 1000") {
		t.Errorf("%v", err)
	}
	if n := <-told; n != 0 {
		t.Errorf("it was told %d bytes", n)
	}
}

// Whatever listens there: it is given up in time.
func TestManagerThatDoesNotAnswer(t *testing.T) {
	silent := func(net.Conn) { time.Sleep(10 * time.Second) }
	admitted := func(c net.Conn) bool {
		b := make([]byte, 1000)
		for _, s := range []string{"REJECTED EXTERNAL\r\n", "OK 1234deadbeef\r\n"} {
			if _, err := c.Read(b); err != nil {
				return false
			}
			if _, err := c.Write([]byte(s)); err != nil {
				return false
			}
		}
		return true
	}
	for name, answer := range map[string]func(net.Conn){
		"says nothing":  silent,
		"hangs up":      func(net.Conn) {},
		"says nonsense": func(c net.Conn) { _, _ = c.Write([]byte("\xff\x00nonsense\r\n")); silent(c) },
		"admits and then says nothing": func(c net.Conn) {
			if admitted(c) {
				silent(c)
			}
		},
		"admits and then says nonsense": func(c net.Conn) {
			for ok := admitted(c); ok; {
				_, err := c.Write([]byte(strings.Repeat("\xff", 4096)))
				ok = err == nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			m, err := dialManager(ctx, listenAs(t, os.Geteuid(), answer))
			if err == nil {
				err = m.start(ctx)
				m.Close()
			}
			if d := time.Since(began); err == nil || d > 5*time.Second {
				t.Errorf("after %v: %v", d, err)
			}
		})
	}
}
