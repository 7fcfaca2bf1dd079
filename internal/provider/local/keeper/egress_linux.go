package keeper

import (
	"net"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/wire"
)

// mostSockets is what a way out consists of at most: a listener, and the socket that names are asked on.
const mostSockets = 2

// Sockets is how many the way out of s consists of.
func Sockets(s provider.Spec) int {
	switch {
	case s.EgressPort == 0:
		return 0
	case s.Redirect:
		return mostSockets
	}
	return 1
}

// serveEgress hands the sockets of the sandbox's way out to whoever shows the Allocation's secret. The keeper keeps
// its own copies, so that a later holder gets the same sockets.
func (k *keeper) serveEgress(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go k.handOut(c.(*net.UnixConn))
	}
}

func (k *keeper) handOut(c *net.UnixConn) {
	defer c.Close()
	hello, err := wire.ReadHello(c)
	if err != nil {
		return
	}
	if err := k.Admit(hello.Allocation, hello.Secret, hello.Fence); err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.egress == nil {
		return
	}
	var fds []int
	for _, f := range k.egress {
		fds = append(fds, int(f.Fd()))
	}
	_, _, _ = c.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil)
}

// closeEgress shuts the way out: shutdown reaches the copy that a holder has.
func (k *keeper) closeEgress() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.egress {
		// That it is no connection is what the kernel answers for datagrams, and shuts it.
		_ = unix.Shutdown(int(f.Fd()), unix.SHUT_RDWR)
		f.Close()
	}
	k.egress = nil
}
