package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
// What a rule says about requests is held by reading them: TLS is opened with a certificate of the Authority. Only
// where nothing of it has to be read (egress.Unread) do bytes pass as they are, and then TLS stays end to end.
type ProxyConfig struct {
	Rules []egress.Rule // nil: nothing
	// Authority signs what the sandbox sees where TLS is opened. Required where a rule has to be read, for Credentials
	// and for Learn.
	Authority *Authority
	// Credentials are put into requests to their hosts; the sandbox holds placeholders. See Credential.
	Credentials []Credential
	// Forges are hosts of which the sandbox may only read, whatever the Rules say: canonical names.
	Forges []string
	// Learn hears out also what is refused: every name has an address, and TLS to hosts that are not listed is opened as
	// well, so that a refusal says what exactly was asked for. Nothing more is dialled.
	Learn bool
	// Roots verify upstreams. nil: the system's.
	Roots *x509.CertPool
	// Resolve is the operator's own: names whose address is not looked up. Keys are canonical names. An address here
	// may be one that is not public, since a person named it.
	// With a port other than 0, that one is dialled in place of the one that was asked for.
	Resolve map[string]netip.AddrPort
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

	pace pace // tests only; zero: paceDefault
}

// pace is how slow a sandbox may be. A field, so that tests need not wait for minutes.
type pace struct {
	header time.Duration // for a request's head, a SOCKS request, a ClientHello
	idle   time.Duration // a tunnel in which nothing moved
	total  time.Duration // a tunnel's whole life
	stall  time.Duration // to take what is written to it
}

// A quiet tunnel is a waiting package manager or a forgotten one; five minutes are longer than any server waits. No
// connection outlives half a day, so that what Close has to cut was opened by somebody who may still be asked.
var paceDefault = pace{header: headerTimeout, idle: 5 * time.Minute, total: 12 * time.Hour, stall: stallTimeout}

// Check reports what Serve would say about c's rules and overrides: CodeInvalid for what is malformed, CodeUnsupported
// for a rule that this gateway could not hold to the letter. Subject is "egress[i]" or "resolve".
func (c ProxyConfig) Check() error {
	for i, r := range c.Rules {
		at := fmt.Sprintf("egress[%d]", i)
		if err := egress.Check(r); err != nil {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: at, Message: "this is no egress rule", Hint: sallyport.HintOf(err), Err: err}
		}
		if c.Authority == nil && r.Protocol != egress.HTTP && (!egress.Unread(r) || egress.ListsForge(r, c.Forges)) {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeUnsupported, Subject: at,
				Message: egress.Line(r) + " is held by reading the requests inside TLS, for which there is no authority"}
		}
	}
	if c.Learn && c.Authority == nil {
		return &sallyport.Error{Op: opProxy, Code: sallyport.CodeUnsupported, Subject: "learn", Message: "learning reads the requests inside TLS, for which there is no authority"}
	}
	if err := c.checkCredentials(); err != nil {
		return err
	}
	for _, f := range c.Forges {
		if n, err := egress.Host(f); err != nil || n.String() != f {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: "forges", Message: fmt.Sprintf("%.80q: expected a host name in its canonical form", f), Err: err}
		}
	}
	for name, to := range c.Resolve {
		a := to.Addr()
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

// proxy is a ProxyConfig at work for one Server.
type proxy struct {
	ProxyConfig
	held       []*Credential
	budget     Budget   // nil: none
	quotas     []*quota // by rule
	transports map[egress.Protocol]*http.Transport
	denials    denials
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
	p.Credentials = slices.Clone(c.Credentials)
	for i := range p.Credentials {
		p.held = append(p.held, &p.Credentials[i])
	}
	for _, r := range c.Rules {
		p.quotas = append(p.quotas, &quota{limits: r.Limits})
	}
	p.transports = map[egress.Protocol]*http.Transport{egress.HTTP: p.newTransport(egress.HTTP, connections), egress.HTTPS: p.newTransport(egress.HTTPS, connections)}
	return p, nil
}

// newTransport never follows a redirect, keeps no cookie, and dials what was decided on.
func (p *proxy) newTransport(protocol egress.Protocol, connections int) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return p.dialName(ctx, addr, protocol)
		},
		TLSClientConfig:        &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      protocol == egress.HTTPS,
		DisableCompression:     true,
		MaxConnsPerHost:        connections,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow},
		ResponseHeaderTimeout:  answerTimeout,
	}
}

func (p *proxy) meters(n egress.Name) bool { return p.budget != nil && p.budget.Meters(n.String()) }

// checkBudget refuses a rule under which requests that cost something would pass unread.
func (c ProxyConfig) checkBudget(b Budget) error {
	for i, r := range c.Rules {
		n, err := egress.Host(r.Host)
		if err == nil && b != nil && b.Meters(n.String()) && (r.Protocol == egress.TCP || c.Authority == nil) {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("egress[%d]", i),
				Message: egress.Line(r) + " would pass unread, and requests to this host count against the spend limit", Hint: "list the host with https, or remove limits.spend"}
		}
	}
	return nil
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
