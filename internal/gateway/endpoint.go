package gateway

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// Check reports CodeInvalid, naming the field, unless e is an endpoint that Serve would forward to. Upstream
// is https://host[:port], or http:// to a loopback address; Paths are exact request targets, each beginning
// with "/", with its query where one is allowed ("/v1/messages?beta=true"), in the one form that needs no
// decoding. No paths means that nothing is forwarded.
func Check(e sallyport.Endpoint) error {
	_, err := compile(e)
	return err
}

// route is an Endpoint compiled: where a request goes is taken from here, nothing of it from a request.
type route struct {
	base     url.URL
	name     egress.Name
	port     uint16
	protocol egress.Protocol
	targets  map[string]*url.URL // by exact request target
	list     string              // of the targets, for a person
	header   string              // canonical
	prefix   string
}

func compile(e sallyport.Endpoint) (*route, error) {
	base, err := parseUpstream(e.Upstream)
	if err != nil {
		return nil, err
	}
	r := &route{base: *base, targets: map[string]*url.URL{}, prefix: e.Prefix}
	for _, p := range e.Paths {
		u, err := parseTarget(p)
		if err != nil {
			return nil, err
		}
		u.Scheme, u.Host = base.Scheme, base.Host
		r.targets[p] = u
	}
	if e.Listen < 1 || e.Listen > 65535 {
		return nil, invalid("listen", "expected a port from 1 to 65535")
	}
	if !httpguts.ValidHeaderFieldName(e.Header) || hopByHop[strings.ToLower(e.Header)] {
		return nil, invalid("header", "expected the name of the header that carries the credential")
	}
	if !httpguts.ValidHeaderFieldValue(e.Prefix) || strings.TrimLeft(e.Prefix, " \t") != e.Prefix {
		return nil, invalid("prefix", "expected text that may stand in a header")
	}
	r.header = strings.ToLower(e.Header)
	r.list = strings.Join(slices.Sorted(maps.Keys(r.targets)), ", ")
	return r, r.setPlace()
}

// Place is where requests to e's upstream go, in the form in which a Budget hears of it. CodeInvalid as of Check.
func Place(e sallyport.Endpoint) (host string, port uint16, protocol egress.Protocol, err error) {
	base, err := parseUpstream(e.Upstream)
	if err != nil {
		return "", 0, "", err
	}
	r := &route{base: *base}
	err = r.setPlace()
	return r.name.String(), r.port, r.protocol, err
}

// setPlace reads the host as every other is read.
func (r *route) setPlace() (err error) {
	host, port := r.base.Host, uint16(443)
	if r.protocol = egress.HTTPS; r.base.Scheme == "http" {
		r.protocol, port = egress.HTTP, 80
	}
	if r.base.Hostname() == "localhost" {
		host = strings.Replace(host, "localhost", "127.0.0.1", 1)
	}
	if r.name, r.port, err = egress.Authority(host, port); err != nil {
		return invalid("upstream", "expected a host that has one meaning: "+err.Error())
	}
	return nil
}

func parseUpstream(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || u.ForceQuery || s != u.Scheme+"://"+u.Host {
		return nil, invalid("upstream", `expected "https://host" or "https://host:port" and nothing more`)
	}
	switch u.Scheme {
	case "https":
		return u, nil
	case "http":
		if isLoopbackHost(u.Hostname()) {
			return u, nil
		}
		return nil, invalid("upstream", "http is allowed to a loopback address only: the credential would travel in the clear")
	}
	return nil, invalid("upstream", "expected the scheme https")
}

func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true // what it resolves to is checked again when it is dialled
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// parseTarget accepts only targets on which every reader agrees: what is compared raw is what is sent.
func parseTarget(p string) (*url.URL, error) {
	u, err := url.ParseRequestURI(p)
	if err != nil || !strings.HasPrefix(p, "/") || u.Host != "" || u.RequestURI() != p || strings.ContainsAny(u.Path, "%\\;") || strings.Contains(p, "%") || hasDotSegment(u.Path) {
		return nil, invalid("paths", "expected an exact request target such as /v1/messages, without escapes or dot segments")
	}
	return u, nil
}

func hasDotSegment(p string) bool {
	for _, s := range strings.Split(strings.TrimPrefix(p, "/"), "/") {
		if s == "" && p != "/" || s == "." || s == ".." {
			return true
		}
	}
	return false
}

func invalid(field, why string) error {
	return &sallyport.Error{Op: "check the agent's endpoint", Code: sallyport.CodeInvalid, Subject: field, Message: why,
		Hint: "an endpoint comes from the agent's preset and the operator's environment"}
}

// loopbackOnly refuses to dial anything else: "localhost" is whatever a resolver says it is.
func loopbackOnly(ctx context.Context, d *net.Dialer, network, addr string) (net.Conn, error) {
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = c.Close()
		return nil, &net.AddrError{Err: "not a loopback address", Addr: addr}
	}
	return c, nil
}
