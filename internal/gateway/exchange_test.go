package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// seen keeps what an upstream got, whole.
type seen struct {
	mu   sync.Mutex
	all  []*http.Request
	body []string
}

func (s *seen) handler(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.body = append(s.all, q), append(s.body, string(b))
	w.Header().Set("Set-Cookie", "a=b")
	w.Header().Set("Alt-Svc", `h3=":443"`)
	w.Header().Set("X-Answer", "yes")
	_, _ = io.WriteString(w, "hello")
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func TestPlainRefusals(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, usualRules)
	host := r.plainHost()
	for _, c := range []struct {
		line, headers string
		why           egress.Reason
	}{
		{"GET http://evil.com/", "", egress.ReasonHost},
		{"GET http://plain.example.com/public/x", "", egress.ReasonPort},
		{"GET " + r.plain.URL + "/public/x", "", egress.ReasonHost},
		{"GET http://" + r.tlsHost() + "/", "", egress.ReasonProtocol},
		{"POST http://" + host + "/public/x", "", egress.ReasonMethod},
		{"WEBSOCKET http://" + host + "/public/x", "", ReasonForm},
		{"GET http://" + host + "/private", "", egress.ReasonPath},
		{"GET http://" + host, "", egress.ReasonPath},
		{"GET http://" + host + "/public/../private", "", egress.ReasonAmbiguousPath},
		{"GET http://" + host + "/public/%2e%2e/private", "", egress.ReasonAmbiguousPath},
		{"GET http://" + host + "//public/x", "", egress.ReasonAmbiguousPath},
		{"GET http://" + host + "/public/x#f", "", egress.ReasonAmbiguousPath},
		{"GET http://" + host + "/public/x?a#f", "", ReasonForm},
		{"GET http://user:pw@" + host + "/public/x", "", egress.ReasonMalformedName},
		{"GET http://2130706433/public/x", "", egress.ReasonMalformedName},
		{"GET https://" + host + "/public/x", "", ReasonForm},
		{"GET ftp://" + host + "/public/x", "", ReasonForm},
		{"GET http://" + host + "/public/x.git/info/refs?service=git-receive-pack", "", egress.ReasonGitPush},
		{"GET http://" + host + "/public/x", "Authorization: Bearer mine\r\n", ReasonAuthentication},
		{"GET http://" + host + "/public/x", "Cookie: a=b\r\n", ReasonAuthentication},
		{"GET http://" + host + "/public/x", "Proxy-Authorization: Basic eDp5\r\n", ReasonAuthentication},
		{"GET http://" + host + "/public/x", "X-Api-Key: mine\r\n", ReasonAuthentication},
		{"GET http://" + host + "/public/x", "Connection: upgrade\r\nUpgrade: h2c\r\n", ReasonUpgrade},
		{"GET http://" + host + "/public/x", "Connection: upgrade\r\nUpgrade: websocket\r\n", egress.ReasonMethod},
	} {
		got := r.raw(t, c.line+" HTTP/1.1\r\nHost: "+host+"\r\n"+c.headers+"\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 4") || !strings.Contains(got, "X-Sallyport-Reason: "+string(c.why)+"\r\n") {
			t.Errorf("%s %q: expected %s, got %q", c.line, c.headers, c.why, got)
		}
	}
	if n := up.count(); n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if d := r.last(t, ReasonAuthentication); !strings.Contains(d.Line, "own-auth: true") {
		t.Errorf("proposed %q", d.Line)
	}
}

// After CONNECT or SOCKS the connection speaks HTTP to that host alone.
func TestPlainWithinConnect(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, usualRules)
	for _, c := range []struct {
		request string
		why     egress.Reason
	}{
		{"GET /public/x HTTP/1.1\r\nHost: " + r.plainHost() + "\r\nConnection: close\r\n\r\n", ""},
		{"GET http://" + r.plainHost() + "/public/x HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n", ""},
		{"GET /public/x HTTP/1.1\r\nHost: plain.example.com\r\n\r\n", egress.ReasonNameMismatch},
		{"GET /public/x HTTP/1.1\r\nHost: " + r.tlsHost() + "\r\n\r\n", egress.ReasonNameMismatch},
		{"GET http://" + r.tlsHost() + "/public/x HTTP/1.1\r\nHost: " + r.plainHost() + "\r\n\r\n", egress.ReasonNameMismatch},
		{"GET /private HTTP/1.1\r\nHost: " + r.plainHost() + "\r\n\r\n", egress.ReasonPath},
		{"CONNECT " + r.tlsHost() + " HTTP/1.1\r\nHost: x\r\n\r\n", ReasonForm},
	} {
		conn := r.open(t, r.plainHost())
		_, _ = io.WriteString(conn, c.request)
		b, _ := io.ReadAll(conn)
		if c.why == "" && !strings.HasPrefix(string(b), "HTTP/1.1 200 OK") || c.why != "" && !strings.Contains(string(b), "X-Sallyport-Reason: "+string(c.why)) {
			t.Errorf("%q: expected %q, got %q", c.request, c.why, b)
		}
	}
	if up.count() != 2 {
		t.Errorf("%d requests reached the upstream", up.count())
	}
	conn := r.open(t, r.plainHost())
	_, _ = io.WriteString(conn, "\x16\x03\x01")
	if b, _ := io.ReadAll(conn); len(b) != 7 || b[6] != alertAccessDenied {
		t.Errorf("TLS where only http is listed: %x", b)
	}
}

// What leaves is what was decided on: the path byte for byte, our Host, no headers of the hop.
func TestPlainForwardsExactly(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, func(r *proxyRig) []egress.Rule {
		rules := allHTTP(r)
		rules[0].Paths = []string{"/a%2Fb/*"}
		return rules
	})
	got := r.raw(t, "POST http://PLAIN.example.com.:"+fmt.Sprint(portOf(r.plain))+"/a%2fb/%7euser;x=1?q=%zz&q HTTP/1.1\r\nHost: evil.com\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n"+
		"Keep-Alive: 1\r\nProxy-Connection: close\r\nX-End: 2\r\nAccept-Encoding: br\r\nContent-Length: 4\r\n\r\nbody")
	if !strings.HasPrefix(got, "HTTP/1.1 200 OK") || !strings.HasSuffix(got, "hello") || !strings.Contains(got, "X-Answer: yes") {
		t.Fatalf("got %q", got)
	}
	if strings.Contains(got, "Set-Cookie") || strings.Contains(got, "Alt-Svc") {
		t.Errorf("the answer brought %q", got)
	}
	q := up.all[0]
	if q.RequestURI != "/a%2fb/%7euser;x=1?q=%zz&q" || q.Host != r.plainHost() || up.body[0] != "body" {
		t.Errorf("forwarded %q %q %q", q.RequestURI, q.Host, up.body[0])
	}
	want := http.Header{"X-End": {"2"}, "Accept-Encoding": {"br"}, "Content-Length": {"4"}}
	if fmt.Sprint(q.Header) != fmt.Sprint(want) {
		t.Errorf("forwarded the headers %v", q.Header)
	}
}

func TestOwnAuthPasses(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, func(r *proxyRig) []egress.Rule {
		rules := allHTTP(r)
		rules[0].OwnAuth = true
		return rules
	})
	got := r.raw(t, "GET http://"+r.plainHost()+"/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mine\r\nCookie: a=b\r\nProxy-Authorization: Basic eDp5\r\nConnection: close\r\n\r\n")
	if !strings.Contains(got, "Set-Cookie") {
		t.Fatalf("got %q", got)
	}
	h := up.all[0].Header
	if h.Get("Authorization") != "Bearer mine" || h.Get("Cookie") != "a=b" || h.Get("Proxy-Authorization") != "" {
		t.Errorf("forwarded %v", h)
	}
}

// Whatever framing comes in, one request leaves per request that was judged, with one framing.
func TestSmuggling(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, usualRules, func(c *Config) { c.Proxy.Rules[0].Methods = []string{"POST"} })
	first := "POST http://" + r.plainHost() + "/public/x HTTP/1.1\r\nHost: x\r\n"
	inner := "GET http://" + r.plainHost() + "/private HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, request := range map[string]string{
		"both":              first + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(inner)) + inner,
		"two lengths":       first + "Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner,
		"te twice":          first + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"te space":          first + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
		"te odd":            first + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"length plus":       first + "Content-Length: +5\r\n\r\nabcde" + inner,
		"bare lf":           first + "Content-Length: 0\n\n" + inner,
		"folded":            first + "A: b\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"cr in value":       first + "A: b\rTransfer-Encoding: chunked\r\n\r\n" + inner,
		"nul":               first + "A: \x00\r\n\r\n" + inner,
		"hidden by hop":     first + "Connection: Content-Length\r\nContent-Length: " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner,
		"pipelined":         first + "Content-Length: 0\r\n\r\n" + inner,
		"1.0 with encoding": strings.Replace(first, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
	} {
		c := r.dial(t)
		_, _ = io.WriteString(c, request)
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, _ = io.ReadAll(c)
		_ = c.Close()
		up.mu.Lock()
		for i, q := range up.all {
			if q.RequestURI != "/public/x" || q.Header["Content-Length"] != nil && q.TransferEncoding != nil || len(up.all) > 1 {
				t.Errorf("%s: request %d of %d reached the upstream as %s %v %v", name, i, len(up.all), q.RequestURI, q.Header, q.TransferEncoding)
			}
		}
		up.all, up.body = nil, nil
		up.mu.Unlock()
	}
}

func TestOversizeHead(t *testing.T) {
	var up seen
	r := newProxyRig(t, up.handler, usualRules)
	for _, request := range []string{
		"GET http://" + r.plainHost() + "/public/x HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n",
		"GET http://" + r.plainHost() + "/public/" + strings.Repeat("a", 2*maxHeader) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT " + strings.Repeat("a", 2*maxHeader) + ":1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://" + r.plainHost() + "/public/" + strings.Repeat("a", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if got := r.raw(t, request); !strings.HasPrefix(got, "HTTP/1.1 4") {
			t.Errorf("answered %.80q", got)
		}
	}
	if up.count() != 0 {
		t.Error("it reached the upstream")
	}
}

// A redirect is the client's to follow; the gateway judges where it leads.
func TestRedirectElsewhere(t *testing.T) {
	r := newProxyRig(t, func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "http://evil.com/?stolen", http.StatusFound)
	}, usualRules)
	if status, body := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/public/x"); status != 403 || !strings.Contains(body, string(egress.ReasonHost)) {
		t.Errorf("%d %q", status, body)
	}
	if d := r.last(t, egress.ReasonHost); d.Name.String() != "evil.com" || r.dials.Load() != 1 {
		t.Errorf("recorded %+v, %d dials", d, r.dials.Load())
	}
}

func TestProxyStreamsAtOnce(t *testing.T) {
	next := make(chan bool)
	r := newProxyRig(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-time.After(5 * time.Second):
			return
		}
		_, _ = io.WriteString(w, "data: two\n\n")
	}, usualRules)
	res, err := r.client(t, "http").Get("http://" + r.plainHost() + "/public/x")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len("data: one\n\n"))
	_, _ = io.ReadFull(res.Body, first)
	close(next)
	rest, err := io.ReadAll(res.Body)
	if string(first)+string(rest) != "data: one\n\ndata: two\n\n" || err != nil {
		t.Errorf("got %q %q %v", first, rest, err)
	}
}

// echo upgrades whatever asks for it and sends back what comes.
func echo(w http.ResponseWriter, q *http.Request) {
	if q.Header.Get("Upgrade") != "websocket" || q.Header.Get("Sec-Websocket-Key") == "" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
	_, _ = io.Copy(c, rw)
}

func TestWebSocket(t *testing.T) {
	for _, methods := range [][]string{{"WEBSOCKET"}, {"*"}, {"GET"}} {
		r := newProxyRig(t, echo, func(r *proxyRig) []egress.Rule {
			rules := allHTTP(r)
			rules[0].Methods = methods
			return rules
		})
		c := r.dial(t)
		fmt.Fprintf(c, "GET http://%s/ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\nearly", r.plainHost())
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if methods[0] == "GET" {
			if res.StatusCode != 403 {
				t.Errorf("who may GET may upgrade: %s", res.Status)
			}
			continue
		}
		if res.StatusCode != 101 || res.Header.Get("Sec-Websocket-Accept") != "x" {
			t.Fatalf("answered %s %v", res.Status, res.Header)
		}
		_, _ = io.WriteString(c, " and late")
		_ = c.(*net.TCPConn).CloseWrite()
		if b, _ := io.ReadAll(in); string(b) != "early and late" {
			t.Errorf("%v: got %q", methods, b)
		}
	}
}

// A host that changes the protocol unasked does not get a tunnel.
func TestUnaskedUpgrade(t *testing.T) {
	r := newProxyRig(t, func(w http.ResponseWriter, q *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nchannel")
	}, allHTTP)
	if got := r.raw(t, "GET http://"+r.plainHost()+"/ HTTP/1.1\r\nHost: x\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 101") || strings.Contains(got, "channel") {
		t.Errorf("got %q", got)
	}
}
