package gateway

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Accept returns the next connection, or an error that wraps net.ErrClosed after Close. A sandbox that
// closes its own listener gets CodeUnavailable: its endpoint is gone, and only it is harmed.
func (l *listener) Accept() (net.Conn, error) {
	if !l.enter() {
		return nil, closedError(l.addr)
	}
	defer l.leave()
	stolen := 0
	for {
		if !l.wait() {
			return nil, closedError(l.addr)
		}
		if l.afterPoll != nil {
			l.afterPoll()
		}
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			if !l.redirected {
				return tame(fd)
			}
			to, elsewhere := originally(fd)
			c, err := tame(fd)
			if err == nil && elsewhere {
				c = &led{Conn: c, to: to}
			}
			return c, err
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		case errors.Is(err, unix.EAGAIN):
			// Somebody inside took it. Slow down, or two processes inside could keep us busy for nothing.
			stolen++
			l.pause(min(time.Duration(stolen)*time.Millisecond, 50*time.Millisecond))
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			l.pause(100 * time.Millisecond)
		case l.isClosed():
			return nil, closedError(l.addr)
		default:
			return nil, &sallyport.Error{Op: "accept from the sandbox", Code: sallyport.CodeUnavailable, Subject: l.addr.String(),
				Message: "the sandbox no longer listens", Hint: "the agent closed its model endpoint; run the Attempt again", Err: err}
		}
	}
}

// tame makes a connection of an accepted descriptor. Linux copies the listener's options to it, and the
// sandbox sets those: SO_LINGER would make close(2) wait for the sandbox even on a non-blocking descriptor,
// SO_RCVLOWAT would keep small requests from waking us.
func tame(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "agent connection")
	err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1)
	}
	var c net.Conn
	if err == nil {
		c, err = net.FileConn(f)
	}
	_ = f.Close()
	if err != nil {
		return nil, &sallyport.Error{Op: "accept from the sandbox", Code: sallyport.CodeUnavailable, Message: "the connection cannot be used", Err: err}
	}
	return c, nil
}

func closedError(addr net.Addr) error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: addr, Err: net.ErrClosed}
}

// rate counts accepts in the current second.
type rate struct {
	second time.Time
	n      int
}

// delay is how long to wait before one more accept at now.
func (r *rate) delay(now time.Time) time.Duration {
	if now.Sub(r.second) >= time.Second {
		r.second, r.n = now, 0
	}
	r.n++
	if r.n <= maxAcceptsPerSecond {
		return 0
	}
	return r.second.Add(time.Second).Sub(now)
}
