package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// carried is how many bytes a connection has delivered and taken (TCP_INFO); 0 if it is closed.
func carried(c *net.TCPConn) (n uint64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_acked + info.Bytes_received
		}
	})
	return n
}
