package gateway

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// ProxyConfig says what may be reached beside the model endpoint. The zero value refuses everything.
//
// What an https rule says about requests cannot be held without reading them, which this gateway does not do: TLS
// passes it whole. So Serve takes an https rule only if it allows every method and path, own authentication, and
// limits bytes alone (CodeUnsupported otherwise, with the wider line as the hint; git rules likewise). tcp and http
// rules are taken as they are.
type ProxyConfig struct {
	Rules []egress.Rule // nil: nothing
	// Resolve is the operator's own: names whose address is not looked up. Keys are canonical names. An address here
	// may be one that is not public, since a person named it.
	Resolve map[string]netip.Addr
	// Dial opens a connection to an address and port that was decided on, never to a name. nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup gives a name's addresses. nil: the system's resolver, without its search list.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Refused hears of each different refusal once, at most 256 of them; calls may be concurrent and should return
	// soon. nil: nobody. Server.Denied has them all with their counts.
	Refused func(Denied)
	// Questions is where a sandbox whose traffic is redirected asks for names (Redirected); nil: nowhere. It is then the
	// Server's: Close closes it. A listed name has an address that stands for it alone, any other does not exist.
	Questions *Questions
	// Generation numbers the Servers of an Attempt, from 0. A later one never gives a name below a wildcard an address
	// that an earlier one gave to another; from 64 on it gives such names none.
	Generation int64
	// Learn gives every name an address, so that connections are made, and refused with all that can be learned of them.
	Learn bool

	pace pace // tests only; zero: paceDefault
}

// pace is how slow a sandbox may be. A field, so that tests need not wait for minutes.
type pace struct {
	header time.Duration // for a request's head, a SOCKS request, a ClientHello
	idle   time.Duration // a tunnel in which nothing moved
	total  time.Duration // a tunnel's whole life
}

// A quiet tunnel is a waiting package manager or a forgotten one; five minutes are longer than any server waits. No
// connection outlives half a day, so that what Close has to cut was opened by somebody who may still be asked.
var paceDefault = pace{header: headerTimeout, idle: 5 * time.Minute, total: 12 * time.Hour}

// Check reports what Serve would say about c's rules and overrides: CodeInvalid for what is malformed, CodeUnsupported
// for a rule that this gateway could not hold to the letter. Subject is "egress[i]" or "resolve".
func (c ProxyConfig) Check() error {
	for i, r := range c.Rules {
		at := fmt.Sprintf("egress[%d]", i)
		if err := egress.Check(r); err != nil {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: at, Message: "this is no egress rule", Hint: sallyport.HintOf(err), Err: err}
		}
		if why := unheld(r); why != "" {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeUnsupported, Subject: at,
				Message: fmt.Sprintf("%s: %s can only be held by reading the requests inside TLS, which is not built yet", egress.Line(r), why),
				Hint:    "if all of the host is meant, write " + egress.Line(whole(r)) + "; it is allowed everything there, checked by name only"}
		}
	}
	for name, a := range c.Resolve {
		n, err := egress.Host(name)
		if err != nil || n.String() != name || n.IsAddr() {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: "resolve", Message: fmt.Sprintf("%.80q: expected a host name in its canonical form", name), Err: err}
		}
		if err := egress.Check(egress.Rule{Host: a.Unmap().String(), Port: 1, Protocol: egress.TCP}); err != nil || a.Zone() != "" {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: "resolve", Message: name + ": expected the address of one host, without a zone", Err: err}
		}
	}
	return nil
}

const opProxy = "open the way out"

// unheld is what of r cannot be held on a connection that is passed through unread, "" if nothing.
func unheld(r egress.Rule) string {
	switch {
	case r.Protocol == egress.Git:
		return "reads of a repository"
	case r.Protocol != egress.HTTPS:
		return ""
	case !slices.Contains(r.Methods, "*"):
		return "a choice of methods"
	case !slices.Contains(r.Paths, "/**"):
		return "a choice of paths"
	case r.Limits.Requests != 0 || r.Limits.Rate != 0:
		return "a number of requests"
	case !r.OwnAuth:
		return "the refusal of the sandbox's own authentication"
	}
	return ""
}

// whole is r without what is unheld: the next rule that this gateway can hold.
func whole(r egress.Rule) egress.Rule {
	r.Protocol, r.Methods, r.Paths, r.OwnAuth = egress.HTTPS, []string{"*"}, []string{"/**"}, true
	r.Limits.Requests, r.Limits.Rate = 0, 0
	return r
}

// Widen is r if this gateway can hold it, else the next wider rule that it can: what to propose to a person.
func Widen(r egress.Rule) egress.Rule {
	if unheld(r) == "" {
		return r
	}
	return whole(r)
}

// proxy is a ProxyConfig at work for one Server.
type proxy struct {
	ProxyConfig
	quotas    []*quota // by rule
	transport *http.Transport
	denials   denials
}

func newProxy(c ProxyConfig, connections int) (*proxy, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.pace == (pace{}) {
		c.pace = paceDefault
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if c.Lookup == nil {
		c.Lookup = lookup
	}
	// The caller's list may change; what was checked may not.
	c.Rules, c.Resolve = slices.Clone(c.Rules), maps.Clone(c.Resolve)
	p := &proxy{ProxyConfig: c}
	for _, r := range c.Rules {
		p.quotas = append(p.quotas, &quota{limits: r.Limits})
	}
	p.transport = &http.Transport{
		DialContext:            p.dialHTTP,
		DisableCompression:     true,
		MaxConnsPerHost:        connections,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ResponseHeaderTimeout:  answerTimeout,
	}
	return p, nil
}

// deny remembers and tells d, which e is about.
func (p *proxy) deny(d *denial, e *Event) {
	told := Denied{Time: time.Now(), Refusal: d.Refusal, Asked: printable(d.asked, 300), Message: d.message, Line: d.line, Count: 1}
	told.Method, told.Path, told.Query = printable(told.Method, 32), printable(told.Path, 1024), printable(told.Query, 256)
	if !p.denials.knows(told) {
		told.Process = e.process()
	}
	if p.denials.add(told) && p.Refused != nil {
		p.Refused(told)
	}
}
