package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// proxyRig is a gateway with a proxy on loopback, and real upstreams that only it can find by name.
type proxyRig struct {
	server *Server
	addr   string
	plain  *httptest.Server // http://plain.example.com
	tls    *httptest.Server // https://example.com
	dials  atomic.Int64
	mu     sync.Mutex
	told   []Denied
}

var (
	loopback = netip.MustParseAddr("127.0.0.1")
	asAsked  = netip.AddrPortFrom(loopback, 0) // with the port that was asked for
)

// newProxyRig starts both upstreams with h; rules get their ports, change the Config.
func newProxyRig(t *testing.T, h http.HandlerFunc, rules func(r *proxyRig) []egress.Rule, change ...func(*Config)) *proxyRig {
	t.Helper()
	r := &proxyRig{plain: httptest.NewServer(h), tls: httptest.NewTLSServer(h)}
	t.Cleanup(r.plain.Close)
	t.Cleanup(r.tls.Close)
	c := Config{Proxy: &ProxyConfig{
		Rules:   rules(r),
		Resolve: map[string]netip.AddrPort{"plain.example.com": asAsked, "example.com": asAsked, "www.example.com": asAsked},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			r.dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		},
		Refused: func(d Denied) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, d)
		},
	}}
	for _, f := range change {
		f(&c)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	if r.server, err = Serve(t.Context(), ln, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Close() })
	return r
}

func portOf(s *httptest.Server) uint16 {
	return uint16(s.Listener.Addr().(*net.TCPAddr).Port)
}

func (r *proxyRig) plainHost() string { return fmt.Sprintf("plain.example.com:%d", portOf(r.plain)) }
func (r *proxyRig) tlsHost() string   { return fmt.Sprintf("example.com:%d", portOf(r.tls)) }

// usual rules: GET and HEAD below /public in the clear, all of example.com through TLS.
func usualRules(r *proxyRig) []egress.Rule {
	return []egress.Rule{
		{Host: "plain.example.com", Port: portOf(r.plain), Protocol: egress.HTTP, Methods: []string{"GET", "HEAD"}, Paths: []string{"/public/**"}},
		whole(egress.Rule{Host: "example.com", Port: portOf(r.tls)}),
	}
}

func allHTTP(r *proxyRig) []egress.Rule {
	return []egress.Rule{{Host: "plain.example.com", Port: portOf(r.plain), Protocol: egress.HTTP, Methods: []string{"*"}, Paths: []string{"/**"}}}
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func (r *proxyRig) client(t *testing.T, scheme string) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(r.tls.Certificate())
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: scheme, Host: r.addr}), TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func (r *proxyRig) get(t *testing.T, c *http.Client, u string) (int, string) {
	t.Helper()
	res, err := c.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (r *proxyRig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// raw sends bytes and returns everything that is answered; of a tunnel, only that it was opened.
func (r *proxyRig) raw(t *testing.T, request string) string {
	t.Helper()
	c := r.dial(t)
	defer c.Close()
	_, _ = io.WriteString(c, request)
	var all []byte
	for {
		var buf [4096]byte
		n, err := c.Read(buf[:])
		if all = append(all, buf[:n]...); err != nil || strings.HasPrefix(string(all), opened) {
			return string(all)
		}
	}
}

const opened = "HTTP/1.1 200 Connection established\r\n\r\n"

// open returns a connection after a CONNECT that was answered with 200.
func (r *proxyRig) open(t *testing.T, target string) net.Conn {
	t.Helper()
	c := r.dial(t)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	line := make([]byte, len(opened))
	if _, err := io.ReadFull(c, line); err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
		t.Fatalf("CONNECT %s: %q, %v", target, line, err)
	}
	return c
}

// last waits for the refusal that a test provoked: it is recorded before or just after the answer.
func (r *proxyRig) last(t *testing.T, why egress.Reason) Denied {
	t.Helper()
	for range 400 {
		all := r.server.Denied()
		if i := slices.IndexFunc(all, func(d Denied) bool { return d.Reason == why }); i >= 0 {
			return all[i]
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no refusal %s in %+v", why, r.server.Denied())
	return Denied{}
}

func TestProxyOverHTTPAndSOCKS(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	for _, scheme := range []string{"http", "socks5", "socks5h"} {
		for _, u := range []string{"http://" + r.plainHost() + "/public/x", "https://" + r.tlsHost() + "/"} {
			if status, body := r.get(t, r.client(t, scheme), u); status != 200 || body != "hello" {
				t.Errorf("%s over %s: %d %q", u, scheme, status, body)
			}
		}
	}
	if d := r.server.Denied(); len(d) != 0 {
		t.Errorf("refused %+v", d)
	}
}

// One listener: origin-form requests with the placeholder are the model's, the rest the proxy's.
func TestEndpointAndProxyTogether(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "model "+q.Header.Get("X-Api-Key"))
	}))
	defer model.Close()
	r := newProxyRig(t, hello, usualRules, func(c *Config) {
		c.Endpoint = sallyport.Endpoint{Upstream: model.URL, Paths: []string{"/v1/messages"}, Listen: testPort, Header: "x-api-key"}
		c.Placeholder = testPlaceholder
		c.Credential = func(context.Context) (string, error) { return testCredential, nil }
	})
	ask := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + testPlaceholder + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	// The answer holds the credential, so that it is cut: the model's rules are in force.
	if got := r.raw(t, ask); strings.Contains(got, testCredential) || strings.Contains(got, "hello") {
		t.Errorf("got %q", got)
	}
	if got := r.raw(t, strings.Replace(ask, testPlaceholder, "another-placeholder-01", 1)); !strings.Contains(got, `"code":"placeholder"`) {
		t.Errorf("got %q", got)
	}
	if status, body := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/public/x"); status != 200 || body != "hello" {
		t.Errorf("proxy: %d %q", status, body)
	}
	// The model's own host is no host of the proxy.
	if got := r.raw(t, "POST "+model.URL+"/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("got %q", got)
	}
}

func TestProxyWithoutEndpoint(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	if got := r.raw(t, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404") || !strings.Contains(got, "no-endpoint") {
		t.Errorf("got %q", got)
	}
	ln, _ := net.Listen("tcp4", "127.0.0.1:0")
	defer ln.Close()
	if _, err := Serve(t.Context(), ln, Config{}); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("neither endpoint nor proxy: %v", err)
	}
}

// A rule that has to be read stops the run where nothing can be read.
func TestRulesThatAreReadNeedAnAuthority(t *testing.T) {
	wide := whole(egress.Rule{Host: "example.com", Port: 443})
	for name, change := range map[string]func(*egress.Rule){
		"methods":  func(r *egress.Rule) { r.Methods = []string{"GET"} },
		"none":     func(r *egress.Rule) { r.Methods = nil },
		"paths":    func(r *egress.Rule) { r.Paths = []string{"/v1/*"} },
		"no paths": func(r *egress.Rule) { r.Paths = []string{} },
		"requests": func(r *egress.Rule) { r.Limits.Requests = 1 },
		"rate":     func(r *egress.Rule) { r.Limits.Rate = 1 },
		"own-auth": func(r *egress.Rule) { r.OwnAuth = false },
		"git": func(r *egress.Rule) {
			*r = egress.Rule{Host: r.Host, Port: 443, Protocol: egress.Git, Paths: []string{"/**"}}
		},
	} {
		r := wide
		change(&r)
		err := ProxyConfig{Rules: []egress.Rule{wide, r}}.Check()
		if sallyport.CodeOf(err) != sallyport.CodeUnsupported || !strings.Contains(err.Error(), "egress[1]") {
			t.Errorf("%s: %v", name, err)
		}
		ln, _ := net.Listen("tcp4", "127.0.0.1:0")
		if _, err := Serve(t.Context(), ln, Config{Proxy: &ProxyConfig{Rules: []egress.Rule{r}}}); err == nil {
			t.Errorf("%s: served", name)
		}
		ln.Close()
		if err := (ProxyConfig{Rules: []egress.Rule{wide, r}, Authority: authority(t)}).Check(); err != nil {
			t.Errorf("%s: with an authority: %v", name, err)
		}
	}
}

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority([]byte("a seed of one Attempt"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// whole is r so that nothing of it has to be read.
func whole(r egress.Rule) egress.Rule {
	r.Protocol, r.Methods, r.Paths, r.OwnAuth = egress.HTTPS, []string{"*"}, []string{"/**"}, true
	return r
}

func TestConnectRefusals(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	port := portOf(r.tls)
	for _, c := range []struct {
		target string
		why    egress.Reason
	}{
		{"evil.com:443", egress.ReasonHost},
		{"evil.com:22", egress.ReasonHost},
		{"sub.example.com:443", egress.ReasonHost},
		{"example.com:443", egress.ReasonPort},
		{fmt.Sprintf("127.0.0.1:%d", port), egress.ReasonHost},
		{fmt.Sprintf("[::ffff:127.0.0.1]:%d", port), egress.ReasonHost},
		{fmt.Sprintf("[::1]:%d", port), egress.ReasonHost},
		{fmt.Sprintf("2130706433:%d", port), egress.ReasonMalformedName},
		{fmt.Sprintf("0x7f.1:%d", port), egress.ReasonMalformedName},
		{fmt.Sprintf("user@example.com:%d", port), egress.ReasonMalformedName},
		{fmt.Sprintf("example.com:0%d", port), egress.ReasonMalformedName},
		{"example.com", egress.ReasonMalformedName},
		{"/", egress.ReasonMalformedName},
		{"169.254.169.254:80", egress.ReasonHost},
	} {
		got := r.raw(t, "CONNECT "+c.target+" HTTP/1.1\r\nHost: "+r.tlsHost()+"\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 4") || !strings.Contains(got, "X-Sallyport-Reason: "+string(c.why)+"\r\n") {
			t.Errorf("%s: %q", c.target, got)
		}
	}
	if r.dials.Load() != 0 {
		t.Error("something was dialled")
	}
	for _, d := range r.server.Denied() {
		if d.Reason != egress.ReasonMalformedName && (d.Line == "" || d.Time.IsZero() || d.Message == "") {
			t.Errorf("unexplained: %+v", d)
		}
	}
	if got := r.raw(t, "CONNECT "+r.tlsHost()+" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"); !strings.Contains(got, string(ReasonForm)) {
		t.Errorf("CONNECT with a body: %q", got)
	}
}

// The law of the proposed line: added to the rules, it makes the very same request pass.
func TestProposedLineAllows(t *testing.T) {
	for _, ask := range []func(r *proxyRig, t *testing.T) (refused bool){
		func(r *proxyRig, t *testing.T) bool {
			return !strings.HasPrefix(r.raw(t, "CONNECT "+r.plainHost()+" HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200")
		},
		func(r *proxyRig, t *testing.T) bool {
			return !strings.HasPrefix(r.raw(t, "POST http://"+r.plainHost()+"/a%2fb/c?x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"), "HTTP/1.1 200")
		},
		func(r *proxyRig, t *testing.T) bool {
			return !strings.HasPrefix(r.raw(t, "CONNECT plain.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200")
		},
	} {
		none := newProxyRig(t, hello, func(*proxyRig) []egress.Rule { return nil })
		if !ask(none, t) {
			t.Fatal("nothing is listed, and it passed")
		}
		line := none.server.Denied()[0].Line
		var entry any
		if err := yaml.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		more, err := egress.Parse(entry)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		// The same upstream, so that the port is the same.
		some := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule { r.plain.Close(); r.plain = none.plain; return more },
			func(c *Config) { c.Proxy.Authority = authority(t) })
		if ask(some, t) {
			t.Errorf("%s does not allow it: %+v", line, some.server.Denied())
		}
	}
}

func TestConnectHoldsTLSToItsName(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	roots := x509.NewCertPool()
	roots.AddCert(r.tls.Certificate())
	handshake := func(name string) error {
		return tls.Client(r.open(t, r.tlsHost()), &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: name == ""}).Handshake()
	}
	if err := handshake("example.com"); err != nil {
		t.Fatalf("the right name: %v", err)
	}
	dialled := r.dials.Load()
	if err := handshake("www.example.com"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("another name: %v", err)
	}
	if err := handshake(""); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("no name: %v", err)
	}
	for name, bytes := range map[string]string{
		"plain http": "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"ssh":        "SSH-2.0-x\r\n",
		"no hello":   "\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
		"nothing":    "",
	} {
		c := r.open(t, r.tlsHost())
		_, _ = io.WriteString(c, bytes)
		_ = c.(*net.TCPConn).CloseWrite()
		if b, _ := io.ReadAll(c); len(b) > 7 && !(name == "plain http" && strings.HasPrefix(string(b), "HTTP/1.1 403 ") && strings.Contains(string(b), "malformed-tls")) {
			t.Errorf("%s: answered %q", name, b)
		}
	}
	r.last(t, egress.ReasonMalformedTLS)
	if d := r.last(t, egress.ReasonNameMismatch); d.Count != 2 || d.Line != "" {
		t.Errorf("recorded %+v", d)
	}
	if r.dials.Load() != dialled {
		t.Error("a refused connection was dialled")
	}
}

// A hello that comes in single bytes is still one.
func TestSlowHelloPasses(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	roots := x509.NewCertPool()
	roots.AddCert(r.tls.Certificate())
	c := tls.Client(dribble{r.open(t, r.tlsHost())}, &tls.Config{ServerName: "example.com", RootCAs: roots})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
}

type dribble struct{ net.Conn }

func (d dribble) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// A name whose address changes between two connections gets nowhere the second time, and what was judged is dialled.
func TestRebinding(t *testing.T) {
	public, answers := netip.MustParseAddr("93.184.215.14"), []netip.Addr{}
	var dialled []string
	var mu sync.Mutex
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		rules := append(usualRules(r), allHTTP(r)...)
		return append(rules, egress.Rule{Host: "example.com", Port: 22, Protocol: egress.TCP})
	}, func(c *Config) {
		c.Proxy.Resolve = nil
		c.Proxy.Lookup = func(context.Context, string) ([]netip.Addr, error) { mu.Lock(); defer mu.Unlock(); return answers, nil }
		dial := c.Proxy.Dial
		c.Proxy.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, addr)
			mu.Unlock()
			_, port, _ := net.SplitHostPort(addr)
			return dial(ctx, network, "127.0.0.1:"+port)
		}
	})
	answer := func(a ...netip.Addr) { mu.Lock(); answers = a; mu.Unlock() }
	fresh := func() *http.Client { return r.client(t, "http") }
	answer(loopback, public)
	if status, _ := r.get(t, fresh(), "http://"+r.plainHost()+"/x"); status != 200 {
		t.Fatalf("one public address: %d", status)
	}
	if status, _ := r.get(t, fresh(), "https://"+r.tlsHost()+"/x"); status != 200 {
		t.Fatalf("one public address: %d", status)
	}
	for _, a := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "224.0.0.1", "0.0.0.0", "fe80::1%eth0", "64:ff9b::7f00:1"} {
		answer(netip.MustParseAddr(a))
		r.server.proxy.transports[egress.HTTP].CloseIdleConnections()
		for _, request := range []string{
			"GET http://" + r.plainHost() + "/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"CONNECT " + r.tlsHost() + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT example.com:22 HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			if got := r.raw(t, request); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, string(egress.ReasonAddress)) || strings.Contains(got, a) {
				t.Errorf("%s: %q", a, got)
			}
		}
	}
	for _, d := range dialled {
		if !strings.HasPrefix(d, public.String()+":") {
			t.Errorf("dialled %s", d)
		}
	}
	// The record, and only it, says which rule would allow the address.
	if d := r.last(t, egress.ReasonAddress); !strings.Contains(d.Line, "127.0.0.1") {
		t.Errorf("recorded %+v", d)
	}
}

// A rule for the very address lets a name lead there, on that port and with that protocol only.
func TestAddressThatARuleNames(t *testing.T) {
	with := func(protocol egress.Protocol) *proxyRig {
		return newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
			address := egress.Rule{Host: "127.0.0.1", Port: portOf(r.plain), Protocol: protocol}
			if protocol == egress.HTTP {
				address.Methods, address.Paths = []string{"GET"}, []string{"/other"}
			}
			return append(allHTTP(r), address)
		}, func(c *Config) {
			c.Proxy.Resolve = nil
			c.Proxy.Lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{loopback}, nil }
		})
	}
	r := with(egress.HTTP)
	if status, body := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/x"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := r.get(t, r.client(t, "http"), r.plain.URL+"/x"); status != 403 {
		t.Errorf("a path that only the name has: %d", status)
	}
	if status, _ := r.get(t, r.client(t, "http"), r.plain.URL+"/other"); status != 200 {
		t.Errorf("the address itself: %d", status)
	}
	r = with(egress.TCP)
	if status, _ := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/x"); status != 403 {
		t.Errorf("an address listed for another protocol: %d", status)
	}
}

func TestUnreachableIsNoRefusal(t *testing.T) {
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return []egress.Rule{whole(egress.Rule{Host: "gone.example.com", Port: 443}), {Host: "gone.example.com", Port: 22, Protocol: egress.TCP}}
	})
	for _, target := range []string{"gone.example.com:443", "gone.example.com:22"} {
		if got := r.raw(t, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502") {
			t.Errorf("%s: %q", target, got)
		}
	}
	if len(r.server.Denied()) != 0 || r.server.Counters().Failed != 2 {
		t.Errorf("%+v %+v", r.server.Denied(), r.server.Counters())
	}
}

func TestTCPPassesBytesBothWays(t *testing.T) {
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return []egress.Rule{{Host: "example.com", Port: portOf(r.tls), Protocol: egress.TCP}}
	})
	c := tls.Client(r.open(t, r.tlsHost()), &tls.Config{ServerName: "whatever.test", InsecureSkipVerify: true})
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(c); !bytes.HasSuffix(b, []byte("hello")) {
		t.Errorf("got %q", b)
	}
}

// Half-closing is how many protocols over tcp say that the question is over.
func TestHalfCloseArrives(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "read %d", len(b))
		_ = c.Close()
	}()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return []egress.Rule{{Host: "example.com", Port: port, Protocol: egress.TCP}}
	})
	c := r.open(t, fmt.Sprintf("example.com:%d", port))
	_, _ = c.Write(make([]byte, 100<<10))
	_ = c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "read 102400" {
		t.Errorf("got %q, %v", b, err)
	}
}

// An upstream's reset must not look like the end of what it said.
func TestResetStaysAReset(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhalf")
			time.Sleep(20 * time.Millisecond)
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return []egress.Rule{{Host: "example.com", Port: port, Protocol: egress.TCP},
			{Host: "plain.example.com", Port: port, Protocol: egress.HTTP, Methods: []string{"*"}, Paths: []string{"/**"}}}
	})
	c := r.open(t, fmt.Sprintf("example.com:%d", port))
	_, _ = io.WriteString(c, "x\n")
	if b, err := io.ReadAll(c); err == nil {
		t.Errorf("the tunnel ended well with %q", b)
	}
	res, err := r.client(t, "http").Get(fmt.Sprintf("http://plain.example.com:%d/", port))
	if err == nil {
		b, readErr := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if readErr == nil {
			t.Errorf("the answer ended well with %q", b)
		}
	}
}

func TestSlowClientsAreEnded(t *testing.T) {
	r := newProxyRig(t, hello, usualRules, func(c *Config) {
		c.Proxy.pace = pace{header: 200 * time.Millisecond, idle: time.Minute, total: time.Minute, stall: stallTimeout}
	})
	for name, begin := range map[string]func() net.Conn{
		"silent":   func() net.Conn { return r.dial(t) },
		"head":     func() net.Conn { c := r.dial(t); _, _ = io.WriteString(c, "GET http://x/ HTTP/1.1\r\nA: "); return c },
		"greeting": func() net.Conn { c := r.dial(t); _, _ = io.WriteString(c, "\x05"); return c },
		"socks":    func() net.Conn { c := r.dial(t); _, _ = io.WriteString(c, "\x05\x01\x00\x05\x01"); return c },
		"no hello": func() net.Conn { return r.open(t, r.tlsHost()) },
		"half hello": func() net.Conn {
			c := r.open(t, r.tlsHost())
			_, _ = io.WriteString(c, "\x16\x03\x01\x01\x00\x01")
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, start := begin(), time.Now()
			stop := make(chan struct{})
			if name == "head" {
				go func() { // one byte now and then must not help
					for {
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Millisecond):
							_, _ = io.WriteString(c, "a")
						}
					}
				}()
			}
			_, _ = io.ReadAll(c)
			close(stop)
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("held for %v", took)
			}
		})
	}
}

func TestIdleAndOldTunnelsEnd(t *testing.T) {
	quiet := func(w http.ResponseWriter, r *http.Request) {}
	for name, p := range map[string]pace{
		"idle":  {header: time.Second, idle: 150 * time.Millisecond, total: time.Minute, stall: stallTimeout},
		"total": {header: time.Second, idle: time.Minute, total: 150 * time.Millisecond, stall: stallTimeout},
	} {
		r := newProxyRig(t, quiet, func(r *proxyRig) []egress.Rule {
			return []egress.Rule{{Host: "example.com", Port: portOf(r.tls), Protocol: egress.TCP}}
		}, func(c *Config) { c.Proxy.pace = p })
		c, start := r.open(t, r.tlsHost()), time.Now()
		_, _ = io.ReadAll(c)
		if took := time.Since(start); took < 100*time.Millisecond || took > 3*time.Second {
			t.Errorf("%s: ended after %v", name, took)
		}
	}
}

func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A thousand connections cost what the cap allows, the rest wait in the kernel; Close cuts all and leaves nothing.
func TestThousandConnectionsLeaveNothing(t *testing.T) {
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return append(usualRules(r), egress.Rule{Host: "www.example.com", Port: portOf(r.plain), Protocol: egress.TCP})
	}, func(c *Config) { c.Connections = 16 })
	routines, files := runtime.NumGoroutine(), descriptors(t)
	var conns []net.Conn
	for i := range 1000 {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		switch i % 4 {
		case 0:
			fmt.Fprintf(c, "CONNECT www.example.com:%d HTTP/1.1\r\nHost: x\r\n\r\n", portOf(r.plain))
		case 1:
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n\x16", r.tlsHost())
		case 2:
			_, _ = io.WriteString(c, "\x05\x01")
		}
	}
	time.Sleep(200 * time.Millisecond)
	// Each of ours is one descriptor; the gateway may hold its cap, with as many upstreams at both their ends.
	if n := descriptors(t) - files - len(conns); n > 3*16 {
		t.Errorf("the gateway holds %d descriptors over a cap of 16 connections", n)
	}
	start := time.Now()
	_ = r.server.Close()
	if took := time.Since(start); took > closeTimeout {
		t.Errorf("Close took %v", took)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	for range 200 {
		if runtime.NumGoroutine() <= routines && descriptors(t) <= files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after; %d descriptors before, %d after\n%s", routines, runtime.NumGoroutine(), files, descriptors(t), buf[:runtime.Stack(buf, true)])
}

func TestRevokeEndsTheProxyToo(t *testing.T) {
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return append(usualRules(r), egress.Rule{Host: "www.example.com", Port: portOf(r.plain), Protocol: egress.TCP})
	})
	c := r.open(t, fmt.Sprintf("www.example.com:%d", portOf(r.plain)))
	silent := r.dial(t)
	time.Sleep(20 * time.Millisecond) // so that it is accepted
	r.server.Revoke()
	for what, c := range map[string]net.Conn{"a tunnel": c, "a silent connection": silent} {
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s outlived the Attempt", what)
		}
	}
	for _, request := range []string{"CONNECT " + r.tlsHost(), "GET http://" + r.plainHost() + "/public/x"} {
		if got := r.raw(t, request+" HTTP/1.1\r\nHost: x\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%s: %q", request, got)
		}
	}
}

// What a hostile agent makes us remember is bounded, and Refused hears of each once.
func TestDenialsAreBounded(t *testing.T) {
	told := 0
	p := &proxy{ProxyConfig: ProxyConfig{Refused: func(Denied) { told++ }}}
	for i := range 10 * maxDenied {
		n, _ := egress.Host(fmt.Sprintf("h%d.example.com", i))
		p.deny(decided(egress.Request{Name: n, Port: 443, Protocol: egress.HTTPS}, egress.Decision{Reason: egress.ReasonHost}), &Event{})
	}
	first, _ := egress.Host("h0.example.com")
	no := decided(egress.Request{Name: first, Port: 443, Protocol: egress.HTTPS}, egress.Decision{Reason: egress.ReasonHost})
	no.Path = strings.Repeat("\x1b", 1<<20)
	p.deny(decided(egress.Request{Name: first, Port: 443, Protocol: egress.HTTPS}, egress.Decision{Reason: egress.ReasonHost}), &Event{})
	p.deny(no, &Event{})
	all := p.denials.snapshot()
	if told != maxDenied || len(all) != maxDenied || all[0].Count != 2 {
		t.Errorf("told %d, kept %d, first counted %d", told, len(all), all[0].Count)
	}
}

// A short answer's headers wait for its body. Where none comes they leave before the cut: to a client that saw nothing the
// connection was only a stale one, and it would ask again by itself.
func TestShortAnswerThatBreaks(t *testing.T) {
	var asked atomic.Int64
	r := newProxyRig(t, func(w http.ResponseWriter, q *http.Request) {
		if asked.Add(1) == 1 {
			hello(w, q)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		_ = c.Close()
	}, allHTTP)
	c := r.client(t, "http")
	if status, body := r.get(t, c, "http://"+r.plainHost()+"/a"); status != 200 || body != "hello" {
		t.Fatalf("got %d %q", status, body)
	}
	res, err := c.Get("http://" + r.plainHost() + "/b")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); res.StatusCode != 200 || err == nil {
		t.Errorf("got %d, %q as a whole", res.StatusCode, b)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the host was asked %d times", n)
	}
}
