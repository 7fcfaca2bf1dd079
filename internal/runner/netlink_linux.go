package runner

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// netlink asks the kernel for a few changes of this network namespace. No library: the ones there are link package
// net, which a runner must not (deps_test.go), and the dozen messages here are the same in every sandbox.
type netlink struct {
	fd  int
	out []byte
	seq uint32
	ask []string // what each message of out is, by its sequence number
}

func openNetlink(protocol int) (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	// The kernel answers before send returns; a lost answer must not hang the start.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { unix.Close(n.fd) }

// add appends a message; what names it in an error, "" for one that is not acknowledged.
func (n *netlink) add(what string, kind, flags uint16, body []byte) {
	flags |= unix.NLM_F_REQUEST
	if what != "" {
		flags |= unix.NLM_F_ACK
	}
	n.ask = append(n.ask, what)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, n.seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	n.seq++
	n.out = append(n.out, pad(append(b, body...))...)
}

// send has the kernel do all that was added, and returns the first refusal.
func (n *netlink) send() error {
	if err := unix.Sendto(n.fd, n.out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask by netlink: %w", err)
	}
	want := 0
	for _, what := range n.ask {
		if what != "" {
			want++
		}
	}
	b := make([]byte, 64<<10)
	for want > 0 {
		k, _, err := unix.Recvfrom(n.fd, b, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("hear by netlink: %w", err)
		}
		got, err := n.acks(b[:k])
		if err != nil {
			return err
		}
		want -= got
	}
	return nil
}

func (n *netlink) acks(b []byte) (got int, err error) {
	for len(b) >= unix.NLMSG_HDRLEN+4 {
		size, kind, seq := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:])
		if size < unix.NLMSG_HDRLEN+4 || size > len(b) {
			return got, fmt.Errorf("a netlink answer of %d bytes in %d", size, len(b))
		}
		if kind == unix.NLMSG_ERROR {
			if e := int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); e != 0 {
				what := "netlink"
				if int(seq) < len(n.ask) && n.ask[seq] != "" {
					what = n.ask[seq]
				}
				return got, fmt.Errorf("%s: %w", what, unix.Errno(-e))
			}
			got++
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return got, nil
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// attr is one netlink attribute; several values are joined.
func attr(kind uint16, values ...[]byte) []byte {
	size := 4
	for _, v := range values {
		size += len(v)
	}
	b := binary.NativeEndian.AppendUint16(nil, uint16(size))
	b = binary.NativeEndian.AppendUint16(b, kind)
	for _, v := range values {
		b = append(b, v...)
	}
	return pad(b)
}

func nested(kind uint16, values ...[]byte) []byte { return attr(kind|unix.NLA_F_NESTED, values...) }

func text(s string) []byte { return append([]byte(s), 0) }

// number is in network order, as nf_tables has all of its numbers.
func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
