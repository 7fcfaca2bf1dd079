package gateway

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// handed is a socket of a sandbox under our care: calls on it wait in poll together with a signal to stop, at a bounded
// rate, and its descriptors are closed by whoever leaves last, never under a call that still uses them.
type handed struct {
	fd, stop int
	freed    func() // called once, when nothing uses the descriptors any more

	mu     sync.Mutex
	rate   rate
	inside int  // calls under way
	closed bool // no further call enters
	idle   chan struct{}
}

// hand makes a handed of fd, which it owns from then on if the error is nil.
func hand(fd int, freed func()) (*handed, error) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &handed{fd: fd, stop: stop, freed: freed, idle: make(chan struct{})}, nil
}

func (h *handed) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.inside++
	return true
}

func (h *handed) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside--
	if h.closed && h.inside == 0 {
		h.release()
	}
}

// release is called once, with mu held, when no call uses the descriptors.
func (h *handed) release() {
	closeFDs([]int{h.fd, h.stop})
	h.freed()
	close(h.idle)
}

// wait blocks until something may be there (true) or shut was called (false).
func (h *handed) wait() bool {
	h.mu.Lock()
	d := h.rate.delay(time.Now())
	h.mu.Unlock()
	if d > 0 {
		h.pause(d)
	}
	for {
		fds := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}, {Fd: int32(h.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		if fds[1].Revents != 0 {
			return false
		}
		if err == nil && fds[0].Revents != 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			h.pause(100 * time.Millisecond)
		}
	}
}

// pause sleeps, less when shut is called meanwhile.
func (h *handed) pause(d time.Duration) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(h.stop), Events: unix.POLLIN}}, int((d+time.Millisecond-1)/time.Millisecond))
}

func (h *handed) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// shut lets no further call enter and wakes those inside; false: it was shut already. With a call inside, the
// descriptors stay valid until that leaves.
func (h *handed) shut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.closed = true; h.inside == 0 {
		h.release()
		return true
	}
	_, _ = unix.Write(h.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return true
}

// left reports whether all have left within d after shut.
func (h *handed) left(d time.Duration) bool {
	select {
	case <-h.idle:
		return true
	case <-time.After(d):
		return false
	}
}

// force ends the hostile case: a thread of ours blocks in a call because the sandbox cleared O_NONBLOCK and took away
// what poll had seen. shutdown wakes it with EINVAL, unless the sandbox calls listen again at that very instant; so it
// is repeated. This ends the socket for later holders too: it was turned against us.
func (h *handed) force() {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		h.mu.Lock()
		if h.inside == 0 {
			h.mu.Unlock()
			return
		}
		_ = unix.Shutdown(h.fd, unix.SHUT_RDWR)
		h.mu.Unlock()
		if h.left(wait) {
			return
		}
	}
}
