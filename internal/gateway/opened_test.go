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
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// opening makes a gateway open TLS.
func opening(t *testing.T, more ...func(*ProxyConfig)) func(*Config) {
	return func(c *Config) {
		c.Proxy.Authority = authority(t)
		c.Proxy.Roots = x509.NewCertPool()
		for name, at := range map[string]netip.AddrPort{"api.example.com": asAsked, "forge.example.com": asAsked} {
			c.Proxy.Resolve[name] = at
		}
		for _, f := range more {
			f(c.Proxy)
		}
	}
}

// openRig has one upstream that has a certificate for every name below example.com and records what reaches it.
type openRig struct {
	*proxyRig
	mu   sync.Mutex
	seen []*http.Request
	body []string
}

func newOpenRig(t *testing.T, h http.HandlerFunc, rules []egress.Rule, more ...func(*ProxyConfig)) *openRig {
	t.Helper()
	o := &openRig{}
	record := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.seen, o.body = append(o.seen, r), append(o.body, string(b))
		o.mu.Unlock()
		if h != nil {
			h(w, r)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}
	o.proxyRig = newProxyRig(t, record, func(r *proxyRig) []egress.Rule {
		for i := range rules {
			rules[i].Port = portOf(r.tls)
		}
		upstream, err := NewAuthority([]byte("the upstream's own seed"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r.tls.TLS.Certificates = nil
		r.tls.TLS.NextProtos = []string{"h2", "http/1.1"}
		r.tls.TLS.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			n, err := egress.Host(hello.ServerName)
			if err != nil {
				return nil, err
			}
			return upstream.leaf(n, time.Now())
		}
		more = append([]func(*ProxyConfig){func(p *ProxyConfig) { p.Roots.AddCert(upstream.cert) }}, more...)
		return rules
	}, func(c *Config) { opening(t, more...)(c) })
	return o
}

func (o *openRig) at(host, path string) string {
	return fmt.Sprintf("https://%s:%d%s", host, portOf(o.tls), path)
}

// inside is a client that trusts the Attempt's authority alone.
func (o *openRig) inside(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(o.server.proxy.Authority.cert)
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: o.addr}), TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (o *openRig) ask(t *testing.T, method, u string, header map[string]string, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, u, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	res, err := o.inside(t, true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, "cut: " + err.Error()
	}
	return res.StatusCode, string(b)
}

func (o *openRig) reached() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

func apiRule() egress.Rule {
	return egress.Rule{Host: "api.example.com", Protocol: egress.HTTPS, Methods: []string{"GET", "HEAD", "POST"}, Paths: []string{"/v1/*"}}
}

func TestOpenedTLSHoldsEachRequest(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	for _, h2 := range []bool{false, true} {
		res, err := o.inside(t, h2).Get(o.at("api.example.com", "/v1/x"))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || string(b) != "hello" || (res.ProtoMajor == 2) != h2 {
			t.Errorf("h2 %v: %d %q over %s", h2, res.StatusCode, b, res.Proto)
		}
	}
	before := o.reached()
	for _, c := range []struct {
		method, path string
		header       map[string]string
		why          egress.Reason
	}{
		{"DELETE", "/v1/x", nil, egress.ReasonMethod},
		{"GET", "/v2/x", nil, egress.ReasonPath},
		{"GET", "/v1/../v2/x", nil, egress.ReasonAmbiguousPath},
		{"GET", "/v1/%2e%2e/x", nil, egress.ReasonAmbiguousPath},
		{"POST", "/v1/git-receive-pack", nil, egress.ReasonGitPush},
		{"GET", "/v1/x", map[string]string{"Authorization": "Bearer somebody"}, ReasonAuthentication},
		{"GET", "/v1/x", map[string]string{"Cookie": "a=b"}, ReasonAuthentication},
	} {
		u := o.at("api.example.com", "")
		r, _ := http.NewRequest(c.method, u, nil)
		r.URL.Opaque = c.path
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		res, err := o.inside(t, false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 403 || res.Header.Get("X-Sallyport-Reason") != string(c.why) {
			t.Errorf("%s %s: %d %q", c.method, c.path, res.StatusCode, b)
		}
	}
	if n := o.reached(); n != before {
		t.Errorf("%d of the refused requests reached the upstream", n-before)
	}
}

// What the connection was opened for is what every request on it must name.
func TestOpenedTLSIsBoundToItsName(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule(), {Host: "www.example.com", Protocol: egress.HTTPS, Methods: []string{"GET"}, Paths: []string{"/**"}}})
	roots := x509.NewCertPool()
	roots.AddCert(o.server.proxy.Authority.cert)
	c := tls.Client(o.open(t, fmt.Sprintf("api.example.com:%d", portOf(o.tls))), &tls.Config{ServerName: "api.example.com", RootCAs: roots})
	for i, head := range []string{
		fmt.Sprintf("GET /v1/x HTTP/1.1\r\nHost: www.example.com:%d\r\n\r\n", portOf(o.tls)),
	} {
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.Header.Get("X-Sallyport-Reason") != string(egress.ReasonNameMismatch) {
			t.Errorf("%d: %+v, %v", i, res, err)
		}
	}
	for _, head := range []string{
		fmt.Sprintf("GET https://api.example.com:%d/v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n", portOf(o.tls)),
		"CONNECT api.example.com:22 HTTP/1.1\r\nHost: api.example.com:22\r\n\r\n",
		"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n", // the standard port, which this is not
	} {
		c := tls.Client(o.open(t, fmt.Sprintf("api.example.com:%d", portOf(o.tls))), &tls.Config{ServerName: "api.example.com", RootCAs: roots})
		_, _ = io.WriteString(c, head)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode < 400 {
			t.Errorf("%q: %+v, %v", head, res, err)
		}
	}
	if o.reached() != 0 {
		t.Error("something reached the upstream")
	}
}

// Two lengths are one request here, and what leaves has ours alone.
func TestOpenedTLSDoesNotSmuggle(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	roots := x509.NewCertPool()
	roots.AddCert(o.server.proxy.Authority.cert)
	host := fmt.Sprintf("api.example.com:%d", portOf(o.tls))
	for _, head := range []string{
		"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
		"Content-Length: 6\r\nContent-Length: 60\r\n",
		"Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding : chunked\r\n",
		"Transfer-Encoding: \x0bchunked\r\n",
	} {
		before := o.reached()
		c := tls.Client(o.open(t, host), &tls.Config{ServerName: "api.example.com", RootCAs: roots})
		_, _ = io.WriteString(c, "POST /v1/x HTTP/1.1\r\nHost: "+host+"\r\n"+head+"\r\n0\r\n\r\nGET /v2/smuggled HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.ReadAll(c)
		o.mu.Lock()
		for _, r := range o.seen[before:] {
			if r.URL.Path != "/v1/x" || r.Header.Get("Transfer-Encoding") != "" {
				t.Errorf("%q: %s reached the upstream", head, r.URL)
			}
		}
		o.mu.Unlock()
	}
}

// A host whose certificate does not verify gets nothing.
func TestUpstreamMustVerify(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()}, func(p *ProxyConfig) { p.Roots = x509.NewCertPool() })
	if status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), nil, ""); status != 502 || strings.Contains(body, "x509") {
		t.Errorf("%d %q", status, body)
	}
	if o.reached() != 0 {
		t.Error("a request reached an upstream that nobody knows")
	}
}

func TestOpenedTLSRequestLimit(t *testing.T) {
	rule := apiRule()
	rule.Limits.Requests = 2
	o := newOpenRig(t, nil, []egress.Rule{rule})
	for i, want := range []int{200, 200, 429, 429} {
		if status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), nil, ""); status != want {
			t.Errorf("request %d: %d %q", i, status, body)
		}
	}
}

// A client that does not trust the authority is told of in words, not left hanging.
func TestRefusedAuthorityIsARefusal(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	c := tls.Client(o.open(t, fmt.Sprintf("api.example.com:%d", portOf(o.tls))), &tls.Config{ServerName: "api.example.com", RootCAs: x509.NewCertPool()})
	if err := c.Handshake(); err == nil {
		t.Fatal("trusted")
	}
	if d := o.last(t, ReasonHandshake); d.Name.String() != "api.example.com" {
		t.Errorf("%+v", d)
	}
}

func TestLearnReadsWhatItRefuses(t *testing.T) {
	o := newOpenRig(t, nil, nil, func(p *ProxyConfig) { p.Learn = true })
	for _, method := range []string{"GET", "POST"} {
		if status, _ := o.ask(t, method, "https://www.example.com/v9/"+strings.ToLower(method)+"?q=1", nil, ""); status != 403 {
			t.Errorf("%s: %d", method, status)
		}
	}
	if o.dials.Load() != 0 {
		t.Error("learning dialled")
	}
	var refused []egress.Refusal
	for _, d := range o.server.Denied() {
		refused = append(refused, d.Refusal)
	}
	var lines []string
	for _, r := range egress.Learn(refused) {
		lines = append(lines, egress.Line(r))
	}
	if got := strings.Join(lines, "\n"); got != "{host: www.example.com, paths: [/v9/get]}\n{host: www.example.com, methods: [POST], paths: [/v9/post]}" {
		t.Errorf("learnt:\n%s", got)
	}
}

const (
	placeholder1 = "sallyport-placeholder-aaaaaaaaaaaaaaaa"
	secret1      = "the-real-secret-of-the-operator"
)

func TestAuthority(t *testing.T) {
	if _, err := NewAuthority([]byte("short"), time.Now()); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a short seed: %v", err)
	}
	seed := []byte("a seed of one Attempt")
	a, _ := NewAuthority(seed, time.Now())
	again, _ := NewAuthority(seed, time.Now().Add(time.Hour))
	other, _ := NewAuthority([]byte("a seed of another one"), time.Now())
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(a.PEM())
	for _, host := range []string{"a.example.com", "192.0.2.1", "2001:db8::1", strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"} {
		n, err := egress.Host(host)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := again.leaf(n, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		verify := func(c *tls.Certificate) error {
			_, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: trusted})
			return err
		}
		if err := verify(leaf); err != nil {
			t.Errorf("%s: what a later driver signs is not trusted: %v", host, err)
		}
		if life := leaf.Leaf.NotAfter.Sub(leaf.Leaf.NotBefore); life > 24*time.Hour {
			t.Errorf("%s: a leaf lives %s", host, life)
		}
		if same, _ := again.leaf(n, time.Now()); same != leaf {
			t.Errorf("%s: not kept", host)
		}
		if late, _ := again.leaf(n, time.Now().Add(23*time.Hour)); late == leaf {
			t.Errorf("%s: an old one is kept", host)
		}
		if foreign, _ := other.leaf(n, time.Now()); verify(foreign) == nil {
			t.Errorf("%s: another Attempt's is trusted", host)
		}
	}
	for i := range 3 * maxLeaves {
		n, _ := egress.Host(fmt.Sprintf("h%d.example.com", i))
		if _, err := a.leaf(n, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d leaves are kept", len(a.leaves))
	}
}

// Bodies that are read to decide count together with those that wait for a Budget.
func TestBodiesThatDecideAreBounded(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()}, bearer)
	post := func() int {
		status, _ := o.ask(t, "POST", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": "Bearer " + placeholder1}, `{"a":1}`)
		return status
	}
	o.server.heldBodies.Store(maxHeldBodies)
	if status := post(); status != http.StatusServiceUnavailable || o.reached() != 0 {
		t.Errorf("%d, reached %d", status, o.reached())
	}
	o.server.heldBodies.Add(-maxHeldBodies)
	if status := post(); status != 200 || o.server.heldBodies.Load() != 0 {
		t.Errorf("%d, %d bytes held", status, o.server.heldBodies.Load())
	}
}

// A server that hands out parts of what it would say hands out no part of the secret.
func TestSecretDoesNotComeInParts(t *testing.T) {
	o := newOpenRig(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader("you said "+r.Header.Get("Authorization")))
	}, []egress.Rule{apiRule()}, bearer)
	_, all := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": "Bearer " + placeholder1, "Range": "bytes=16-30", "If-Range": "x"}, "")
	if strings.Contains(all, secret1[:8]) {
		t.Errorf("came in: %q", all)
	}
	o.last(t, ReasonInAnswer)
}

// CGI and WSGI make one variable of X_Forwarded_Host and X-Forwarded-Host.
func TestOverridesDoNotLeaveInAnySpelling(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	for _, name := range []string{"X-HTTP-Method-Override", "X_HTTP_METHOD_OVERRIDE", "x_forwarded_host", "X_Original-URL", "Transfer_Encoding", "Proxy_Authenticate"} {
		status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{name: "DELETE"}, "")
		if status == 200 && len(o.seen[o.reached()-1].Header[http.CanonicalHeaderKey(name)]) > 0 {
			t.Errorf("%s has left: %d %q", name, status, body)
		}
	}
}

// In HTTP/2 a target can hold a space, at which a reader of HTTP/1 would end it.
func TestSpaceInATarget(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	r, err := http.NewRequest("GET", o.at("api.example.com", "/v1/x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.RawQuery = "a HTTP/1.1"
	res, err := o.inside(t, true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 400 || o.reached() != 0 {
		t.Errorf("%s %d, reached %d", res.Proto, res.StatusCode, o.reached())
	}
}

// However many connections and streams there are, so many exchanges are under way; the next one waits.
func TestExchangesAreBounded(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	for range maxExchanges {
		o.server.exchanges <- struct{}{}
	}
	done := make(chan int)
	go func() {
		res, err := o.inside(t, true).Get(o.at("api.example.com", "/v1/x"))
		if err != nil {
			done <- 0
			return
		}
		res.Body.Close()
		done <- res.StatusCode
	}()
	select {
	case status := <-done:
		t.Errorf("answered %d", status)
	case <-time.After(200 * time.Millisecond):
	}
	<-o.server.exchanges
	if status := <-done; status != 200 {
		t.Errorf("%d", status)
	}
}

// A rule that would pass a host unread does not help where the host has to be read: without an authority it is refused,
// whatever form it has.
func TestWhatMustBeReadNeedsAnAuthority(t *testing.T) {
	r := whole(egress.Rule{Host: "*.example.com", Port: 443})
	for _, host := range []string{"*.example.com", "forge.example.com"} {
		r.Host = host
		c := ProxyConfig{Rules: []egress.Rule{r}, Forges: []string{"forge.example.com"}}
		if err := c.Check(); sallyport.CodeOf(err) != sallyport.CodeUnsupported {
			t.Errorf("%s: %v", host, err)
		}
	}
	// A Budget's hosts below a wildcard are known when they are asked for.
	r.Host = "*.example.com"
	p, err := newProxy(ProxyConfig{Rules: []egress.Rule{r}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.budget = &purse{}
	name, err := egress.Host("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	var no *denial
	if w, err := p.decide(t.Context(), name, 443); !errors.As(err, &no) {
		t.Errorf("%+v, %v", w, err)
	}
}

// A parameter of another spelling, in the query or in a body, may be the same to the server.
func TestPlaceholderHasOneSpelling(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()}, func(p *ProxyConfig) {
		p.Credentials = []Credential{{Name: "api", Hosts: []string{"api.example.com"}, Query: "appid", Placeholder: placeholder1, Value: func(context.Context) (string, error) { return secret1, nil }}}
	})
	for _, c := range []struct{ query, kind, body string }{
		{"&APPID=mine", "", ""},
		{"&appid[]=mine", "", ""},
		{"", "application/x-www-form-urlencoded", "AppId=mine"},
		{"", "application/json", `{"appid":"mine"}`},
	} {
		status, body := o.ask(t, "POST", o.at("api.example.com", "/v1/x")+"?appid="+placeholder1+c.query, map[string]string{"Content-Type": c.kind}, c.body)
		if status != 403 || o.reached() != 0 {
			t.Errorf("%+v: %d %q, reached %d", c, status, body, o.reached())
		}
	}
	o = newOpenRig(t, nil, []egress.Rule{apiRule()}, func(p *ProxyConfig) {
		p.Credentials = []Credential{{Name: "api", Hosts: []string{"api.example.com"}, Header: "x-account", Placeholder: placeholder1, Value: func(context.Context) (string, error) { return secret1, nil }}}
	})
	if status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"X-Account": placeholder1, "X_Account": "mine"}, ""); status != 403 || o.reached() != 0 {
		t.Errorf("%d %q, reached %d", status, body, o.reached())
	}
}

// How long a client may take for what it is sent does not limit how long a host may think, before an answer or within it.
func TestHostsMayThink(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		pause := func() { time.Sleep(400 * time.Millisecond) }
		pause()
		switch r.URL.Path {
		case "/short":
			w.Header().Set("Content-Length", "10")
		case "/gone":
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		pause()
		_, _ = io.WriteString(w, "again")
	}
	o := newOpenRig(t, slow, []egress.Rule{{Host: "api.example.com", Protocol: egress.HTTPS, Methods: []string{"GET"}, Paths: []string{"/*"}}},
		func(p *ProxyConfig) {
			p.pace = paceDefault
			p.pace.stall = 150 * time.Millisecond
		})
	for _, h2 := range []bool{false, true} {
		c := o.inside(t, h2)
		for path, want := range map[string]string{"/short": "helloagain", "/streamed": "helloagain", "/gone": "could not be reached"} {
			res, err := c.Get(o.at("api.example.com", path))
			if err != nil {
				t.Errorf("h2 %v %s: %v", h2, path, err)
				continue
			}
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || !strings.Contains(string(b), want) {
				t.Errorf("h2 %v %s: %d %q, %v", h2, path, res.StatusCode, b, err)
			}
		}
	}
}

// A client may take an answer before it has sent its request for a broken stream: a refusal waits a little for the rest.
func TestRefusalWaitsForTheRestOfARequest(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()})
	c, err := net.Dial("tcp", o.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	host := fmt.Sprintf("api.example.com:%d", portOf(o.tls))
	fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", host)
	if res, rErr := http.ReadResponse(bufio.NewReaderSize(io.LimitReader(c, 1<<10), 16), nil); rErr != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, rErr)
	}
	roots := x509.NewCertPool()
	roots.AddCert(o.server.proxy.Authority.cert)
	in := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "api.example.com", NextProtos: []string{"h2"}})
	if _, err = io.WriteString(in, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", host}, {":path", "/not/listed"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	fr := http2.NewFramer(in, in)
	if err = errors.Join(fr.WriteSettings(), fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if err = errors.Join(fr.WriteData(1, true, []byte("the rest")), fr.WritePing(false, [8]byte{})); err != nil {
		t.Fatal(err)
	}
	status := ""
	read := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			status = f.Value
		}
	})
	for ended, ponged := false, false; !ended || !ponged; { // what came before the pong has all been read
		frame, fErr := fr.ReadFrame()
		if fErr != nil {
			t.Fatal(fErr)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			t.Fatalf("after status %q: %v", status, f)
		case *http2.HeadersFrame:
			if _, err = read.Write(f.HeaderBlockFragment()); err != nil {
				t.Fatal(err)
			}
			ended = f.StreamEnded()
		case *http2.DataFrame:
			ended = f.StreamEnded()
		case *http2.PingFrame:
			ponged = f.IsAck()
		}
	}
	if status != "403" {
		t.Errorf("status %s", status)
	}
}
