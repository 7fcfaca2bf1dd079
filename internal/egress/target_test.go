package egress

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// FuzzTarget: what is read after CONNECT has one meaning: it is what net/http and net read of the same line, and what is
// dialled for it is read as the same again.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"example.com:443", "[2001:db8::1]:443", "127.0.0.1:80", "a@b:443", "a:0443", "a:65536", "[::1%25eth0]:1", "a", "::1:80", "[a]:80", "A.:1", "a:80:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, port, err := Target(s)
		if err != nil {
			return
		}
		if back, p, err := Target(HostPort(n, port)); err != nil || back != n || p != port {
			t.Fatalf("%q is dialled as %q, which is %q %d (%v)", s, HostPort(n, port), back, p, err)
		}
		host, digits, err := net.SplitHostPort(s)
		if err != nil || digits != strconv.Itoa(int(port)) {
			t.Fatalf("%q has port %d; net reads %q %v", s, port, digits, err)
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if other, err := Host(host); err != nil || other != n {
			t.Fatalf("%q is %q; net reads %q (%v)", s, n, host, err)
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("CONNECT " + s + " HTTP/1.1\r\nHost: " + s + "\r\n\r\n")))
		if err != nil {
			return // net/http takes fewer characters than some names have before they are made canonical
		}
		if other, p, err := Target(r.URL.Host); err != nil || other != n || p != port {
			t.Fatalf("%q is %q %d; net/http reads %q (%v)", s, n, port, r.URL.Host, err)
		}
	})
}
