package local

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/testkit"
)

const ledPort = 18790

// outside is what a sandbox may want to reach: servers on loopback, which only the gateway finds, as *.test.
type outside struct {
	http, https, first string // ports; first speaks first
	mu                 sync.Mutex
	heard              []string
}

func (o *outside) log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.heard, "\n")
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.heard = append(o.heard, r.Host+r.URL.Path)
		o.mu.Unlock()
		fmt.Fprintf(w, "hello %s\n", r.URL.Path)
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "SSH-2.0-server speaks first\n")
			go func() { _, _ = io.Copy(io.Discard, c); c.Close() }()
		}
	}()
	_, o.http, _ = net.SplitHostPort(plain.Listener.Addr().String())
	_, o.https, _ = net.SplitHostPort(secure.Listener.Addr().String())
	_, o.first, _ = net.SplitHostPort(ln.Addr().String())
	return o
}

func portOf(s string) uint16 {
	a, _ := netip.ParseAddrPort("127.0.0.1:" + s)
	return a.Port()
}

// rules of what is outside.
func (o *outside) proxy() *gateway.ProxyConfig {
	all, any := []string{"*"}, []string{"/**"}
	return &gateway.ProxyConfig{
		Rules: []sallyport.EgressRule{
			{Host: "files.test", Port: portOf(o.http), Protocol: "http", Methods: []string{"GET", "HEAD"}, Paths: any},
			{Host: "*.wild.test", Port: portOf(o.http), Protocol: "http", Methods: []string{"GET"}, Paths: any},
			{Host: "example.com", Port: portOf(o.https), Protocol: "https", Methods: all, Paths: any, OwnAuth: true},
			{Host: "ssh.test", Port: portOf(o.first), Protocol: "tcp"},
			{Host: "127.0.0.1", Port: portOf(o.first), Protocol: "tcp"},
		},
		Resolve: map[string]netip.AddrPort{},
	}
}

// serve is a gateway on l's way out.
func (o *outside) serve(t *testing.T, l *live, c *gateway.ProxyConfig) *gateway.Server {
	t.Helper()
	for _, name := range []string{"files.test", "a.wild.test", "b.wild.test", "example.com", "ssh.test"} {
		c.Resolve[name] = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	}
	files, err := l.Egress(t.Context())
	must(t, err)
	ln, questions, err := gateway.Redirected(files, ledPort)
	must(t, err)
	for _, f := range files {
		f.Close()
	}
	c.Questions = questions
	s, err := gateway.Serve(t.Context(), ln, gateway.Config{Proxy: c})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// askerEnv names a folder that holds the asker already, for a run as another user than built it.
const askerEnv = "SALLYPORT_TEST_ASKER"

// askerFolder has the program of testdata/asker.
func askerFolder(t testing.TB) string {
	if dir := os.Getenv(askerEnv); dir != "" {
		return dir
	}
	return testkit.Build(t, "sallyport.dev/sallyport/internal/provider/local/testdata/asker")
}

// asker lays it into the base of b.
func (b *bench) asker() {
	b.t.Helper()
	copyFile(b.t, filepath.Join(askerFolder(b.t), "asker"), filepath.Join(b.base, "asker"))
}

func (b *bench) redirected(script string) (provider.Spec, provider.Auth) {
	spec, auth := b.spec("sh", "-c", script)
	spec.EgressPort, spec.Redirect = ledPort, true
	return spec, auth
}

// Programs that heed no proxy setting get what the rules list, and nothing else; whatever they try, they are told so at
// once.
func TestRedirect(t *testing.T) {
	b, o := newBench(t), newOutside(t)
	b.asker()
	script := strings.Join([]string{
		"cat /etc/resolv.conf",
		"env | grep -i proxy",
		"./asker get http://files.test:" + o.http + "/go get http://a.wild.test:" + o.http + "/wild line ssh.test:" + o.first +
			" get http://other.test/ get http://192.0.2.7/x get http://[2001:db8::7]/y get https://192.0.2.7/z line 192.0.2.7:22 " +
			" udp 8.8.8.8:443 udp [2001:db8::1]:443 resolve files.test resolve other.test txt c2VjcmV0.other.test txt files.test flush -" +
			" line 127.0.0.1:9",
		"curl -sS -m 10 --noproxy '*' http://files.test:" + o.http + "/curl",
		"curl -sS -m 10 --noproxy '*' -k https://example.com:" + o.https + "/tls",
		"curl -sS -m 10 --noproxy '*' -k --resolve other.test:443:192.0.2.9 https://other.test/ 2>&1",
		"curl -sS -m 10 --noproxy '*' -k --connect-to other.test:" + o.https + ":example.com:" + o.https + " https://other.test:" + o.https + "/sni 2>&1",
		"curl -sS -m 10 --noproxy '*' http://files.test:" + o.http + "/post -d x",
		"curl -sS -m 10 -x http://127.0.0.1:18790 http://files.test:" + o.http + "/proxied; curl -sS -m 10 -p -x http://127.0.0.1:18790 -k https://example.com:" + o.https + "/tunnelled",
		"curl -sS -m 10 --noproxy '*' http://example.com:" + o.https + "/plain-on-tls",
		"(/usr/bin/python3 -c 'import http.server as s, threading, urllib.request as u\nh = s.HTTPServer((\"127.0.0.1\", 8085), s.SimpleHTTPRequestHandler); threading.Thread(target=h.serve_forever, daemon=True).start()\nprint(\"own loopback:\", u.urlopen(\"http://127.0.0.1:8085/\").status)') 2>&1 | grep own",
		"/usr/bin/python3 -c 'import urllib.request as u; print(\"python:\", u.build_opener(u.ProxyHandler({})).open(\"http://files.test:" + o.http + "/python\").read())'",
		"bash -c 'exec 3<>/dev/tcp/ssh.test/" + o.first + "; head -1 <&3'",
		"node -e 'fetch(\"http://files.test:" + o.http + "/node\").then(r => r.text()).then(t => console.log(\"node:\", t))'",
	}, "\n")
	spec, auth := b.redirected(script)
	l := b.make(spec, auth)
	s := o.serve(t, l, o.proxy())
	must(t, l.Start(b.ctx()))
	out, e := l.all()
	if e.Code != 0 {
		t.Errorf("%+v", e)
	}
	for _, want := range []string{
		"nameserver 127.0.0.53",
		"/go: 200 hello /go", "/wild: 200 hello /wild", "line ssh.test:" + o.first + ": SSH-2.0-server speaks first",
		"get http://other.test/: no such name", "get http://192.0.2.7/x: 403 sallyport: host-not-listed", "get http://[2001:db8::7]/y: 403 sallyport: host-not-listed",
		"get https://192.0.2.7/z: Get \"https://192.0.2.7/z\": remote error: tls: access denied", "line 192.0.2.7:22: closed",
		"udp 8.8.8.8:443: refused", "udp [2001:db8::1]:443: refused", "resolve files.test: [198.18.0.", "resolve other.test: no such name",
		"txt c2VjcmV0.other.test: no such name", "flush -: operation not permitted; operation not permitted;", "line 127.0.0.1:9: refused",
		"hello /curl", "hello /tls", "hello /proxied", "hello /tunnelled", "sallyport: malformed-tls: ", "method-not-listed", "python: b'hello /python", "own loopback: 200", "node: hello /node", "\nSSH-2.0-server speaks first",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the command did not say %q", want)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s", out)
	}
	if log := o.log(); strings.Contains(log, "other") || strings.Contains(log, "/sni") || strings.Contains(log, "/post") {
		t.Errorf("outside heard:\n%s", log)
	}
	processes := map[string]string{}
	for _, d := range s.Denied() {
		processes[d.Name.String()+" "+string(d.Reason)+" "+string(d.Protocol)+" "+d.Method] = d.Process
		t.Logf("%s %d %s %s %s: %s; %s; %s", d.Name, d.Port, d.Protocol, d.Method, d.Reason, d.Process, d.Message, d.Line)
	}
	for key, want := range map[string]string{
		"other.test host-not-listed https ": "/work/repo/asker (pid ", "192.0.2.7 host-not-listed http GET": "/work/repo/asker (pid ", "192.0.2.7 host-not-listed https ": "/work/repo/asker (pid ",
		"192.0.2.9 host-not-listed https ": "/usr/bin/curl (pid ", "example.com name-mismatch https ": "/usr/bin/curl (pid ", "files.test method-not-listed http POST": "/usr/bin/curl (pid ",
	} {
		if got, ok := processes[key]; !ok || !strings.HasPrefix(got, want) {
			t.Errorf("%q was refused to %q, expected %q", key, got, want)
		}
	}
}

// What the probes found inside is in the containment receipt.
func TestRedirectIsProved(t *testing.T) {
	b := newBench(t)
	spec, auth := b.redirected("true")
	l := b.make(spec, auth)
	layers, err := l.Layers(b.ctx())
	must(t, err)
	i := slices.IndexFunc(layers, func(r sallyport.LayerReport) bool { return r.Layer == sallyport.LayerNetwork })
	for _, want := range []string{"TCP to 192.0.2.1:443", "TCP to [2001:db8::1]:443", ": led to the listener", ": led to the resolver", "UDP to 192.0.2.1:443, UDP to [2001:db8::1]:443, the host's loopback", "nf_tables, removing a route", "interfaces: lo"} {
		if !strings.Contains(layers[i].Proof, want) {
			t.Errorf("the network's proof lacks %q", want)
		}
	}
	if layers[i].Status != sallyport.LayerHeld {
		t.Errorf("%+v", layers[i])
	}
	must(t, l.Start(b.ctx()))
	l.all()
}

// A driver dies without a word while its gateway has the sockets. The next one takes the same sockets again: what was
// asked before still means the same, or nothing.
func TestRedirectIsTakenAgain(t *testing.T) {
	b, o := newBench(t), newOutside(t)
	b.asker()
	spec, auth := b.redirected("stty -echo; while read line; do ./asker $line; done")
	spec.Command.Terminal = true
	l := b.make(spec, auth)
	s := o.serve(t, l, o.proxy())
	must(t, l.Start(b.ctx()))
	ask := func(line, want string) {
		t.Helper()
		must(t, l.Input(b.ctx(), []byte(line+"\n")))
		l.until(want)
	}
	ask("resolve a.wild.test get http://a.wild.test:"+o.http+"/one", "/one: 200 hello /one")
	ask("resolve files.test", "resolve files.test: [198.18.0.17 ")
	must(t, s.Close()) // a killed driver's sockets are closed by the kernel: nothing else of it stays

	l.auth.Fence++
	l.reconnect()
	c := o.proxy()
	c.Generation = 1
	s = o.serve(t, l, c)
	ask("get http://198.18.0.17:"+o.http+"/two", "/two: 403 sallyport: name-mismatch") // it is files.test still, and Host says another
	ask("get http://198.19.0.0:"+o.http+"/three", "/three: 403 sallyport: address-forgotten")
	ask("resolve b.wild.test get http://b.wild.test:"+o.http+"/four", "/four: 200 hello /four")
	ask("get http://198.19.0.0:"+o.http+"/five", "/five: 403 sallyport: address-forgotten")
	if log := o.log(); strings.Contains(log, "three") || strings.Contains(log, "two") || strings.Contains(log, "five") {
		t.Errorf("outside heard:\n%s", log)
	}
	must(t, l.Stop(b.ctx(), "test"))
}
