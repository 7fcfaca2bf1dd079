package contain

import (
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// connectWait is how long an unanswered connection attempt is watched. A sandbox without a way out answers at
// once; only a missing layer costs this time.
const connectWait = 100 * time.Millisecond

func probeNetwork(t Targets) sallyport.LayerReport {
	p := &trials{layer: sallyport.LayerNetwork, fix: "the provider must put the sandbox into a network namespace of its own with nothing but loopback"}
	p.interfaces()

	outside := []unix.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EACCES, unix.EPERM}
	if t.Redirect == nil {
		p.nowhere(outside)
	} else {
		p.redirected(t.Redirect)
	}
	p.hostPort(t, outside)
	p.abstract(t)

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err == nil {
		unix.Close(fd)
	}
	p.want("MPTCP", err, unix.EPROTONOSUPPORT, unix.EPERM, unix.EINVAL)
	// Not confined by a network namespace: only the filter, or a kernel without it, stands against it.
	fd, err = unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	p.want("AF_VSOCK", err, unix.EPERM, unix.EAFNOSUPPORT)
	return p.report()
}

// nowhere: what is sent to another address finds no way.
func (p *trials) nowhere(outside []unix.Errno) {
	noFamily := append(outside, unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL)
	for _, k := range []struct {
		name   string
		kind   int
		to     unix.Sockaddr
		accept []unix.Errno
	}{
		{"TCP to 192.0.2.1:443", unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 443}, outside},
		{"UDP to 192.0.2.1:53", unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 53}, outside},
		{"TCP to 169.254.169.254:80", unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{169, 254, 169, 254}, Port: 80}, outside},
		{"TCP to [2001:db8::1]:443", unix.SOCK_STREAM, &unix.SockaddrInet6{Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}, Port: 443}, noFamily},
	} {
		p.want(k.name, connect(k.kind, k.to), k.accept...)
	}
}

// hostPort: 127.0.0.1 must be the sandbox's own, where nobody listens on that port.
func (p *trials) hostPort(t Targets, outside []unix.Errno) {
	if t.HostPort <= 0 {
		p.add("the host's loopback", "no port was named, so none was tried", false)
		return
	}
	err := connect(unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: t.HostPort})
	p.want("the host's loopback", err, append([]unix.Errno{unix.ECONNREFUSED}, outside...)...)
}

func (p *trials) abstract(t Targets) {
	if t.Abstract == "" {
		p.add("the host's abstract socket", "no name was given, so none was tried", false)
		return
	}
	err := connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@" + t.Abstract})
	p.want("the host's abstract socket", err, unix.ECONNREFUSED, unix.EPERM, unix.EACCES)
}

// connect makes a connection on this thread, without Go's resolver and poller, and closes it. A connection
// still pending after connectWait means that a packet found a way: EINPROGRESS.
func connect(kind int, to unix.Sockaddr) error {
	family := unix.AF_INET
	switch to.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, to); err != unix.EINPROGRESS {
		return err
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for end := time.Now().Add(connectWait); ; {
		n, err := unix.Poll(ready, int(max(0, time.Until(end).Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.EINPROGRESS
		}
		break
	}
	no, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	return raw(unix.Errno(no))
}

// interfaces asks by netlink, which shows each of them, also those without an address.
func (p *trials) interfaces() {
	names, err := interfaceNames()
	if err != nil {
		p.add("interfaces", errName(bare(err)), false)
		return
	}
	list := strings.Join(names, " ")
	if list == "" {
		list = "none"
	}
	p.add("interfaces", list, list == "lo" || list == "none")
}

func interfaceNames() ([]string, error) {
	data, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < int(unsafe.Sizeof(syscall.IfInfomsg{})) {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, err
		}
		for _, a := range attrs {
			if a.Attr.Type == syscall.IFLA_IFNAME {
				names = append(names, strings.TrimRight(string(a.Value), "\x00"))
			}
		}
	}
	return names, nil
}
