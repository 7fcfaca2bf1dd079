package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// What leads everything that a sandbox sends to its one way out, in a namespace that has loopback and nothing else:
//
//   - a route that makes every address local (AnyIP), so that nothing is unreachable and nothing can leave;
//   - nf_tables: TCP to whatever is not loopback goes to the listener, UDP port 53 to whatever, loopback too, to the
//     socket for names. The first destination is kept by the kernel (SO_ORIGINAL_DST).
//
// Other UDP finds nobody, and the kernel refuses it at once (ICMP port unreachable): QUIC falls back to TCP. A program
// inside may bind any address for itself, and hears then what its own neighbours send there: never more than they could
// do over loopback, and never TCP, which the redirect takes first.

// Redirect argues for a trial of its own: see RedirectTrial.
const Redirect = "try-redirect"

// RedirectTrial sets the redirect up in the namespace it runs in, which must be new and empty, and says on standard
// output why that cannot be; false: args do not ask for it.
func RedirectTrial(args []string) bool {
	if len(args) != 1 || args[0] != Redirect {
		return false
	}
	err := loopbackUp()
	if err == nil {
		_, err = redirected(1)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return true
}

// redirected makes the sockets of the way out, and leads everything there. IPv6 is left out where the kernel has none
// here: nothing of it has a route then.
func redirected(port int) (files []*os.File, err error) {
	if err := anyLocal(unix.AF_INET, []byte{127, 0, 0, 1}); err != nil {
		return nil, err
	}
	_ = largePackets() // an older kernel's are smaller, and slower
	family := unix.AF_INET6
	if err := anyLocal(unix.AF_INET6, append(make([]byte, 15), 1)); err != nil {
		family = unix.AF_INET
	}
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		f, err := bothFamilies(family, kind, port)
		if errors.Is(err, unix.EAFNOSUPPORT) && family == unix.AF_INET6 {
			family = unix.AF_INET
			f, err = bothFamilies(family, kind, port)
		}
		if err != nil {
			return files, fmt.Errorf("way out on port %d: %w", port, err)
		}
		files = append(files, f)
	}
	return files, rules(uint16(port))
}

// bothFamilies is a socket on port for IPv6 and IPv4, or on 127.0.0.1 for IPv4 alone. The redirect sends to 127.0.0.1 and
// ::1; bound wider than these, so that no more special socket of the sandbox can take their place.
func bothFamilies(family, kind, port int) (*os.File, error) {
	protocol := unix.IPPROTO_TCP // plain: see egressListener
	if kind == unix.SOCK_DGRAM {
		protocol = unix.IPPROTO_UDP
	}
	s, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(s), "egress")
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: port}
		err = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(s, to)
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(s, backlog)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// loopback is the first interface of every network namespace (LOOPBACK_IFINDEX).
const loopback = 1

// maxPacket is a little less than the most that the kernel takes (GSO_MAX_SIZE), and more than seven times its default.
const maxPacket = 480 << 10

// largePackets lets TCP over this namespace's loopback go in packets of up to maxPacket bytes: each has its own way
// through routing, nf_tables and two queues. Linux 6.3 (5.19 for IPv6) and later.
func largePackets() error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	link := binary.NativeEndian.AppendUint32(make([]byte, 4), loopback)
	link = append(link, make([]byte, unix.SizeofIfInfomsg-len(link))...)
	for _, which := range []uint16{unix.IFLA_GSO_MAX_SIZE, unix.IFLA_GRO_MAX_SIZE, unix.IFLA_GSO_IPV4_MAX_SIZE, unix.IFLA_GRO_IPV4_MAX_SIZE} {
		link = append(link, attr(which, binary.NativeEndian.AppendUint32(nil, maxPacket))...)
	}
	n.add("allow large packets", unix.RTM_NEWLINK, 0, link)
	return n.send()
}

// anyLocal makes every address of a family one of this namespace. What is sent comes from loopback's own address, so
// that answers find back.
func anyLocal(family byte, from []byte) error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	route := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	route = append(route, attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))...)
	route = append(route, attr(unix.RTA_PREFSRC, from)...)
	n.add("make every address local", unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, route)
	return n.send()
}

// The constants of linux/netfilter/nf_tables.h and nfnetlink.h that golang.org/x/sys/unix lacks or names otherwise.
const (
	tableName, natChain, trackChain = "sallyport", "redirect", "untracked"

	priorityRaw, priorityNAT = -300, -100 // NF_IP_PRI_RAW, NF_IP_PRI_NAT_DST
	register                 = unix.NFT_REG_1
)

// rules are all there are, in one transaction: all of it stands, or nothing does.
func rules(port uint16) error {
	n, err := openNetlink(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer n.close()
	mark := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
	n.add("", unix.NFNL_MSG_BATCH_BEGIN, 0, mark)
	nft(n, "make a table", unix.NFT_MSG_NEWTABLE, attr(unix.NFTA_TABLE_NAME, text(tableName)))
	chain(n, natChain, "nat", priorityNAT)
	chain(n, trackChain, "filter", priorityRaw)

	to := redirectTo(port)
	tcp, udp := is(proto(), unix.IPPROTO_TCP), is(proto(), unix.IPPROTO_UDP)
	v4, v6 := is(version(), unix.NFPROTO_IPV4), is(version(), unix.NFPROTO_IPV6)
	rule(n, natChain, udp, is(destinationPort(), 0, 53), to)
	rule(n, natChain, tcp, v4, isNot(firstByte4(), 127), to)
	rule(n, natChain, tcp, v6, isNot(address6(), append(make([]byte, 15), 1)...), to)

	// Connections that are not led anywhere are not remembered: the kernel's table of them is bounded and slow to forget,
	// and it is no part of the sandbox's memory limit.
	ours := binary.BigEndian.AppendUint16(nil, port)
	besides := join(isNot(sourcePort(), ours...), isNot(destinationPort(), ours...))
	rule(n, trackChain, udp, isNot(sourcePort(), ours...), isNot(destinationPort(), 0, 53), expression("notrack"))
	rule(n, trackChain, tcp, v4, is(firstByte4(), 127), besides, expression("notrack"))
	rule(n, trackChain, tcp, v6, is(address6(), append(make([]byte, 15), 1)...), besides, expression("notrack"))
	n.add("", unix.NFNL_MSG_BATCH_END, 0, mark)
	return n.send()
}

func nft(n *netlink, what string, message uint16, attrs ...[]byte) {
	body := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}
	n.add(what+" of nf_tables", unix.NFNL_SUBSYS_NFTABLES<<8|message, unix.NLM_F_CREATE|unix.NLM_F_APPEND, append(body, join(attrs...)...))
}

func chain(n *netlink, name, kind string, priority int32) {
	nft(n, "make the chain "+name, unix.NFT_MSG_NEWCHAIN,
		attr(unix.NFTA_CHAIN_TABLE, text(tableName)), attr(unix.NFTA_CHAIN_NAME, text(name)), attr(unix.NFTA_CHAIN_TYPE, text(kind)),
		nested(unix.NFTA_CHAIN_HOOK, attr(unix.NFTA_HOOK_HOOKNUM, number(unix.NF_INET_LOCAL_OUT)), attr(unix.NFTA_HOOK_PRIORITY, number(uint32(priority)))))
}

func rule(n *netlink, chain string, expressions ...[]byte) {
	nft(n, "make a rule of "+chain, unix.NFT_MSG_NEWRULE, attr(unix.NFTA_RULE_TABLE, text(tableName)), attr(unix.NFTA_RULE_CHAIN, text(chain)),
		nested(unix.NFTA_RULE_EXPRESSIONS, expressions...))
}

func expression(name string, attrs ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, attr(unix.NFTA_EXPR_NAME, text(name)), nested(unix.NFTA_EXPR_DATA, attrs...))
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func meta(key uint32) []byte {
	return expression("meta", attr(unix.NFTA_META_DREG, number(register)), attr(unix.NFTA_META_KEY, number(key)))
}

func proto() []byte   { return meta(unix.NFT_META_L4PROTO) }
func version() []byte { return meta(unix.NFT_META_NFPROTO) }

func payload(base, offset, size uint32) []byte {
	return expression("payload", attr(unix.NFTA_PAYLOAD_DREG, number(register)), attr(unix.NFTA_PAYLOAD_BASE, number(base)),
		attr(unix.NFTA_PAYLOAD_OFFSET, number(offset)), attr(unix.NFTA_PAYLOAD_LEN, number(size)))
}

func sourcePort() []byte      { return payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2) }
func destinationPort() []byte { return payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2) }
func firstByte4() []byte      { return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 1) } // of the destination
func address6() []byte        { return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 24, 16) }

func is(load []byte, value ...byte) []byte    { return join(load, compare(unix.NFT_CMP_EQ, value)) }
func isNot(load []byte, value ...byte) []byte { return join(load, compare(unix.NFT_CMP_NEQ, value)) }

func compare(op uint32, value []byte) []byte {
	return expression("cmp", attr(unix.NFTA_CMP_SREG, number(register)), attr(unix.NFTA_CMP_OP, number(op)), nested(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, value)))
}

// redirectTo leads to port on loopback's own address.
func redirectTo(port uint16) []byte {
	load := expression("immediate", attr(unix.NFTA_IMMEDIATE_DREG, number(register)),
		nested(unix.NFTA_IMMEDIATE_DATA, attr(unix.NFTA_DATA_VALUE, binary.BigEndian.AppendUint16(nil, port))))
	return join(load, expression("redir", attr(unix.NFTA_REDIR_REG_PROTO_MIN, number(register)), attr(unix.NFTA_REDIR_REG_PROTO_MAX, number(register))))
}
