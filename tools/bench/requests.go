package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway"
)

const (
	// proxyRole is the first argument of a process that is nothing but a proxy, so that its processor time is one's.
	proxyRole = "proxy"

	// requestedHost is a name in the certificate of the server.
	requestedHost = "example.com"

	firstBytes = 400  // requests of each kind whose first byte is waited for
	batch      = 4000 // requests whose processor time is measured
	atOnce     = 8    // of them
	answerSize = 1 << 10
)

// requests: what it costs that requests inside TLS are read, judged and sent on.
func (b *bench) requests(ctx context.Context) error {
	heading(fmt.Sprintf("8. Requests inside TLS, GET with an answer of %d bytes, over loopback", answerSize))
	for _, h2 := range []bool{true, false} {
		if err := b.firstByteOfRequests(ctx, h2); err != nil {
			return err
		}
	}
	for _, h2 := range []bool{false, true} {
		if err := b.processorTime(ctx, h2); err != nil {
			return err
		}
	}
	return nil
}

// firstByteOfRequests measures a warm connection, and one that is new on both sides of the gateway.
func (b *bench) firstByteOfRequests(ctx context.Context, h2 bool) error {
	server := serveRequests(h2, false)
	defer server.Close()
	closing := serveRequests(h2, true) // after each answer, so that the gateway's connection is new too
	defer closing.Close()
	protocol := "HTTP/1.1"
	if h2 {
		protocol = "HTTP/2"
	}
	authority, g, at, err := ourGateway(ctx, server.Certificate(), portOf(server), portOf(closing))
	if err != nil {
		return err
	}
	defer g.Close()
	for _, fresh := range []bool{false, true} {
		s, words := server, "warm"
		if fresh {
			s, words = closing, "new connection"
		}
		ours, closeOurs := asking(protocol+", through the gateway, "+words, s, throughProxy(at, authority, h2), fresh)
		plain, closePlain := asking(protocol+", direct, "+words, s, direct(s, h2), fresh)
		all, err := race(ctx, firstBytes, 20*time.Second, ours, plain)
		closeOurs()
		closePlain()
		if err != nil {
			return err
		}
		show(all, ours, plain)
		added := all[ours.name].median() - all[plain.name].median()
		if fresh {
			fmt.Printf("  -> %-66s %6s  no aim\n", protocol+": added to the first byte, new connection at both ends", ms(added))
		} else {
			fmt.Printf("  -> %-66s %6s  aim <= 1ms  %s\n", protocol+": added to the first byte, warm", ms(added), met(added <= time.Millisecond))
		}
	}
	return nil
}

// processorTime compares processes that do nothing but forward; clients and server are here and not counted. What a
// proxy's clients speak is HTTP/1.1, since goproxy speaks nothing else to them by default.
func (b *bench) processorTime(ctx context.Context, h2 bool) error {
	server := serveRequests(h2, false)
	defer server.Close()
	spoken := "host with HTTP/1.1"
	if h2 {
		spoken = "host with HTTP/2 too"
	}
	var cs []contender
	peers := []struct {
		kind, name string
		requests   int64
	}{{"ours", "Sallyport", batch}, {"goproxy", "goproxy 1.9.4", batch}, {"mitmproxy", "mitmproxy", mitmproxyBatch}}
	if h2 {
		peers = peers[:2]
	}
	for _, peer := range peers {
		p, err := b.proxyProcess(ctx, peer.kind, server)
		if err != nil {
			return err
		}
		defer p.end()
		name := fmt.Sprintf("%s, one of %d requests, %s", peer.name, peer.requests, spoken)
		cs = append(cs, contender{name: name, once: func(ctx context.Context) (time.Duration, error) {
			before, err := p.used()
			if err == nil {
				err = p.load(ctx, server, peer.requests)
			}
			if err != nil {
				return 0, err
			}
			after, err := p.used()
			return (after - before) / time.Duration(peer.requests), err
		}})
	}
	all, err := race(ctx, b.rounds, 30*time.Second, cs...)
	if err != nil {
		return err
	}
	show(all, cs...)
	ours := all[cs[0].name]
	if h2 {
		// goproxy goes on in HTTP/1.1 there, we in HTTP/2: not like with like.
		fmt.Printf("  -> %-66s %6.3fx  no aim\n", "processor time / goproxy's, "+spoken, float64(ours.median())/float64(all[cs[1].name].median()))
		return nil
	}
	for i, peer := range peers[1:] {
		ratio("processor time / "+peer.kind+"'s, "+spoken, ours, all[cs[i+1].name], 1)
	}
	return nil
}

// serveRequests answers each request with headers as an API has them.
func serveRequests(h2, closing bool) *httptest.Server {
	body := bytes.Repeat([]byte("x"), answerSize)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		h.Set("Cache-Control", "no-store")
		h.Set("Request-Id", "req_0123456789abcdef")
		if closing {
			h.Set("Connection", "close")
		}
		_, _ = w.Write(body)
	}))
	s.EnableHTTP2 = h2
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}

func portOf(s *httptest.Server) uint16 { return port(s.Listener) }

// ourGateway has one narrow rule for each port.
func ourGateway(ctx context.Context, upstream *x509.Certificate, ports ...uint16) (authority []byte, g *gateway.Server, at string, err error) {
	seed := make([]byte, 32)
	_, _ = rand.Read(seed)
	a, err := gateway.NewAuthority(seed, time.Now())
	if err != nil {
		return nil, nil, "", err
	}
	c := gateway.ProxyConfig{Authority: a, Roots: x509.NewCertPool(), Resolve: map[string]netip.AddrPort{requestedHost: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)}}
	c.Roots.AddCert(upstream)
	for _, p := range ports {
		c.Rules = append(c.Rules, sallyport.EgressRule{Host: requestedHost, Port: p, Protocol: "https", Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/**"}})
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, "", err
	}
	if g, err = gateway.Serve(ctx, ln, gateway.Config{Proxy: &c}); err != nil {
		ln.Close()
		return nil, nil, "", err
	}
	return a.PEM(), g, ln.Addr().String(), nil
}

// client of one protocol that trusts roots.
func clientOf(roots *x509.CertPool, h2 bool) *http.Transport {
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: atOnce, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(!h2)
	t.Protocols.SetHTTP2(h2)
	return t
}

func direct(s *httptest.Server, h2 bool) *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	t := clientOf(roots, h2)
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	return t
}

func throughProxy(at string, authority []byte, h2 bool) *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	t := clientOf(roots, h2)
	t.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: at})
	return t
}

// asking measures from before a request until the first byte of its answer. fresh: over a connection of its own.
func asking(name string, s *httptest.Server, t *http.Transport, fresh bool) (c contender, end func()) {
	return contender{name: name, once: func(ctx context.Context) (time.Duration, error) {
		var first time.Duration
		var began time.Time
		trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }}
		r, err := request(httptrace.WithClientTrace(ctx, trace), s)
		if err != nil {
			return 0, err
		}
		if fresh {
			t.CloseIdleConnections()
		}
		began = time.Now()
		err = ask(t, r)
		return first, err
	}}, t.CloseIdleConnections
}

func request(ctx context.Context, s *httptest.Server) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/v1/items/42?view=full", requestedHost, portOf(s)), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "bench/1")
	return r, nil
}

func ask(t *http.Transport, r *http.Request) error {
	res, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n != answerSize) {
		err = fmt.Errorf("%s with %d bytes; expected 200 with %d", res.Status, n, answerSize)
	}
	return err
}

// proxyProcess is a proxy in a process of its own, and the clients' side of it.
type proxyProcess struct {
	cmd     *exec.Cmd
	clients *http.Transport
	used    func() (time.Duration, error) // the processor time that it has had
	end     func()
}

// proxySays is what a proxy process says first.
type proxySays struct {
	Address   string
	Authority string // PEM
}

// rootsFile is what a proxy needs to verify s.
func rootsFile(dir string, s *httptest.Server) (string, error) {
	roots := filepath.Join(dir, "server.pem")
	return roots, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
}

func (b *bench) proxyProcess(ctx context.Context, kind string, s *httptest.Server) (*proxyProcess, error) {
	if kind == "mitmproxy" {
		return b.mitmproxy(ctx, s)
	}
	roots, err := rootsFile(b.dir, s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, proxyRole, kind, strconv.Itoa(int(portOf(s))), roots)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	piped, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out := bufio.NewReader(piped)
	p := &proxyProcess{cmd: cmd}
	p.end = func() { // it reads its standard input until the end
		if p.clients != nil {
			p.clients.CloseIdleConnections()
		}
		_ = in.Close()
		_ = cmd.Wait()
	}
	p.used = func() (time.Duration, error) {
		if _, err := io.WriteString(in, "used\n"); err != nil {
			return 0, err
		}
		line, err := out.ReadString('\n')
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		return time.Duration(n), err
	}
	line, err := out.ReadBytes('\n')
	var says proxySays
	if err == nil {
		err = json.Unmarshal(line, &says)
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("%s does not say where it listens: %w", kind, err)
	}
	p.clients = throughProxy(says.Address, []byte(says.Authority), false)
	return p, nil
}

// load has a batch of requests answered, over connections that stay.
func (p *proxyProcess) load(ctx context.Context, s *httptest.Server, requests int64) error {
	var left atomic.Int64
	left.Store(requests)
	var all sync.WaitGroup
	errs := make([]error, atOnce)
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				var r *http.Request
				if r, errs[i] = request(ctx, s); errs[i] == nil {
					errs[i] = ask(p.clients, r)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// proxyOnly is the life of a proxy process: it says where it listens, and on each line that it reads how much processor
// time it has had, in nanoseconds.
func proxyOnly(kind, port, roots string) error {
	authority, at, err := startProxy(kind, port, roots)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(proxySays{at, string(authority)}); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return err
		}
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
	return in.Err()
}

func startProxy(kind, port, roots string) (authority []byte, at string, err error) {
	text, err := os.ReadFile(roots)
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, "", fmt.Errorf("%s: expected a certificate", roots)
	}
	upstream, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, "", err
	}
	if kind != "goproxy" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, "", err
		}
		authority, _, at, err = ourGateway(context.Background(), upstream, uint16(n))
		return authority, at, err
	}
	// As its README says for production: every host opened, certificates kept. Upstream certificates are verified and as
	// many connections kept as with us; by default it does neither.
	peer := goproxy.NewProxyHttpServer()
	peer.OnRequest().HandleConnect(goproxy.AlwaysMitm)
	peer.CertStore = &keptCertificates{by: map[string]*tls.Certificate{}}
	peer.Tr = clientOf(x509.NewCertPool(), false)
	peer.Tr.TLSClientConfig.RootCAs.AddCert(upstream)
	peer.Tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go func() { _ = http.Serve(ln, peer) }()
	return goproxy.CA_CERT, ln.Addr().String(), nil
}

// keptCertificates is goproxy's cache.
type keptCertificates struct {
	mu sync.Mutex
	by map[string]*tls.Certificate
}

func (k *keptCertificates) Fetch(host string, gen func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.by[host]; c != nil {
		return c, nil
	}
	c, err := gen()
	if err == nil {
		k.by[host] = c
	}
	return c, err
}
