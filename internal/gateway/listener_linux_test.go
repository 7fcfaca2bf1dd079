package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
)

const testPort = 18899

func TestListenerAcceptsFromNamespace(t *testing.T) {
	for _, u := range gatewaytest.Users() {
		t.Run(fmt.Sprint("uid ", u.Outside), func(t *testing.T) {
			ns := gatewaytest.Start(t, u)
			ln, err := Listener(ns.Socket(t, "listen", testPort), testPort)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				if c, err := ns.Dial(testPort); err == nil {
					_, _ = c.Write([]byte("from inside"))
					_ = c.Close()
				}
			}()
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got, err := io.ReadAll(c); string(got) != "from inside" {
				t.Fatalf("read %q, %v", got, err)
			}
		})
	}
}

func TestListenerRefusesHostileDescriptors(t *testing.T) {
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	cases := []struct{ kind, says string }{
		{"udp", "not a stream socket"},
		{"unix", "not an IPv4 socket"},
		{"tcp6", "not an IPv4 socket"},
		{"mptcp", "not a TCP socket"},
		{"bound", "not a listening socket"},
		{"connected", "not a listening socket"},
		{"any", "bound to 0.0.0.0"},
		{"pipe", "not a socket"},
	}
	for i, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			port := testPort + 10*(i+1)
			refused(t, ns.Socket(t, c.kind, port), port, c.says)
		})
	}
	t.Run("other port", func(t *testing.T) {
		refused(t, ns.Socket(t, "listen", testPort+1), testPort, "expected 127.0.0.1:18899")
	})
	t.Run("host namespace", func(t *testing.T) {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false) // Go's own default would be refused for another reason
		ln, err := plain.Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		refused(t, f, ln.Addr().(*net.TCPAddr).Port, "namespace of the trusted side")
	})
	t.Run("none", func(t *testing.T) { refused(t, nil, testPort, "no descriptor") })
	t.Run("closed", func(t *testing.T) {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		refused(t, f, testPort, "duplicated")
	})
}

func refused(t *testing.T, f *os.File, port int, says string) {
	t.Helper()
	ln, err := Listener(f, port)
	if err == nil {
		_ = ln.Close()
		t.Fatal("it was accepted")
	}
	if sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %v (%v), expected denied with %q", err, sallyport.CodeOf(err), says)
	}
}

// One namespace, one live listener; after Close the same socket serves a later holder.
func TestListenerOncePerNamespace(t *testing.T) {
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	f := ns.Socket(t, "listen", testPort)
	first, err := Listener(f, testPort)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, f, testPort, "another live listener")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Listener(f, testPort)
	if err != nil {
		t.Fatalf("after Close the socket should serve again: %v", err)
	}
	defer second.Close()
	go func() {
		if c, err := ns.Dial(testPort); err == nil {
			_ = c.Close()
		}
	}()
	c, err := second.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestAcceptEndsWithClose(t *testing.T) {
	l, _ := namespaceListener(t)
	got := acceptInBackground(l)
	time.Sleep(20 * time.Millisecond)
	_ = l.Close()
	if err := within(t, got, time.Second); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Accept returned %v, expected net.ErrClosed", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Accept after Close returned %v", err)
	}
}

// The sandbox clears O_NONBLOCK and takes the connection between our poll and our accept4.
func TestCloseFreesHangingAccept(t *testing.T) {
	l, shared := namespaceListener(t)
	hung := make(chan struct{})
	l.afterPoll = func() {
		raw(shared, func(fd int) {
			_ = unix.SetNonblock(fd, false)
			if c, _, err := unix.Accept(fd); err == nil {
				_ = unix.Close(c)
			}
		})
		close(hung)
	}
	got := acceptInBackground(l)
	connectOnce(t, l)
	<-hung
	select {
	case err := <-got:
		t.Fatalf("the attack did not hang Accept (%v); the test shows nothing", err)
	case <-time.After(100 * time.Millisecond):
	}
	start := time.Now()
	_ = l.Close()
	if d := time.Since(start); d > 1500*time.Millisecond {
		t.Fatalf("Close took %v", d)
	}
	if err := within(t, got, time.Second); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Accept returned %v", err)
	}
}

// As before, and the sandbox calls listen again and again, so that shutdown is undone.
func TestCloseReturnsWhileSandboxFights(t *testing.T) {
	l, shared := namespaceListener(t)
	hung := make(chan struct{})
	l.afterPoll = func() {
		raw(shared, func(fd int) {
			_ = unix.SetNonblock(fd, false)
			if c, _, err := unix.Accept(fd); err == nil {
				_ = unix.Close(c)
			}
		})
		close(hung)
	}
	got := acceptInBackground(l)
	connectOnce(t, l)
	<-hung
	fight, fought := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(fought)
		raw(shared, func(fd int) {
			for {
				select {
				case <-fight:
					return
				default:
					_ = unix.Listen(fd, 1)
				}
			}
		})
	}()
	start := time.Now()
	_ = l.Close()
	if d := time.Since(start); d > 1500*time.Millisecond {
		t.Errorf("Close took %v", d)
	}
	close(fight) // the sandbox is dead
	<-fought
	if err := within(t, got, 3*time.Second); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Accept returned %v", err)
	}
}

// A sandbox that shuts its own listener harms itself and does not make us spin.
func TestAcceptReportsShutSocket(t *testing.T) {
	l, shared := namespaceListener(t)
	defer l.Close()
	got := acceptInBackground(l)
	raw(shared, func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) })
	if err := within(t, got, time.Second); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
		t.Fatalf("Accept returned %v, expected unavailable", err)
	}
}

// The listener's options are the sandbox's and are copied to each connection: SO_LINGER must not make our
// close wait for a peer that reads nothing.
func TestConnectionsDoNotInheritTraps(t *testing.T) {
	l, shared := namespaceListener(t)
	defer l.Close()
	raw(shared, func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 30})
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 4096)
	})
	peer := connectOnce(t, l)
	defer peer.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	time.AfterFunc(50*time.Millisecond, func() { _, _ = peer.Write([]byte("x")) }) // when we already wait
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatalf("one byte did not wake us: %v", err)
	}
	for { // fill the peer's window
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			break
		}
	}
	start := time.Now()
	_ = c.Close()
	if d := time.Since(start); d > time.Second {
		t.Fatalf("close waited %v for the sandbox", d)
	}
}

func TestRateBoundsAccepts(t *testing.T) {
	var r rate
	now := time.Unix(1000, 0)
	for i := range maxAcceptsPerSecond {
		if d := r.delay(now); d != 0 {
			t.Fatalf("accept %d was delayed by %v", i, d)
		}
	}
	if d := r.delay(now.Add(200 * time.Millisecond)); d != 800*time.Millisecond {
		t.Fatalf("one too many waits %v, expected the rest of the second", d)
	}
	if d := r.delay(now.Add(time.Second)); d != 0 {
		t.Fatalf("the next second begins with a delay of %v", d)
	}
}

// namespaceListener is a listener on a handed-out socket, with the sandbox's own hold on that socket and a
// namespace to dial from.
func namespaceListener(t *testing.T) (*listener, *os.File) {
	t.Helper()
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	f := ns.Socket(t, "listen", testPort)
	ln, err := Listener(f, testPort)
	if err != nil {
		t.Fatal(err)
	}
	l := ln.(*listener)
	t.Cleanup(func() { _ = l.Close() })
	dialers[l] = ns
	t.Cleanup(func() { delete(dialers, l) })
	return l, f
}

var dialers = map[*listener]*gatewaytest.Namespace{}

func connectOnce(t *testing.T, l *listener) net.Conn {
	t.Helper()
	c, err := dialers[l].Dial(testPort)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw uses a descriptor as the sandbox would, leaving the flags as they are.
func raw(f *os.File, do func(fd int)) {
	r, err := f.SyscallConn()
	if err == nil {
		_ = r.Control(func(fd uintptr) { do(int(fd)) })
	}
}

func acceptInBackground(l net.Listener) <-chan error {
	got := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if c != nil {
			_ = c.Close()
		}
		got <- err
	}()
	return got
}

func within(t *testing.T, got <-chan error, d time.Duration) error {
	t.Helper()
	select {
	case err := <-got:
		return err
	case <-time.After(d):
		t.Fatalf("nothing within %v", d)
		return nil
	}
}
