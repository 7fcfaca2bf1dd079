package gateway

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"sallyport.dev/sallyport/internal/egress"
)

// Synthetic addresses stand for names inside a sandbox whose traffic is redirected: what a name is told by DNS is where
// its connections say they go, and nothing else is known of them.
//
//   - 198.18.0.0/16: the names that the rules spell out, in their order. The same in every driver of an Attempt, since
//     the rules are.
//   - 198.19.0.0/16: names below a wildcard, as they are asked for. Each driver gives out addresses of its own
//     (ProxyConfig.Generation): one that an earlier driver gave is no name for a later one, which cannot know which it
//     was, and must not guess.
//
// For IPv6 the same stand at the end of syntheticNet6. The ranges are for benchmarks (RFC 2544) and private (RFC 4193):
// no host of the internet has one. An address of them that a rule names is that host's, and is not given out.
var (
	spelledNet    = netip.MustParsePrefix("198.18.0.0/16")
	askedNet      = netip.MustParsePrefix("198.19.0.0/16")
	syntheticNet6 = netip.MustParsePrefix("fd53:616c:6c79:706f:7274:0:0:0/96")
)

const (
	firstSpelled = 16 // below it are addresses that routers and resolvers like
	// askedEach is how many names one driver gives addresses to, and generations how many drivers can: together askedNet.
	askedEach   = 1 << 10
	generations = 1 << 6
)

// names gives names their addresses, for a Server's life. Safe for concurrent use.
type names struct {
	mu         sync.Mutex
	addresses  map[egress.Name]netip.Addr // IPv4
	names      map[netip.Addr]egress.Name // the inverse
	taken      map[netip.Addr]bool        // by rules
	next       int                        // of askedEach
	generation int64
}

func newNames(rules []egress.Rule, generation int64) *names {
	n := &names{addresses: map[egress.Name]netip.Addr{}, names: map[netip.Addr]egress.Name{}, taken: map[netip.Addr]bool{}, generation: generation}
	var spelled []string
	for _, r := range rules {
		if a, err := netip.ParseAddr(r.Host); err == nil {
			n.taken[shortened(a)] = true
		} else if !strings.HasPrefix(r.Host, "*") {
			spelled = append(spelled, r.Host)
		}
	}
	slices.Sort(spelled)
	at := firstSpelled
	for _, host := range slices.Compact(spelled) {
		name, err := egress.Host(host)
		if err != nil {
			continue // Check has refused it
		}
		for at < 1<<16 && n.taken[offset(spelledNet, at)] {
			at++
		}
		if at == 1<<16 {
			break // later names have no address: SERVFAIL
		}
		n.give(name, offset(spelledNet, at))
		at++
	}
	return n
}

func (n *names) give(name egress.Name, a netip.Addr) {
	n.addresses[name], n.names[a] = a, name
}

// address is name's, the same each time; the zero Addr when there is none left.
func (n *names) address(name egress.Name, six bool) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.addresses[name]
	if !ok {
		if a, ok = n.free(); !ok {
			return netip.Addr{}
		}
		n.give(name, a)
	}
	if !six {
		return a
	}
	b := syntheticNet6.Addr().As16()
	v4 := a.As4()
	copy(b[12:], v4[:])
	return netip.AddrFrom16(b)
}

func (n *names) free() (netip.Addr, bool) {
	if n.generation < 0 || n.generation >= generations {
		return netip.Addr{}, false
	}
	for n.next < askedEach {
		a := offset(askedNet, int(n.generation)*askedEach+n.next)
		n.next++
		if !n.taken[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// of is the host that a connection to a is for: the name that has it, else the address itself. false: it stands for a
// name, and which one is not known.
func (n *names) of(a netip.Addr) (egress.Name, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a = a.WithZone("").Unmap()
	short := shortened(a)
	if name, ok := n.names[short]; ok {
		return name, true
	}
	if !n.taken[short] && (spelledNet.Contains(short) || askedNet.Contains(short)) {
		return egress.Name{}, false
	}
	return nameOf(a), true
}

// shortened is the IPv4 address that a stands for, if it is of syntheticNet6.
func shortened(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !syntheticNet6.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

func offset(p netip.Prefix, n int) netip.Addr {
	b := p.Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(n))))
}
