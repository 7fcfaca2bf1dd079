package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Redirected takes the two sockets that a sandbox handed out whose traffic is led to them: a listening one, and one
// for questions about names. Both are checked before any use, as Listener checks: TCP that listens and UDP without a
// peer, both on port of [::] for IPv6 and IPv4, or both on 127.0.0.1 for IPv4 alone, in one network namespace which is
// not ours and in which no other live Listener of this process accepts. CodeDenied says which fact is wrong.
//
// A connection that the listener accepts says where its client meant to go; the Server that it is given to (Serve, with
// ProxyConfig.Questions) acts on that. The files stay the caller's; closing the results leaves the sockets as they are.
func Redirected(files []*os.File, port int) (net.Listener, *Questions, error) {
	if len(files) != 2 || files[0] == nil || files[1] == nil {
		return nil, nil, denied(fmt.Sprintf("expected a listening socket and one for names, got %d", len(files)), nil)
	}
	var fds [2]int
	for i, f := range files {
		fd, err := duplicate(f)
		if err != nil {
			closeFDs(fds[:i])
			return nil, nil, denied("the descriptor cannot be duplicated", err)
		}
		fds[i] = fd
	}
	family, err := familyOf(fds[0])
	if err == nil {
		err = checkQuestions(fds[1], family, port)
	}
	var tcp, udp uint64
	if err == nil {
		tcp, err = checkRedirected(fds[0], family, port)
	}
	if err == nil {
		udp, err = checkNamespace(fds[1])
	}
	if err == nil && tcp != udp {
		err = denied("the two sockets are of two network namespaces", nil)
	}
	if err != nil {
		closeFDs(fds[:])
		return nil, nil, err
	}
	q, err := newQuestions(fds[1])
	if err != nil {
		closeFDs(fds[:])
		return nil, nil, err
	}
	l, err := openListener(fds[0], port, tcp)
	if err != nil {
		_ = unix.Close(fds[0])
		_ = q.Close()
		return nil, nil, err
	}
	l.redirected = true
	return l, q, nil
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

func familyOf(fd int) (int, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case err != nil:
		return 0, denied("not a socket", err)
	case family != unix.AF_INET && family != unix.AF_INET6:
		return 0, denied(fmt.Sprintf("a socket of family %d, expected IPv6 or IPv4", family), nil)
	}
	return family, nil
}

// checkRedirected returns the cookie of the listening socket's network namespace.
func checkRedirected(fd, family, port int) (uint64, error) {
	if family == unix.AF_INET {
		return checkListening(fd, port)
	}
	if err := checkFacts(fd, family, listening); err != nil {
		return 0, err
	}
	if err := checkWide(fd, port); err != nil {
		return 0, err
	}
	return checkNamespace(fd)
}

func checkQuestions(fd, family, port int) error {
	if err := checkFacts(fd, family, datagrams); err != nil {
		return err
	}
	if _, err := unix.Getpeername(fd); err != unix.ENOTCONN {
		return denied("the socket for names has a peer", err)
	}
	if family == unix.AF_INET {
		return checkBound(fd, port)
	}
	return checkWide(fd, port)
}

// checkWide wants [::]:port for both families.
func checkWide(fd, port int) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return denied("its address cannot be read", err)
	}
	if in, ok := sa.(*unix.SockaddrInet6); !ok || in.Addr != [16]byte{} || in.Port != port {
		return denied(fmt.Sprintf("not bound to [::]:%d", port), nil)
	}
	only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	if err != nil || only != 0 {
		return denied("bound for IPv6 alone", err)
	}
	return nil
}

// originally is where the client of an accepted connection meant to go, before the redirect. Not ok: here.
func originally(fd int) (netip.AddrPort, bool) {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	var to, here netip.AddrPort
	switch a := local.(type) {
	case *unix.SockaddrInet4:
		here = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		here = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	if here.Addr().Is4() {
		var a unix.RawSockaddrInet4
		err = originalDestination(fd, unix.SOL_IP, unsafe.Pointer(&a), unsafe.Sizeof(a))
		to = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), swapped(a.Port))
	} else {
		var a unix.RawSockaddrInet6
		err = originalDestination(fd, unix.SOL_IPV6, unsafe.Pointer(&a), unsafe.Sizeof(a))
		to = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), swapped(a.Port))
	}
	// Loopback is never redirected; a connection that the kernel has forgotten was one to us, or is dead.
	if err != nil || to == here || to.Addr().IsLoopback() {
		return netip.AddrPort{}, false
	}
	return to, true
}

// originalDestination reads SO_ORIGINAL_DST, whose number IP6T_SO_ORIGINAL_DST shares.
func originalDestination(fd, level int, into unsafe.Pointer, size uintptr) error {
	n := uint32(size)
	if _, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), unix.SO_ORIGINAL_DST, uintptr(into), uintptr(unsafe.Pointer(&n)), 0); e != 0 {
		return e
	}
	return nil
}

// swapped reads a port that the kernel keeps in network order.
func swapped(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}

// led is a connection whose client meant to go elsewhere.
type led struct {
	net.Conn
	to netip.AddrPort
}

func (c *led) inner() net.Conn        { return c.Conn }
func (c *led) wanted() netip.AddrPort { return c.to }

// Questions is the socket on which a sandbox asks for names. The other side shares its open file description, so every
// receive and send says itself that it must not block.
type Questions struct{ *handed }

func newQuestions(fd int) (*Questions, error) {
	h, err := hand(fd, func() {})
	if err != nil {
		return nil, &sallyport.Error{Op: "listen for questions", Code: sallyport.CodeUnavailable, Message: "no descriptor left for the stop signal", Err: err}
	}
	return &Questions{h}, nil
}

// maxQuestion is more than a question may have: longer ones are answered with an error, not cut into good ones.
const maxQuestion = 2048

// serve answers until Close. answer's error, or nothing, means: say nothing.
func (q *Questions) serve(answer func(question []byte, from netip.AddrPort) ([]byte, error)) {
	if !q.enter() {
		return
	}
	defer q.leave()
	b := make([]byte, maxQuestion)
	idle := 0
	for q.wait() {
		n, from, err := unix.Recvfrom(q.fd, b, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || from == nil {
			// Somebody inside took it, or the socket was shut. Slow down: it may say for ever that something is there.
			idle++
			q.pause(min(time.Duration(idle)*time.Millisecond, 50*time.Millisecond))
			continue
		}
		idle = 0
		if out, err := answer(b[:n], addressOf(from)); err == nil && len(out) > 0 {
			// What finds no room is lost, as on any network, and asked again.
			_ = unix.Sendto(q.fd, out, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, from)
		}
	}
}

func addressOf(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// Close stops answering, and leaves the socket itself for a later holder. Repeat: nil. It returns within a second.
func (q *Questions) Close() error {
	if q.shut() {
		q.left(time.Second)
	}
	return nil
}
