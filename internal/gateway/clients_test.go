package gateway

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
)

// program is where a client is; a machine without it does not test it, and says so.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on this machine: that client is not tried", name)
	}
	return path
}

func writeCA(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *proxyRig) run(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "http_proxy=http://" + r.addr, "https_proxy=http://" + r.addr, "HTTPS_PROXY=http://" + r.addr}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const pythonClient = `
import sys, urllib.request, urllib.error
for u in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(u, timeout=10).read().decode())
    except urllib.error.HTTPError as e:
        print(e.code, e.read().decode())
    except urllib.error.URLError as e:
        print(e.reason)
`

// Node before 24 heeds no proxy variables: the program says where its proxy is.
const nodeClient = `
const http = require('http'), tls = require('tls');
const [host, port] = process.argv[1].split(':'), plain = process.argv[2], target = process.argv[3];
const show = (m) => { let b = ''; m.on('data', (d) => b += d); m.on('end', () => console.log(m.statusCode, b)); };
http.get({host, port, path: plain, headers: {Host: new URL(plain).host}, agent: false}, show);
const c = http.request({host, port, method: 'CONNECT', path: target, agent: false});
c.on('connect', (res, socket) => {
  if (res.statusCode !== 200) { console.log(res.statusCode, res.headers['x-sallyport-reason']); socket.destroy(); return; }
  const s = tls.connect({socket, servername: target.split(':')[0]}, () => {
    s.write('GET / HTTP/1.1\r\nHost: ' + target + '\r\nConnection: close\r\n\r\n');
  });
  let b = ''; s.on('data', (d) => b += d); s.on('end', () => console.log(b.split('\r\n\r\n')[1]));
});
c.end();
`

func TestRealClients(t *testing.T) {
	r := newProxyRig(t, hello, usualRules)
	ca := writeCA(t, r.tls)
	plain, secure := "http://"+r.plainHost()+"/public/x", "https://"+r.tlsHost()+"/"
	expect := func(t *testing.T, out string, err error, times int) {
		t.Helper()
		if err != nil || strings.Count(out, "hello") != times {
			t.Errorf("%v: %s", err, out)
		}
	}
	t.Run("curl", func(t *testing.T) {
		curl := program(t, "curl")
		out, err := r.run(t, nil, curl, "-sS", "--cacert", ca, plain, secure)
		expect(t, out, err, 2)
		for _, how := range []string{"--socks5-hostname", "--proxytunnel"} {
			argv := []string{curl, "-sS", "--cacert", ca, how}
			if how != "--proxytunnel" {
				argv = append(argv, r.addr)
			}
			out, err = r.run(t, nil, append(argv, plain, secure)...)
			expect(t, out, err, 2)
		}
		out, _ = r.run(t, nil, curl, "-sS", "http://evil.com/")
		if !strings.Contains(out, "host-not-listed") || !strings.Contains(out, "to allow it, add to egress: {host: evil.com, protocol: http") {
			t.Errorf("curl was told %q", out)
		}
		if out, err = r.run(t, nil, curl, "-sS", "https://evil.com/"); err == nil || !strings.Contains(out, "403") {
			t.Errorf("curl was told %q", out)
		}
		// --connect-to changes what CONNECT asks for and leaves SNI and Host.
		out, err = r.run(t, nil, curl, "-sS", "-k", "--connect-to", "www.example.com:443:"+r.tlsHost(), "https://www.example.com/")
		if err == nil || strings.Contains(out, "hello") {
			t.Errorf("curl with another SNI: %q", out)
		}
	})
	t.Run("python", func(t *testing.T) {
		out, err := r.run(t, []string{"SSL_CERT_FILE=" + ca}, program(t, "python3"), "-c", pythonClient, plain, secure, "http://evil.com/", "https://evil.com/")
		expect(t, out, err, 2)
		if !strings.Contains(out, "403 sallyport: host-not-listed") || !strings.Contains(out, "Tunnel connection failed: 403") {
			t.Errorf("python was told %q", out)
		}
	})
	t.Run("node", func(t *testing.T) {
		node := program(t, "node")
		out, err := r.run(t, []string{"NODE_EXTRA_CA_CERTS=" + ca}, node, "-e", nodeClient, r.addr, plain, r.tlsHost())
		expect(t, out, err, 2)
		out, err = r.run(t, nil, node, "-e", nodeClient, r.addr, "http://evil.com/", "evil.com:443")
		if err != nil || strings.Count(out, "host-not-listed") != 2 {
			t.Errorf("%v: node was told %q", err, out)
		}
	})
}

// The same through a sandbox's own socket: nothing but loopback inside, and curl gets out by the one way.
func TestCurlInNamespace(t *testing.T) {
	curl := program(t, "curl")
	up := httptest.NewServer(http.HandlerFunc(hello))
	defer up.Close()
	r := newProxyRig(t, hello, usualRules)
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	ln, err := Listener(ns.Socket(t, "listen", testPort), testPort)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Serve(t.Context(), ln, Config{Proxy: &r.server.proxy.ProxyConfig})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	proxy := "http://127.0.0.1:18899"
	out, err := ns.Run(t, 30*time.Second, "/", []string{"http_proxy=" + proxy, "https_proxy=" + proxy}, curl, "-sS", "--cacert", writeCA(t, r.tls),
		"http://"+r.plainHost()+"/public/x", "https://"+r.tlsHost()+"/", up.URL)
	if err != nil || strings.Count(out, "hello") != 2 || !strings.Contains(out, "host-not-listed") {
		t.Errorf("%v: %s", err, out)
	}
	if d := s.Denied(); len(d) != 1 || d[0].Name.String() != "127.0.0.1" {
		t.Errorf("recorded %+v", d)
	}
}
