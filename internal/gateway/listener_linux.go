package gateway

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Listener takes the listening socket that a sandbox handed out. The descriptor is checked before any use:
// an IPv4 TCP (not MPTCP) socket that listens on 127.0.0.1:port in a network namespace which is not ours and
// in which no other live Listener of this process accepts. Anything else is CodeDenied and says which fact
// is wrong; a kernel without SO_NETNS_COOKIE (before 5.14) is CodeUnsupported.
//
// f stays the caller's: Listener works on a duplicate. Closing the result stops accepting and leaves the
// socket itself listening, so that a later holder of the Attempt can take it again.
//
// The other side shares the open file description and may change its flags at any instant. So each accept
// waits in poll(2) first and asks accept4(2) for a non-blocking connection; should the other side clear
// O_NONBLOCK and steal the connection between the two, one thread hangs in accept4 and nothing else does.
// Close frees that thread with shutdown(2), again and again while the sandbox fights it, and itself returns
// within a second; the sandbox's death ends the fight.
func Listener(f *os.File, port int) (net.Listener, error) {
	if f == nil {
		return nil, denied("no descriptor", nil)
	}
	fd, err := duplicate(f)
	if err != nil {
		return nil, denied("the descriptor cannot be duplicated", err)
	}
	l, err := newListener(fd, port)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return l, nil
}

func newListener(fd, port int) (*listener, error) {
	cookie, err := checkListening(fd, port)
	if err != nil {
		return nil, err
	}
	return openListener(fd, port, cookie)
}

// openListener is for a socket that was checked.
func openListener(fd, port int, cookie uint64) (*listener, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, denied("O_NONBLOCK cannot be set", err)
	}
	if !claimNamespace(cookie) {
		return nil, denied("another live listener already accepts in that network namespace", nil)
	}
	h, err := hand(fd, func() { releaseNamespace(cookie) })
	if err != nil {
		releaseNamespace(cookie)
		return nil, &sallyport.Error{Op: "listen for the agent", Code: sallyport.CodeUnavailable, Message: "no descriptor left for the stop signal", Err: err}
	}
	return &listener{handed: h, addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}, nil
}

// duplicate does not use File.Fd, which would change the flags of the shared description.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(p uintptr) { fd, dupErr = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return -1, err
	}
	return fd, dupErr
}

// checkListening returns the cookie of the socket's network namespace.
func checkListening(fd, port int) (uint64, error) {
	if err := checkFacts(fd, unix.AF_INET, listening); err != nil {
		return 0, err
	}
	if err := checkBound(fd, port); err != nil {
		return 0, err
	}
	return checkNamespace(fd)
}

// fact is what a socket option must be.
type fact struct {
	opt, want int
	wrong     string
}

var (
	listening = []fact{
		{unix.SO_TYPE, unix.SOCK_STREAM, "not a stream socket"},
		{unix.SO_PROTOCOL, unix.IPPROTO_TCP, "not a TCP socket"},
		{unix.SO_ACCEPTCONN, 1, "not a listening socket"},
	}
	datagrams = []fact{
		{unix.SO_TYPE, unix.SOCK_DGRAM, "not a datagram socket"},
		{unix.SO_PROTOCOL, unix.IPPROTO_UDP, "not a UDP socket"},
	}
)

func checkFacts(fd, family int, more []fact) error {
	first := fact{unix.SO_DOMAIN, family, "not an IPv4 socket"}
	if family == unix.AF_INET6 {
		first.wrong = "not an IPv6 socket"
	}
	for _, fact := range append([]fact{first}, more...) {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, fact.opt)
		if err != nil {
			return denied("not a socket", err)
		}
		if got != fact.want {
			return denied(fmt.Sprintf("%s (option %d is %d, expected %d)", fact.wrong, fact.opt, got, fact.want), nil)
		}
	}
	return nil
}

func checkBound(fd, port int) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return denied("its address cannot be read", err)
	}
	in, ok := sa.(*unix.SockaddrInet4)
	if !ok || in.Addr != [4]byte{127, 0, 0, 1} || in.Port != port {
		got := "another family"
		if ok {
			got = fmt.Sprintf("%s:%d", net.IP(in.Addr[:]), in.Port)
		}
		return denied(fmt.Sprintf("bound to %s, expected 127.0.0.1:%d", got, port), nil)
	}
	return nil
}

// checkNamespace refuses a socket of our own namespace: whoever holds it could take connections that are
// meant for the host, or make us answer on it.
func checkNamespace(fd int) (uint64, error) {
	theirs, err := netnsCookie(fd)
	if err != nil {
		return 0, err
	}
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, &sallyport.Error{Op: "check the handed-out socket", Code: sallyport.CodeUnavailable, Message: "no socket to compare with", Err: err}
	}
	defer unix.Close(own)
	ours, err := netnsCookie(own)
	if err != nil {
		return 0, err
	}
	if theirs == ours {
		return 0, denied("it listens in the network namespace of the trusted side", nil)
	}
	return theirs, nil
}

func netnsCookie(fd int) (uint64, error) {
	c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, &sallyport.Error{Op: "check the handed-out socket", Code: sallyport.CodeUnsupported, Subject: "SO_NETNS_COOKIE",
			Message: "this kernel does not tell a socket's network namespace", Hint: "use Linux 5.14 or later", Err: err}
	}
	return c, nil
}

func denied(why string, err error) error {
	return &sallyport.Error{Op: "check the handed-out socket", Code: sallyport.CodeDenied, Message: why, Err: err,
		Hint: "the sandbox handed out something else than its listener; end the Attempt and keep its log"}
}

// One sandbox must not answer for another: a namespace is accepted on by one Listener at a time.
var (
	namespacesMu sync.Mutex
	namespaces   = map[uint64]bool{}
)

func claimNamespace(cookie uint64) bool {
	namespacesMu.Lock()
	defer namespacesMu.Unlock()
	if namespaces[cookie] {
		return false
	}
	namespaces[cookie] = true
	return true
}

func releaseNamespace(cookie uint64) {
	namespacesMu.Lock()
	defer namespacesMu.Unlock()
	delete(namespaces, cookie)
}

// listener implements net.Listener.
type listener struct {
	*handed
	addr net.Addr

	redirected bool // a connection may have been meant to go elsewhere

	afterPoll func() // tests: runs between poll and accept4
}

func (l *listener) Addr() net.Addr { return l.addr }

// Close stops accepting; repeat: nil. It returns within a second even if the sandbox holds a thread of ours
// in accept4; that thread is freed in the background.
func (l *listener) Close() error {
	if l.shut() && !l.left(250*time.Millisecond) {
		go l.force()
		l.left(750 * time.Millisecond)
	}
	return nil
}
