package contain

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Redirect is where all that a sandbox sends must arrive: sockets of its own network namespace, non-blocking, on which
// nobody else takes anything yet.
type Redirect struct {
	TCP *os.File // listening
	UDP *os.File // takes what is sent to port 53
}

// redirected: a connection to whatever address arrives at our listener, which is told the address; a question to
// whatever resolver arrives at our socket; other datagrams are refused at once; and nothing of it can be changed from here.
func (p *trials) redirected(r *Redirect) {
	tcp, udp := int(r.TCP.Fd()), int(r.UDP.Fd())
	family, err := unix.GetsockoptInt(tcp, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		p.add("the redirect's listener", errName(bare(err)), false)
		return
	}
	for _, to := range []string{"192.0.2.1:443", "169.254.169.254:80", "8.8.8.8:53", "198.18.0.1:22"} {
		p.arrives(tcp, netip.MustParseAddrPort(to))
	}
	for _, to := range []string{"192.0.2.1:53", "127.0.0.53:53"} {
		p.asked(udp, netip.MustParseAddrPort(to))
	}
	p.want("UDP to 192.0.2.1:443", datagram(netip.MustParseAddrPort("192.0.2.1:443")), unix.ECONNREFUSED)
	six := []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::1]:443"), netip.MustParseAddrPort("[2001:db8::1]:53")}
	if family == unix.AF_INET6 {
		p.arrives(tcp, six[0])
		p.asked(udp, six[1])
		p.want("UDP to "+six[0].String(), datagram(six[0]), unix.ECONNREFUSED)
	} else {
		p.want("TCP to "+six[0].String(), connect(unix.SOCK_STREAM, sockaddr(six[0])), unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EACCES, unix.EPERM, unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err == nil {
		unix.Close(fd)
	}
	p.want("nf_tables", err, unix.EPERM)
	p.want("removing a route", removeRoute(), unix.EPERM)
}

// arrives connects to an address, takes the connection and asks what it was for.
func (p *trials) arrives(listener int, to netip.AddrPort) {
	name := "TCP to " + to.String()
	fd, err := socketFor(to, unix.SOCK_STREAM)
	if err != nil {
		p.add(name, errName(bare(err)), false)
		return
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		p.add(name, errName(err), false)
		return
	}
	if !ready(listener, unix.POLLIN) {
		p.add(name, "not led to the listener", false)
		return
	}
	c, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		p.add(name, errName(err), false)
		return
	}
	defer unix.Close(c)
	// A reset leaves nothing behind, neither here nor in the kernel's table of connections.
	_ = unix.SetsockoptLinger(c, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	got, err := originally(c, to.Addr().Is4())
	switch {
	case err != nil:
		p.add(name, errName(bare(err)), false)
	case got != to:
		p.add(name, fmt.Sprintf("arrived as for %s", got), false)
	default:
		p.add(name, "led to the listener", true)
	}
}

// originally is where the client of an accepted connection meant to go.
func originally(fd int, v4 bool) (netip.AddrPort, error) {
	if v4 {
		var a unix.RawSockaddrInet4
		err := getsockopt(fd, unix.SOL_IP, unsafe.Pointer(&a), unsafe.Sizeof(a))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), swapped(a.Port)), err
	}
	var a unix.RawSockaddrInet6
	err := getsockopt(fd, unix.SOL_IPV6, unsafe.Pointer(&a), unsafe.Sizeof(a))
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), swapped(a.Port)), err
}

// getsockopt reads SO_ORIGINAL_DST, which has the same number for both families.
func getsockopt(fd, level int, into unsafe.Pointer, size uintptr) error {
	n := uint32(size)
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), unix.SO_ORIGINAL_DST, uintptr(into), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// swapped reads a port that the kernel keeps in network order.
func swapped(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}

// asked sends a datagram, and takes it again on our socket.
func (p *trials) asked(socket int, to netip.AddrPort) {
	name := "UDP to " + to.String()
	fd, err := socketFor(to, unix.SOCK_DGRAM)
	if err != nil {
		p.add(name, errName(bare(err)), false)
		return
	}
	defer unix.Close(fd)
	const word = "sallyport-probe"
	if err := unix.Sendto(fd, []byte(word), 0, sockaddr(to)); err != nil {
		p.add(name, errName(err), false)
		return
	}
	b := make([]byte, 64)
	if !ready(socket, unix.POLLIN) {
		p.add(name, "not led to the resolver", false)
		return
	}
	n, _, err := unix.Recvfrom(socket, b, unix.MSG_DONTWAIT)
	if err != nil || string(b[:n]) != word {
		p.add(name, "not led to the resolver whole", false)
		return
	}
	p.add(name, "led to the resolver", true)
}

// datagram is what a connected socket hears of a datagram that nobody takes.
func datagram(to netip.AddrPort) error {
	fd, err := socketFor(to, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(to)); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte{0}); err != nil {
		return err
	}
	if !ready(fd, unix.POLLIN) {
		return unix.EINPROGRESS // on its way
	}
	no, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	return raw(unix.Errno(no))
}

func ready(fd int, events int16) bool {
	for end := time.Now().Add(connectWait); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(max(0, time.Until(end).Milliseconds())))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

func socketFor(to netip.AddrPort, kind int) (int, error) {
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	return unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	return &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
}

// removeRoute asks to remove a route that is not there: without the power it is refused before anybody looks.
func removeRoute() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const size = unix.SizeofNlMsghdr + unix.SizeofRtMsg + 8
	b := binary.NativeEndian.AppendUint32(nil, size)
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_DELROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = append(b, make([]byte, 8)...)
	b = append(b, unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, 0, unix.RT_SCOPE_NOWHERE, unix.RTN_UNICAST, 0, 0, 0, 0)
	b = append(b, 8, 0, unix.RTA_DST, 0, 192, 0, 2, 7)
	binary.NativeEndian.PutUint16(b[unix.SizeofNlMsghdr+unix.SizeofRtMsg:], 8)
	binary.NativeEndian.PutUint16(b[unix.SizeofNlMsghdr+unix.SizeofRtMsg+2:], unix.RTA_DST)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	if !ready(fd, unix.POLLIN) {
		return unix.EINPROGRESS
	}
	n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return unix.EBADMSG
	}
	return raw(unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))))
}
