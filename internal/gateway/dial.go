package gateway

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

const (
	dialTimeout   = 30 * time.Second
	lookupTimeout = 10 * time.Second
	// maxAddresses bounds how often one request of the sandbox makes us dial.
	maxAddresses = 4
)

// lookup asks for the rooted name: a search list would make another host of it.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// addresses resolves name once and returns the addresses that may be dialled: what was judged here is dialled, and the
// name is not asked for again. A *denial if there are addresses and none may be.
func (p *proxy) addresses(ctx context.Context, name egress.Name, port uint16, protocol egress.Protocol) ([]netip.AddrPort, error) {
	if to, ok := p.Resolve[name.String()]; ok {
		return []netip.AddrPort{netip.AddrPortFrom(to.Addr().Unmap(), cmp.Or(to.Port(), port))}, nil
	}
	all := []netip.Addr{name.Addr()}
	if !name.IsAddr() {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		var err error
		if all, err = p.Lookup(ctx, name.String()); err != nil {
			return nil, err
		}
	}
	var may []netip.AddrPort
	for _, a := range all {
		if p.mayDial(a, name, port, protocol) && len(may) < maxAddresses {
			may = append(may, netip.AddrPortFrom(a.Unmap(), port))
		}
	}
	switch {
	case len(may) > 0:
		return may, nil
	case len(all) > 0:
		return nil, privateAddress(egress.Request{Name: name, Port: port, Protocol: protocol}, all[0])
	}
	return nil, &net.DNSError{Err: "no addresses", Name: name.String(), IsNotFound: true}
}

// mayDial asks the rules for this name, or for this very address, that list the port and protocol.
func (p *proxy) mayDial(a netip.Addr, name egress.Name, port uint16, protocol egress.Protocol) bool {
	return slices.ContainsFunc(p.Rules, func(r egress.Rule) bool {
		one := []egress.Rule{r}
		named := egress.Reach(one, name, port).Allowed || egress.Reach(one, nameOf(a), port).Allowed
		speaks := r.Protocol == protocol || r.Protocol == egress.Git && protocol == egress.HTTPS
		return named && speaks && egress.Address(a, r) == nil
	})
}

// nameOf is the zero Name, which no rule names, for what is no address of one host.
func nameOf(a netip.Addr) egress.Name {
	n, _ := egress.Host(a.String())
	return n
}

// privateAddress proposes the rule that names the first address; which one it is is not the sandbox's business.
func privateAddress(q egress.Request, a netip.Addr) *denial {
	no := because(q, egress.ReasonAddress, "")
	r := egress.Rule{Host: nameOf(a).String(), Port: q.Port, Protocol: q.Protocol, Methods: []string{"GET", "HEAD"}, Paths: []string{"/**"}}
	if q.Protocol == egress.TCP {
		r.Methods, r.Paths = nil, nil
	}
	if egress.Check(r) == nil {
		no.line, no.inside = egress.Line(r), true
	}
	return no
}

// dial tries the addresses in order and returns the last failure.
func (p *proxy) dial(ctx context.Context, addresses []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err := error(&net.AddrError{Err: "no address", Addr: ""})
	for _, a := range addresses {
		var c net.Conn
		if c, err = p.Dial(ctx, "tcp", a.String()); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// dialName dials for a transport, which knows a request by its own URL: addr is the name that was decided on.
func (p *proxy) dialName(ctx context.Context, addr string, protocol egress.Protocol) (net.Conn, error) {
	name, port, err := egress.Target(addr)
	if err != nil {
		return nil, err
	}
	may, err := p.addresses(ctx, name, port, protocol)
	if err != nil {
		return nil, err
	}
	return p.dial(ctx, may)
}
