package keeper

import (
	"net"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/wire"
)

// serveEgress hands the sandbox's egress listener to whoever shows the Allocation's secret. The keeper keeps
// its own copy, so that a later holder gets the same socket.
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
	_, _, _ = c.WriteMsgUnix([]byte{1}, unix.UnixRights(int(k.egress.Fd())), nil)
}

// closeEgress shuts the way out: shutdown reaches the copy that a holder has.
func (k *keeper) closeEgress() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.egress != nil {
		_ = unix.Shutdown(int(k.egress.Fd()), unix.SHUT_RDWR)
		k.egress.Close()
		k.egress = nil
	}
}
