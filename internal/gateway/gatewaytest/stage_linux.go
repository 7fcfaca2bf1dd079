package gatewaytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stageSocket is where the first process in the namespace finds its socket pair.
const stageSocket = 3

// stage serves requests until its parent goes, or becomes the command it is asked to run.
func stage() {
	unix.CloseOnExec(stageSocket)
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "gatewaytest: lo up:", err)
		os.Exit(1)
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	buf := make([]byte, 1<<20)
	for {
		k, _, err := unix.Recvfrom(stageSocket, buf, 0)
		if err != nil || k == 0 {
			return
		}
		var r request
		if err := json.Unmarshal(buf[:k], &r); err != nil {
			reply(-1, err)
			continue
		}
		if r.Make == "run" {
			become(r)
			continue
		}
		fd, err := makeSocket(r)
		reply(fd, err)
	}
}

func reply(fd int, err error) {
	if err != nil {
		_ = unix.Sendmsg(stageSocket, []byte(err.Error()), nil, nil, 0)
		return
	}
	_ = unix.Sendmsg(stageSocket, []byte{1}, unix.UnixRights(fd), nil, 0)
	_ = unix.Close(fd)
}

// become sends a pipe's reading end and turns into the command, whose both outputs are the pipe.
func become(r request) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		reply(-1, err)
		return
	}
	reply(p[0], nil)
	null, _ := unix.Open("/dev/null", unix.O_RDONLY, 0)
	_ = dup(null, 0)
	_ = dup(p[1], 1)
	_ = dup(p[1], 2)
	err := unix.Chdir(r.Dir)
	if err == nil {
		err = unix.Exec(r.Argv[0], r.Argv, r.Env)
	}
	fmt.Fprintln(os.Stderr, "gatewaytest: run:", err)
	os.Exit(127)
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr)
}

func makeSocket(r request) (int, error) {
	local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: r.Port}
	switch r.Make {
	case "listen":
		return bound(unix.AF_INET, unix.SOCK_STREAM, 0, local, true)
	case "any":
		return bound(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: r.Port}, true)
	case "mptcp":
		return bound(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, local, true)
	case "tcp6":
		return bound(unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}, Port: r.Port}, true)
	case "udp":
		return bound(unix.AF_INET, unix.SOCK_DGRAM, 0, local, false)
	case "wide": // of both families, as a redirect has them
		return bound(unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{Port: r.Port}, true)
	case "wide-udp":
		return bound(unix.AF_INET6, unix.SOCK_DGRAM, 0, &unix.SockaddrInet6{Port: r.Port}, false)
	case "only6-udp":
		s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1), unix.Bind(s, &unix.SockaddrInet6{Port: r.Port}))
		}
		return s, err
	case "peer-udp":
		s, err := bound(unix.AF_INET6, unix.SOCK_DGRAM, 0, &unix.SockaddrInet6{Port: r.Port}, false)
		if err == nil {
			err = unix.Connect(s, &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: 1})
		}
		return s, err
	case "unix":
		return bound(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: "@gatewaytest"}, true)
	case "bound":
		return bound(unix.AF_INET, unix.SOCK_STREAM, 0, local, false)
	case "connected":
		return connectedToSelf(local)
	case "pipe":
		var p [2]int
		err := unix.Pipe2(p[:], unix.O_CLOEXEC)
		return p[0], err
	case "dial":
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		return s, unix.Connect(s, local)
	}
	return -1, errors.New("no such kind of socket")
}

func bound(domain, kind, protocol int, sa unix.Sockaddr, listen bool) (int, error) {
	s, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(s, sa); err != nil {
		return -1, err
	}
	if listen {
		err = unix.Listen(s, 128)
	}
	return s, err
}

// connectedToSelf is a connected socket whose local address is the expected one.
func connectedToSelf(local *unix.SockaddrInet4) (int, error) {
	peer, err := bound(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Addr: local.Addr, Port: local.Port + 1}, true)
	if err != nil {
		return -1, err
	}
	s, err := bound(unix.AF_INET, unix.SOCK_STREAM, 0, local, false)
	if err != nil {
		return -1, err
	}
	return s, unix.Connect(s, &unix.SockaddrInet4{Addr: local.Addr, Port: peerPort(peer)})
}

func peerPort(fd int) int {
	sa, err := unix.Getsockname(fd)
	if in, ok := sa.(*unix.SockaddrInet4); err == nil && ok {
		return in.Port
	}
	return 0
}

// dup is dup2(2); arm64 has only dup3.
func dup(from, to int) error { return unix.Dup3(from, to, 0) }
