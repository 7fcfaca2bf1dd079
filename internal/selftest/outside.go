package selftest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"sallyport.dev/sallyport/internal/corpus"
)

// outside is what one attack may find beyond its sandbox: lures that nobody may reach, and where the case has
// rules, servers that are every host at once.
type outside struct {
	lures   []net.Listener
	servers []*http.Server
	names   map[string]string // variable → value, for script and config
	socket  string

	mu    sync.Mutex
	heard []string // "HOST METHOD URI", with what of headers and body should not have come
}

func (g *ground) newOutside(k corpus.Case) (*outside, error) {
	o := &outside{names: map[string]string{}}
	if strings.Contains(k.Agent, "$LURE") {
		if err := o.lay(g.dir, k.Class+"-"+k.Name, strings.Contains(k.Agent, "$LURE_PORT6")); err != nil {
			o.close()
			return nil, err
		}
	}
	if strings.Contains(k.Agent+k.Config, "$TLS") {
		if err := o.serve(g.authority); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

const loopback6 = "[::1]:0"

// hasIPv6 says whether this host has a loopback by IPv6.
func hasIPv6() bool {
	n, err := net.Listen("tcp6", loopback6)
	if err != nil {
		return false
	}
	_ = n.Close()
	return true
}

// lay opens what this host could offer: loopback, a Unix socket by path and one without.
func (o *outside) lay(dir, name string, ipv6 bool) error {
	o.socket = dir + "/" + name + ".sock"
	abstract := "@sallyport-" + name + fmt.Sprint(os.Getpid())
	lures := []struct{ variable, network, address string }{{"LURE_PORT", "tcp4", "127.0.0.1:0"}, {"LURE_SOCKET", "unix", o.socket}, {"LURE_ABSTRACT", "unix", abstract}}
	if ipv6 {
		lures = append(lures, struct{ variable, network, address string }{"LURE_PORT6", "tcp6", loopback6})
	}
	for _, l := range lures {
		n, err := net.Listen(l.network, l.address)
		if err != nil {
			return err
		}
		o.lures = append(o.lures, n)
		o.names[l.variable] = l.address
		if a, ok := n.Addr().(*net.TCPAddr); ok {
			o.names[l.variable] = fmt.Sprint(a.Port)
		}
		go func() {
			for {
				c, err := n.Accept()
				if err != nil {
					return
				}
				o.hear("lure " + l.variable + " was reached")
				_ = c.Close()
			}
		}()
	}
	return os.Chmod(o.socket, 0o777)
}

func (o *outside) serve(a authority) error {
	for _, secure := range []bool{true, false} {
		n, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s := &http.Server{Handler: o, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
		o.servers = append(o.servers, s)
		port := fmt.Sprint(n.Addr().(*net.TCPAddr).Port)
		if secure {
			o.names["TLS"] = port
			n = tls.NewListener(n, &tls.Config{GetCertificate: a.certificate})
		} else {
			o.names["PLAIN"] = port
		}
		go func() { _ = s.Serve(n) }()
	}
	return nil
}

func (o *outside) close() {
	for _, l := range o.lures {
		_ = l.Close()
	}
	for _, s := range o.servers {
		_ = s.Close()
	}
	if o.socket != "" {
		_ = os.Remove(o.socket)
	}
}

// variables tells a script where things are.
func (o *outside) variables() string {
	var b strings.Builder
	for name, value := range o.names {
		fmt.Fprintf(&b, "%s='%s'\n", name, value)
	}
	return b.String()
}

// rules are the operator's where a case names servers and brings no config of its own: several hosts that may be
// reached in part, one that lends a credential, one that costs something. evil.test is not listed at all.
const rules = `version: 1
resolve: {api.test: 127.0.0.1, open.test: 127.0.0.1, drop.test: 127.0.0.1, git.test: 127.0.0.1, plain.test: 127.0.0.1, evil.test: 127.0.0.1, api.github.com: 127.0.0.1, api.anthropic.com: 127.0.0.1}
credentials:
  - {name: api, from: {file: ~/token}, host: api.test, header: authorization, prefix: "Bearer ", env: API_TOKEN}
egress:
  - {host: api.test, port: $TLS, methods: [GET, POST], paths: [/v1/*]}
  - {host: open.test, port: $TLS, methods: ["*"], own-auth: true}
  - {host: drop.test, port: $TLS, methods: [GET], paths: [/ok/*], own-auth: true}
  - {host: git.test, port: $TLS, protocol: git, paths: [/r]}
  - {host: plain.test, port: $PLAIN, protocol: http, methods: [GET, POST], paths: [/ok/*]}
  - {host: api.github.com, port: $TLS, methods: ["*"], own-auth: true}
  - {host: api.anthropic.com, port: $TLS, methods: [GET, POST], paths: [/v1/messages], own-auth: true}
`

// config is the operator's config.yaml with the ports of this case.
func (o *outside) config(k corpus.Case) string {
	config := k.Config
	if config == "" && len(o.servers) > 0 {
		config = rules
	}
	return strings.NewReplacer("$TLS", o.names["TLS"], "$PLAIN", o.names["PLAIN"]).Replace(config)
}

func (o *outside) hear(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, line)
}

// wrong says what was heard and should not have been, or the other way round: a rule that lets nothing through
// proves nothing about what it stops.
func (o *outside) wrong(k corpus.Case) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := strings.Join(o.heard, "\n")
	for _, line := range o.heard {
		if strings.Contains(line, "leak") || strings.HasPrefix(line, "evil.test") || strings.HasPrefix(line, "lure ") {
			return fmt.Sprintf("the outside heard %.200q", line)
		}
	}
	for _, f := range k.Heard {
		if !strings.Contains(all, f) {
			return fmt.Sprintf("the outside did not hear %q, so that the rest says nothing: %.300q", f, all)
		}
	}
	for _, b := range k.AtMost {
		if n := strings.Count(all, b.What); n > b.Times {
			return fmt.Sprintf("the outside heard %q %d times, at most %d may pass", b.What, n, b.Times)
		}
	}
	return ""
}

// ServeHTTP is every host. What it hears with "leak" in it should never have arrived.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	line := r.Host + " " + r.Method + " " + r.URL.RequestURI()
	for name, values := range r.Header {
		if v := strings.Join(values, ","); strings.Contains(v, "leak") || strings.Contains(v, "sallyport-") {
			line += " leak-in-header:" + name
		}
	}
	if strings.Contains(string(body), "leak") {
		line += " leak-in-body"
	}
	if lent := r.Header.Get("Authorization") == "Bearer "+secret; lent != strings.HasPrefix(r.Host, "api.test") {
		line += " leak-of-the-secret"
	}
	o.hear(line)
	switch {
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	case strings.HasSuffix(r.URL.Path, "/echo"):
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	case r.URL.Path == "/v1/messages": // a stream that says nothing of usage, and breaks off
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprintln(w, "hello")
	}
}

// authority certifies whatever name is asked for. It is trusted in the selftest's own place only.
type authority struct {
	pem  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sallyport selftest"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a := authority{cert: ca, key: key}
	der, err := a.sign(ca)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, err
}

func (a authority) sign(template *x509.Certificate) ([]byte, error) {
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	return x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
}

func (a authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return nil, errors.New("no name")
	}
	der, err := a.sign(&x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName}})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}
